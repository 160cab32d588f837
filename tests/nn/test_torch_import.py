"""Parity with torch.nn: the same weights give the same outputs, over masks, padding, layout, bias and norms."""

import itertools

import pytest
import torch
from torch import nn

import regard

torch.manual_seed(0)
WIDTH, HEADS, HIDDEN = 32, 4, 48
STYLES = list(itertools.product([True, False], [True, False], [True, False], ["relu", "gelu"]))
close = {"atol": 1e-5, "rtol": 1e-5}


def shaken(module):
    """Weights away from their beginnings: norms of ones and biases of zeros would hide a mistake."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    return module.eval()


def masks(queries, keys):
    """(for torch, for regard): hidden pairs, hidden padding, both, neither."""
    hidden = torch.rand(queries, keys) < 0.3
    hidden[:, 0] = False
    pad = torch.arange(keys) >= torch.tensor([keys, max(keys - 3, 1)])[:, None]
    yield {}, None
    yield {"attn_mask": hidden}, ~hidden
    yield {"key_padding_mask": pad}, regard.padding(~pad)
    yield {"attn_mask": hidden, "key_padding_mask": pad}, regard.padding(~pad) & ~hidden


def both_ways(batch_first, *tensors):
    return [t if batch_first else t.transpose(0, 1) for t in tensors]


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("context_width", [None, WIDTH, 20])
def test_multihead_attention(bias, batch_first, context_width):
    wide = {} if context_width is None else {"kdim": context_width, "vdim": context_width}
    theirs = shaken(nn.MultiheadAttention(WIDTH, HEADS, bias=bias, batch_first=batch_first, **wide))
    ours = regard.from_torch(theirs)
    x = torch.randn(2, 5, WIDTH)
    context = x if context_width is None else torch.randn(2, 7, context_width)
    for given, mask in masks(5, context.shape[1]):
        q, k = both_ways(batch_first, x, context)
        expected = both_ways(batch_first, theirs(q, k, k, need_weights=False, **given)[0])[0]
        found = ours(x, mask=mask) if context_width is None else ours(x, context, mask=mask)
        torch.testing.assert_close(found, expected, **close)


@pytest.mark.parametrize(("bias", "batch_first", "norm_first", "activation"), STYLES)
def test_encoder_layer(bias, batch_first, norm_first, activation):
    options = {"activation": activation, "bias": bias, "batch_first": batch_first, "norm_first": norm_first}
    theirs = shaken(nn.TransformerEncoderLayer(WIDTH, HEADS, HIDDEN, 0.1, **options))
    ours, x = regard.from_torch(theirs), torch.randn(2, 5, WIDTH)
    for given, mask in masks(5, 5):
        named = {"src_" + name.removeprefix("attn_"): value for name, value in given.items()}
        expected = both_ways(batch_first, theirs(*both_ways(batch_first, x), **named))[0]
        torch.testing.assert_close(ours(x, mask), expected, **close)


@pytest.mark.parametrize(("bias", "batch_first", "norm_first", "activation"), STYLES)
def test_decoder_layer(bias, batch_first, norm_first, activation):
    options = {"activation": activation, "bias": bias, "batch_first": batch_first, "norm_first": norm_first}
    theirs = shaken(nn.TransformerDecoderLayer(WIDTH, HEADS, HIDDEN, 0.1, **options))
    ours, x, context = regard.from_torch(theirs), torch.randn(2, 5, WIDTH), torch.randn(2, 7, WIDTH)
    future = torch.ones(5, 5, dtype=torch.bool).triu(1)
    for given, mask in masks(5, 7):
        named = {"memory_" + name.removeprefix("attn_"): value for name, value in given.items()}
        y, memory = both_ways(batch_first, x, context)
        expected = both_ways(batch_first, theirs(y, memory, tgt_mask=future, **named))[0]
        torch.testing.assert_close(ours(x, context, context_mask=mask), expected, **close)


@pytest.mark.parametrize(("bias", "batch_first", "norm_first", "activation"), STYLES[::3])
def test_whole_transformer(bias, batch_first, norm_first, activation):
    options = {"activation": activation, "bias": bias, "batch_first": batch_first, "norm_first": norm_first}
    theirs = shaken(nn.Transformer(WIDTH, HEADS, 2, 2, HIDDEN, 0.1, **options))
    encoder, decoder = regard.from_torch(theirs)
    source, target = torch.randn(2, 6, WIDTH), torch.randn(2, 5, WIDTH)
    pad = torch.arange(6) >= torch.tensor([6, 3])[:, None]
    future = torch.ones(5, 5, dtype=torch.bool).triu(1)
    expected = theirs(
        *both_ways(batch_first, source, target), tgt_mask=future, src_key_padding_mask=pad, memory_key_padding_mask=pad
    )
    mask = regard.padding(~pad)
    found = decoder(target, encoder(source, mask), context_mask=mask)
    torch.testing.assert_close(found, both_ways(batch_first, expected)[0], **close)


def test_dtype_mode_and_eps_come_along():
    theirs = nn.TransformerEncoderLayer(WIDTH, HEADS, HIDDEN, layer_norm_eps=1e-2, batch_first=True).double()
    ours, x = regard.from_torch(theirs.eval()), torch.randn(2, 5, WIDTH, dtype=torch.float64)
    assert not ours.training
    torch.testing.assert_close(ours(x), theirs(x))


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (nn.Linear(3, 3), "from_torch takes nn.MultiheadAttention"),
        (nn.MultiheadAttention(8, 2, add_bias_kv=True), "add_bias_kv"),
        (nn.MultiheadAttention(8, 2, kdim=4, vdim=6), "kdim = 4, vdim = 6"),
        (nn.TransformerEncoderLayer(8, 2, 8, activation=torch.tanh), "relu, silu or gelu"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_what_has_no_counterpart_is_refused(module, message):
    with pytest.raises(regard.InputError, match=message):
        regard.from_torch(module)
