"""What a mask says of a tile, a point, a run of rows: held to the definition's dense mask, without any softmax."""

from dataclasses import FrozenInstanceError
from itertools import combinations

import pytest
import torch

import regard
from regard.backends.cuts import CAUSAL, in_blocks
from regard.backends.reference import Reference
from regard.scores import as_range, bind, in_pieces, make_scores
from regard.scores.masks import HIDING

BATCH, HEADS, QUERIES, KEYS = SHAPE = 2, 4, 9, 12
IDS = torch.tensor([[0, 0, 0, 1, 1, 1, 1, 2, 2], [0, 0, 1, 1, 1, 2, 2, 2, 2]])
KEY_IDS = torch.tensor([[9, 0, 0, 0, 1, 1, 1, 2, 2, 2, 9, 9], [9, 0, 0, 1, 1, 1, 1, 2, 2, 9, 9, 9]])
ROWS = torch.zeros(2, 9, dtype=torch.bool)
ROWS[0, 2:4] = ROWS[1, 6:] = True
DENSE = torch.rand(2, 1, 9, 12, generator=torch.Generator().manual_seed(0)) < 0.8
LOW = torch.zeros(4, 1, 12)
LOW[1, 0, 3], LOW[:, 0, 5] = torch.finfo(torch.float32).min, HIDING
MASKS = {
    "none": regard.Mask(),
    "causal": regard.causal(),
    "causal, shifted": regard.causal(3),
    "causal, shifted back": regard.causal(-3),
    "causal, each its own": regard.causal([-2, 3]),
    "window": regard.window(2, 1),
    "window, shifted": regard.window(2, 1, offset=2),
    "window, open to the left": regard.window(None, -1, offset=1),
    "window, open to the right": regard.window(1, None, offset=1),
    "window, open": regard.window(None, None),
    "window, empty": regard.window(-2, 1),
    "window, each its own": regard.window(3, 1, offset=[0, 2]),
    "lengths": regard.padding([7, 10]),
    "no length": regard.padding([0, 5]),
    "bools": regard.padding(torch.arange(12)[None] % torch.tensor([[5], [4]]) > 0),
    "documents": regard.documents(IDS, KEY_IDS),
    "documents, alike": regard.documents(IDS[0], KEY_IDS[0]),
    "dense": regard.Mask() & DENSE,
    "bias": regard.bias(torch.randn(2, 4, 9, 12)),
    "hiding bias": regard.bias(LOW),
    "biases": regard.bias(LOW) & torch.randn(9, 1) & torch.randn(12).double(),
    "together": regard.causal(4) & regard.padding([11, 9]) & regard.documents(IDS, KEY_IDS),
    "cut": regard.cut(slice(2, 6), slice(3, 5)),
    "cuts": regard.causal(3) & regard.cut(slice(2, 6), slice(3, 5)) & regard.cut(slice(4, None), 0),
    "cut of each": regard.cut(ROWS, KEY_IDS == 1),
    "cut in a head": regard.causal() & regard.cut(slice(2, 6), slice(3, 5), heads=[1, 3]),
    "cut in heads of each": regard.cut(5, None, heads=torch.tensor([[True, False] * 2, [False] * 4])),
    "cut of a key in heads": regard.cut(None, 2, heads=[0]) & regard.cut(None, 2, heads=[1, 2, 3]) & regard.cut(None, 4, heads=[2]),
    "cut within": regard.cut(slice(3, None), within=regard.window(2, 0, offset=1)),
    "cuts within": regard.causal(4) & regard.cut(within=regard.window(2, -1)) & regard.cut(slice(5, None), within=regard.window(None, -4)),
    "cut within some keys": regard.cut(slice(3, None), slice(0, 6), within=regard.window(3, 1, offset=2)),
    "weaker": regard.causal(3) & regard.cut(slice(3, 7), slice(2, 4), bias=-2.0) & regard.cut(slice(5, 8), 3, bias=1.5),
    "weaker within": regard.cut(slice(3, 7), within=regard.window(2, 2, offset=-1), bias=-2.0) & regard.cut(slice(2, 5), slice(1, 9), bias=0.5),
    "weaker and hidden": regard.cut(slice(3, 7), slice(2, 6), bias=-2.0) & regard.cut(slice(5, 8), slice(4, 8)),
    "cut from all that see it": regard.causal() & regard.cut(slice(3, None), slice(3, 5)),
    "cut beyond": regard.cut(slice(20, None), slice(3, 50)) & regard.cut(slice(7, 50), slice(10, 50)),
}  # fmt: skip
HERE = torch.device("cpu")
masks = pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)


