"""Write a larger model that computes the same as a smaller one, so that a teacher need not begin with random numbers.

    python recipes/grow.py tuned grown --encoder-layers 12 --decoder-layers 6 --hidden 2048

New layers are copies whose sublayers add zero, new hidden units have no effect yet: training goes on where that of the
smaller model ended.
"""

import argparse
from dataclasses import replace

import torch
from torch import nn

from regard.errors import InputError
from regard.nn import Transformer
from regard.translation import Translator


def grown(model: Transformer, *, encoder_layers: int, decoder_layers: int, hidden: int) -> Transformer:
    """A model of these sizes that computes the same."""
    old = model.config
    if old.norm_first:
        raise InputError("this model normalises before its sublayers: only one that normalises after them can grow.")
    for name, size in (("encoder_layers", encoder_layers), ("decoder_layers", decoder_layers), ("hidden", hidden)):
        if size < getattr(old, name):
            raise InputError(f"{name} is {getattr(old, name)} already; {size} would be smaller.")
    sizes = replace(old, encoder_layers=encoder_layers, decoder_layers=decoder_layers, hidden=hidden)
    larger = Transformer(sizes)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if ".layers." not in name:
                larger.get_parameter(name).copy_(parameter)
        larger.output_bias.copy_(model.output_bias)
        for stack in ("encoder", "decoder"):
            _grow(getattr(model, stack).layers, getattr(larger, stack).layers)
    return larger.eval()


def _grow(old: nn.ModuleList, new: nn.ModuleList) -> None:
    """Fill the layers of the larger stack; those that are new follow the ones they copy."""
    origins = [n * len(old) // len(new) for n in range(len(new))]
    for n, origin in enumerate(origins):
        for name, parameter in old[origin].named_parameters():
            _put(parameter, new[n].get_parameter(name))
        if n and origin == origins[n - 1]:
            _add_nothing(new[n - 1], new[n])


def _put(old: torch.Tensor, new: torch.Tensor) -> None:
    """Copy into the first rows and columns; what more there is feeds on random numbers and gives zeros."""
    if old.shape[-1] < new.shape[-1] and old.ndim == 2:
        new.zero_()  # columns: what the new hidden units give
    new[tuple(slice(0, size) for size in old.shape)] = old


def _add_nothing(before: nn.Module, layer: nn.Module) -> None:
    """Let a layer pass on what the layer before it gives.

    Its norms leave vectors alone that are normalised, so the scale and shift after the last norm move to its end.
    """
    for name, parameter in layer.named_parameters():
        if ".output." in name or ".down." in name:
            parameter.zero_()
    for name, module in layer.named_children():
        if isinstance(module, nn.LayerNorm) and name != "feed_forward_norm":
            module.reset_parameters()
    before.get_submodule("feed_forward_norm").reset_parameters()  # type: ignore[operator]


def main() -> None:
    """Open one, write the other."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("out")
    parser.add_argument("--encoder-layers", type=int, required=True)
    parser.add_argument("--decoder-layers", type=int, required=True)
    parser.add_argument("--hidden", type=int, required=True, help="units of the fully connected layers")
    options = parser.parse_args()
    small = Translator.load(options.model)
    sizes = {name: getattr(options, name) for name in ("encoder_layers", "decoder_layers", "hidden")}
    Translator(grown(small.model, **sizes), small.words, languages=small.languages).save(options.out)


if __name__ == "__main__":
    main()
