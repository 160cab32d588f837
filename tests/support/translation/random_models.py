"""Small models with random weights, and sources for them."""

import torch

import regard

SOURCES = [[7, 8, 9, 10, 0], [5, 0], [11, 12, 5, 5, 6, 0], [20, 0], [30, 31, 32, 33, 34, 35, 36, 0]]
STACKS = [
    {}, {"norm_first": True}, {"bias": False}, {"activation": "silu", "decoder_layers": 1}, {"activation": "gelu"},
    {"pad": 3}, {"pad": 3, "start": 4, "end": 39},
]  # fmt: skip


def random_model(seed=0, vocabulary=40, **changes):
    torch.manual_seed(seed)
    sizes = {"width": 32, "heads": 4, "hidden": 48, "positions": 64}
    model = regard.Transformer(regard.TransformerConfig.tiny(vocabulary, **sizes | changes)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
        model.output_bias.normal_()
        model.output_bias[model.config.end] += 2
        model.embedding.weight.mul_(model.live)
    return model


def tokens(found):
    return [[hypothesis.tokens for hypothesis in best] for best in found]