def _dense(mask):
    """The definition: 0 or a bias where a query sees a key, -inf where it does not."""
    q, k = torch.zeros(BATCH, HEADS, QUERIES, 1), torch.zeros(BATCH, HEADS, KEYS, 1)
    return torch.from_numpy(Reference(q, k, mask=mask).masked)


def _bound(mask, heads=HEADS):
    return bind(mask, (BATCH, heads, QUERIES, KEYS), HERE, False)


def _said(seen, bias, shape):
    """What a tile says, as the definition writes it."""
    bias = torch.zeros(()) if bias is None else bias
    seen = torch.ones((), dtype=torch.bool) if seen is None else seen
    return torch.where(seen & (bias != -torch.inf), bias.double(), -torch.inf).expand(shape)


@masks
def test_tiles_and_points_are_those_of_the_definition(mask):
    bound, dense = _bound(mask), _dense(mask)
    assert bool(bound) == bool(mask.atoms)
    for rows, columns in (
        (range(9), range(12)), (range(2, 7), range(1, 12, 2)), (torch.tensor([8, 0, 4]), torch.tensor([11, 3])), (range(3), range(4, 5)),
    ):  # fmt: skip
        expected = dense[:, :, list(rows)][..., list(columns)]
        seen, bias = bound.tile(rows, columns, HERE), bound.bias_tile(rows, columns)
        assert bound.biased or bias is None
        torch.testing.assert_close(_said(seen, bias, expected.shape), expected)
    places = torch.cartesian_prod(*map(torch.arange, SHAPE)).unbind(-1)
    torch.testing.assert_close(_said(*bound.points(*places, torch.float64), (dense.numel(),)), dense.flatten())


@masks
def test_the_span_of_rows_leaves_out_what_is_hidden_and_only_that(mask):
    bound, seen = _bound(mask), _dense(mask) > -torch.inf
    for start, stop in combinations(range(10), 2):
        tile = seen[:, :, start:stop]
        first, whole_first, whole_end, end = bound.span(range(start, stop), KEYS)
        assert bound.span(torch.arange(start, stop).flip(0), KEYS) == (first, whole_first, whole_end, end)
        assert 0 <= first <= whole_first <= whole_end <= end <= KEYS
        some, full = tile.flatten(0, 2).any(0), tile.flatten(0, 2).all(0)
        assert not some[:first].any()
        assert not some[end:].any()
        assert full[whole_first:whole_end].all() or bound.biased
        alike = all((ids[0] == ids[1]).all() for ids, _ in bound.ids)  # else judged by the ids of both
        tight = len(mask.atoms) < 2 and alike and not (bound.cuts or bound.visible or bound.biases)
        if tight and not some.any():
            assert first == end or stop > start + 1  # judged by its first and last row
        elif tight:
            assert (first, end) == (int(some.nonzero()[0]), int(some.nonzero()[-1]) + 1)
            runs = full.nonzero().flatten().tolist()
            if runs and (not bound.ids or stop == start + 1):
                length = next((n for n in range(1, len(runs)) if runs[n] != runs[0] + n), len(runs))
                assert (whole_first, whole_end) == (runs[0], runs[0] + length)


