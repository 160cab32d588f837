"""The reference: every public name of `regard`, in groups; mkdocstrings fills in what the docstrings say."""

from __future__ import annotations

import regard
from regard import distributed, drawing, serving, textbook, watching

# Which names belong together. A test holds that each public name is in exactly one group.
GROUPS: dict[str, tuple[str, list[str]]] = {
    "attention": ("The attention matrix", ["AttentionMatrix", "Summary", "Top", "attention", "guide"]),
    "masks": ("Masks", ["Mask", "causal", "window", "padding", "documents", "bias", "cut"]),
    "steps": ("The four steps", ["steps", "Steps"]),
    "layers": (
        "Layers and the Transformer",
        [
            "SelfAttention",
            "MultiHeadAttention",
            "FeedForward",
            "EncoderLayer",
            "DecoderLayer",
            "Encoder",
            "Decoder",
            "Transformer",
            "TransformerConfig",
            "Memory",
            "Cache",
            "from_torch",
        ],
    ),
    "watch": (
        "Watching a model",
        ["watch", "Record", "Patch", "Link", "Activation", "effect", "Effect", "effects", "Effects", "monitor"],
    ),
    "serving": ("Served models", []),
    "shards": ("A sequence in shards", []),
    "translation": ("Translation", ["Translator", "Translation"]),
    "pictures": ("Pictures", ["Picture"]),
    "errors": ("Errors", [name for name in regard.__all__ if name.endswith(("Error", "Warning"))]),
}
_MORE = {
    "watch": [f"watching.{name}" for name in watching.__all__ if name not in regard.__all__],
    "serving": [f"serving.{name}" for name in serving.__all__],
    "shards": [f"distributed.{name}" for name in distributed.__all__],
    "steps": [f"textbook.{name}" for name in textbook.__all__] + ["learn.check", "learn.check_file", "learn.Verdict"],
    "pictures": [f"drawing.{name}" for name in drawing.__all__ if name != "Picture"],
}


def reference() -> dict[str, str]:
    """Each page's place and its Markdown."""
    return {
        f"reference/{place}.md": f"# {title}\n\n" + "\n\n".join(map(_directive, names(place))) + "\n"
        for place, (title, _) in GROUPS.items()
    }


def _directive(name: str) -> str:
    """What mkdocstrings replaces by the docstrings of a name; the methods of a matrix lie in `LazyMatrix`."""
    inherited = "\n    options:\n      inherited_members: true" if name.endswith("Matrix") else ""
    return f"::: regard.{name}{inherited}"


def names(place: str) -> list[str]:
    """The names on one page."""
    return GROUPS[place][1] + _MORE.get(place, [])
