"""What is kept of a request, step by step, without vLLM: the record is that of the dense weights."""

from types import SimpleNamespace

import pytest
import torch

from regard.errors import InputError, WatchError
from regard.serving import read
from regard.serving.plugin import _layer_step, _Order, _record, _watching
from regard.serving.requests import LayerStep, Share, Store, WatchedRequest

HEADS, KEY_HEADS, WIDTH = 4, 2, 8


@pytest.fixture
def text():
    """Queries (tokens, heads, width) and keys (1, key heads, tokens, width) of a text."""
    generator = torch.Generator().manual_seed(0)
    return 3 * torch.randn(200, HEADS, WIDTH, generator=generator), torch.randn(
        1, KEY_HEADS, 200, WIDTH, generator=generator
    )


def dense(query, key, window=None, sinks=None):
    scores = query.transpose(0, 1).double() @ key[0].repeat_interleave(HEADS // KEY_HEADS, 0).double().mT * 0.5
    row, column = torch.arange(len(query))[:, None], torch.arange(key.shape[2])
    hidden = (column > row) | (column <= row - (window or 10_000))
    scores = scores.masked_fill(hidden, -torch.inf)
    if sinks is not None:
        scores = torch.cat([scores, sinks.double()[:, None, None].expand(-1, len(query), 1)], -1)
    return scores.softmax(-1)[..., : key.shape[2]]


def run(request, query, key, steps, window=None, sinks=None, layer="layers.0.attn"):
    """The request sees these steps; of a window, the keys before it are gone."""
    for step in steps:

        def keys(wanted, at=step):
            assert wanted.stop == at.stop
            left = key[:, :, : at.stop].clone()
            if window is not None:
                assert wanted.start == max(at.start - window + 1, 0), "no key that is no longer there"
                left[:, :, : max(at.start - window + 1, 0)] = torch.nan  # the server has given these blocks to others
            return left[:, :, wanted.start : wanted.stop]

        found = LayerStep(query[step.start : step.stop], keys, 0.5, window, sinks=sinks)
        request.read(torch.arange(step.start, step.stop), step)
        request.observe(layer, found, step)


def agrees(entry, weights, start=0):
    rows = weights[:, start:]
    assert torch.allclose(entry.received()[0].double(), rows.sum(1), atol=1e-4)
    assert torch.allclose(entry.entropy()[0].double(), -(rows * rows.clamp_min(1e-300).log()).sum(-1), atol=1e-4)
    assert torch.allclose(entry.top(8).weights[0].double(), rows.topk(8, -1).values, atol=1e-5)
    if entry.keeps == ("matrix",):
        assert torch.allclose(entry.to_dense()[0].double(), rows, atol=1e-5)
    assert entry.ids.tolist() == [list(range(start, weights.shape[2]))]
    assert entry.key_ids.tolist() == [list(range(weights.shape[2]))]


def steps(*sizes, start=0, then=0):
    """Chunks of these sizes, then so many single tokens."""
    found = []
    for size in (*sizes, *[1] * then):
        found.append(range(start, start + size))
        start += size
    return found


@pytest.mark.parametrize(
    ("said", "window"),
    [(None, None), (-1, None), (0, None), (20, 20), ((-1, -1), None), ((-1, 0), None), ((0, 0), 1), ((19, 0), 20)],
)
def test_the_window_of_a_layer_as_vllm_says_it(said, window, text, monkeypatch):
    """A number counts the query itself, the first of a pair does not; below 0, a query sees all keys before it."""

    class FlashAttentionImpl:
        sliding_window, logits_soft_cap, sinks, scale, num_heads = said, 0.0, None, 0.5, HEADS

    query, key = text[0][:60], text[1][:, :, :60]
    blocks = torch.full((4, KEY_HEADS, 16, 2 * WIDTH), torch.nan)  # in the cache, key and value lie side by side
    blocks[..., :WIDTH] = torch.nn.functional.pad(key[0], (0, 0, 0, 4)).view(KEY_HEADS, 4, 16, WIDTH).transpose(0, 1)
    monkeypatch.setattr("regard.serving.plugin._shard", lambda heads: None)
    layer, table = SimpleNamespace(impl=FlashAttentionImpl()), torch.arange(4)
    request = WatchedRequest("a", [], "matrix", 0)
    for step in steps(40, 10, then=10):
        found = _layer_step(layer, query[step.start : step.stop], blocks, SimpleNamespace(block_table=[table]), 0)
        assert found.window == window
        request.read(torch.arange(step.start, step.stop), step)
        request.observe("layers.0.attn", found, step)
    agrees(request.record()["layers.0.attn"], dense(query, key, window))


@pytest.mark.parametrize("keep", [True, "matrix"])
@pytest.mark.parametrize("window", [None, 20])
@pytest.mark.parametrize("start", [0, 32])
def test_chunks_and_single_tokens_make_one_record(text, keep, window, start):
    query, key = text
    request = WatchedRequest("a", range(200), keep, start)
    run(request, query, key, steps(40, 30, start=start, then=200 - start - 70), window)
    weights = dense(query, key, window)
    agrees(request.record()["layers.0.attn"], weights, start)
    request.finish()
    agrees(read([request.to_bytes()])["layers.0.attn"], weights, start)


@pytest.mark.parametrize("keep", [True, "matrix"])
def test_sinks(text, keep):
    query, key = text
    request, sinks = WatchedRequest("a", [], keep, 0), torch.tensor([0.0, 1.0, 2.0, 3.0])
    run(request, query, key, steps(150, then=50), sinks=sinks)
    entry = request.record()["layers.0.attn"]
    assert torch.allclose(entry.received()[0].double(), dense(query, key, sinks=sinks).sum(1), atol=1e-4)


@pytest.mark.parametrize("keep", [True, "matrix"])
@pytest.mark.parametrize("again", [steps(48, 48, 14), steps(30, 40, 3, 37), steps(100, start=64)], ids=len)
def test_a_text_that_is_computed_again_counts_once(text, keep, again):
    """In other chunks, so that the last digits of its keys are others."""
    query, key = text
    request = WatchedRequest("a", range(200), keep, 0)
    run(request, query, key, steps(60, then=45))
    run(request, query, key * (1 + 1e-7), [*again, *steps(start=again[-1].stop, then=200 - again[-1].stop)])
    agrees(request.record()["layers.0.attn"], dense(query, key))


def test_tokens_that_nobody_saw_are_an_error(text):
    query, key = text
    request = WatchedRequest("a", [], True, 0)
    run(request, query, key, steps(60))
    with pytest.raises(WatchError, match="the tokens from 60 to 69"):
        run(request, query, key, steps(10, start=70))


def test_layers_and_heads_of_several_processes_are_put_together(text):
    from regard.watching.capture.calls import Shard

    query, key = text
    for keep in (True, "matrix"):
        parts = []
        for rank in range(2):
            request = WatchedRequest("a", range(200), keep, 0)
            own = LayerStep(
                query[:, 2 * rank : 2 * rank + 2], lambda keys, rank=rank: key[:, rank : rank + 1], 0.5,
                shard=Shard(2 * rank, HEADS),
            )  # fmt: skip
            request.read(torch.arange(200), range(200))
            request.observe(f"layers.{rank}.attn", own, range(200))
            request.observe("layers.7.attn", own, range(200))
            parts.append(request.to_bytes())
        record = read(parts)
        assert list(record) == ["layers.0.attn", "layers.7.attn", "layers.1.attn"]
        assert list(record["layers.7.attn"].heads) == [0, 1, 2, 3]
        agrees(record["layers.7.attn"], dense(query, key))


def test_samples_of_one_request_are_told_apart():
    store = Store()
    for name in ("0_7-aaaaaaaa", "1_7-aaaaaaaa", "8-bbbbbbbb"):
        store.begin(WatchedRequest(name, [], True, 0))
    assert store.find("8").name == "8-bbbbbbbb"
    assert store.find("1_7-aaaaaaaa").name == "1_7-aaaaaaaa"
    with pytest.raises(InputError, match="has 2 samples: choose one of 0_7-aaaaaaaa, 1_7-aaaaaaaa"):
        store.find("7")


def test_the_second_runner_makes_a_batch_for_each_step():
    """vLLM's runner on GPUs; it cannot run here, so this is what it is known to do."""

    class Batch:
        req_ids, input_ids = ("b", "a"), torch.arange(10)

    class Runner:
        def prepare_inputs(self, *_):
            return Batch

    runner = Runner()
    order, request = _Order(runner, {"a": 3, "b": 5}), WatchedRequest("a", [], True, 0)
    with order.noted():
        assert runner.prepare_inputs("scheduled") is Batch
    assert "prepare_inputs" not in vars(runner)
    assert (order.place("b"), order.place("a")) == ((0, 0), (1, 5))
    order.note_ids({"a": Share(request, range(3))})
    assert torch.cat(request._ids).tolist() == [5, 6, 7]


class FlashAttentionImpl:
    """vLLM's class of this name, as far as the plugin reads it."""

    sliding_window, logits_soft_cap, sinks, scale, num_heads = None, 0.0, None, 0.5, HEADS
    attn_type, alibi_slopes, kv_cache_dtype = "decoder", None, "auto"

    def forward(self, layer, query, *_):
        return query + 1


@pytest.mark.parametrize("second_runner", [False, True])
def test_steps_of_a_server_are_wrapped_for_watched_requests_only(second_runner, text, monkeypatch):
    """A server in a few lines: two requests share the batches, and one of them asks for a record."""
    query, key = text[0][:20], text[1][:, :, :20]
    blocks = torch.zeros(4, KEY_HEADS, 16, 2 * WIDTH)
    blocks[2:, ..., :WIDTH] = (
        torch.nn.functional.pad(key[0], (0, 0, 0, 12)).view(KEY_HEADS, 2, 16, WIDTH).transpose(0, 1)
    )
    monkeypatch.setattr("regard.serving.plugin._shard", lambda heads: None)
    layer, ids = SimpleNamespace(impl=FlashAttentionImpl()), torch.arange(20)
    other = SimpleNamespace(impl=SimpleNamespace(forward=None))
    context = SimpleNamespace(static_forward_context={"layers.0.attn": layer, "mixer": other, "rope": object()})
    parallel = SimpleNamespace(enable_dbo=False, ubatch_size=1)
    config = SimpleNamespace(compilation_config=context, parallel_config=parallel, speculative_config=None)
    runner, worker = SimpleNamespace(), SimpleNamespace(vllm_config=config)
    runner.prepare_inputs, worker.model_runner = lambda batch: batch, runner
    wrapper = SimpleNamespace(worker=worker)

    def execute_model(self, scheduled):
        start, stop = scheduled.rows.start, scheduled.rows.stop
        batch = SimpleNamespace(req_ids=["plain", "mine"], input_ids=torch.cat([torch.tensor([7]), ids[start:stop]]))
        if second_runner:
            batch = runner.prepare_inputs(batch)
        else:
            runner.input_batch, runner.input_ids = batch, SimpleNamespace(gpu=batch.input_ids)
        queries, table = torch.cat([torch.zeros(1, HEADS, WIDTH), query[start:stop]]), torch.tensor([[0, 1], [2, 3]])
        metadata = SimpleNamespace(block_table=table, causal=True)
        return layer.impl.forward(layer, queries, None, None, blocks, metadata)

    if not second_runner:
        runner.input_batch = None
    step, rows = _watching(execute_model), steps(12, then=8)
    for place in rows:
        new = [
            SimpleNamespace(req_id=name, prompt_token_ids=[], num_computed_tokens=0, sampling_params=parameters)
            for name, parameters in (("plain", None), ("mine", SimpleNamespace(extra_args={"regard": "matrix"})))
        ]
        cached = SimpleNamespace(req_ids=["plain", "mine"], num_computed_tokens=[place.start] * 2)
        scheduled = SimpleNamespace(
            scheduled_new_reqs=new if place.start == 0 else [], num_scheduled_tokens={"plain": 1, "mine": len(place)},
            scheduled_cached_reqs=SimpleNamespace(req_ids=[], num_computed_tokens=[]) if place.start == 0 else cached,
            finished_req_ids=[], rows=place,
        )  # fmt: skip
        output = step(wrapper, scheduled)
        assert torch.equal(output[1:], query[place.start : place.stop] + 1)
        assert "forward" not in vars(layer.impl)
    assert worker._regard_store.names() == ["mine"]
    record = read([_record(worker, "mine")])
    agrees(record["layers.0.attn"], dense(query, key))
    assert record.unseen == ("mixer (computed by SimpleNamespace)",)
