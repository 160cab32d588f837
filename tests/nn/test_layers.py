"""The layers on their own: sets, padding, packing, cross-attention, caches; and that bad input is refused."""

import re

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import regard
from regard.nn.layers import KeyValues

torch.manual_seed(0)


@given(
    st.integers(1, 9),
    st.sampled_from([(4, 4), (4, 2), (4, 1)]),
    st.booleans(),
    st.sampled_from(["relu", "silu", "gelu"]),
)
def test_an_encoder_works_on_sets(tokens, heads, norm_first, activation):
    encoder = regard.Encoder(
        2, 16, heads[0], 32, key_heads=heads[1], norm_first=norm_first, activation=activation
    ).eval()
    x, order = torch.randn(2, tokens, 16), torch.randperm(tokens)
    torch.testing.assert_close(encoder(x)[:, order], encoder(x[:, order]), atol=1e-5, rtol=1e-5)


@given(st.integers(2, 9), st.data())
def test_no_place_of_a_decoder_sees_its_future(tokens, data):
    decoder = regard.Decoder(2, 16, 4, 32).eval()
    x, context = torch.randn(2, tokens, 16), torch.randn(2, 3, 16)
    place = data.draw(st.integers(1, tokens - 1))
    other = x.clone()
    other[:, place:] = torch.randn_like(other[:, place:])
    before, after = decoder(x, context), decoder(other, context)
    torch.testing.assert_close(before[:, :place], after[:, :place], atol=1e-6, rtol=0)
    assert not torch.allclose(before[:, place:], after[:, place:], atol=1e-3)


def test_a_padded_batch_gives_what_each_sentence_gives_alone():
    encoder = regard.Encoder(2, 16, 4, 32).eval()
    lengths = [7, 1, 4]
    x = torch.randn(3, 7, 16)
    x[1, 1:] = torch.nan  # nobody may see them
    together = encoder(x, mask=regard.padding(lengths))
    for n, length in enumerate(lengths):
        torch.testing.assert_close(together[n, :length], encoder(x[n, :length]), atol=1e-5, rtol=1e-5)


def test_packed_sentences_do_not_see_each_other():
    decoder = regard.Decoder(2, 16, 4, 32, cross=False).eval()
    lengths = [3, 1, 5]
    x, ids = torch.randn(9, 16), torch.repeat_interleave(torch.arange(3), torch.tensor(lengths))
    packed = decoder(x, mask=regard.documents(ids)).split(lengths)
    for part, alone in zip(packed, x.split(lengths), strict=True):
        torch.testing.assert_close(part, decoder(alone), atol=1e-5, rtol=1e-5)


def test_cross_attention_between_widths():
    layer = regard.MultiHeadAttention(32, 4, key_heads=2, context_width=20)
    x, context = torch.randn(2, 5, 32), torch.randn(2, 7, 20)
    query = layer.query(x).view(2, 5, 4, 8).transpose(1, 2)
    key, value = layer.key_value(context).view(2, 7, 2, 2, 8).permute(2, 0, 3, 1, 4).repeat_interleave(2, 2)
    expected = layer.output(((query @ key.mT / 8**0.5).softmax(-1) @ value).transpose(1, 2).flatten(2))
    torch.testing.assert_close(layer(x, context), expected)


@pytest.mark.parametrize("cross", [True, False])
@pytest.mark.parametrize("chunks", [[1] * 6, [2, 3, 1], [6]])
def test_a_cache_gives_what_the_full_pass_gives(cross, chunks):
    decoder = regard.Decoder(2, 16, 4, 32, cross=cross, key_heads=2).eval()
    x, context = torch.randn(2, 6, 16), torch.randn(2, 3, 16) if cross else None
    cache = regard.Cache(decoder)
    out = torch.cat([decoder(part, context, cache=cache) for part in x.split(chunks, 1)], 1)
    torch.testing.assert_close(out, decoder(x, context), atol=1e-5, rtol=1e-5)


def test_a_mask_holds_for_a_single_new_token_too():
    decoder = regard.Decoder(2, 16, 4, 32, cross=False).eval()
    x, hide = torch.randn(1, 3, 16), torch.tensor([False, True, True])
    cache = regard.Cache(decoder)
    steps = [decoder(x[:, i : i + 1], mask=hide[: i + 1], cache=cache) for i in range(3)]
    torch.testing.assert_close(torch.cat(steps, 1), decoder(x, mask=hide), atol=1e-5, rtol=1e-5)


def test_the_context_of_a_cache_is_projected_once():
    layer, cache = regard.MultiHeadAttention(16, 4), KeyValues()
    x, context = torch.randn(1, 2, 16), torch.randn(1, 3, 16)
    first = layer(x, context, cache=cache)
    torch.testing.assert_close(layer(x, torch.full_like(context, torch.nan), cache=cache), first)


