"""`MatrixFeed`: tiles are parts of the matrix, exact or pooled, however long it is."""

import gc
import threading
import time

import numpy as np
import pytest
import torch

import regard
from regard.drawing import Window, landscape, lines
from regard.drawing import matrix as drawn_matrix
from regard.drawing.arguments import pooling_note, spans
from regard.drawing.maps import landmarks
from regard.maps import feed as map_feed
from regard.maps import levels as map_levels
from regard.maps.feed import MapEntry, MatrixFeed
from regard.maps.levels import Bins

MASKS = {
    "none": lambda: None,
    "causal": regard.causal,
    "window": lambda: regard.window(30, 5),
    "padding": lambda: regard.padding([250]),
    "documents": lambda: regard.documents(torch.arange(300) // 120),
    "bias": lambda: regard.bias(torch.randn(300, 300)),
    "cut": lambda: regard.causal() & regard.cut(slice(210, 240), slice(195, 230)) & regard.cut(250, 240, bias=-2.0),
}


def matrix(queries=300, keys=None, heads=2, width=8, seed=0, **options):
    generator = torch.Generator().manual_seed(seed)
    keys = queries if keys is None else keys
    query = torch.randn(1, heads, queries, width, generator=generator) * 1.5
    key = torch.randn(1, options.pop("key_heads", heads), keys, width, generator=generator)
    return regard.AttentionMatrix(query, key, **options).part[0]


def feed_of(*matrices, **options):
    return MatrixFeed(
        [MapEntry(A, range(len(A)), f"layer {n}", "encoder", n) for n, A in enumerate(matrices)], **options
    )


@pytest.fixture
def short_is_long(monkeypatch):
    """A few hundred tokens are swept as a million would be: in bands, in the background."""
    monkeypatch.setattr(map_feed, "FINEST", 4)
    monkeypatch.setattr(map_levels, "FINEST", 4)
    monkeypatch.setattr(map_levels, "_BAND", 3)
    monkeypatch.setattr(map_feed, "_NOW", 0)


def swept(feed, heads):
    """Once the levels of these heads are there."""
    feed.tile(heads, (0, feed.queries), (0, feed.keys), (1, 1))
    deadline = time.monotonic() + 60
    while feed.ready(heads) < 1 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert feed.ready(heads) == 1.0


class TestTiles:
    @pytest.mark.parametrize("name", MASKS)
    def test_a_bin_for_each_token_gives_the_weights(self, name):
        A = matrix(mask=MASKS[name]())
        found = feed_of(A).tile([(0, 1)], (200, 260), (190, 300), (60, 110))
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, A.to_dense()[1, 200:260, 190:300].numpy(), atol=1e-6)

    @pytest.mark.parametrize("name", MASKS)
    def test_fewer_bins_are_a_pool_of_the_part(self, name):
        A = matrix(mask=MASKS[name](), softcap=2.0, sinks=torch.tensor([0.5, -1.0]))
        found = feed_of(A).tile([(0, 0)], (7, 207), (100, 293), (64, 50))
        np.testing.assert_allclose(found, A.part[0, 7:207, 100:293].pool(64, 50).numpy(), atol=1e-6)

    def test_several_heads_are_their_mean(self):
        A, B = matrix(heads=4, key_heads=2, seed=1), matrix(heads=3, seed=2, mask=regard.causal())
        heads = [(0, 3), (1, 0), (0, 0), (0, 1), (1, 2)]
        found = feed_of(A, B).tile(heads, (0, 300), (0, 300), (30, 30))
        pools = [A.pool(30, 30)[[0, 1, 3]], B.pool(30, 30)[[0, 2]]]
        np.testing.assert_allclose(found, torch.cat(pools).mean(0).numpy(), atol=1e-6)

    def test_heads_have_their_own_numbers(self):
        A = matrix()
        feed = MatrixFeed([MapEntry(A, [8, 5])])
        np.testing.assert_allclose(feed.tile([(0, 5)], (0, 3), (0, 3), (3, 3)), A[1, :3, :3].numpy(), atol=1e-6)

    def test_past_the_last_token(self):
        A = matrix(queries=21, keys=10)
        found = feed_of(A).tile([(0, 0)], (16, 32), (0, 16), (4, 4))
        dense = A[0].double().numpy()
        assert found[0] == pytest.approx([*dense[16:20, :8].reshape(4, 2, 4).mean((0, 2)), dense[16:20, 8:].mean(), 0])
        assert found[1, 2] == pytest.approx(float(dense[20:, 8:].mean()))
        assert (found[2:] == 0).all()

    def test_only_its_own_rows_are_normalised(self, monkeypatch):
        seen = []
        lse = regard.backends.logsumexp
        monkeypatch.setattr(regard.backends, "logsumexp", lambda scores: seen.append(scores.shape) or lse(scores))
        A = matrix()
        feed = feed_of(A)
        for _ in range(2):
            feed.tile([(0, 0)], (100, 110), (50, 60), (10, 10))
        assert seen == [(1, 1, 10, 300)]

    def test_of_a_matrix_under_gradients(self):
        query = torch.randn(1, 20, 4, requires_grad=True)
        found = feed_of(regard.AttentionMatrix(query, torch.randn(1, 20, 4))).tile([(0, 0)], (0, 20), (0, 20), (20, 20))
        assert found.sum() == pytest.approx(20)

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"heads": [(0, 7)]}, r"Got \(0, 7\)"),
            ({"heads": [(3, 0)]}, r"Got \(3, 0\)"),
            ({"heads": []}, "at least one head"),
            ({"rows": (-1, 5)}, "rows of a tile"),
            ({"rows": (300, 305)}, "starts below 300"),
            ({"columns": (5, 5)}, "columns of a tile"),
            ({"bins": (6, 2)}, "at most stop - start bins"),
            ({"bins": (0, 2)}, r"\(0, 5\) in 0"),
            ({"rows": (0, 301)}, "bins of one size"),
        ],
    )
    def test_what_is_not_there(self, change, message):
        asked = {"heads": [(0, 0)], "rows": (0, 5), "columns": (0, 5), "bins": (2, 2)} | change
        with pytest.raises(regard.InputError, match=message):
            feed_of(matrix()).tile(**asked)

    def test_at_most_a_million_bins(self):
        with pytest.raises(regard.InputError, match="at most 1,048,576 bins"):
            feed_of(matrix()).tile([(0, 0)], (0, 10**6), (0, 10**6), (10**6, 10**6))

    def test_as_many_bins_as_that(self, monkeypatch):
        monkeypatch.setattr(map_feed, "_BINS", 100)
        assert feed_of(matrix()).tile([(0, 0)], (0, 20), (0, 20), (10, 10)).shape == (10, 10)
        with pytest.raises(regard.InputError, match=r"at most 100 bins\. Got 10 × 11"):
            feed_of(matrix()).tile([(0, 0)], (0, 20), (0, 22), (10, 11))

    def test_only_keys_that_a_window_shows_are_computed(self):
        """Elsewhere a tile is 0 at once; a part of a matrix counts other keys."""
        A = matrix(mask=regard.window(5, 0))
        rows, columns = Bins(100, 120, 1, 20), Bins(0, 300, 1, 300)
        skipped, seen = map_feed._Weights(A)._seen(rows, columns)
        assert (skipped, seen.start, seen.stop) == (95, 95, 120)
        assert map_feed._Weights(A.part[..., 50:])._seen(rows, Bins(0, 250, 1, 250)) == (0, Bins(0, 250, 1, 250))


