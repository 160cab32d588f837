"""Write the model halfway between two trainings of it: their mean weights, in int8 or to train on.

    python recipes/halfway.py tuned last out
    python recipes/halfway.py tuned last start --float32
    python recipes/halfway.py pupil end out --head three-quarters 1 3
    python recipes/halfway.py out guided shipped --shares 0.9 0.5 0.6

A last training on a few kinds of sentences teaches these and forgets a little of everything else; halfway back, most of
what it taught is still there, and nearly nothing is forgotten. With --head, one head of the encoder (its layer and its
number, from 0) looks where it looked in a third training. With --shares, so much of the way to the second training: for
the encoder's layers 0 to 5, for those above, and for the decoder.
"""

import argparse

import torch

from regard.errors import InputError
from regard.nn import Transformer
from regard.translation import Translator

LOW = 5  # the highest of the lower encoder layers


def halfway(first: Translator, second: Translator, shares: tuple[float, float, float] = (0.5, 0.5, 0.5)) -> Translator:
    """The first one with the mean of the weights of both, `shares` of the second; what heads were taught stays."""
    if first.model.config != second.model.config or first.words.model != second.words.model:
        raise InputError("these are two models: halfway, both must have the same sizes and vocabulary.")
    others = second.model.state_dict()
    weights = {
        name: torch.lerp(own, others[name], share_of(name, shares)) for name, own in first.model.state_dict().items()
    }
    first.model.load_state_dict(weights)
    first.heads = first.heads | second.heads
    return first


def share_of(name: str, shares: tuple[float, float, float]) -> float:
    """How much of the second training a weight gets; the embedding, which both halves use, as the lower layers."""
    low, high, decoder = shares
    if name.startswith("decoder."):
        return decoder
    return high if name.startswith("encoder.layers.") and int(name.split(".")[2]) > LOW else low


def look_as(model: Transformer, other: Transformer, layer: int, head: int) -> None:
    """Give one head of the encoder the queries and keys that it has in another training."""
    if model.config != other.config:
        raise InputError("these are two models: for one of its heads, both must have the same sizes.")
    if not (0 <= layer < model.config.encoder_layers and 0 <= head < model.config.heads):
        sizes = f"{model.config.encoder_layers} layers of {model.config.heads} heads"
        raise InputError(f"there is no layer {layer}, head {head}: the encoder has {sizes}, counted from 0.")
    width = model.config.width // model.config.heads
    name = f"encoder.layers.{layer}.attention.projection"
    with torch.no_grad():
        for kind in ("weight", "bias"):
            own, others = (each.get_parameter(f"{name}.{kind}") for each in (model, other))
            for start in (0, model.config.width):  # rows: all queries, all keys, all values
                rows = slice(start + head * width, start + (head + 1) * width)
                own[rows] = others[rows]


def main() -> None:
    """Open both, write the third."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("first")
    parser.add_argument("second")
    parser.add_argument("out")
    parser.add_argument("--float32", action="store_true", help="all digits, to train on: four times the size")
    parser.add_argument(
        "--shares",
        nargs=3,
        type=float,
        default=(0.5, 0.5, 0.5),
        metavar=("LOW", "HIGH", "DECODER"),
        help="of the second",
    )
    parser.add_argument("--head", nargs=3, metavar=("FOLDER", "LAYER", "HEAD"), help="looks as in this training")
    options = parser.parse_args()
    found = halfway(Translator.load(options.first), Translator.load(options.second), tuple(options.shares))
    if options.head is not None:
        folder, layer, head = options.head
        look_as(found.model, Translator.load(folder).model, int(layer), int(head))
    found.save(options.out, int8=not options.float32)


if __name__ == "__main__":
    main()