def test_queries_keys_and_values_begin_smaller_than_the_output():
    layer = regard.MultiHeadAttention(256, heads=4)
    assert layer.projection.weight.abs().max().item() == pytest.approx((0.5 * 6 / 512) ** 0.5, rel=1e-3)
    assert layer.output.weight.abs().max().item() == pytest.approx((6 / 512) ** 0.5, rel=1e-3)


def test_dropout_only_in_training():
    layer = regard.EncoderLayer(16, 4, 32, dropout=0.5)
    x = torch.randn(4, 16)
    assert not torch.equal(layer(x), layer(x))
    layer.eval()
    assert torch.equal(layer(x), layer(x))
    attention = regard.MultiHeadAttention(16, 4, dropout=0.5)
    assert not torch.equal(attention(x), attention(x))
    assert torch.equal(attention.eval()(x), attention(x))


def test_every_attention_goes_through_attend():
    """Where `watch` and head knock-out come in."""
    decoder = regard.Decoder(2, 16, 4, 32).eval()
    layers = [m for m in decoder.modules() if hasattr(m, "attend")]
    assert [m.kind for m in layers] == ["decoder", "cross", "decoder", "cross"]
    seen = []
    for layer in layers:
        layer.attend = lambda q, k, v, **options: seen.append(options) or regard.attention(q, k, v, **options)
    decoder(torch.randn(2, 5, 16), torch.randn(2, 3, 16))
    assert len(seen) == 4
    assert all({"mask", "dropout"} == set(options) for options in seen)


def test_self_attention_is_the_four_steps():
    layer = regard.SelfAttention(12, 8)
    x = torch.randn(5, 12)
    torch.testing.assert_close(layer(x), layer.steps(x).output)
    batch = torch.randn(2, 3, 5, 12)
    torch.testing.assert_close(layer(batch)[1, 2], layer(batch[1, 2]))


def test_gradients_reach_every_parameter():
    encoder, decoder = regard.Encoder(2, 16, 4, 32), regard.Decoder(2, 16, 4, 32)
    decoder(torch.randn(2, 5, 16), encoder(torch.randn(2, 3, 16))).square().sum().backward()
    for name, parameter in [*encoder.named_parameters(), *decoder.named_parameters()]:
        assert parameter.grad is not None, name
        assert parameter.grad.abs().sum() > 0 or "projection.bias" in name, name


BAD = [
    (lambda: regard.MultiHeadAttention(10, 4), "heads must divide width"),
    (lambda: regard.MultiHeadAttention(16, 4, key_heads=3), "key_heads must divide heads"),
    (lambda: regard.MultiHeadAttention(0, 4), "width must be a whole number"),
    (lambda: regard.FeedForward(16, 32, activation="tanh"), "relu, silu, gelu. Got 'tanh'"),
    (lambda: regard.EncoderLayer(16, 4, 32, dropout=1.0), "dropout must be at least 0 and below 1"),
    (lambda: regard.EncoderLayer(16, 4, 32)(torch.randn(3, 5)), "width = 16. Got (3, 5)"),
    (lambda: regard.SelfAttention(16)(torch.randn(16)), "A single vector is a set of one"),
    (lambda: regard.MultiHeadAttention(16, 4, context_width=8)(torch.randn(3, 16)), "layer(x, context)"),
    (
        lambda: regard.MultiHeadAttention(16, 4, context_width=8)(torch.randn(3, 16), torch.randn(3, 16)),
        "context must be",
    ),
    (lambda: regard.DecoderLayer(16, 4, 32)(torch.randn(3, 16)), "needs a context"),
    (lambda: regard.DecoderLayer(16, 4, 32, cross=False)(torch.randn(3, 16), torch.randn(3, 16)), "takes no context"),
]


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(("call", "message"), BAD)
def test_bad_input_is_refused_with_what_to_do(call, message):
    with pytest.raises(regard.InputError, match=re.escape(message)):
        call()


@pytest.mark.usefixtures("unchecked")
def test_a_cache_goes_on_only_with_its_own():
    decoder, other = regard.Decoder(2, 16, 4, 32, cross=False), regard.Decoder(3, 16, 4, 32, cross=False)
    cache = regard.Cache(decoder)
    with pytest.raises(regard.InputError, match=r"made for a decoder of 2 layers\. Got 3 layers"):
        other(torch.randn(2, 1, 16), cache=cache)
    decoder(torch.randn(2, 1, 16), cache=cache)
    with pytest.raises(regard.InputError, match=re.escape("(2, 4, 4), but the call has (3, 4, 4)")):
        decoder(torch.randn(3, 1, 16), cache=cache)
    with pytest.raises(regard.InputError, match=re.escape("(2, 4, 4), but the call has (2, 2, 4)")):
        regard.Decoder(2, 16, 4, 32, cross=False, key_heads=2)(torch.randn(2, 1, 16), cache=cache)
    cache.pick(torch.tensor([1, 0, 1]))
    assert decoder(torch.randn(3, 1, 16), cache=cache).shape == (3, 1, 16)
