"""The search in fixed shapes, as a GPU runs it: the targets and scores of `search`, whatever the model and the batch."""

import gc
import json
import sys
import threading
import weakref
from pathlib import Path

import pytest
import torch
import translate as benchmark
from hypothesis import given, settings
from hypothesis import strategies as st
from support.translation.random_models import SOURCES, STACKS, random_model, tokens
from torch.utils._python_dispatch import TorchDispatchMode

import regard
from regard.translation import search, searching
from regard.translation.searching import gpu, search_all
from regard.translation.searching.engine import Engine, is_plain
from regard.translation.searching.gpu import StaticSearch

KINDS = ("bfloat16", "float32")
pytestmark = pytest.mark.usefixtures("unchecked", "small")


@pytest.fixture(scope="module")
def small():
    """Small steps: sentences leave early, and the room grows while they are searched."""
    with pytest.MonkeyPatch.context() as patch:
        for name, number in (("_LEAST", 1), ("_CHECK", 2), ("_SHORTEST", 4), ("_FIRST", 4), ("_TOGETHER", 2)):
            patch.setattr(gpu, name, number)
        yield


def padded(model, sources):
    return torch.nn.utils.rnn.pad_sequence([torch.tensor(source) for source in sources], True, model.config.pad)


def own(model, sources, **asked):
    return search(model, padded(model, sources), **asked)


def check(found, expected):
    assert tokens(found) == tokens(expected)
    assert [[h.ended for h in best] for best in found] == [[h.ended for h in best] for best in expected]
    for best, other in zip(found, expected, strict=True):
        assert [h.score for h in best] == pytest.approx([h.score for h in other], abs=1e-5)


# The same targets


@settings(max_examples=15, deadline=None)
@given(
    st.integers(0, 1000), st.integers(1, 6), st.sampled_from([0.0, 0.6, 1.0, 1.5]),
    st.lists(st.lists(st.integers(4, 38), max_size=9), min_size=1, max_size=6),
    st.sampled_from([*STACKS, {"key_heads": 2}, {"key_heads": 1, "norm_first": True, "bias": False}]),
    st.integers(-3, 4),
)  # fmt: skip
def test_the_targets_and_scores_of_our_own_search(seed, beam, length_penalty, sources, changes, eager_to_end):
    model = random_model(seed, **{"decoder_layers": 1, "width": 16} | changes).double()
    model.output_bias[model.config.end] += eager_to_end
    sources = [[*source, 0] for source in sources]
    found = StaticSearch(model).search(model, sources, beam=beam, length_penalty=length_penalty)
    check(found, own(model, sources, beam=beam, length_penalty=length_penalty))


@pytest.mark.parametrize("beam", [1, 4])
@pytest.mark.parametrize("changes", [{}, {"key_heads": 2}])
def test_in_float32(beam, changes):
    model = random_model(**changes)
    check(StaticSearch(model).search(model, SOURCES, beam=beam), own(model, SOURCES, beam=beam))


def test_targets_without_an_end_are_cut_off():
    model = random_model()
    with torch.no_grad():
        model.output_bias[model.config.end] = -50
    found = StaticSearch(model).search(model, SOURCES, beam=2)
    check(found, own(model, SOURCES, beam=2))
    assert [len(best[0].tokens) for best in found] == [2 * len(source) + 16 for source in SOURCES]
    assert not any(hypothesis.ended for best in found for hypothesis in best)


def test_a_loop_is_stopped_where_our_own_search_stops_it():
    model = random_model()
    with torch.no_grad():
        model.output_bias[13] += 12  # it says nothing else, if nobody stops it
    sources = [*SOURCES, [13] * 7 + [0]]  # what a source repeats may be repeated
    found = StaticSearch(model).search(model, sources, beam=2)
    check(found, own(model, sources, beam=2))
    assert found[-1][0].tokens[:7] == [13] * 7


@pytest.mark.parametrize("vocabulary", [2, 5])
def test_a_beam_larger_than_the_vocabulary(vocabulary):
    config = regard.TransformerConfig.tiny(vocabulary, width=16, heads=2, hidden=16, positions=12)
    model = regard.Transformer(config).eval().double()
    sources = [[1 % (vocabulary - 1), 0], [0], [0, 0, 0]]
    found = StaticSearch(model).search(model, sources, beam=7)
    check(found, own(model, sources, beam=7))


