"""Write the model halfway between two trainings of it: their mean weights, in int8 or to train on.

    python recipes/halfway.py tuned last out
    python recipes/halfway.py tuned last start --float32

A last training on a few kinds of sentences teaches these and forgets a little of everything else; halfway back, most of
what it taught is still there, and nearly nothing is forgotten.
"""

import argparse

import torch

from regard.errors import InputError
from regard.translation import Translator


def halfway(first: Translator, second: Translator) -> Translator:
    """The first one with the mean of the weights of both."""
    if first.model.config != second.model.config or first.words.model != second.words.model:
        raise InputError("these are two models: halfway, both must have the same sizes and vocabulary.")
    others = second.model.state_dict()
    weights = {name: torch.lerp(own, others[name], 0.5) for name, own in first.model.state_dict().items()}
    first.model.load_state_dict(weights)
    return first


def main() -> None:
    """Open both, write the third."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("first")
    parser.add_argument("second")
    parser.add_argument("out")
    parser.add_argument("--float32", action="store_true", help="all digits, to train on: four times the size")
    options = parser.parse_args()
    halfway(Translator.load(options.first), Translator.load(options.second)).save(options.out, int8=not options.float32)


if __name__ == "__main__":
    main()