@masks
@pytest.mark.parametrize("points", [2**20, 24], ids=["at once", "row by row"])
def test_keys_that_no_query_sees(mask, points, monkeypatch):
    monkeypatch.setattr("regard.scores.scores._POINTS", points)
    q, k = torch.randn(2, BATCH, HEADS, KEYS, 2, dtype=torch.float64).unbind(0)
    q, k = q[:, :, :QUERIES], k[:, : HEADS // 2]
    whole, dense = make_scores(q, k, mask, None, None, None), _dense(mask) > -torch.inf
    every, two = range(BATCH), [1, 3]
    for scores, seen in (
        (whole, dense),
        (whole.select(every, range(HEADS), range(4, 8), range(KEYS)), dense[:, :, 4:8]),
        (whole.select(every, two, range(1, 9, 3), range(2, 9)), dense[:, two, 1:9:3, 2:9]),
        (whole.select([1], range(HEADS), torch.tensor([6, 2]), torch.tensor([1, 9])), dense[1:, :, [6, 2]][..., [1, 9]]),
    ):  # fmt: skip
        hidden = ~seen.any(2)
        assert torch.equal(
            hidden if scores.unseen is None and not hidden.any() else scores.unseen.expand(hidden.shape), hidden
        )
        bad = torch.full((len(hidden), 1, hidden.shape[-1], 1), -torch.inf, dtype=torch.float64)
        assert torch.equal(scores.shielded(bad)[:, 0, :, 0] == 0, hidden.all(1))
        for name in ("scores", "masked"):
            places = torch.cartesian_prod(*map(torch.arange, scores.shape)).unbind(-1)
            torch.testing.assert_close(scores.points(name, places), scores.stage(name).flatten())
        assert torch.equal(scores.stage("masked") > -torch.inf, seen)


@masks
@pytest.mark.parametrize("rows", [range(9), range(3, 8)], ids=str)
def test_pieces_and_blocks_show_what_the_mask_shows_once(mask, rows):
    bound, dense = _bound(mask), _dense(mask)[:, :, rows.start : rows.stop]
    pieces = in_pieces(bound, rows)
    refused = any(cut.band is not None and not cut.everywhere for cut in bound.cuts)
    assert (pieces is None) == refused
    shown, total = torch.zeros(dense.shape), torch.zeros(dense.shape, dtype=torch.float64)
    for part, rule, shift, is_cut in pieces or ():
        tile = rule.tile(part, range(KEYS), HERE), rule.bias_tile(part, range(KEYS))
        tile = _said(*tile, (BATCH, HEADS, len(part), KEYS)) + shift
        here = slice(part.start - rows.start, part.stop - rows.start)
        shown[:, :, here] += tile > -torch.inf
        total[:, :, here] += torch.where(tile > -torch.inf, tile, 0.0)
        assert is_cut == any(part.start in run for cut in bound.cuts for run in cut.runs)
        assert not rule.cuts
        assert bound.biased or not rule.biased
    if pieces is not None:
        assert torch.equal(shown, (dense > -torch.inf).float())
        torch.testing.assert_close(total, torch.where(dense > -torch.inf, dense, 0.0))
        assert in_pieces(bound, rows) is pieces  # known from then on
    blocks = in_blocks(bound, rows, KEYS)
    shown = torch.zeros(len(rows), KEYS)
    for block in blocks or ():
        tile = torch.ones(len(block.rows), len(block.columns))
        if block.mask is CAUSAL:
            assert len(block.rows) == len(block.columns)
            tile = tile.tril()
        elif block.mask is not None:
            tile = block.mask.tile(block.rows, block.columns, HERE)[0, 0].float()
        shown[
            block.rows.start - rows.start : block.rows.stop - rows.start, block.columns.start : block.columns.stop
        ] += tile
    if blocks is not None:
        assert torch.equal(shown.expand(dense.shape), (dense > -torch.inf).float())


@pytest.mark.parametrize(
    ("mask", "rows", "columns", "shown"),
    [
        (regard.Mask(), range(4), range(4), True),
        (regard.causal(), range(4), range(4), True),
        (regard.causal(), range(4), range(5), False),
        (regard.causal(1), range(4), range(5), True),
        (regard.causal(1), range(2, 4), range(3, 6), False),
        (regard.window(0, None), range(2, 5), range(2, 9), True),
        (regard.window(0, None), range(2, 5), range(1, 9), False),
        (regard.window(0, None, offset=1), range(2, 5), range(2, 9), False),
        (regard.window(1, 1), range(4), range(5), True),
        (regard.window(0, 0), range(4), range(4), True),
        (regard.window(-1, 0), range(4), range(4), False),  # empty
        (regard.causal([1, 1]), range(4), range(4), False),  # not certain
        (regard.causal() & regard.causal(1), range(4), range(4), False),
    ],
)  # fmt: skip
def test_whether_a_band_shows_every_column_to_some_row(mask, rows, columns, shown):
    assert bind(mask, (2, 1, 9, 9), HERE, False).reaches(rows, columns) == shown


@pytest.mark.parametrize(
    ("mask", "shown"),
    [
        (regard.causal(), True), (regard.causal(1), True), (regard.causal(-1), False), (regard.window(0, 0), True),
        (regard.window(1, -1), False), (regard.window(-1, 2), False), (regard.window(-1, None), False), (regard.window(None, -1), False),
        (regard.window(2, 0, offset=2), True), (regard.window(2, 0, offset=3), False), (regard.causal([1, 1]), False),
        (regard.padding([9, 9]), False), (regard.documents(IDS), True), (regard.documents(IDS, KEY_IDS[:, :9]), False),
        (regard.documents(IDS) & regard.causal(), True), (regard.bias(torch.zeros(9, 9)), False),
        (regard.Mask() & torch.ones(9, 9).bool(), False), (regard.cut(3), False), (regard.cut(3, bias=1.0), True),
    ],
)  # fmt: skip
def test_whether_each_key_is_seen_from_its_place(mask, shown):
    assert bind(mask, (2, 1, 9, 9), HERE, False).shows_every_key == shown


def test_what_is_plain_causal_and_what_depends_on_the_distance_alone():
    for mask, plain, bands in (
        (regard.causal(), True, True), (regard.causal(1), False, True), (regard.window(1, 0), False, True),
        (regard.causal([0, 0]), False, True), (regard.causal() & regard.causal(), False, True), (regard.Mask(), False, True),
        (regard.causal() & regard.padding([9, 9]), True, False), (regard.documents(IDS, KEY_IDS), False, False), (regard.cut(3), False, False),
        (regard.bias(LOW), False, False), (regard.Mask() & DENSE, False, False),
    ):  # fmt: skip
        assert (_bound(mask).plain_causal, _bound(mask).only_bands) == (plain, bands), mask


def test_the_blocks_of_a_mask():
    """As few as there are; what no triangle and rectangles can say is refused."""
    for mask, rows, found in (
        (regard.Mask(), range(9), [(range(9), range(12), None)]),
        (regard.causal(), range(9), [(range(9), range(9), "causal")]),
        (regard.causal(2), range(9), [(range(9), range(2), None), (range(9), range(2, 11), "causal")]),
        (regard.causal(-2), range(9), [(range(2, 9), range(7), "causal")]),
        (regard.causal(-9), range(9), []),
        (regard.causal(6), range(9), [(range(6), range(6), None), (range(6), range(6, 12), "causal"), (range(6, 9), range(12), None)]),
        (regard.causal(11), range(9), [(range(1), range(11), None), (range(1), range(11, 12), "causal"), (range(1, 9), range(12), None)]),
        (regard.causal(12), range(9), [(range(9), range(12), None)]),
        (regard.causal(3) & regard.causal(), range(4, 6), [(range(4, 6), range(4), None), (range(4, 6), range(4, 6), "causal")]),
        (regard.cut(slice(3, 5), slice(2, 4)), range(9), [(range(3), range(12), None), (range(3, 5), range(2), None), (range(3, 5), range(4, 12), None), (range(5, 9), range(12), None)]),
        (regard.cut(None, slice(0, 3)) & regard.cut(None, slice(2, 5)), range(9), [(range(9), range(5, 12), None)]),
        (regard.cut(slice(0, 4)), range(9), [(range(4, 9), range(12), None)]),
        (regard.cut(within=regard.window(2, None)), range(9), [(range(3, 9), range(6), "causal")]),
        (regard.causal(5) & regard.cut(within=regard.window(2, 0)), range(4), [(range(3, 4), range(1), "causal"), (range(4), range(12), ((None, 0, 5), (1, None, 0)))]),
    ):  # fmt: skip
        blocks = in_blocks(_bound(mask), rows, KEYS)
        said = [(b.rows, b.columns, "causal" if b.mask is CAUSAL else b.mask and b.mask.bands) for b in blocks]
        assert [(r, c, None if m is None else m) for r, c, m in said] == found, mask
    for mask in (
        regard.window(2, 0), regard.window(2, None), regard.causal([1, 2]), regard.padding([3, 4]), regard.bias(LOW), regard.cut(3, bias=1.0),
        regard.cut(3, 2, heads=[0]), regard.cut(ROWS, 3), regard.cut(3, slice(2, 4), within=regard.causal()),
    ):  # fmt: skip
        assert in_blocks(_bound(mask), range(9), KEYS) is None, mask
    for rows in (range(0, 9, 2), torch.arange(9)):
        assert in_blocks(_bound(regard.causal()), rows, KEYS) is None
        assert in_pieces(_bound(regard.causal()), rows) is None


def test_evenly_spaced_indices_are_a_range():
    like = torch.zeros(1)
    for indices, found in (
        ([], range(0)), ([4], range(4, 5)), ([2, 3, 4], range(2, 5)), ([1, 4, 7], range(1, 10, 3)), (range(3, 9, 2), range(3, 9, 2)),
        ([0, 1], range(2)), ([1, 2, 4], None), ([3, 2, 1], None), ([1, 1], None),
    ):  # fmt: skip
        positions = as_range(indices, like)
        assert positions == found if found is not None else positions.tolist() == list(indices)


def test_key_heads_of_a_selection():
    scores = make_scores(torch.zeros(1, 6, 2, 1), torch.zeros(1, 3, 2, 1), None, None, None, None)
    for heads, found in (
        (range(6), [0, 1, 2]), ([2, 3], [1]), ([0, 2, 4], [0, 1, 2]), ([0, 2, 3], [0, 1, 1]), ([3], [1]), ([], []), ([2, 0], [1, 0]), ([0, 2, 1, 3], [0, 1, 0, 1]),
    ):  # fmt: skip
        assert scores.key_heads(heads) == found, heads


def test_masks_are_written_as_they_were_made():
    for text in (
        "causal()", "causal(offset=-2)", "causal(offset=[1, 2])", "window(2, 0)", "window(None, 3)", "window(2, None, offset=1)", "window(-1, 4)",
        "padding([3, 5])", "documents([7, 7, 9])", "causal() & padding([1])", "cut(3, 4)", "cut(None, slice(2, 9))", "cut(slice(1, None), 0)",
        "cut(2, None, within=causal(offset=1), heads=[0, 3])", "cut(None, None, bias=-2.5)", "cut(slice(0, 2), 5, heads=[1], bias=1)",
    ):  # fmt: skip
        assert repr(eval(text, vars(regard))) == text
    assert repr(regard.Mask()) == "None"
    assert repr(regard.padding(torch.tensor([1, 2, 3, 4]))) == "padding([1, 2, 3, 4])"
    assert repr(regard.padding(torch.tensor([1] * 5))) == "padding(int64[5])"
    assert repr(regard.bias(torch.zeros(1, 2)) & torch.ones(2).bool()) == "bias(float32[1, 2]) & visible([True, True])"
    assert (
        repr(regard.cut(torch.ones(5).bool(), 1, heads=torch.ones(2).bool())) == "cut(bool[5], 1, heads=[True, True])"
    )


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16], ids=str)
@pytest.mark.parametrize("shape", [(), (4,), (2, 4), (1, 2, 4)], ids=str)
def test_every_stage_of_every_part_is_the_definitions(shape, dtype):
    torch.manual_seed(0)
    key_shape = (*shape[:-1], 2) if shape else ()
    q, k = torch.randn(*shape, 9, 3).to(dtype), torch.randn(*key_shape, 12, 3).to(dtype)
    mask = regard.Mask() & torch.randn(*shape, 9, 12) & (torch.rand(*shape, 9, 12) < 0.7)
    options = {"mask": mask, "scale": -1.5, "softcap": 2.0, "sinks": torch.randn(shape[1:] or shape)}
    scores, expected = make_scores(q, k, **options), Reference(q, k, **options)
    limit = 1e-12 if dtype == torch.float64 else 1e-5
    for name in ("scores", "scaled", "capped", "masked"):
        found = scores.stage(name)
        assert found.dtype == scores.working_dtype == (dtype if dtype == torch.float64 else torch.float32)
        whole = torch.from_numpy(getattr(expected, name)).reshape(found.shape)
        torch.testing.assert_close(found.double(), whole, atol=limit, rtol=limit)
        places = torch.cartesian_prod(*map(torch.arange, scores.shape)).unbind(-1)
        points = scores.points(name, places).double()
        torch.testing.assert_close(points, whole.flatten(), atol=limit, rtol=limit)
        if scores.shape[1] == 4:
            part = scores.select([0], [3, 1], range(2, 9, 3), torch.tensor([11, 0]))
            torch.testing.assert_close(
                part.stage(name).double(), whole[:1, [3, 1], 2::3][..., [11, 0]], atol=limit, rtol=limit
            )


