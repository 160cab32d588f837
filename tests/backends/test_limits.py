"""Which tiles of a mask are hidden or full: no tile that is seen is left out, and none that is cut counts as full."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.attention.cases import using

import regard
from regard.backends.triton import problem

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
CLOSE = {"atol": 1e-6, "rtol": 1e-5}
RUNS = st.lists(st.integers(1, 40), min_size=1, max_size=12)


@st.composite
def parts(draw):
    """Padding and documents of queries and keys, sorted or not, and what a query sees."""
    queries, keys = draw(st.integers(1, 150)), draw(st.integers(1, 150))
    torch.manual_seed(draw(st.integers(0, 2**16)))
    keep = ids = None
    visible = torch.ones(2, queries, keys, dtype=torch.bool)
    if draw(st.booleans()):
        side = draw(st.sampled_from(["right", "left", "holes", "none", "nothing"]))
        place, edge = torch.arange(keys), torch.randint(0, keys + 1, (2, 1))
        keep = {"right": place < edge, "left": place >= edge, "holes": torch.rand(2, keys) > 0.2}.get(
            side, torch.full((2, keys), side == "none")
        )
        visible &= keep[:, None]
    if keep is None or draw(st.booleans()):
        lengths = torch.tensor(draw(RUNS))
        line = torch.repeat_interleave(torch.arange(len(lengths)), lengths).repeat(1 + 300 // int(lengths.sum()))
        if draw(st.booleans()):
            line = line.sort().values
        start = draw(st.integers(0, 20))
        of_keys = torch.stack([line[:keys], line[7 : keys + 7]])
        of_queries = torch.stack([line[start : queries + start], line[:queries]])
        ids = of_queries, of_keys
        visible &= of_queries[:, :, None] == of_keys[:, None]
    return keep, ids, visible


def _check(found, visible, block, other, tokens):
    """`found` along the last axis of `visible`, for blocks of its rows."""
    for batch, lines in enumerate(found.tolist()):
        for n, (first, full_first, full_end, end) in enumerate(lines):
            rows = visible[batch, n * block : (n + 1) * block]
            for start in range(0, tokens, other):
                tile = rows[:, start : start + other]
                if not first // other * other <= start < end:
                    assert not tile.any(), "a tile that is seen was left out"
                if full_first <= start and start + other <= full_end:
                    assert tile.all(), "a tile that is cut counts as full"


@given(parts(), st.sampled_from([(16, 16), (16, 32), (64, 16)]))
@settings(max_examples=150)
def test_limits_leave_out_only_what_is_hidden(case, blocks):
    keep, ids, visible = case
    _, queries, keys = visible.shape
    keep = None if keep is None else keep.to(torch.int8)
    query_ids, key_ids = (None, None) if ids is None else ids
    along = problem.along_keys(keep, query_ids, key_ids, blocks, queries)
    _check(along, visible, *blocks, keys)
    along = problem.along_queries(keep, query_ids, key_ids, blocks, keys)
    _check(along, visible.mT, *reversed(blocks), queries)


@pytest.mark.parametrize("lengths", [[96], [32, 64], [20, 50, 26]])
def test_documents_that_lie_side_by_side_touch_no_other_tile(lengths):
    ids = torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths))[None]
    found = problem.along_keys(None, ids, ids, (16, 16), 96)[0].tolist()
    for n, (first, full_first, full_end, end) in enumerate(found):
        own = ids[0, 16 * n : 16 * n + 16]
        seen = torch.isin(ids[0], own).nonzero()[:, 0]
        assert (first, end) == (int(seen[0]) // 16 * 16, int(seen[-1]) // 16 * 16 + 16)
        whole = (
            [t for t in range(6) if (ids[0, 16 * t : 16 * t + 16] == own[0]).all()] if own.unique().numel() == 1 else []
        )
        assert list(range(full_first // 16, full_end // 16)) == whole


@pytest.mark.gpu
@pytest.mark.parametrize("mask", [None, regard.causal()], ids=["none", "causal"])
@pytest.mark.parametrize("bins", [(7, 9), (33, 40), (50, 70)])
def test_bins_of_any_size_keep_nan_to_themselves(bins, mask):
    torch.manual_seed(0)
    with using("triton", False):
        q, k = (torch.randn(1, 1, tokens, 16, device=DEVICE) for tokens in (50, 70))
        expected = regard.AttentionMatrix(q.double(), k.double(), mask=mask).pool(*bins)
        torch.testing.assert_close(regard.AttentionMatrix(q, k, mask=mask).pool(*bins).double(), expected, **CLOSE)
        q[0, 0, 20] = torch.nan
        found = regard.AttentionMatrix(q, k, mask=mask).pool(*bins)
    edges = torch.arange(bins[0] + 1) * 50 // bins[0]
    own = int(torch.searchsorted(edges, 20, right=True)) - 1
    assert found[0, 0, own, 0].isnan()
    others = [n for n in range(bins[0]) if n != own]
    torch.testing.assert_close(found[0, 0, others].double(), expected[0, 0, others], **CLOSE)