@pytest.mark.usefixtures("short_is_long")
class TestLevels:
    @pytest.mark.parametrize("name", MASKS)
    @pytest.mark.parametrize("bins", [(5, 7), (20, 14), (40, 28)])
    def test_they_are_the_pool(self, name, bins):
        A = matrix(mask=MASKS[name]())
        feed = feed_of(A)
        swept(feed, [(0, 0), (0, 1)])
        for rows, columns in (((0, 320), (0, 224)), ((160, 320), (96, 320))):
            size = (rows[1] - rows[0]) // bins[0], (columns[1] - columns[0]) // bins[1]
            found = feed.tile([(0, 0), (0, 1)], rows, columns, bins)
            dense = A.to_dense().mean(0).double().numpy()
            for i in range(bins[0]):
                for j in range(bins[1]):
                    top, left = rows[0] + i * size[0], columns[0] + j * size[1]
                    part = dense[top : top + size[0], left : left + size[1]]
                    expected = part.mean() if part.size else 0.0
                    assert found[i, j] == pytest.approx(expected, rel=1e-4, abs=1e-9)

    def test_edges_inside_of_a_bin_share_it(self):
        A = matrix()
        feed = feed_of(A)
        swept(feed, [(0, 0)])
        found = feed.tile([(0, 0)], (0, 300), (0, 300), (7, 7))
        np.testing.assert_allclose(found, A.pool(7, 7)[0].numpy(), rtol=0.1)
        assert found.mean() == pytest.approx(1 / 300, rel=1e-3)

    def test_bins_finer_than_any_level_are_computed_if_one_can_wait(self, monkeypatch):
        A = matrix(mask=regard.causal())
        monkeypatch.setattr(map_levels, "_BINS", 10)  # so that the finest level has 32 tokens a bin
        feed, exact = feed_of(A), A.part[0, :240, :160].pool(30, 20).numpy()
        np.testing.assert_allclose(feed.tile([(0, 0)], (0, 240), (0, 160), (30, 20)), exact, atol=1e-6)
        monkeypatch.setattr(map_feed, "_WAIT", 100)
        swept(feed, [(0, 0)])
        shared = feed.tile([(0, 0)], (0, 240), (0, 160), (30, 20))
        assert shared.sum() == pytest.approx(exact.sum(), rel=0.1)
        assert np.abs(shared - exact).max() > 1e-3

    def test_rows_that_are_not_swept_are_not_there(self):
        levels = map_levels.Levels(100, 40, 4, lambda start, stop: np.full((-(-(stop - start) // 4), 10), start + 1.0))
        levels.sweep()
        assert levels.done == 0.12
        found = levels.tile((0, 100), (0, 40), (25, 1))[:, 0]
        assert found[:3].tolist() == [1.0, 1.0, 1.0]
        assert np.isnan(found[3:]).all()
        levels.sweep()
        assert levels.tile((0, 100), (0, 40), (25, 1))[3:7, 0].tolist()[:3] == [13.0, 13.0, 13.0]

    def test_deep_tiles_do_not_wait(self, monkeypatch):
        A = matrix()
        feed, hold = feed_of(A), threading.Event()
        sweep = map_levels.Levels.sweep
        monkeypatch.setattr(map_levels.Levels, "sweep", lambda levels: hold.wait(30) and sweep(levels))
        assert np.isnan(feed.tile([(0, 0)], (0, 300), (0, 300), (5, 5))).all()
        assert feed.ready() == 0.0
        assert feed.ready([(0, 1)]) == 1.0  # nobody waits for it
        np.testing.assert_allclose(feed.tile([(0, 0)], (0, 3), (0, 3), (3, 3)), A[0, :3, :3].numpy(), atol=1e-6)
        hold.set()
        swept(feed, [(0, 0)])

    def test_what_goes_wrong_in_the_background_is_said(self):
        query = torch.randn(1, 300, 4)
        feed = feed_of(regard.AttentionMatrix(query, torch.randn(1, 300, 4)))
        query += 1
        feed.tile([(0, 0)], (0, 300), (0, 300), (5, 5))
        with pytest.raises(regard.ModifiedInPlaceError):
            swept(feed, [(0, 0)])

    def test_a_feed_that_is_gone_ends_its_sweep(self, monkeypatch):
        hold = threading.Event()
        monkeypatch.setattr(map_levels.Levels, "sweep", lambda levels: hold.wait(30))
        feed = feed_of(matrix())
        feed.tile([(0, 0)], (0, 300), (0, 300), (5, 5))
        (thread,) = [each for each in threading.enumerate() if each.name == "regard map"]
        del feed
        gc.collect()
        hold.set()
        thread.join(10)
        assert not thread.is_alive()

    def test_the_last_choices_are_kept(self, monkeypatch):
        feed = feed_of(matrix())
        swept(feed, [(0, 0)])
        size = feed._sweeps.levels(((0, 0),), lambda: None, True).bytes
        monkeypatch.setattr(map_levels, "_KEPT", size + 1)
        swept(feed, [(0, 1)])
        assert list(feed._sweeps._levels) == [((0, 1),)]

    def test_what_is_there_is_not_swept_again(self, monkeypatch):
        feed = feed_of(matrix())
        swept(feed, [(0, 0)])
        while feed._sweeps._thread is not None:
            time.sleep(0.01)
        monkeypatch.setattr(map_levels.threading, "Thread", None)
        assert np.isfinite(feed.tile([(0, 0)], (0, 300), (0, 300), (1, 1))).all()


class TestTokens:
    def test_as_they_read(self):
        feed = feed_of(matrix(3), rows=["▁A", "▁hun", "gry"], columns=["x", "y", "z"])
        assert feed.tokens("rows", 0, 3) == [" A", " hun", "gry"]
        assert feed.tokens("columns", 1, 3) == [" y", " z"]
        assert feed.find("rows", "Hungry") == [1]
        assert feed.find("columns", "hungry") == []
        assert feed.about()["same"] is False

    def test_one_text_on_both_sides(self):
        words = ["a", "b", "c"]
        assert feed_of(matrix(3), rows=words, columns=words).about()["same"] is True
        assert feed_of(matrix(3)).about()["same"] is True
        assert feed_of(matrix(3, 4)).about()["same"] is False

    def test_numbers_where_they_are_unknown(self):
        feed = feed_of(matrix(30))
        assert feed.tokens("rows", 28, 30) == [" 28", " 29"]
        assert feed.find("rows", "28") == []

    @pytest.mark.parametrize("span", [(-1, 2), (0, 301), (5, 4)])
    def test_outside(self, span):
        with pytest.raises(regard.InputError, match="at most 4,096 at once"):
            feed_of(matrix()).tokens("rows", *span)
        with pytest.raises(regard.InputError, match="'rows', 'columns'"):
            feed_of(matrix()).tokens("left", 0, 1)
        wide = feed_of(matrix(30, 50))
        assert wide.tokens("columns", 48, 50) == [" 48", " 49"]
        with pytest.raises(regard.OutOfRangeError, match="in 0 to rows = 30"):
            wide.tokens("rows", 28, 31)


class TestAbout:
    def test_what_it_shows(self):
        about = feed_of(matrix(5, 4), matrix(5, 4), title="A title").about()
        assert about["title"] == "A title"
        assert (about["queries"], about["keys"], about["exact"]) == (5, 4, "float32")
        assert about["entries"][1] == {"name": "layer 1", "kind": "encoder", "layer": 1, "heads": [0, 1]}

    @pytest.mark.parametrize(
        "entries",
        [[], [MapEntry(matrix(5), [0, 1]), MapEntry(matrix(6), [0, 1])], [MapEntry(matrix(5), [0])]],
        ids=["none", "two sizes", "heads without a number"],
    )
    def test_what_is_no_map(self, entries):
        with pytest.raises(regard.ShapeError, match="same queries and keys"):
            MatrixFeed(entries)

    def test_words_for_each_token(self):
        with pytest.raises(regard.ShapeError, match=r"columns must name each token: 4\. Got 1"):
            feed_of(matrix(5, 4), columns=["a"])


class TestPictures:
    """`A.picture` hands the right numbers and words to the drawing."""

    WORDS, KEYS = [f"w{n}" for n in range(100)], [f"k{n}" for n in range(100)]

    def test_each_kind_is_the_drawing_of_the_numbers(self):
        A = matrix(100, heads=3)
        few, dense = A.part[..., :20, :20], A.to_dense().double().numpy()
        w, k = self.WORDS[:20], self.KEYS[:20]
        some = dense[:, :20, :20]
        assert (
            few.picture(w, columns=k, heads=[2], title="T").to_svg() == lines(some, w, k, heads=[2], title="T").to_svg()
        )
        assert few.picture(w, pick="w3").to_svg() == lines(some, w, w, pick="w3").to_svg()
        found = few.picture(w, "matrix", columns=k, heads=[0, 2], title="T")
        assert found.to_svg() == drawn_matrix(some, w, k, heads=[0, 2], title="T").to_svg()
        pool, note = A.pool(64, 64).double().numpy(), pooling_note((100, 100), (64, 64))
        for words, columns in ((self.WORDS, None), (None, None), (self.WORDS, self.KEYS)):
            numbers = [f"{n:,}" for n in range(100)]
            names = [spans(each or numbers, 64) for each in (words, columns if columns else words)]
            found = A.picture(words, "matrix", columns=columns, heads=[1, 2], title="T")
            assert found.to_svg() == drawn_matrix(pool, *names, heads=[1, 2], title="T", caption=note).to_svg()

    def test_a_map_is_the_landscape_of_the_pool(self):
        A = matrix(300, heads=3)
        dense, words = A.to_dense().double().numpy(), [f" w{n} " for n in range(300)]
        for heads, said in ((None, "The mean of 3 heads."), ([1, 2], "The mean of 2 heads."), ([2], "Head 2.")):
            some = list(range(3)) if heads is None else heads
            names = [word.strip() for word in words]
            window = Window((5, 295), dense[some, 5:15, 295:].mean(0), words[5:15], words[295:])
            pool = A.pool(192, 192)[some].double().mean(0).numpy()
            expected = landscape(pool, (300, 300), landmarks=landmarks(names), window=window, title="T", caption=said)
            found = A.picture(words, heads=heads, window=(5, 295), title="T")
            assert found.to_svg() == expected.to_svg()
            assert [tuple(entry["heads"]) for entry in found.feed.about()["entries"]] == [tuple(some)]
            assert (found.feed.title, found.feed.about()["same"], found.feed.tokens("rows", 1, 2)) == (
                "T",
                True,
                [" w1 "],
            )
        other = A.part[0].picture(words, columns=self.KEYS * 3, window=(298, 0))
        assert other.feed.tokens("columns", 1, 2) == [" k1"]
        assert other.numbers["window"].shape == (2, 10)
        assert A.part[0, :2, :2].picture(kind="map").numbers["pool"].shape == (2, 2)
        assert ">298<" in A.part[0].picture(window=(298, 295)).to_svg()

    @pytest.mark.parametrize(
        ("queries", "keys", "window"),
        [(300, 200, (0, 200)), (300, 200, (300, 0)), (300, 200, (-1, 0)), (300, 200, (0, -1))],
    )
    def test_a_window_begins_inside(self, queries, keys, window):
        with pytest.raises(regard.InputError, match=r"\(queries, keys\) = \(300, 200\)"):
            matrix(queries, keys).picture(window=window)

    def test_lines_join_at_most_200_words(self):
        with pytest.raises(regard.TooLargeError, match=r"200 words on a side\. Got 201 and 3"):
            matrix(201, 3).picture(kind="lines")
        assert matrix(200, 3).picture(kind="lines").kind == "lines"


def test_what_does_not_fit_together_is_named():
    with pytest.raises(regard.ShapeError, match=r"Got \(2, 5, 5\), \(2, 6, 6\)\."):
        feed_of(matrix(5), matrix(6))
    with pytest.raises(regard.ShapeError, match=r"Got none\."):
        MatrixFeed([])
    with pytest.raises(regard.ShapeError, match=r"at least 1 query and 1 key. Got 0 and 5"):
        feed_of(matrix(5).part[:, :0])
    for A, heads, found in ((matrix(5), None, [0, 1]), (matrix(5), [1], [1]), (matrix(5).part[0], None, [0])):
        entry = MapEntry.from_matrix(A, heads)
        assert (list(entry.heads), tuple(entry.matrix.shape)) == (found, (len(found), 5, 5))
    assert torch.equal(MapEntry.from_matrix(matrix(5), [1]).matrix.to_dense(), matrix(5)[1:])


def test_bins_of_a_range():
    for bins, runs in (
        (Bins.cut("rows", (0, 10), 5, 20), [(0, slice(0, 10), 5)]),
        (Bins.cut("rows", (0, 10), 3, 20), [(0, slice(0, 10), 3)]),  # of unequal size: one pool
        (Bins.cut("rows", (16, 32), 4, 21), [(0, slice(0, 4), 1), (1, slice(4, 5), 1)]),
        (Bins.cut("rows", (16, 32), 4, 24), [(0, slice(0, 8), 2)]),
        (Bins.cut("rows", (16, 32), 2, 21), [(0, slice(0, 5), 1)]),
    ):  # fmt: skip
        assert list(bins.runs()) == runs
    whole = Bins.cut("rows", (100, 200), 5, 190)
    assert (whole.start, whole.stop, whole.size, whole.bins, whole.tokens) == (100, 190, 20.0, 5, 90)
    for first, end, low, start, stop, count in (
        (0, 999, 0, 100, 190, 5), (100, 190, 0, 100, 190, 5), (120, 140, 1, 120, 140, 1), (119, 141, 0, 100, 160, 3), (185, 186, 4, 180, 190, 1),
        (150, 150, 2, 140, 160, 1), (140, 140, 2, 140, 140, 0), (0, 50, 0, 100, 100, 0), (500, 600, 5, 190, 190, 0),
    ):  # fmt: skip
        assert whole.within(first, end) == (low, Bins(start, stop, 20.0, count)), (first, end)
    uneven = Bins.cut("rows", (0, 10), 3, 20)
    assert uneven.within(4, 5) == (0, uneven)
    for span, count, tokens, said in (
        ((20, 21), 1, 20, "starts below 20"), ((5, 4), 1, 20, "in at most"), ((0, 4), 5, 20, "Got \\(0, 4\\) in 5"), ((0, 4), 0, 20, "in 0"),
        ((10, 21), 2, 20, "past the last token, 20, take bins of one size"),
    ):  # fmt: skip
        with pytest.raises(regard.OutOfRangeError, match=f"^rows .*{said}"):
            Bins.cut("rows", span, count, tokens)
    assert Bins.cut("rows", (0, 4), 4, 20).bins == 4
    assert Bins.cut("rows", (10, 20), 3, 20).stop == 20


def test_sizes_of_levels():
    for queries, keys, size in ((1, 1, 32), (131_072, 1, 32), (131_073, 1, 64), (1, 262_145, 128), (10**6, 10**6, 256)):
        assert map_levels.level_size(queries, keys) == size

    def nothing(start, stop):
        return np.zeros((4, 3))

    levels = map_levels.Levels(100, 70, 32, nothing)
    assert levels.bytes == 4 * (4 * 3 + 2 * 2 + 1)
    assert levels._step == 64 * 32  # rows of a band
    assert map_levels.Levels(10**6, 10**6, 256, nothing)._step == 256  # at most 2**26 weights, at least one bin
    assert map_levels.Levels(10**5, 2**17, 32, nothing)._step == 16 * 32
