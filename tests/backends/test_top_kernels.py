"""The kernels of `top`: classes, tags, short rows and segments, in Triton's interpreter where there is no GPU."""

import contextlib
import threading
from pathlib import Path

import numpy as np
import pytest
import torch
from support.attention.cases import DEVICE, Case, close, there, using
from test_triton import HALVES, MASKS

import regard
from regard.backends.triton import launch, problem, tuning

pytestmark = pytest.mark.gpu


@pytest.fixture(autouse=True)
def _kernels_of_top(monkeypatch):
    """Rows as few as here would be stored as they are, and `top` be torch's."""
    monkeypatch.setattr(launch, "few", lambda scores: False)


def _counted(keys: list[int], many: int = 320) -> tuple[torch.Tensor, torch.Tensor]:
    """A query and keys of which these have the largest weights, in descending order."""
    query, key = torch.zeros(1, 1, 8, 16), torch.zeros(1, 1, many, 16)
    query[..., 0] = 4.0
    key[..., 0] = torch.rand(many) * 0.5
    key[..., keys, 0] = torch.linspace(3.0, 1.0, len(keys))
    return query, key


@pytest.mark.parametrize("keys", [[5, 37, 69, 101, 133, 165, 197, 229], [5, 37, 69, 6, 38, 70, 102, 7], list(range(8)),
                                  [5, 37, 293, 6, 7, 8, 9, 10]])  # fmt: skip
@pytest.mark.parametrize(("k", "most", "dtype"), [(3, 8, "float32"), (7, 8, "float32"), (3, 1, "float32"),
                                                  (7, 2, "float32"), (3, 8, "float16"), (7, 8, "float16")])  # fmt: skip
def test_the_largest_of_one_class(monkeypatch, keys, k, most, dtype):
    monkeypatch.setattr(tuning, "TAG_BITS", (1, most))  # segments of 2 and of 4 tiles
    query, key = (there(tensor.to(getattr(torch, dtype))) for tensor in _counted(keys))
    with using("triton", False):
        top = regard.AttentionMatrix(query, key).top(k)
    # 32 keys to a block, or to half of one: the first keys of each case are one class.
    assert (top.keys.cpu() == torch.tensor(keys[:k])).all()
    assert (top.weights.diff(dim=-1) < 0).all()


@pytest.mark.parametrize(("many", "apart", "keys"), [(7, 34, 320), (10, 34, 340), (7, 1090, 8192)])
@pytest.mark.parametrize("bits", [6, 8])
def test_tags_that_change_the_order(monkeypatch, many, apart, keys, bits):
    torch.manual_seed(0)
    monkeypatch.setattr(tuning, "TAG_BITS", (bits, 8))
    query, key = torch.zeros(1, 1, 12, 16), torch.zeros(1, 1, keys, 16)
    close_by = [apart * n for n in range(many)]  # nearly equal, each in a tile and class of its own, the last the best
    query[..., 0], key[..., close_by, 0] = 4 + torch.rand(12), 1 + torch.arange(many) * 3e-6
    with using("triton", False):
        top = regard.AttentionMatrix(there(query), there(key)).top(3)
    assert (top.keys.cpu() == torch.tensor(close_by[::-1][:3])).all()


@pytest.mark.parametrize(
    ("keys", "mask"),
    [(17, "none"), (100, "causal"), (100, "window 1"), (513, "none"), (1024, "causal"), (1025, "none")],
)  # fmt: skip (all but the last are short)
def test_short_rows(keys, mask):
    torch.manual_seed(keys)
    q, k = torch.randn(1, 2, 4, 16).half(), torch.randn(1, 1, keys, 16).half()
    case = Case(q, k, k, {"mask": MASKS[mask](4, keys)})
    with using("triton", False):
        seen, alone, R = case.matrix().summary(top=8), case.matrix().top(8), case.reference()
    for top in (seen.top, alone):
        weights, places = top.weights.double().cpu(), top.keys.cpu()
        close(weights / R.top(8).clip(1e-20), (R.top(8) > 0).astype(float), 2e-5)
        close(
            torch.where(places >= 0, torch.from_numpy(R.weights).gather(-1, places.clamp(min=0)), 0.0), R.top(8), 1e-6
        )
    close(seen.entropy, R.entropy(), 1e-4)


