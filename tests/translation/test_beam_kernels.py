"""The kernels of the search: what torch computes in several passes; by Triton's interpreter where there is no GPU."""

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.translation.random_models import SOURCES, random_model, tokens
from torch.nn import functional

from regard.backends.triton import beam_kernels
from regard.translation.searching import gpu
from regard.translation.searching.gpu import StaticSearch

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
pytestmark = [pytest.mark.usefixtures("unchecked"), pytest.mark.gpu]


@settings(max_examples=15)
@given(
    st.integers(1, 3), st.integers(1, 5), st.sampled_from([(4, 1), (2, 2), (6, 3)]), st.sampled_from([8, 24, 64]),
    st.integers(1, 40), st.sampled_from([torch.float32, torch.bfloat16]), st.integers(0, 99),
)  # fmt: skip
@example(2, 4, (6, 1), 64, 33, torch.bfloat16, 0)
@example(1, 16, (2, 1), 128, 7, torch.float32, 0)
def test_each_target_sees_its_own_past(sentences, beam, heads, size, length, dtype, seed):
    torch.manual_seed(seed)
    (count, group), room = heads, 48
    query = torch.randn(sentences, beam, 3 * count * size, dtype=dtype, device=DEVICE)[..., : count * size]
    key, value = torch.randn(2, sentences, room, beam, count // group, size, dtype=dtype, device=DEVICE).unbind(0)
    slots = torch.full((sentences, beam, room), -1, dtype=torch.int16, device=DEVICE)
    slots[:, :, :length] = torch.randint(0, beam, (sentences, beam, length)).to(slots)
    key[:, length:], value[:, length:] = torch.nan, torch.nan  # of an earlier batch
    found = beam_kernels.attend_own(query, key, value, slots, torch.tensor([length - 1], device=DEVICE))
    exact = torch.empty_like(found, dtype=torch.float64)
    for s in range(sentences):
        for b in range(beam):
            own = [t[s, torch.arange(length), slots[s, b, :length].long()].double() for t in (key, value)]
            k, v = (t.transpose(0, 1).repeat_interleave(group, 0) for t in own)
            q = query[s, b].double().view(count, 1, size)
            exact[s, b] = functional.scaled_dot_product_attention(q, k, v).flatten()
    torch.testing.assert_close(found.double(), exact, atol=2e-5 if dtype == torch.float32 else 2e-2, rtol=0)


@settings(max_examples=15)
@given(st.integers(1, 4), st.integers(64, 9000), st.integers(0, 99))
@example(3, 20_000, 0)
def test_a_sum_and_the_largest_that_are_allowed(rows, size, seed):
    torch.manual_seed(seed)
    logits = torch.randn(rows, size, device=DEVICE) * 8
    logits[:, torch.randint(0, size, (3,))] = -torch.inf
    forbidden = torch.full((rows, 8), -1, device=DEVICE)
    forbidden[:, 2], forbidden[:, 5:7] = logits.argmax(-1), torch.randint(0, size, (rows, 2)).to(DEVICE)
    normaliser, maxima = beam_kernels.normaliser_and_maxima(logits, forbidden, 64)
    torch.testing.assert_close(normaliser, logits.logsumexp(-1), atol=1e-5, rtol=1e-6)
    allowed = logits.clone()
    for row, some in zip(allowed, forbidden.tolist(), strict=True):
        row[[token for token in some if token >= 0]] = -torch.inf
    blocks = size // 64
    assert torch.equal(maxima, allowed[:, : blocks * 64].view(rows, blocks, 64).amax(-1))


@pytest.mark.parametrize("beam", [1, 3])
def test_a_search_finds_the_same_by_them(beam, monkeypatch):
    model = random_model(vocabulary=40 + 256 * beam, positions=12, decoder_layers=1, encoder_layers=1).to(DEVICE)
    with torch.no_grad():
        model.output_bias[13] += 12  # it says nothing else, if nobody stops it
    monkeypatch.setattr(gpu, "_LEAST", 1)
    asked = {"sources": SOURCES[:2], "beam": beam}
    monkeypatch.setattr(gpu, "_own_kernels", lambda *_: None)
    plain = StaticSearch(model).search(model, **asked)
    monkeypatch.setattr(gpu, "_own_kernels", lambda *_: beam_kernels)
    found = StaticSearch(model).search(model, **asked)
    assert tokens(found) == tokens(plain)
    for best, other in zip(found, plain, strict=True):
        assert [h.score for h in best] == pytest.approx([h.score for h in other], abs=1e-4)


def test_the_bias_in_columns_is_the_bias():
    torch.manual_seed(0)
    bias, embedding, x = torch.randn(50) * 5, torch.randn(50, 16).bfloat16(), torch.randn(3, 16).bfloat16()
    bias[9] = -torch.inf  # somebody forbids a token
    head = gpu._with_bias(embedding, bias, 7)
    ones = functional.pad(x, (0, gpu._BIAS_COLUMNS), value=1.0)
    found, exact = gpu._product(ones, head, torch.float32), x.double() @ embedding.double().mT + bias.double()
    assert found[:, [7, 9]].eq(-torch.inf).all()
    exact[:, 7] = -torch.inf
    torch.testing.assert_close(found.double(), exact, atol=1e-5, rtol=1e-6)
