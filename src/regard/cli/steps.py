"""`regard steps`: self-attention of a small sentence, with every number of it."""

from __future__ import annotations

import argparse
from typing import Any

from regard.cli import command
from regard.cli.command import Command
from regard.errors import InputError
from regard.learn import steps, textbook

__all__ = ["COMMAND"]

_ABOUT = """\
Self-attention of a small sentence, with every number of it. Each word is a row
of X; three learned matrices turn it into a query, a key and a value. Then:

  1  scores   each query times each key: QKᵀ
  2  scaled   divided by √d, for else the softmax of long queries is all or none
  3  weights  the softmax of each row: shares that add up to 100 %
  4  output   a mixture of the values in these shares: Z = softmax(QKᵀ/√d) V
"""
_EXAMPLES = """\
Examples:
  regard steps                                       "I am good", the textbook's
  regard steps "A dog ate the food because it was hungry"
  regard steps "Any words of yours" -o steps.html    hover says every number
  regard steps "Any words of yours" --random         before any training
  regard steps --example numbers -o steps.png --theme dark

Four sentences have the textbook's numbers: "I am good", "I am hungry", the one
above, and "I like sushi because it makes me happy". Any other has those of a head
of the translator in this package; with --random, random ones, as in a model before
its training.
In Python:  steps = regard.steps(x, w_q, w_k, w_v, words); steps.picture().save("steps.svg")
"""
# The first layer reads the embeddings. In twelve short sentences this head gave 77 % of its weight to the token before.
_LAYER, _HEAD = 0, 1
_REAL = """\
Numbers of a trained model: the translator in this package, encoder, layer {layer}, head {head}.
A row of X is a token: its embedding and position, and a 1 for the biases, which are the
last row of each W. A word may be several tokens; </s> ends the sentence. What to see:
this head looks mostly at the token before.
"""
_RANDOM = """\
Random numbers: X and the matrices W are random, as in a model before its training, so what
a word looks at here means nothing. Without --random: the textbook's numbers for its
sentences, as in `regard steps "I am good"`, and those of a trained model for any other.
"""
_TEXTBOOK = {"good": textbook.i_am_good, "numbers": textbook.worked_example}


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "sentence", nargs="?", type=command.text, metavar="SENTENCE", help="the words to compute with, in quotes"
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
    example, note = _example(options)
    done = steps(*example)
    if note:
        print(note)
    if options.output is None:
        command.show(done)
        return
    title = options.title
    if title is None and note:
        title = f"{options.sentence} ({note.partition(':')[0].lower()})"
    command.save(done.picture(title=title), options)


def _example(options: argparse.Namespace) -> tuple[textbook.Example, str]:
    """What to compute with, and where its numbers come from if not from the textbook."""
    if options.sentence is None:
        if options.random:
            raise InputError("--random takes a SENTENCE. Got none.")
        return _TEXTBOOK[options.example](), ""
    if options.random:
        return textbook.untrained(options.sentence), _RANDOM
    example = textbook.known(options.sentence)
    if example is not None:
        return example, ""
    return _trained(options.sentence), _REAL.format(layer=_LAYER, head=_HEAD)


def _trained(sentence: str) -> textbook.Example:
    """The tokens of a sentence as the translator's encoder reads them, and the matrices of one of its heads."""
    import torch

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
        x = model.enter(torch.tensor([ids]))[0][0]
        x = torch.cat([x, torch.ones(len(x), 1)], 1)  # times the bias, the last row of each W
        joined = torch.cat([attention.projection.weight, attention.projection.bias[:, None]], 1)
        parts = (torch.split(part, attention.head_width)[_HEAD] for part in torch.split(joined, attention.sizes))
        w_q, w_k, w_v = (part.mT.double().numpy() for part in parts)
    names = tuple(piece.removeprefix("\u2581") or piece for piece in words.pieces(ids))
    return textbook.Example(x.double().numpy(), w_q, w_k, w_v, names)


COMMAND = Command(
    "steps",
    help="self-attention of a small sentence, with every number of it",
    description=_ABOUT,
    epilog=_EXAMPLES,
    add_options=_add_options,
    run=_run,
)
