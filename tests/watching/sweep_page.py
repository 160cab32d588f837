"""docs/architectures.md: what the sweep found, one line for each model type."""

from __future__ import annotations

from pathlib import Path

import transformers
from sweep import Verdict, brief

PAGE = Path(__file__).parents[2] / "docs" / "architectures.md"
_HEAD = """# Architectures

Every model type of transformers {version}, built with tiny random weights and watched. Each is compared with the same
weights under eager attention: the outputs, and each recorded weight with the softmax that the module of that name
computed; those that generate, also token by token. What ran is found without regard, by a look at every operation, so
an attention that is neither recorded nor named as unseen would be found too.

{counts} This page is written by `python tests/watching/test_sweep.py --write`.

| Model type | Class | Forward | Generation | Unseen |
|---|---|---|---|---|
"""


def page(found: list[Verdict]) -> str:
    """The whole page."""
    kinds = {
        "watched with equal results": ("equal",),
        "refused before anything runs": ("refused:",),
        "without attention": ("no attention",),
        "not tried": ("not tried",),
        "wrong": ("wrong", "refused after"),
    }
    counts = {kind: sum(one.forward.startswith(starts) for one in found) for kind, starts in kinds.items()}
    told = f"Of {len(found)}, " + ", ".join(f"{count} are {kind}" for kind, count in counts.items() if count) + "."
    return _HEAD.format(version=transformers.__version__, counts=told) + "\n".join(map(row, found)) + "\n"


def row(found: Verdict) -> str:
    """The line of one model type."""
    forward, generation = (_brief(text) for text in (found.forward, found.generation))
    unseen = ", ".join(f"`{name}`" for name in brief(found.unseen))
    return f"| `{found.model_type}` | {found.name} | {forward} | {generation} | {unseen} |"


def _brief(text: str) -> str:
    """Without the names of modules, which have a column, and without the words of a refusal."""
    if text.startswith(("refused", "not tried", "not run")) and not text.startswith("not tried: needs"):
        return text.split(":")[0]
    return text.split(", but unseen")[0].replace("|", "\\|")
