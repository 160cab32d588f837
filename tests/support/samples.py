"""Words, weights and one picture of every kind for the tests of drawing, and how to read what was drawn."""

import xml.etree.ElementTree as ET
from types import SimpleNamespace

import numpy as np

import regard
from regard import drawing

SVG = "{http://www.w3.org/2000/svg}"
DOG = ["A", "dog", "ate", "the", "food", "because", "it", "was", "hungry"]
HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</title></svg>",
    "&lt;",
    "\x00\x1b[31m",
    "]]>",
]
CONFIG = SimpleNamespace(width=512, heads=8, hidden=2048, encoder_layers=6, decoder_layers=4, vocabulary=32_000)


def random_weights(*shape, seed=0):
    return np.random.default_rng(seed).dirichlet(np.ones(shape[-1]) * 0.4, size=shape[:-1])


def parsed(picture, **look):
    return ET.fromstring(picture.to_svg(**look))


def marks(picture, **look):
    """The drawn weights: (head, row, column) → element."""
    found = {}
    for element in parsed(picture, **look).iter():
        if element.get("data-mark") == "":
            place = tuple(int(element.get(f"data-{axis}", 0)) for axis in ("head", "row", "column"))
            assert place not in found
            found[place] = element
    return found


def texts(picture, **look):
    """What can be read, in the order it is drawn (titles are for hover)."""
    return ["".join([e.text or "", *(f"{c.text or ''}{c.tail or ''}" if not c.tag.endswith("title") else c.tail or "" for c in e)])
            for e in parsed(picture, **look).iter(f"{SVG}text")]  # fmt: skip


def titles(picture):
    return [element.text for element in parsed(picture).iter(f"{SVG}title")]


def _some_vectors(words):
    return np.random.default_rng(1).normal(size=(len(words), 3))


def _map(words, weights):
    window = drawing.Window((0, 0), weights, words, words)
    return drawing.landscape(weights, weights.shape, landmarks=[(0, words[0])], window=window)


def _schematic(words, weights):
    x = _some_vectors(words)
    return drawing.schematic(x=x, queries=x, keys=x, values=x, words=tuple(words))


def _dot(words, weights):
    x = _some_vectors(words)
    return drawing.dot(x[0], x[-1], (words[0], words[-1]))


def _head_map(words, weights):
    lines = [list(words) for _ in words]
    return drawing.head_map(
        lines, weights.tolist(), rows=words, hints=lines, framed=(weights > 0.4).tolist(), frame=words[0]
    )


def _overlay(words, weights):
    picture = np.arange(40 * 60 * 3).reshape(40, 60, 3).astype(np.uint8)
    heats = [drawing.Heat(weights, name=word, marks=np.eye(len(weights), dtype=bool)) for word in words]
    return drawing.overlay(picture, heats, title=words[0], marked=words[-1])


# One call for each kind of picture, of words and weights (words, words).
KINDS = {
    "lines": lambda words, weights: drawing.lines(weights, words),
    "rows": lambda words, weights: drawing.lines(weights, words, layout="rows"),
    "arcs": lambda words, weights: drawing.lines(weights, words, layout="arcs", pick=0),
    "matrix": lambda words, weights: drawing.matrix(weights, words),
    "heat map": lambda words, weights: drawing.matrix(np.tile(weights, (7, 7)), list(words) * 7),
    "grid": lambda words, weights: drawing.grid(weights[None, None], words),
    "flow": lambda words, weights: drawing.flow([weights, weights], words, 0),
    "head map": _head_map,
    "map": _map,
    "film": lambda words, weights: drawing.film({name: drawing.matrix(weights, words) for name in ("before", "after")}),
    "overlay": _overlay,
    "alignment": lambda words, weights: drawing.alignment(weights, words, words),
    "mixture": lambda words, weights: drawing.mixture(weights, _some_vectors(words), words),
    "dot": _dot,
    "schematic": _schematic,
    "set layer": lambda words, weights: drawing.set_layer(words, weights),
    "architecture": lambda words, weights: drawing.architecture(
        CONFIG, source=words[0], target=words[-1], title=words[0]
    ),
    "steps": lambda words, weights: regard.steps(_some_vectors(words), *[np.eye(3)] * 3, words=words).picture(),
}