def test_no_sources():
    model = random_model()
    assert StaticSearch(model).search(model, []) == []


def test_only_what_is_needed():
    model = random_model()
    found = StaticSearch(model).search(model, SOURCES, beam=4, needed=2)
    check(found, [best[:2] for best in own(model, SOURCES, beam=4)])


@pytest.mark.parametrize(("most", "batches"), [(1, 12), (6, 6)])
def test_many_batches(most, batches, monkeypatch):
    monkeypatch.setattr(gpu, "_MOST", most)
    model, done = random_model(decoder_layers=1).double(), []
    torch.manual_seed(1)
    sources = [[*torch.randint(4, 39, (n % 7 + 1,)).tolist(), 0] for n in range(12)]
    found = StaticSearch(model).search(model, sources, beam=2, advance=done.append)
    check(found, own(model, sources, beam=2))
    assert len(done) == batches
    assert sum(done) == sum(map(len, sources))


def test_little_memory_makes_small_batches():
    model = random_model()
    searching = StaticSearch(model)
    searching._memory = 0
    assert searching._most(4, 16) == 1
    check(searching.search(model, SOURCES, beam=4), own(model, SOURCES, beam=4))


def test_bfloat16_comes_near():
    model = random_model()
    with torch.autocast("cpu", torch.bfloat16):
        searching = StaticSearch(model)
        found = searching.search(model, SOURCES, beam=4)
    assert searching.kind[1] == searching.embedding.dtype == torch.bfloat16
    for best, other in zip(found, own(model, SOURCES, beam=4), strict=True):
        assert best[0].score == pytest.approx(other[0].score, abs=0.05)


# One search after another


def test_the_room_serves_batches_of_all_shapes():
    model = random_model().double()
    searching = StaticSearch(model)
    for sources, beam in ((SOURCES[:1], 2), (SOURCES, 3), (SOURCES[1:2], 3), (SOURCES * 2, 2), (SOURCES, 1)):
        check(searching.search(model, sources, beam=beam), own(model, sources, beam=beam))


def test_it_follows_the_weights():
    model = random_model().double()
    searching = StaticSearch(model)
    before = searching.search(model, SOURCES, beam=2)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.1)
        model.output_bias.normal_()
    found = searching.search(model, SOURCES, beam=2)
    assert tokens(found) != tokens(before)
    check(found, own(model, SOURCES, beam=2))


def test_weights_that_are_nan_are_named_and_leave_nothing_behind():
    model = random_model().double()
    searching = StaticSearch(model)
    kept = model.decoder.layers[0].attention.projection.weight.detach().clone()
    with torch.no_grad():
        model.decoder.layers[0].attention.projection.weight.fill_(torch.nan)
    with pytest.raises(regard.RegardError, match="NaN"):
        searching.search(model, SOURCES, beam=2)
    with torch.no_grad():
        model.decoder.layers[0].attention.projection.weight.copy_(kept)
    check(searching.search(model, SOURCES, beam=2), own(model, SOURCES, beam=2))


