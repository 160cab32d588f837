"""Every figure that the three documents show or announce, as a table: figure → call.

python docs/figures/make.py            make all of them, and the page that shows them
python docs/figures/make.py 001-02     make those whose names start with this

000 is Bernstein's "Self-attention", 001 "Transformers: Self Attention Mechanism", 002 "How Self-Attention Is
Calculated".
Where a document slips (000 names "delicious", which its sentence does not have), the figure shows what is right.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

import regard
from regard import drawing, textbook
from regard.drawing import Picture
from regard.drawing.terminal import Table

HERE = Path(__file__).parent

good = regard.steps(*textbook.i_am_good())
hungry = regard.steps(*textbook.i_am_hungry())
sushi = regard.steps(*textbook.sushi())
dog = regard.steps(*textbook.dog())
numbers = regard.steps(*textbook.worked_example())

BASE: dict[str, int] = {"width": 512, "heads": 8, "hidden": 2048, "decoder_layers": 6, "vocabulary": 32_000}
PAPER = SimpleNamespace(encoder_layers=6, **BASE)  # "Attention Is All You Need"
TWO = SimpleNamespace(encoder_layers=2, **BASE)  # "Lets Keep N=2 for simplicity"


def schematic(done: regard.Steps[Any], **look: Any) -> Picture:
    """One word from its input to its output."""
    return drawing.schematic(
        x=done.x, queries=done.queries, keys=done.keys, values=done.values, words=done.words, **look
    )


def product(done: regard.Steps[Any], row: int | None = None, title: str = "") -> Picture:
    """Queries times keys, with one row of the scores highlighted."""
    (n, d), words = done.queries.shape, done.words
    left = Table(done.queries, "Q", shape=f"{n}×{d}", rows=words)
    right = Table(done.keys.T, "Kᵀ", shape=f"{d}×{n}", columns=words)
    result = Table(done.scores, "QKᵀ", shape=f"{n}×{n}", rows=words, columns=words)
    return drawing.tables([left, right, result], signs=("·", "="), row=row, title=title)


def projected(done: regard.Steps[Any], names: str = "QKV", title: str = "") -> Picture:
    """X times W, for queries, keys and values or some of them."""
    (n, m), words = done.x.shape, done.words
    results = {"Q": (done.w_q, done.queries), "K": (done.w_k, done.keys), "V": (done.w_v, done.values)}
    tables, signs = [], []
    for name in names:
        w, result = results[name]
        tables += [
            Table(done.x, "X", shape=f"{n}×{m}", rows=words),
            Table(w, f"W_{name}", shape=f"{m}×{w.shape[1]}"),
            Table(result, name, shape=f"{n}×{w.shape[1]}", rows=words),
        ]
        signs += ["·", "=", "\n"]
    return drawing.tables(tables, signs=signs, title=title)


def divided(done: regard.Steps[Any], title: str = "") -> Picture:
    """Step 2."""
    words, d = done.words, done.queries.shape[1]
    scores = Table(done.scores, "QKᵀ", rows=words, columns=words)
    scaled = Table(done.scaled, "", f"QKᵀ / √{d}", rows=words, columns=words)
    return drawing.tables([scores, scaled], signs=(f"÷ {np.sqrt(d):.3g} =",), title=title)


def shared(done: regard.Steps[Any], title: str = "") -> Picture:
    """Step 3."""
    words, d = done.words, done.queries.shape[1]
    scaled = Table(done.scaled, "", f"QKᵀ / √{d}", rows=words, columns=words)
    weights = Table(done.weights, "", f"softmax(QKᵀ / √{d})", rows=words, columns=words, shares=True)
    return drawing.tables([scaled, weights], signs=("softmax →",), title=title, caption="Each row adds up to 100 %.")


def mixed(done: regard.Steps[Any], title: str = "") -> Picture:
    """Step 4."""
    words = done.words
    weights = Table(done.weights, "weights", rows=words, columns=words, shares=True)
    values = Table(done.values, "V", rows=words)
    output = Table(done.output, "Z", rows=words)
    return drawing.tables([weights, values, output], signs=("·", "="), title=title)


def made_of(done: regard.Steps[Any], pick: str | None = None, title: str = "") -> Picture:
    """An output as a sum."""
    return drawing.mixture(done.weights, done.values, done.words, pick=pick, title=title)


def looks(done: regard.Steps[Any], pick: str, title: str) -> Picture:
    """The words that a word looks at."""
    return drawing.lines(done.weights, done.words, pick=pick, title=title)


def taught(text: str, title: str) -> Picture:
    """What "it" looks at in the head of the translator in the package that was taught what it stands for."""
    translator = regard.Translator.default()
    ((layer, head),) = translator.heads.values()
    record = translator.translate(text).watch().at(kind="encoder")
    return record.picture("lines", word="it", layer=layer, head=head, title=title)


def one(name: str, table: Table) -> Picture:
    """A matrix alone."""
    return drawing.tables([table], title=name)


FIGURES: dict[str, Callable[[], Picture]] = {
    # 000: thirteen images, and "me" and "I", of which it only speaks
    "000-01-set-to-set": lambda: drawing.set_layer(hungry.words, beside=True),
    "000-02-it-looks-at-sushi": lambda: taught("I like sushi because it makes me happy.", "“it” looks at “sushi”"),
    "000-03-happy-looks-at-i": lambda: looks(sushi, "happy", "“happy” looks at “I”"),
    "000-03a-me-looks-at-i": lambda: looks(sushi, "me", "“me” looks at “I”"),
    "000-04-i-am-hungry": lambda: drawing.set_layer(hungry.words, hungry.weights),
    "000-05-values": lambda: schematic(hungry, until="projections", matrices=["values"]),
    "000-06-weighted-sum-of-i": lambda: made_of(hungry, "I", "The output of “I”"),
    "000-07-weighted-sums": lambda: made_of(hungry, title="Every output is a sum of all values"),
    "000-08-queries-and-keys": lambda: schematic(hungry, until="projections", matrices=["queries", "keys"]),
    "000-09-score": lambda: drawing.dot(hungry.queries[0], hungry.keys[1], ("I", "am"), title="One score"),
    "000-10-weights-of-i": lambda: schematic(hungry, until="weights", matrices=["queries", "keys"]),
    "000-11-sublayers": lambda: drawing.architecture(PAPER, "layer"),
    "000-12-queries-keys-values": lambda: schematic(hungry, until="projections"),
    "000-13-mechanism": lambda: schematic(hungry, word="I"),
    # 001: seventeen images, and five figures that it announces and does not show
    "001-00a-translation": lambda: drawing.architecture(PAPER, source="I am good", target="Je vais bien"),
    "001-00b-encoder-stack": lambda: drawing.architecture(PAPER, "encoder", source="I am good", unfold=False),
    "001-01-encoder": lambda: drawing.architecture(TWO, "encoder", source="I am good"),
    "001-02-it-looks-at-dog": lambda: taught("A dog ate the food because it was hungry.", "“it” looks at “dog”"),
    "001-03-embedding": lambda: one("", Table(good.x, "X", shape="3×512", rows=good.words)),
    "001-04-query-key-value": lambda: projected(good),
    "001-05-i-and-all-words": lambda: looks(good, "I", "“I” is related to all words"),
    "001-06-product": lambda: product(good, title="Step 1: queries times keys"),
    "001-07-scores": lambda: one("", Table(good.scores, "", "QKᵀ", "3×3", good.words, good.words)),
    "001-08-scores-of-i": lambda: product(good, 0, "The scores of “I”"),
    "001-09-scores-of-am": lambda: product(good, 1, "The scores of “am”"),
    "001-09a-scores-of-good": lambda: product(good, 2, "The scores of “good”"),
    "001-10-scaled": lambda: divided(good, "Step 2: divided by √64"),
    "001-10a-softmax": lambda: shared(good, "Step 3: shares of the whole"),
    "001-11-attention": lambda: mixed(good, "Step 4: the values, in these shares"),
    "001-12-output": lambda: one("", Table(good.output, "Z", shape="3×64", rows=good.words)),
    "001-13-output-of-i": lambda: made_of(good, "I", "The output of “I”"),
    "001-14-output-of-it": lambda: made_of(dog, "it", "The output of “it” is mostly “dog”"),
    "001-15-output-of-am": lambda: made_of(good, "am", "The output of “am”"),
    "001-16-output-of-good": lambda: made_of(good, "good", "The output of “good”"),
    "001-17-mechanism": lambda: drawing.mechanism(64),
    "001-18-all-steps": lambda: good.picture(cell=(0, 1), title="“I am good”, step by step"),
    # 002: its steps, and all of them
    "002-01-projections": lambda: projected(numbers),
    "002-02-scores": lambda: product(numbers),
    "002-03-scaled": lambda: divided(numbers),
    "002-04-softmax": lambda: shared(numbers),
    "002-05-output": lambda: mixed(numbers),
    "002-06-all-steps": lambda: numbers.picture(title="Three words of four numbers, step by step"),
}


# What one sees in each: the caption on the page, and the text of the picture for those who cannot see it.
CAPTIONS = {
    "000-01-set-to-set": "Self-attention takes a set of vectors and gives a set of the same size, one output per word.",
    "000-02-it-looks-at-sushi": "“it” gives most of its attention to “sushi”: a head of the translator in the package, "
    "which was taught what “it” stands for.",
    "000-03-happy-looks-at-i": "In the same sentence, “happy” gives most of its attention to “I”.",
    "000-03a-me-looks-at-i": "“me” and “I” are the same person, and “me” looks at “I”.",
    "000-04-i-am-hungry": "Every output of “I am hungry” depends on every input; thicker lines are larger weights.",
    "000-05-values": "Each embedding is multiplied by W_V, which gives the value of its word.",
    "000-06-weighted-sum-of-i": "The output of “I” is the sum of all values, each in the share that its weight says.",
    "000-07-weighted-sums": "The same sum for each of the three words: the values are shared, the weights differ.",
    "000-08-queries-and-keys": "Each embedding is multiplied by W_Q and by W_K: the query and the key of its word.",
    "000-09-score": "A score is a dot product: the query of “I” times the key of “am”, number by number, added up.",
    "000-10-weights-of-i": "The query of “I” meets every key; the softmax turns the scores into weights.",
    "000-11-sublayers": "An encoder layer: self-attention, then a feed-forward network.",
    "000-12-queries-keys-values": "Each word has a query, a key and a value, all three made from its embedding.",
    "000-13-mechanism": "The whole mechanism for “I”, from the embeddings to its output.",
    "001-00a-translation": "Translation: the encoder reads “I am good”, the decoder writes “Je vais bien”.",
    "001-00b-encoder-stack": "The encoder is a stack of six identical layers; each reads the output of the one below.",
    "001-01-encoder": "Two encoder layers, unfolded into their sublayers.",
    "001-02-it-looks-at-dog": "“it” means the dog: the same head gives “dog” more attention than “food”.",
    "001-03-embedding": "The embeddings of the three words as a matrix X, one row of 512 numbers per word.",
    "001-04-query-key-value": "X times W_Q, W_K and W_V gives the queries Q, the keys K and the values V.",
    "001-05-i-and-all-words": "“I” is compared with all words of the sentence, itself included.",
    "001-06-product": "Step 1: Q times Kᵀ holds the dot product of every query with every key.",
    "001-07-scores": "The scores alone: row by row, how well each word's query matches each word's key.",
    "001-08-scores-of-i": "The first row of the scores: the query of “I” with each of the keys.",
    "001-09-scores-of-am": "The second row of the scores: the query of “am” with each of the keys.",
    "001-09a-scores-of-good": "The third row of the scores: the query of “good” with each of the keys.",
    "001-10-scaled": "Step 2: the scores divided by 8, the square root of the width 64 of the keys.",
    "001-10a-softmax": "Step 3: the softmax makes each row positive, with a sum of 1.",
    "001-11-attention": "Step 4: the weights times the values give the output Z.",
    "001-12-output": "The output Z, one row of 64 numbers per word.",
    "001-13-output-of-i": "The output of “I” as a sum of the three values.",
    "001-14-output-of-it": "The output of “it” consists mostly of the value of “dog”.",
    "001-15-output-of-am": "The output of “am” as a sum of the three values.",
    "001-16-output-of-good": "The output of “good” as a sum of the three values.",
    "001-17-mechanism": "Scaled dot-product attention as a diagram: the steps that lead from Q, K and V to Z.",
    "001-18-all-steps": "All four steps on “I am good” in one picture.",
    "002-01-projections": "Three words of four numbers: X times each of the three matrices, with every number shown.",
    "002-02-scores": "Q times Kᵀ for the same numbers.",
    "002-03-scaled": "The scores divided by the square root of the width of the keys.",
    "002-04-softmax": "The softmax of each row.",
    "002-05-output": "The weights times the values.",
    "002-06-all-steps": "All four steps of the calculation in one picture.",
}

DOCUMENTS = {
    "000": "“Self-attention” (Bernstein)",
    "001": "“Transformers: Self Attention Mechanism”",
    "002": "“How Self-Attention Is Calculated”",
}
HELPERS = (schematic, product, projected, divided, shared, mixed, made_of, looks, taught, one)


def calls() -> dict[str, str]:
    """The call of each figure, as it stands in the table above."""
    source = Path(__file__).read_text()
    tables = [node.value for node in ast.parse(source).body if isinstance(node, ast.AnnAssign)]
    table = next(found for found in tables if isinstance(found, ast.Dict) and len(found.keys) == len(FIGURES))
    return {
        name: ast.get_source_segment(source, made.body) or ""
        for name, made in zip(FIGURES, table.values, strict=True)
        if isinstance(made, ast.Lambda)
    }


def page(names: list[str]) -> str:
    """README.md: every figure with its caption and the call that draws it, and the code that the calls rely on."""
    source, written = Path(__file__).read_text(), calls()
    setup = source[source.index("good = regard.steps") : source.index("def schematic")].strip()
    imports = "import regard\nfrom regard import drawing, textbook\nfrom regard.drawing.terminal import Table"
    helpers = "\n\n\n".join(inspect.getsource(helper).strip() for helper in HELPERS)
    parts = [
        "# The documents' figures",
        "Every figure of the three documents that this project grew from, drawn by [`make.py`](make.py). Below each "
        "picture is the call that draws it. The calls use a few names: run this in `docs/figures` first, and try any "
        "of them.",
        "```python\nfrom make import *\n```",
        "[What these names are](#what-the-calls-use) is at the end of the page.",
    ]
    for name in names:
        document = DOCUMENTS.get(name[:3]) if not any(f"### {name[:3]}" in part for part in parts) else None
        parts += [f"## {document}"] if document else []
        caption = CAPTIONS[name]
        parts += [f"### {name}", caption, f"![{caption}]({name}.svg)", f"```python\n{written[name]}\n```"]
    parts += ["## What the calls use", f"```python\n{imports}\n\n{setup}\n```", f"```python\n{helpers}\n```"]
    return "\n\n".join(parts) + "\n"


def main() -> None:
    """Make the figures named on the command line, or all."""
    wanted = tuple(sys.argv[1:]) or ("",)
    for name, call in FIGURES.items():
        if name.startswith(wanted):
            call().save(HERE / f"{name}.svg")
            print(name)
    (HERE / "README.md").write_text(page(list(FIGURES)))


if __name__ == "__main__":
    main()