@pytest.mark.parametrize("softcap", [None, 2.0])
@pytest.mark.parametrize("sinks", [None, 0.5])
def test_nan_is_removed_from_queries_that_see_nothing_and_from_no_other(sinks, softcap):
    shown = torch.ones(4, 5).bool()
    shown[2] = False
    q = torch.full((1, 1, 4, 2), torch.nan)
    scores = make_scores(q, torch.ones(1, 1, 5, 2), shown, None, softcap, sinks)
    lse = torch.full((1, 1, 4), torch.nan)
    lse[..., 2] = -torch.inf if sinks is None else sinks
    assert scores.seeing(lse).query.isnan().all(-1).flatten().tolist() == [True, True, False, True]
    plain = make_scores(q, torch.ones(1, 1, 5, 2), regard.causal(), None, softcap, sinks)
    assert plain.seeing(lse) is plain  # every query sees a key


def test_values_are_frozen():
    mask = regard.causal() & regard.padding([3]) & regard.documents([0, 1]) & torch.ones(2, 2).bool() & regard.cut(1)
    bound = bind(mask, (1, 1, 2, 2), HERE, False)
    for value in (
        mask,
        *mask.atoms,
        bound,
        *bound.cuts,
        make_scores(torch.ones(1, 1, 2, 2), torch.ones(1, 1, 2, 2), mask, None, None, None),
    ):
        name = next(iter(vars(value)))
        with pytest.raises(FrozenInstanceError):
            setattr(value, name, None)
    assert mask != regard.Mask(mask.atoms)  # known by itself: it holds tensors
