"""The numbers of a map in a real browser equal Python's: a file computes any weight from rounded queries and keys."""

import base64
import zlib

import numpy as np
import pytest
import torch
from support.browser import in_browser

import regard
from regard.drawing.viewer import page
from regard.maps import MapEntry, MatrixFeed, packing

TOKENS = 60  # as many rows as the error is measured on, so that it bounds every weight


def decoded(block):
    """The array of a block, as the page reads it."""
    planes = np.frombuffer(zlib.decompress(base64.b85decode(block.text.replace(",", "<"))), np.uint8)
    dtype = np.dtype(block.dtype).newbyteorder("<")
    return np.ascontiguousarray(planes.reshape(dtype.itemsize, -1).T).view(dtype).reshape(block.shape)


def numbers(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)) * 1.5


def distances():
    return torch.arange(TOKENS) - torch.arange(TOKENS)[:, None]


CASES = {
    "no mask": {},
    "causal": {"mask": regard.causal()},
    "window": {"mask": regard.window(7, 2)},
    "two bands": {"mask": regard.causal() & regard.window(20, None, offset=-3)},
    "offset of a batch": {"mask": regard.causal([5])},
    "padding": {"mask": regard.padding([41])},
    "documents": {"mask": regard.documents((torch.arange(TOKENS) // 17)[None]) & regard.causal()},
    "bools": {"mask": numbers(TOKENS, TOKENS) > -0.5},
    "bools of each head": {"mask": numbers(4, TOKENS, TOKENS) > -0.5},
    "a bias of each key": {"mask": regard.bias(numbers(4, 1, TOKENS))},
    "a bias of each query": {"mask": regard.bias(numbers(4, TOKENS, 1))},
    "a bias by distance": {"mask": regard.bias(numbers(4, 1, 1) * distances())},
    "a bias": {"mask": regard.bias(numbers(TOKENS, TOKENS).masked_fill(numbers(TOKENS, TOKENS, seed=1) < -1, -torch.inf))},
    "the least float hides": {"mask": regard.bias(torch.where(distances() > 0, torch.finfo(torch.float32).min, 0.0))},
    "cut links": {"mask": regard.causal() & regard.cut(slice(10, 30), slice(2, 8), heads=[0, 2]) & regard.cut(30, 12, bias=-2.0)},
    "scale": {"scale": 0.9},
    "a negative scale": {"scale": -0.2, "mask": regard.causal()},
    "softcap": {"softcap": 2.0, "mask": regard.causal()},
    "sinks": {"sinks": torch.tensor([0.5, -1.0, 2.0, -torch.inf]), "mask": regard.window(5, 0)},
    "a row that sees nothing": {"mask": regard.causal(-3)},
    "large scores": {"scale": 40.0},
    "large numbers": {"times": 1e6, "scale": 1e-12},
    "grouped heads": {"key_heads": 2, "mask": regard.causal(), "softcap": 3.0},
    "half precision": {"dtype": torch.bfloat16},
}  # fmt: skip


def problem(options):
    options = dict(options)
    times, key_heads = options.pop("times", 1.0), options.pop("key_heads", 4)
    dtype = options.pop("dtype", torch.float32)
    query, key = numbers(1, 4, TOKENS, 16, seed=2) * times, numbers(1, key_heads, TOKENS, 16, seed=3) * times
    return query.to(dtype), key.to(dtype), options


def rounded(tensor):
    """To the eleven binary digits of a float16, whatever its size."""
    fraction, exponent = torch.frexp(tensor.double())
    return torch.ldexp((fraction * 2**11).round() / 2**11, exponent)


@pytest.fixture
def opened(browser, tmp_path):
    """The page of a feed, from a file; at the end nothing must have been said to the console."""
    said = []
    context = browser.new_context(offline=True)

    def look(feed, before=""):
        tab = context.new_page()
        tab.add_init_script(before)
        tab.on("console", lambda message: said.append(message.text))
        tab.on("pageerror", lambda error: said.append(str(error)))
        path = tmp_path / "map.html"
        path.write_text(page(feed.packed(12_000_000)))
        tab.goto(path.as_uri())
        tab.wait_for_selector("#regard-map[data-state=idle]")
        return tab

    yield look
    context.close()
    assert said == []


def weights(tab, rows, columns, head=None):
    """What the page computes for some rows and columns."""
    found = tab.evaluate(
        """async ([rows, columns, head]) => {
            regardMap.setView({layer: "all", head});
            return [...await regardMap.weights(rows, columns)];
        }""",
        [list(rows), list(columns), head],
    )
    return np.array(found, float).reshape(rows[1] - rows[0], columns[1] - columns[0])


@in_browser
@pytest.mark.parametrize("name", CASES)
def test_weights_are_those_of_the_rounded_numbers(opened, name):
    query, key, options = problem(CASES[name])
    A = regard.AttentionMatrix(query, key, **options).part[0]
    exact = regard.AttentionMatrix(rounded(query), rounded(key), **options).part[0].to_dense().numpy()
    model = regard.AttentionMatrix(query.double(), key.double(), **options).part[0].to_dense().numpy()
    feed = MatrixFeed([MapEntry(A, range(4))])
    error = feed.packed(12_000_000).about["error"]
    assert np.abs(exact - model).max() <= error + 2e-6
    tab = opened(feed)
    for head in (0, 3):
        found = weights(tab, (0, TOKENS), (0, TOKENS), head)
        np.testing.assert_allclose(found, exact[head], atol=1e-5)
        assert np.abs(found - model[head]).max() <= error + 2e-6
        assert (found[exact[head] == 0] == 0).all()
        assert (found[exact[head] > 1e-40] > 0).all()
        if "sinks" not in options:
            sums = found.sum(-1)
            np.testing.assert_allclose(sums[sums > 0], 1, atol=1e-5)
    np.testing.assert_allclose(weights(tab, (7, 30), (11, 53), "all"), exact[:, 7:30, 11:53].mean(0), atol=1e-5)


@in_browser
@pytest.mark.parametrize("part", [np.s_[:, 10:50, 20:57], np.s_[1:3, ::2, 5::3], np.s_[3:, :, :30]], ids=str)
def test_a_part_keeps_its_place_and_its_normaliser(opened, part):
    query, key, options = problem({"mask": regard.causal() & regard.documents((torch.arange(TOKENS) // 25)[None])})
    whole = regard.AttentionMatrix(rounded(query), rounded(key), **options).part[0]
    A = regard.AttentionMatrix(query, key, **options).part[0].part[part]
    tab = opened(MatrixFeed([MapEntry(A, range(len(A)))]))
    exact = whole.to_dense()[part].numpy()
    np.testing.assert_allclose(weights(tab, (0, exact.shape[1]), (0, exact.shape[2]), "all"), exact.mean(0), atol=1e-5)


def read(packed, head):
    """The weights of a head by the rules of a file, as its page computes them; and its coarse level."""
    one = packed.about["heads"][head]
    array = {name: decoded(block).astype(float) for name, block in packed.blocks.items()}
    scores = array[one["query"]] @ array[one["key"]].T * one["scale"]
    scores = scores if one["softcap"] is None else one["softcap"] * np.tanh(scores / one["softcap"])
    mask, count = one["mask"], scores.shape
    row, column = (
        array[p["values"]] if "values" in p else p["start"] + p["step"] * np.arange(n)
        for p, n in ((mask["rows"], count[0]), (mask["columns"], count[1]))
    )
    apart, shown = column - row[:, None], np.ones(count, bool)
    for low, high in mask["bands"]:
        shown &= (apart >= (-np.inf if low is None else low)) & (apart <= (np.inf if high is None else high))
    for kept in mask["kept"]:
        shown &= array[kept] > 0
    for own, other in mask["ids"]:
        shown &= array[own][:, None] == array[other]
    for added in mask["added"]:
        values = array[added["values"]]
        assert added["by"] in ("rows", "columns", "distance", "both")
        if added["by"] == "distance":
            values = values[np.arange(count[1]) - np.arange(count[0])[:, None] + count[0] - 1]
        values = np.broadcast_to(values[:, None] if added["by"] == "rows" else values, count)
        if packed.blocks[added["values"]].dtype == "uint8":
            shown &= values > 0
        else:
            scores = scores + values
    weights = np.where(shown, np.exp(scores - array[one["normaliser"]][:, None]), 0.0)
    return weights, one.get("level"), array


@pytest.mark.parametrize("part", [np.s_[:, :, :], np.s_[:, 10:50, 20:57], np.s_[::3, ::2, 5::3]], ids=str)
@pytest.mark.parametrize("name", CASES)
def test_a_file_says_the_weights_of_the_rounded_numbers(name, part):
    """Read in Python; the page's own reading is held to them in a browser."""
    query, key, options = problem(CASES[name])
    A = regard.AttentionMatrix(query, key, **options).part[0].part[part]
    exact = regard.AttentionMatrix(rounded(query), rounded(key), **options).part[0].to_dense().numpy()
    model = regard.AttentionMatrix(query.double(), key.double(), **options).part[0].to_dense().numpy()
    packed = MatrixFeed([MapEntry(A, range(len(A)))]).packed(12_000_000)
    for head in range(len(A)):
        with np.errstate(invalid="ignore"):
            np.testing.assert_allclose(read(packed, head)[0], exact[part][head], atol=1e-5)
    apart = np.abs(exact - model)[part[:2]].max()  # of all keys of its rows
    assert packed.about["error"] == pytest.approx(apart, rel=0.05, abs=2e-6)
    assert packed.about["sample"] == exact[part].shape[1]
    assert packed.about["exact"] == "float16"  # of which the page computes its weights


def test_the_level_of_a_file_is_the_pool(monkeypatch):
    monkeypatch.setattr("regard.maps.feed._PACKED", 16)
    for queries, keys, size in ((50, 60, 4), (60, 16, 4), (64, 64, 4), (65, 20, 8), (17, 3, 2)):
        A = regard.AttentionMatrix(
            numbers(2, queries, 8), numbers(2, keys, 8, seed=1), mask=regard.causal(keys - queries - 1)
        )
        packed = MatrixFeed([MapEntry(A, [0, 1])]).packed(10**7)
        weights, level, array = read(packed, 1)
        rows, columns = -(-queries // size), -(-keys // size)
        assert level["size"] == size
        values = array[level["values"]]
        assert values.shape == (rows, columns)
        means = np.array(
            [[weights[i * size :][:size, j * size :][:, :size].mean() for j in range(columns)] for i in range(rows)]
        )
        found = np.where(values == 0, 0.0, level["low"] * (level["high"] / level["low"]) ** ((values - 1) / 253))
        np.testing.assert_allclose(found, means, rtol=0.03)
        assert level["high"] == pytest.approx(means.max(), rel=1e-4)
        assert level["low"] == pytest.approx(means[means > 0].min(), rel=1e-4)
    assert MatrixFeed([MapEntry(A, [0, 1])]).packed(10**7).about["heads"][0].keys() >= {"level"}
    A = regard.AttentionMatrix(numbers(1, 16, 8), numbers(1, 16, 8))
    assert "level" not in MatrixFeed([MapEntry(A, [0])]).packed(10**7).about["heads"][0]
    hot = regard.AttentionMatrix(
        torch.tensor([[[20.0]], [[torch.nan]]]).expand(2, 20, 1), torch.eye(20)[:, :1][None].expand(2, 20, 1)
    )
    packed = MatrixFeed([MapEntry(hot, [0, 1])]).packed(10**7)
    _, level, array = read(packed, 0)
    assert level["low"] == pytest.approx(level["high"] / 10**6)  # what is smaller is drawn as that
    assert array[level["values"]][0].tolist() == [254] + 9 * [1]
    _, level, array = read(packed, 1)
    assert (array[level["values"]] == 255).all()  # NaN


def pooled(tab, rows, columns, bins):
    found = tab.evaluate(
        "async ([rows, columns, bins]) => [...await regardMap.pooled(rows, columns, bins)]", [rows, columns, bins]
    )
    return np.array(found, float).reshape(bins)


@in_browser
@pytest.mark.parametrize("mask", [None, regard.causal(), regard.window(300, 100)], ids=str)
def test_coarse_tiles_are_the_pool(opened, mask):
    """Beyond 1,024 tokens a file has a level of bins; finer ones are computed by a worker, coarser ones summed."""
    tokens = 2100
    query, key = numbers(1, tokens, 16), numbers(1, tokens, 16, seed=1)
    A = regard.AttentionMatrix(query, key, mask=mask)
    dense = regard.AttentionMatrix(rounded(query), rounded(key), mask=mask).to_dense()[0].numpy()
    tab = opened(MatrixFeed([MapEntry(A, [0])]))
    for size, error in ((2, 1e-5), (4, 0.03), (16, 0.03)):
        bins = 2304 // size // 3  # a third of the matrix and more, past its last token
        start, stop = 2304 // 3 * 2, 2304
        found = pooled(tab, [start, stop], [start, stop], [bins, bins])
        sums, there = np.zeros((2, stop - start, stop - start))
        sums[: tokens - start, : tokens - start], there[: tokens - start, : tokens - start] = dense[start:, start:], 1
        sums, counts = (each.reshape(bins, size, bins, size).sum((1, 3)) for each in (sums, there))
        np.testing.assert_allclose(found, sums / np.maximum(counts, 1), rtol=error, atol=1e-9)


@in_browser
@pytest.mark.parametrize(
    "before",
    [
        "delete window.Worker",
        "window.Worker = class {postMessage() {setTimeout(() => this.onerror(new Event('error')))}}",
    ],
    ids=["none", "refused"],
)
def test_without_workers_it_is_computed_in_slices(opened, before):
    A = regard.AttentionMatrix(numbers(1, 800, 16), numbers(1, 800, 16, seed=1))
    tab = opened(MatrixFeed([MapEntry(A, [0])]), before)
    found = pooled(tab, [0, 800], [0, 800], [200, 200])
    np.testing.assert_allclose(found, A.pool(200, 200)[0].numpy(), atol=1e-3)


class TestPacked:
    def feed(self, heads=6, tokens=200, **options):
        return MatrixFeed(
            [
                MapEntry(
                    regard.AttentionMatrix(numbers(heads, tokens, 16), numbers(heads, tokens, 16), **options),
                    range(heads),
                )
            ]
        )

    def test_as_many_heads_as_fit_are_inside(self):
        feed = self.feed()
        all_of_it = sum(len(block.text) for block in feed.packed(12_000_000).blocks.values())
        packed = feed.packed(all_of_it * 6 // 10)
        assert packed.about["entries"][0]["heads"] == [0, 1, 2]
        assert packed.about["left_out"] == 3
        assert sum(len(block.text) for block in packed.blocks.values()) <= all_of_it * 6 // 10

    def test_a_head_fits_into_as_many_bytes_as_it_has(self):
        A = regard.AttentionMatrix(numbers(1, 50, 16), numbers(1, 50, 16))
        one, blocks = packing.Rounded.from_head(A._core, 0), packing.Blocks()
        feed = MatrixFeed([MapEntry(A, [0])])
        assert feed._packed_head(one, blocks, 10**6)
        assert feed._packed_head(one, packing.Blocks(), blocks.size)
        assert feed._packed_head(one, packing.Blocks(), blocks.size - 1) is None

    def test_keys_of_grouped_heads_are_there_once(self):
        query, key = numbers(1, 4, 50, 16), numbers(1, 2, 50, 16)
        A = regard.AttentionMatrix(query, key).part[0]
        heads = MatrixFeed([MapEntry(A, range(4))]).packed(10**7).about["heads"]
        assert [head["key"] == heads[0]["key"] for head in heads] == [True, True, False, False]

    def test_not_even_one_head(self):
        with pytest.raises(regard.TooLargeError, match="regard serve"):
            self.feed().packed(1000)

    def test_how_large_a_dense_mask_may_be(self):
        packing._check_size(4096, 4096)
        with pytest.raises(regard.TooLargeError, match=r"4,096 × 4,097 .* up to 16,777,216 numbers"):
            packing._check_size(4096, 4097)

    def test_a_dense_mask_that_is_too_large(self, monkeypatch):
        monkeypatch.setattr("regard.maps.packing._DENSE", 100 * 100)
        with pytest.raises(regard.TooLargeError, match=r"200 × 200 that follows no rule.*regard serve --record"):
            self.feed(mask=numbers(200, 200) > 0).packed(10**7)
        rule = torch.arange(200) - torch.arange(200)[:, None]
        assert (
            self.feed(mask=regard.bias(rule.float())).packed(10**7).about["heads"][0]["mask"]["added"][0]["by"]
            == "distance"
        )

    def test_what_is_packed_can_be_read(self):
        packed = self.feed().packed(10**7)
        for block in packed.blocks.values():
            array = decoded(block)
            assert array.shape == block.shape
            assert array.dtype == block.dtype

    def test_nothing_in_the_blocks_is_markup(self):
        html = page(self.feed().packed(10**7))
        assert html.count("<script") == html.count("</script>")
        for block in self.feed().packed(10**7).blocks.values():
            assert not {"<", '"'} & set(block.text)

    def test_unseen_keys_may_be_anything(self):
        query, key = numbers(1, 20, 8), numbers(1, 20, 8)
        key[:, 15:] = torch.nan
        A = regard.AttentionMatrix(query, key, mask=regard.padding(15))
        packed = MatrixFeed([MapEntry(A, [0])]).packed(10**7)
        assert all(np.isfinite(decoded(block)).all() for block in packed.blocks.values() if block.dtype != "uint8")
        assert packed.about["error"] < 1e-2
