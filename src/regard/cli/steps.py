"""`regard steps`: self-attention of a small sentence, with every number of it."""

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

__all__ = ["COMMAND"]

_ABOUT = """\
Self-attention of a short sentence, with every number. Each word is a row
of X; three learned matrices turn it into a query, a key and a value. Then:

  1  scores   each query times each key: QKᵀ
  2  scaled   divided by √d; without it the softmax of wide queries is all or nothing
  3  weights  the softmax of each row: shares that add up to 100 %
  4  output   a mixture of the values in these shares: Z = softmax(QKᵀ/√d) V
"""
_EXAMPLES = """\
Examples:
  regard steps                                       "I am good", the textbook's
  regard steps "A dog ate the food because it was hungry"
  regard steps "Any words of yours" -o steps.html    hover over any number
  regard steps "Any words of yours" --random         an untrained model
  regard steps --example numbers -o steps.png --theme dark

Four sentences have the textbook's numbers: "I am good", "I am hungry", the one
above, and "I like sushi because it makes me happy". Any other has those of a head
of the translator in this package; with --random, random ones, as in a model before
its training.
In Python:  steps = regard.steps(x, w_q, w_k, w_v, words); steps.picture().save("steps.svg")
"""
# Of the 48 heads this one is soft and yet has a pattern: of short sentences, the token before gets about half.
_LAYER, _HEAD = 3, 0
_REAL = """\
Numbers of a trained model: the translator in this package, encoder, layer {layer}, head {head}.
A row of X is a token as this layer reads it, and a 1 for the biases, which are the last row
of each W. A word may be several tokens; </s> ends the sentence.
Note: in this sentence {count} of {tokens} tokens give their largest weight to {where}.
"""
_MADE = "The textbook's numbers, made by hand to show the idea: they are not from a trained model.\n"
_RANDOM = """\
Random numbers: X and the matrices W are random, as in an untrained model, so what
a word looks at here means nothing. Without --random: the textbook's numbers for its
sentences, as in `regard steps "I am good"`, and those of a trained model for any other.
"""
_TEXTBOOK = {"good": "i_am_good", "numbers": "worked_example"}  # functions of regard.learn.textbook


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "sentence",
        nargs="*",
        type=command.text,
        metavar="SENTENCE",
        help="the words to compute with; several arguments are one sentence",
    )
    parser.add_argument(
        "--example",
        choices=_TEXTBOOK,
        default="good",
        help='good: "I am good", 512 numbers for each word (the default); numbers: three words of four numbers',
    )
    parser.add_argument(
        "--random", action="store_true", help="compute with random numbers, as in a model before its training"
    )
    command.add_options(parser)


def _run(options: argparse.Namespace) -> None:
    from regard.learn import steps

    sentence = " ".join(options.sentence) if options.sentence else None
    example, note = _example(sentence, options)
    done = steps(*example)
    if note == _REAL:
        note = note.format(layer=_LAYER, head=_HEAD, **_pattern(done.weights))
    if options.output is None:
        print(note)
        command.show(done)
        return
    title = options.title
    if note != _MADE:
        print(note)
        title = f"{sentence} ({note.partition(':')[0].lower()})" if title is None else title
    command.save(done.picture(title=title), options)


def _example(sentence: str | None, options: argparse.Namespace) -> tuple[Example, str]:
    """What to compute with, and a note on where its numbers come from."""
    from regard.learn import textbook

    if sentence is None:
        if options.random:
            raise InputError("--random takes a SENTENCE. Got none.")
        return getattr(textbook, _TEXTBOOK[options.example])(), _MADE
    if options.random:
        return textbook.untrained(sentence), _RANDOM
    example = textbook.known(sentence)
    if example is not None:
        return example, _MADE
    return _trained(sentence), _REAL


def _trained(sentence: str) -> Example:
    """The tokens of a sentence as the translator's encoder reads them, and the matrices of one of its heads."""
    import torch

    from regard.learn.textbook import Example
    from regard.translation import Translator

    translator = Translator.default()
    model, words = translator.model, translator.words
    ids = [*words.encode(sentence), words.end]
    if len(ids) > model.config.positions:
        raise InputError(
            f"the sentence must have at most {model.config.positions} tokens. Got {len(ids)}. "
            f"Give a part of it, or use --random."
        )
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
    """Where most tokens have their largest weight: at which distance, or on which token.

    >>> _pattern(np.array([[0.1, 0.9, 0], [0, 0.2, 0.8], [0, 0, 1]]))
    {'count': 2, 'tokens': 3, 'where': 'the token after'}
    """
    tokens, best = len(weights), weights.argmax(1)
    distances = {"themselves": 0, "the token before": -1, "the token after": 1}
    counts = {where: int((best == np.arange(tokens) + distance).sum()) for where, distance in distances.items()}
    counts["the last token"] = int((best == tokens - 1).sum())
    where = max(counts, key=lambda name: counts[name])
    return {"count": counts[where], "tokens": tokens, "where": where}


COMMAND = Command(
    "steps",
    help="self-attention of a small sentence, with every number of it",
    description=_ABOUT,
    epilog=_EXAMPLES,
    add_options=_add_options,
    run=_run,
)
