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
@pytest.mark.parametrize(
    "added", [{"add_bias_kv": a, "add_zero_attn": b} for a in (False, True) for b in (False, True)], ids=str
)
def test_multihead_attention(bias, batch_first, context_width, added):
    wide = {} if context_width is None else {"kdim": context_width, "vdim": context_width}
    theirs = shaken(nn.MultiheadAttention(WIDTH, HEADS, bias=bias, batch_first=batch_first, **wide, **added))
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
    ours, x, context = regard.from_torch(theirs, causal=True), torch.randn(2, 5, WIDTH), torch.randn(2, 7, WIDTH)
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
    encoder, decoder = regard.from_torch(theirs, causal=True)
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


def test_a_decoder_called_without_a_mask_sees_later_tokens():
    theirs = shaken(nn.TransformerDecoder(nn.TransformerDecoderLayer(WIDTH, HEADS, HIDDEN, batch_first=True), 2))
    x, context = torch.randn(2, 5, WIDTH), torch.randn(2, 7, WIDTH)
    ours = regard.from_torch(theirs, causal=False)
    torch.testing.assert_close(ours(x, context), theirs(x, context), **close)
    with pytest.raises(regard.InputError, match="causal=True"):
        ours(x, context, cache=regard.Cache(ours))


NORMS = {
    "no bias": lambda: nn.LayerNorm(WIDTH, bias=False),
    "no weights": lambda: nn.LayerNorm(WIDTH, elementwise_affine=False),
    "rms": lambda: nn.RMSNorm(WIDTH),
    "none": nn.Identity,
}


@pytest.mark.parametrize("norm", NORMS)
def test_norms_come_along_as_they_are(norm):
    layer = nn.TransformerEncoderLayer(WIDTH, HEADS, HIDDEN, batch_first=True)
    theirs = nn.TransformerEncoder(layer, 2, NORMS[norm](), enable_nested_tensor=False)
    for layer in theirs.layers:
        layer.norm1 = NORMS[norm]()
    theirs, x = shaken(theirs).train(), torch.randn(2, 5, WIDTH)  # in eval mode torch's own layer reads norm1.bias
    for module in theirs.modules():
        if isinstance(module, nn.Dropout | nn.MultiheadAttention):
            module.p = module.dropout = 0.0
    torch.testing.assert_close(regard.from_torch(theirs)(x), theirs(x), **close)


def test_a_linear_layer_may_lack_the_bias_that_others_have():
    theirs = nn.TransformerEncoderLayer(WIDTH, HEADS, HIDDEN, 0.0, batch_first=True)
    theirs.linear2, theirs.self_attn.out_proj.bias = nn.Linear(HIDDEN, WIDTH, bias=False), None
    theirs, x = shaken(theirs).train(), torch.randn(2, 5, WIDTH)
    torch.testing.assert_close(regard.from_torch(theirs)(x), theirs(x), **close)


@pytest.mark.parametrize("layer", [nn.TransformerEncoderLayer, nn.TransformerDecoderLayer])
def test_what_is_frozen_stays_frozen(layer):
    theirs, decodes = layer(WIDTH, HEADS, HIDDEN), layer is nn.TransformerDecoderLayer
    ours = regard.from_torch(theirs.requires_grad_(False), **{"causal": True} if decodes else {})
    assert not any(parameter.requires_grad for parameter in ours.parameters())
    theirs.linear1.bias.requires_grad = theirs.norm1.weight.requires_grad = True
    ours = regard.from_torch(theirs, **{"causal": True} if decodes else {})
    trained = [name for name, parameter in ours.named_parameters() if parameter.requires_grad]
    assert trained == ["attention_norm.weight", "feed_forward.up.bias"]


def test_dropout_inside_the_feed_forward_layer_comes_along():
    theirs = shaken(nn.TransformerEncoderLayer(WIDTH, HEADS, HIDDEN, 0.0, batch_first=True)).train()
    theirs.dropout.p = 0.5
    ours, x, outputs = regard.from_torch(theirs), torch.randn(2, 5, WIDTH), []
    for module in (theirs, ours):
        torch.manual_seed(3)
        outputs.append(module(x))
    torch.testing.assert_close(*outputs, **close)
    assert not torch.allclose(outputs[0], theirs.eval()(x), atol=0.1)


@pytest.mark.parametrize(
    "mask",
    [regard.causal(), regard.causal(-2), regard.causal([1, -3]), regard.window(1, 1), regard.padding([2, 5]),
     regard.documents([0, 0, 1, 1, 1]), regard.causal() & regard.padding([3, 0]) & torch.ones(4, 1, 1).bool(),
     regard.bias(torch.randn(5, 1))], ids=str,
)  # fmt: skip
def test_every_query_sees_the_learned_key_under_every_mask(mask):
    theirs = shaken(nn.MultiheadAttention(WIDTH, HEADS, add_bias_kv=True, add_zero_attn=True, batch_first=True))
    ours, x = regard.from_torch(theirs), torch.randn(2, 5, WIDTH)
    blank = torch.zeros(2, HEADS, 5, 3, dtype=torch.float64)
    added = regard.AttentionMatrix(blank, blank, mask=mask).masked[...]
    expected, _ = theirs(x, x, x, attn_mask=added.float().flatten(0, 1), need_weights=False)
    torch.testing.assert_close(ours(x, mask=mask), expected, **close)
    torch.testing.assert_close(ours(x[0], mask=None), theirs(x[0], x[0], x[0])[0], **close)


def _changed(**parts):
    layer = nn.TransformerEncoderLayer(8, 2, 8, batch_first=True)
    for name, part in parts.items():
        setattr(layer, name, part)
    return layer


class _Doubled(nn.Linear):
    def forward(self, x):
        return 2 * super().forward(x)


class _OwnBlock(nn.TransformerEncoderLayer):
    def _ff_block(self, x):
        return -super()._ff_block(x)


def _hooked(module):
    module.register_forward_hook(lambda *_: None)
    return module


def _half_frozen():
    module = nn.MultiheadAttention(8, 2, kdim=4, vdim=4)
    module.k_proj_weight.requires_grad = False
    return module


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (nn.Linear(3, 3), "from_torch takes nn.MultiheadAttention"),
        (nn.MultiheadAttention(8, 2, kdim=4, vdim=6), "kdim = 4, vdim = 6"),
        (nn.TransformerEncoderLayer(8, 2, 8, activation=torch.tanh), "relu, silu or gelu"),
        (nn.TransformerDecoderLayer(8, 2, 8), "causal=True"),
        (nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 8), 1), "tgt_mask"),
        (nn.Transformer(8, 2, 1, 1, 8), "tgt_mask"),
        (nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 8, batch_first=True), 0), "at least one layer"),
        (
            nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 8, batch_first=True), 1, nn.BatchNorm1d(8)),
            "BatchNorm1d",
        ),
        (_changed(norm1=nn.GroupNorm(2, 8)), "GroupNorm"),
        (_changed(dropout2=nn.Dropout(0.7)), "dropout2"),
        (_changed(dropout=nn.AlphaDropout(0.1)), "AlphaDropout"),
        (_changed(forward=lambda x, **_: x), "TransformerEncoderLayer overrides forward"),
        (_changed(linear1=_Doubled(8, 8)), "_Doubled overrides forward"),
        (_OwnBlock(8, 2, 8), "_OwnBlock overrides _ff_block"),
        (_hooked(nn.MultiheadAttention(8, 2)), "hooks"),
        (_half_frozen(), "requires_grad"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_what_has_no_counterpart_is_refused(module, message):
    with pytest.raises(regard.InputError, match=message):
        regard.from_torch(module)