def test_short_rows_with_little_workspace(monkeypatch):
    torch.manual_seed(0)
    monkeypatch.setattr(tuning, "WORKSPACE", 1)  # one block of rows at a time
    query, key = torch.randn(1, 1, 120, 16).half(), torch.randn(1, 1, 300, 16).half()
    key[:, :, [5, 37, 69]] = query.mean(-2, keepdim=True) * 9  # one class, and often the best
    case = Case(query, key, key, {"mask": regard.causal(180)})
    with using("triton", False):
        seen, R = case.matrix().summary(top=8), case.reference()
    close(seen.top.weights, R.top(8), 1e-5)
    close(torch.from_numpy(R.weights).gather(-1, seen.top.keys.cpu()), R.top(8), 1e-7)
    close(seen.entropy, R.entropy(), 1e-4)


@pytest.mark.parametrize(
    ("keys", "k"),
    [
        ([1, 1023], 1),
        ([1, 1023], 2),
        ([700, 40, 1000], 2),
        ([700, 40, 1000], 3),
        ([65, 1, 33], 1),
        ([700, 40, 1000], 1),
    ],
)
def test_short_rows_that_tags_would_put_out_of_order(keys, k):
    query, key = torch.zeros(1, 1, 1, 16).half(), torch.zeros(1, 1, 1024, 16).half()
    query[..., 0], query[..., 1] = 16.0, 2.0**-6
    key[..., 0], key[..., keys, 0] = -6.0, 0.0
    key[..., keys, 1] = torch.tensor([2.0**-16, 2.0**-15, 2.0**-14][: len(keys)]).half()  # the last is the largest
    with using("triton", False):
        A = regard.AttentionMatrix(there(query), there(key), scale=1.0)
        assert (A.top(k).keys.cpu() == torch.tensor(keys[::-1][:k])).all()


def test_a_third_of_a_class_that_is_nearly_equal_to_another():
    query, key = torch.zeros(1, 1, 16, 16).half(), torch.zeros(1, 1, 512, 16).half()
    query[..., 0], query[..., 1] = 16 + torch.arange(16) / 4, 2.0**-6  # so that tags change each row differently
    key[..., 0] = -6.0
    key[..., [5, 37, 69, 200], 0] = torch.tensor([0.25, 0.125, 0.0, 0.0]).half()  # the first three are one class
    key[..., 69, 1] = 2.0**-14
    with using("triton", False):
        top = regard.AttentionMatrix(there(query), there(key), scale=1.0).top(3)
    assert (top.keys.cpu() == torch.tensor([5, 37, 69])).all()


@pytest.mark.parametrize("dtype", HALVES)
def test_both_of_a_pair_and_none_beyond_the_end(dtype):
    query, key = torch.zeros(1, 1, 8, 16, dtype=dtype), torch.zeros(1, 2, 37, 16, dtype=dtype)
    query[..., 0], key[:, :1, 35:, 0], key[:, :1, 20, 0], key[:, 1:, :, 0] = 4.0, 2.0, 1.0, 9.0  # 36 has no neighbour
    with using("triton", False):
        top = regard.AttentionMatrix(there(query.expand(1, 2, 8, 16).contiguous()), there(key)).top(3)
    assert (top.keys[0, 0].sort(-1).values.cpu() == torch.tensor([20, 35, 36])).all()


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("lost", [[64, 65], [64, 96], [64]])  # neighbours, two of one class in a tile, one of them
def test_infinite_keys(lost, dtype):
    query, key = torch.zeros(1, 1, 8, 16, dtype=dtype), torch.zeros(1, 1, 128, 16, dtype=dtype)
    query[..., 0], key[..., :96, 0], key[..., 96:, 0], key[..., lost, 0] = 1.0, torch.linspace(0, 3, 96), 0, -torch.inf
    key[..., 32, 0] = 12.0  # of the same class
    with using("triton", False):
        top = regard.AttentionMatrix(there(query), there(key)).top(3)
    assert (top.keys.cpu() == torch.tensor([32, 95, 94])).all()


@pytest.mark.parametrize(("most", "dtype"), [(1, torch.float32), (8, torch.float32), (8, torch.float16)])
def test_fewer_visible_keys_than_are_asked_for(monkeypatch, most, dtype):
    torch.manual_seed(0)
    monkeypatch.setattr(tuning, "TAG_BITS", (1, most))
    case = Case(*torch.randn(3, 1, 1, 150, 16).to(dtype), {"mask": regard.window(70, 0) & regard.causal()})
    with using("triton", False):
        summary, dense = case.matrix().summary(top=6), torch.from_numpy(case.reference().weights)
        top = summary.top
        close(top.weights, case.reference().top(6), 1e-6 if dtype == torch.float32 else 1e-5)
        close(summary.entropy, case.reference().entropy(), 1e-5)
    seen = top.keys >= 0
    assert (seen.sum(-1).flatten().cpu() == torch.arange(1, 151).clamp(max=6)).all()
    found = torch.where(seen.cpu(), dense.gather(-1, top.keys.clamp(min=0).cpu()), 0.0)
    close(found, top.weights.double().cpu().numpy(), 1e-5)


