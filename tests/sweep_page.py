"""docs/architectures.md: what the sweep found, one line for each model type.

`python tests/sweep_page.py` runs all of it and writes the page; with model types, it writes their lines only.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import torch
import transformers
from support.watching.architectures import model_types
from support.watching.sweep import Verdict, brief, verdict

PAGE = Path(__file__).parents[1] / "docs" / "architectures.md"
RESULTS = EQUAL, EXCEPT, NOT_COMPARED, NOT_EQUAL = "equal", "equal but for named modules", "not compared", "not equal"
_HEAD = f"""# Architectures

Every model type of transformers {{version}}, built with tiny random weights and watched, then compared with the same
weights under eager attention.

{{counts}}

- **{EQUAL}**: every attention that ran is in the record once, under the name of the module that computed it, with the
  same weights; `received`, `entropy`, `top` and `pool` are those of these weights, kept while the model runs or asked
  for later; the outputs are the same and, of a generation, the tokens. Weights may differ by 2·10⁻⁶ of the largest
  score (2·10⁻⁵ at least), as float32 rounds. Queries that are padding are left out.
- **{EXCEPT}**: the same, but for the modules in the last column. They compute attention, or
  what takes its place, where regard cannot see it: they run unchanged, and `record.unseen` names them.
- **{NOT_COMPARED}**: watched, the model raises an error (refused: none of its attention can be seen, or what ran cannot
  be put together), has no attention, or was not tried for the reason given.
- **{NOT_EQUAL}**: what differs is said.

"To SDPA and not to eager": the model itself gives other numbers with SDPA, which it uses by default; it is then compared
with these. What ran is found without regard, by a look at every operation: attention is a fused kernel, or a softmax
over a product of two activations. Linear and deformable attention and state-space layers are neither; they are not
counted, and `record.unseen` does not name them. "Compared" counts attention calls, in
forward and generation: those that were found in the record, of those that ran. `make sweep` writes this page.

| Model type | Class | Forward | Generation | Compared | Unseen |
|---|---|---|---|---|---|
"""


def page(rows: Sequence[str]) -> str:
    """The whole page."""
    lines = [f"| | {' | '.join(RESULTS)} |", "|---|---|---|---|---|"]
    for column in ("Forward", "Generation"):
        found = counts(rows, column)
        reasons = ", ".join(f"{count} {why}" for why, count in _reasons(rows, column).items())
        cells = [f"{found[result]}" for result in RESULTS]
        cells[2] += f" ({reasons})" if reasons else ""
        lines.append(f"| {column}, of {sum(found.values())} | {' | '.join(cells)} |")
    text = _HEAD.format(version=transformers.__version__, counts="\n".join(lines))
    return text + "\n".join(rows) + "\n"


def counts(rows: Sequence[str], column: str) -> Counter[str]:
    """How many of the lines of a page have each of the results, in "Forward" or "Generation"."""
    return Counter(result for row in rows if (result := result_of(row, column)))


def result_of(row: str, column: str) -> str:
    """Which of the results a line has; "" where the model does not generate."""
    cell = _cell(row, column)
    return next((result for result in reversed(RESULTS) if cell.startswith(result)), "")


def _reasons(rows: Sequence[str], column: str) -> Counter[str]:
    reasons = [_cell(row, column).partition(": ")[2] for row in rows if result_of(row, column) == NOT_COMPARED]
    known = {"refused": "refused", "no attention": "without attention"}
    return Counter(
        next((said for start, said in known.items() if why.startswith(start)), "not tried") for why in reasons
    )


def _cell(row: str, column: str) -> str:
    return re.split(r"(?<!\\)\|", row)[{"Forward": 3, "Generation": 4}[column]].strip()


def rows_of(text: str) -> dict[str, str]:
    """The lines of a page by model type."""
    return {line.split("`")[1]: line for line in text.splitlines() if line.startswith("| `")}


def row(found: Verdict) -> str:
    """The line of one model type."""
    unseen = ", ".join(f"`{name}`" for name in brief(found.unseen))
    compared = f"{found.compared} of {found.ran}" if found.ran else ""
    generation = re.sub("^not tried: .*", "not tried: generate raises an error", found.generation)
    cells = f"`{found.model_type}`", found.name, _told(found.forward), _told(generation), compared, unseen
    return f"| {' | '.join(cells)} |"


def _told(text: str) -> str:
    """One of the results, and more about it; modules have a column of their own."""
    equal, *unseen = text.split(", but unseen")
    kind, _, why = text.partition(": ")
    if kind.startswith("equal"):
        return equal.replace(EQUAL, EXCEPT if unseen else EQUAL, 1)
    if kind == "wrong":
        return f"{NOT_EQUAL}: {re.sub(' differ by [^;]+', ' differ', why)}".replace("|", "\\|")
    return f"{NOT_COMPARED}: {why if kind == 'not tried' else kind}" if kind else ""


if __name__ == "__main__":
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    lines = rows_of(PAGE.read_text()) if sys.argv[1:] else {}
    for model_type in sys.argv[1:] or model_types():
        found = verdict(model_type)
        lines[model_type] = row(found)
        print(found, flush=True)
    PAGE.write_text(page([lines[model_type] for model_type in model_types()]))
