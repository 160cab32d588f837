"""`regard steps`: self-attention of a short sentence, with every number."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from regard.cli import command
from regard.cli.command import Command
from regard.errors import InputError

if TYPE_CHECKING:
    from regard.learn.textbook import Example

_ABOUT = """\
Compute self-attention for a short sentence and print every number. Each word is a
row of X; three learned matrices turn it into a query, a key and a value. Then:

  1  scores   the dot product of each query with each key: QKᵀ
  2  scaled   divided by √d; without it, long vectors make the softmax all or nothing
  3  weights  the softmax of each row: percentages that add up to 100 %
  4  output   the weighted sum of the values: Z = softmax(QKᵀ/√d) V
"""
_EXAMPLES = """\
Examples:
  regard steps                                       "I am good", from the textbook
  regard steps "A dog ate the food because it was hungry"
  regard steps "Any words of yours" -o steps.html    hover over any number
  regard steps "Any words of yours" --random         an untrained model
  regard steps --example numbers -o steps.png --theme dark

Four sentences have the numbers of the textbook: "I am good", "I am hungry", "A dog
ate the food because it was hungry", and "I like sushi because it makes me happy".
For any other sentence the numbers are those of one head of the bundled translator;
with --random they are random, as in a model before its training.
In Python:  steps = regard.steps(x, w_q, w_k, w_v, words); steps.picture().save("steps.svg")
"""
# Of the 48 heads, this one is soft and still has a pattern: in short sentences, the token before gets about half.
_LAYER, _HEAD = 3, 0
_TRAINED = """\
Numbers of a trained model: the bundled translator, encoder, layer {layer}, head {head}.
A row of X is the input of this layer for one token, and a 1 that multiplies the bias: the
last row of each W. A word may be several tokens; </s> ends the sentence.
Note: in this sentence {count} of {tokens} tokens give their largest weight to {where}.
"""
_BY_HAND = "The textbook's numbers, made by hand to show the idea: they are not from a trained model.\n"
_RANDOM = """\
Random numbers: X and the matrices W are random, as in an untrained model, so the
weights mean nothing. Without --random, a sentence of the textbook has the textbook's
numbers, as in `regard steps "I am good"`, and any other has those of a trained model.
"""
_EXAMPLE = {"good": "i_am_good", "numbers": "worked_example"}  # functions of regard.learn.textbook
_EXAMPLE_HELP = 'good: "I am good", 512 numbers for each word (default); numbers: three words of four numbers'


def _add_options(parser: argparse.ArgumentParser) -> None:
    sentence = "the words; several arguments are one sentence"
    parser.add_argument("sentence", nargs="*", type=command.text, metavar="SENTENCE", help=sentence)
    parser.add_argument("--example", choices=_EXAMPLE, default="good", help=_EXAMPLE_HELP)
    parser.add_argument("--random", action="store_true", help="use random numbers, as in an untrained model")
    command.add_picture_options(parser)


def _run(options: argparse.Namespace) -> None:
    from regard.learn import steps

    sentence = " ".join(options.sentence) if options.sentence else None
    example, note = _example(sentence, options)
    result = steps(*example)
    if note == _TRAINED:
        note = note.format(layer=_LAYER, head=_HEAD, **_pattern(result.weights))
    if options.output is None:
        print(note)
        command.show(result)
        return
    title = options.title
    if note != _BY_HAND:
        print(note)
        title = f"{sentence} ({note.partition(':')[0].lower()})" if title is None else title
    command.save(result.picture(title=title), options)


def _example(sentence: str | None, options: argparse.Namespace) -> tuple[Example, str]:
    """The arguments of `steps`, and a note on where their numbers come from."""
    from regard.learn import textbook

    if sentence is None:
        if options.random:
            raise InputError("--random takes a SENTENCE. Got none.")
        return getattr(textbook, _EXAMPLE[options.example])(), _BY_HAND
    if options.random:
        return textbook.untrained(sentence), _RANDOM
    example = textbook.known(sentence)
    return (_trained(sentence), _TRAINED) if example is None else (example, _BY_HAND)


def _trained(sentence: str) -> Example:
    """The input of an encoder layer of the translator for a sentence, and the matrices of one of its heads."""
    import torch

    from regard.learn.textbook import Example
    from regard.translation import Translator

    translator = Translator.default()
    model, words = translator.model, translator.words
    ids = [*words.encode(sentence), words.end]
    if len(ids) > model.config.positions:
        most = model.config.positions
        raise InputError(f"the sentence must have at most {most} tokens. Got {len(ids)}. Shorten it, or use --random.")
    attention: Any = model.encoder.layers[_LAYER].attention
    with torch.no_grad():
        x, _ = model.enter(torch.tensor([ids]))
        for layer in model.encoder.layers[:_LAYER]:
            x = layer(x)
        x = x[0]
        x = torch.cat([x, torch.ones(len(x), 1)], 1)  # times the bias, the last row of each W
        joined = torch.cat([attention.projection.weight, attention.projection.bias[:, None]], 1)
        parts = (torch.split(part, attention.head_width)[_HEAD] for part in torch.split(joined, attention.sizes))
        w_q, w_k, w_v = (part.mT.double().numpy() for part in parts)
    names = tuple(piece.removeprefix("\u2581") or piece for piece in words.pieces(ids))
    return Example(x.double().numpy(), w_q, w_k, w_v, names)


def _pattern(weights: NDArray[np.float64]) -> dict[str, Any]:
    """Where most tokens have their largest weight: on themselves, on a neighbour or on the last token.

    >>> _pattern(np.array([[0.1, 0.9, 0], [0, 0.2, 0.8], [0, 0, 1]]))
    {'count': 2, 'tokens': 3, 'where': 'the token after'}
    """
    tokens, best = len(weights), weights.argmax(1)
    distances = {"themselves": 0, "the token before": -1, "the token after": 1}
    counts = {where: int((best == np.arange(tokens) + distance).sum()) for where, distance in distances.items()}
    counts["the last token"] = int((best == tokens - 1).sum())
    where = max(counts, key=lambda name: counts[name])
    return {"count": counts[where], "tokens": tokens, "where": where}


_HELP = "self-attention of a short sentence, with every number"
_HELP = "self-attention of a short sentence, with every number"
COMMAND = Command("steps", _HELP, _ABOUT, _EXAMPLES, _run, _add_options)
