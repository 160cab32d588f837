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


def page(rows: list[str]) -> str:
    """The whole page."""
    kinds = {
        "watched with equal results": "equal",
        "refused": "refused",
        "without attention": "no attention",
        "not tried": "not tried",
        "wrong": "wrong",
    }
    forward = [line.split(" | ")[2] for line in rows]
    counts = {kind: sum(text.startswith(start) for text in forward) for kind, start in kinds.items()}
    told = f"Of {len(rows)}, " + ", ".join(f"{count} are {kind}" for kind, count in counts.items() if count) + "."
    return _HEAD.format(version=transformers.__version__, counts=told) + "\n".join(rows) + "\n"


def rows_of(text: str) -> dict[str, str]:
    """The lines of a page by model type."""
    return {line.split("`")[1]: line for line in text.splitlines() if line.startswith("| `")}


def row(found: Verdict) -> str:
    """The line of one model type."""
    forward, generation = _brief(found.forward), _brief(found.generation)
    if found.forward.startswith("not tried"):
        forward = found.forward  # with the reason
    unseen = ", ".join(f"`{name}`" for name in brief(found.unseen))
    return f"| `{found.model_type}` | {found.name} | {forward} | {generation} | {unseen} |"


def _brief(text: str) -> str:
    """Without the names of modules, which have a column, and without the words of a refusal."""
    if text.startswith(("refused", "not tried", "not run")):
        return text.split(":")[0]
    return text.split(", but unseen")[0].replace("|", "\\|")