def test_several_threads_share_it():
    model, found = random_model().double(), []
    searching, expected = StaticSearch(model), own(model, SOURCES, beam=2)
    threads = [
        threading.Thread(target=lambda: found.append(searching.search(model, SOURCES, beam=2))) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [tokens(each) for each in found] == [tokens(expected)] * 3


# What a CUDA graph can record


class Calls(TorchDispatchMode):
    """The operations of a step, with the places of their inputs in memory and their shapes."""

    def __init__(self):
        super().__init__()
        self.names, self.shapes = [], []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.names.append(str(function))
        self.shapes.append([tuple(a.shape) for a in args if isinstance(a, torch.Tensor)])
        return function(*args, **kwargs or {})


@torch.inference_mode()
def test_each_step_is_the_same_work_and_reads_no_value():
    model = random_model()
    searching = StaticSearch(model)
    state = searching._begin(model, SOURCES, [20] * len(SOURCES), 3, 8)
    places = [tensor.data_ptr() for tensor in state.tensors()]
    steps = []
    for _ in range(3):
        with Calls() as calls:
            searching._grow(state, 32)
        steps.append(calls)
    assert steps[0].names == steps[1].names == steps[2].names
    assert steps[0].shapes == steps[1].shapes == steps[2].shapes
    assert len(steps[0].names) > 100
    waits = ("nonzero", "_local_scalar_dense", "item", "masked_select", "unique", "is_nonzero")
    assert not [name for name in steps[0].names if any(each in name for each in waits)]
    assert [tensor.data_ptr() for tensor in state.tensors()] == places


def test_the_check_above_sees_what_waits():
    with Calls() as calls:
        torch.ones(2).nonzero()
    assert any("nonzero" in name for name in calls.names)


# Its benchmark


@pytest.mark.slow
def test_the_benchmark_runs(monkeypatch, capsys, unchecked):
    script = Path(__file__).parents[2] / "benchmarks" / "translate.py"
    apart = benchmark.in_process

    def here(_, name, tiny, **limit):
        """One engine in a process of its own, as all have; the others need not import everything again."""
        return apart("--one", name, tiny) if name == "regard" else json.loads(json.dumps(benchmark.one(name, True)))

    monkeypatch.setattr(benchmark, "in_process", here)
    monkeypatch.setattr(sys, "argv", [str(script), "--tiny"])
    with pytest.raises(SystemExit) as ended:
        benchmark.main()
    assert not ended.value.code
    printed = capsys.readouterr().out
    rows = [line.strip("| ").split(" | ") for line in printed.splitlines() if line.startswith("| 24 sentences")]
    same = {row[1].partition(",")[0]: float(row[5].rstrip("%")) for row in rows}
    assert list(same) == ["regard", "transformers", "CTranslate2 float32", "CTranslate2 int8"]
    assert same["transformers"] > 50  # the same targets as transformers, which stops no loop


# Where it is used


@pytest.fixture
def as_on_a_gpu(monkeypatch):
    """A CPU that counts as a GPU."""
    monkeypatch.setattr(Engine, "of", lambda _: None)
    monkeypatch.setattr(StaticSearch, "supports", staticmethod(is_plain))


def test_a_gpu_searches_so(as_on_a_gpu, monkeypatch):
    model, done = random_model().double(), []
    monkeypatch.setattr(searching, "search", None)  # not called
    found = search_all(model, [*SOURCES, *SOURCES[::-1]], beam=3, advance=done.append)
    check(found, [*(best := own(model, SOURCES, beam=3)), *best[::-1]])
    assert sum(done) == 2 * sum(map(len, SOURCES))
    assert StaticSearch.of(model) is StaticSearch.of(model)


def test_whoever_looks_sees_the_model_itself(as_on_a_gpu):
    model, seen = random_model(), []
    with regard.watch(model):
        assert StaticSearch.of(model) is None
    hook = model.decoder.layers[0].register_forward_hook(lambda *_: seen.append(1))
    search_all(model, SOURCES[:1], beam=2)
    assert seen
    hook.remove()
    assert StaticSearch.of(model) is not None
    assert StaticSearch.of(model.train()) is None


def test_another_dtype_is_another_search(as_on_a_gpu):
    model = random_model()
    first = StaticSearch.of(model)
    with torch.autocast("cpu", torch.bfloat16):
        assert StaticSearch.of(model) is not first
    assert StaticSearch.of(model.double()).kind[1] == torch.float64


def test_it_leaves_with_the_model(as_on_a_gpu):
    model = random_model()
    search_all(model, SOURCES, beam=2)
    gone, searching = weakref.ref(model), weakref.ref(StaticSearch.of(model))
    del model
    gc.collect()
    assert gone() is None
    assert searching() is None


def test_a_cpu_has_its_own_engine():
    assert StaticSearch.of(random_model()) is None


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="records CUDA graphs")
@pytest.mark.parametrize("beam", [1, 4])
@pytest.mark.parametrize("changes", [{}, {"key_heads": 2, "norm_first": True}])
def test_on_a_gpu_by_graphs(beam, changes):
    model = random_model(**changes).double().cuda()
    for _ in range(3):
        found = search_all(model, SOURCES, beam=beam)
    assert StaticSearch.of(model).graphs
    check(found, search(model, padded(model, SOURCES).cuda(), beam=beam))