@pytest.mark.parametrize("dtype", HALVES)
def test_the_worked_row_of_the_documentation(dtype):
    weights = [[3, 18, 1, 2], [24, 4, 2, 5], [1, 2, 3, 2], [2, 18.7, 11, 1.3]]  # four tiles, in percent
    assert sum(map(sum, weights)) == pytest.approx(100)
    page = (Path(__file__).parents[2] / "docs" / "how-exact-top-works.md").read_text().replace("−", "-")
    tagged: dict[str, list[float]] = {"A": [], "B": []}
    for tile, row in enumerate(weights):
        logs = [f"{np.log2(weight / 100):.2f}" for weight in row]
        best = [max(pair, key=float) for pair in (logs[:2], logs[2:])]
        tagged["A"].append(float(f"{best[0][:-1]}{tile}"))
        tagged["B"].append(float(f"{best[1][:-1]}{tile}"))
        cells = [tile, f"{4 * tile} to {4 * tile + 3}", ", ".join(map(str, row)), ", ".join(logs)]
        cells += [cell for log in best for cell in (log, f"{log[:-1]}**{tile}**")]
        assert "| " + " | ".join(map(str, cells)) + " |" in page
    assert sorted(tagged["A"]) == [-5.62, -2.43, -2.40, -2.01]
    assert sorted(tagged["B"]) == [-5.60, -5.02, -4.31, -3.13]
    logits = torch.tensor(weights).flatten().div(100).log()
    query, key = torch.zeros(1, 1, 8, 16), torch.zeros(1, 1, 16, 16)
    query[..., 0], key[..., 0] = 1.0, logits
    with using("triton", False):
        top = regard.AttentionMatrix(there(query.to(dtype)), there(key.to(dtype)), scale=1.0).top(2)
    assert (top.keys.cpu() == torch.tensor([4, 13])).all()
    close(top.weights, np.full((1, 1, 8, 2), [0.24, 0.187]), 1e-3)


@pytest.mark.parametrize("dtype", HALVES)
def test_many_equal_keys_of_different_classes(dtype):
    query, key = torch.zeros(1, 1, 8, 16, dtype=dtype), torch.zeros(1, 1, 32, 16, dtype=dtype)
    query[..., 0], key[..., :20, 0], key[..., 25:27, 0] = 4.0, 1.0, 3.0  # none of them is a third of its class
    with using("triton", False):
        top = regard.AttentionMatrix(there(query), there(key)).top(3)
    assert (top.keys[..., :2].sort(-1).values.cpu() == torch.tensor([25, 26])).all()


@pytest.mark.parametrize("dtype", HALVES)
def test_many_equal_keys_are_searched_one_by_one(dtype):
    query, key = torch.zeros(1, 1, 8, 16, dtype=dtype), torch.zeros(1, 1, 128, 16, dtype=dtype)
    query[..., 0], key[..., :60, 0] = 4.0, 1.0  # more keys reach the bound than are handed on,
    key[..., 96:98, 0] = 3.0  # and the largest come last
    with using("triton", False):
        top = regard.AttentionMatrix(there(query), there(key)).top(3)
    assert (top.keys[..., :2].sort(-1).values.cpu() == torch.tensor([96, 97])).all()
    assert (top.keys[..., 2] < 60).all()
    whole = 2 * np.exp(3.0) + 60 * np.exp(1.0) + 66
    close(top.weights, np.full((1, 1, 8, 3), np.exp([3.0, 3.0, 1.0]) / whole), 1e-5)


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("spots", [[5, 37, 69, 101, 133], list(range(0, 200, 3)), [5, 6, 37, 38]])
def test_large_logits_that_are_equal(dtype, spots):
    torch.manual_seed(0)
    query, key = torch.randn(1, 1, 8, 48), torch.randn(1, 1, 200, 48)
    key[..., spots, :] = torch.randn(48)
    query[..., 0] = (1e4 * 48**0.5) ** 0.5
    key[..., spots, 0] = query[0, 0, 0, 0]
    with using("triton", False):
        top = regard.AttentionMatrix(there(query.to(dtype)), there(key.to(dtype))).top(4)
    assert (top.weights.cpu() - 1 / len(spots)).abs().max() < (2e-5 if DEVICE == "cpu" else 1e-3 / len(spots))
    assert torch.isin(top.keys.cpu(), torch.tensor(spots)).all()
    assert (top.keys.sort(-1).values.diff(dim=-1) > 0).all()


