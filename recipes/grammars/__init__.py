"""Grammars that write training sentences: run `python -m recipes.grammars.pronouns`, `.captions` or `.news`."""