@pytest.mark.parametrize("short", [16, 1024])  # several keys of a tile share a maximum, or none
@pytest.mark.parametrize("mask", ["none", "causal", "window", "beyond the end", "padding", "dense"])
@pytest.mark.parametrize("dtype", HALVES)
def test_the_largest_weight_and_its_key(monkeypatch, dtype, mask, short):
    torch.manual_seed(1)
    monkeypatch.setattr(tuning, "SHORT_ROW", short)
    q, k = torch.randn(2, 2, 50, 48).to(dtype), torch.randn(2, 1, 150, 48).to(dtype)
    options = {"softcap": 3.0, "sinks": torch.randn(2)} if mask == "window" else {}
    case = Case(q, k, k, {"mask": MASKS[mask](50, 150), **options})
    with using("triton", False):
        A, R = case.matrix(), case.reference()
        seen, alone = A.summary(top=1), A.top(1)
    for top in (seen.top, alone):
        places = top.keys.cpu()
        close(top.weights, R.top(1), 1e-5)
        close((places >= 0).double(), (R.top(1) > 0).astype(float), 0.0)
        weights = torch.from_numpy(R.weights).gather(-1, places.clamp(min=0))
        close(torch.where(places >= 0, weights, 0.0), R.top(1), 1e-6)
    close(seen.entropy, R.entropy(), 1e-4)
    close(seen.received, R.received("sum"), 1e-4)


@pytest.mark.parametrize("short", [16, 1024])
@pytest.mark.parametrize("best", [0, 16, 32, 40, 48, 63, 64, 99, 128, 136])  # each of those that share one; the last
def test_the_largest_of_those_that_share_a_maximum(monkeypatch, best, short):
    torch.manual_seed(0)
    monkeypatch.setattr(tuning, "SHORT_ROW", short)
    query, key = torch.zeros(1, 2, 8, 16).half(), torch.zeros(1, 2, 137, 16).half()
    query[..., 0], key[..., 0], key[:, 1, :, 0] = 4.0, torch.rand(137), 9.0  # after the last key comes the next head
    key[:, 0, best, 0], key[:, 0, (best + 48) % 137, 0] = 3.0, 2.0
    hidden = torch.zeros(8, 137, dtype=torch.bool)
    hidden[:, [(best + step) % 137 for step in (16, 32)]] = True
    key[:, 0, hidden[0], 0] = 5.0
    with using("triton", False):
        A = regard.AttentionMatrix(there(query), there(key), mask=there(~hidden))
        top, weights = A.summary(top=1).top, A.to_dense().double().cpu()
    assert (top.keys[:, 0].cpu() == best).all()
    close(top.weights[..., 0], weights.amax(-1).numpy(), 1e-3)  # dense ones are halves


@pytest.mark.parametrize("short", [16, 1024])
def test_the_largest_weight_that_is_nan(monkeypatch, short):
    torch.manual_seed(0)
    monkeypatch.setattr(tuning, "SHORT_ROW", short)
    query, key = torch.randn(1, 1, 40, 16), torch.randn(1, 1, 70, 16)
    query[..., 3, :], key[..., 50, :] = torch.nan, torch.nan
    with using("triton", False):
        top = regard.AttentionMatrix(there(query), there(key), mask=regard.causal(20)).top(1)
    lost = torch.arange(40) >= 30  # they see key 50
    lost[3] = True
    assert (top.weights.isnan().flatten().cpu() == lost).all()
    assert ((top.keys < 0).flatten().cpu() == lost).all()


def test_new_kernels_are_compiled_side_by_side(monkeypatch):
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "device", lambda number: contextlib.nullcontext())
    all_at_once = threading.Barrier(3, timeout=20)

    class Kernel:
        def __init__(self, name):
            self.name = name

        def warmup(self, *args, grid, **constants):
            all_at_once.wait()  # breaks if one is compiled after the other
            return {grid: None, "name": self.name, "with": (*args, *constants.values())}

    launches = [problem.Launch(Kernel(name), (7,), (name,), {"BLOCK": 1}) for name in "abc"]
    compiled = problem._compile_side_by_side(launches)
    assert [kernel["name"] for kernel in compiled] == ["a", "b", "c"]
    assert [kernel["with"] for kernel in compiled] == [("a", 1), ("b", 1), ("c", 1)]
