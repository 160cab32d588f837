"""What the plugin leaves alone, what it refuses, and what it survives; with vLLM, in `make test-vllm`."""

import asyncio
import os
import subprocess
import sys
from importlib.metadata import entry_points

import pytest

pytest.importorskip("vllm", reason="make test-vllm runs these")

import torch
import transformers
from support.serving.served import SIZES, Served
from test_served_models import LONG, SHORT, agrees

from regard import Record, serving
from regard.errors import WatchError
from regard.serving import plugin
from regard.serving.requests import WatchedRequest


def worker_of(served):
    return served.llm.llm_engine.engine_core.engine_core.model_executor.driver_worker.worker


def test_vllm_loads_it_by_itself():
    (found,) = (one for one in entry_points(group="vllm.general_plugins") if one.name == "regard")
    assert found.load() is serving.register


def test_over_http(llama, tmp_path):
    """The route, in an application of FastAPI's as vLLM's server is one, before the engine of this process."""
    from fastapi import FastAPI
    from fastapi.testclient import TestClient
    from vllm.plugins.endpoint_plugins.interface import EndpointPlugin

    class Engine:
        async def collective_rpc(self, method, args):
            return llama.llm.collective_rpc(method, args=args)

    (found,) = (one for one in entry_points(group="vllm.endpoint_plugins") if one.name == "regard")
    app, endpoint = FastAPI(), found.load()()
    assert isinstance(endpoint, EndpointPlugin)
    endpoint.attach_router(app)
    asyncio.run(endpoint.init_state(Engine(), app.state, None))
    (output,) = llama.ask(SHORT, keep="matrix", skip_reading_prefix_cache=True)
    client = TestClient(app)
    answer = client.get(f"/v1/regard/{output.request_id}")
    assert answer.status_code == 200
    (tmp_path / "record.safetensors").write_bytes(answer.content)
    agrees(llama, output, Record.open(tmp_path / "record.safetensors"))
    missing = client.get("/v1/regard/nobody")
    assert missing.status_code == 404
    assert "no record of request 'nobody'" in missing.json()["error"]["message"]
    assert "-" not in missing.json()["error"]["message"]  # nor the names of others


def test_without_a_request_that_asks_nothing_is_wrapped_or_stored(llama, monkeypatch):
    from vllm.v1.attention.backends.cpu_attn import CPUAttentionBackendImpl

    def refuse(*_, **__):
        raise AssertionError("looked at a request that did not ask")

    before, own = worker_of(llama).__dict__.pop("_regard_store", None), CPUAttentionBackendImpl.forward
    with monkeypatch.context() as patch:
        for name in ("_wrapped", "_shares", "_forward"):
            patch.setattr(plugin, name, refuse)
        (plain,) = llama.ask(LONG, keep=None)
        assert "_regard_store" not in worker_of(llama).__dict__
    layers = worker_of(llama).vllm_config.compilation_config.static_forward_context.values()
    assert not any("forward" in vars(layer.impl) for layer in layers)
    (watched,) = llama.ask(LONG)
    assert watched.outputs[0].token_ids == plain.outputs[0].token_ids
    assert not any("forward" in vars(layer.impl) for layer in layers)
    assert CPUAttentionBackendImpl.forward is own
    assert before is not worker_of(llama)._regard_store


def test_other_versions_are_refused(monkeypatch, caplog):
    monkeypatch.setattr(plugin.importlib.metadata, "version", lambda name: "0.33.1")
    with pytest.raises(WatchError, match=r"made for vLLM 0\.32\.x.*Got vLLM 0\.33\.1"):
        serving.record(None, "0")
    monkeypatch.setattr(plugin.logging.getLogger("vllm"), "propagate", True)
    with caplog.at_level("WARNING", logger="vllm.regard"):
        serving.register()  # and the server starts
    assert "Got vLLM 0.33.1" in caplog.text
    monkeypatch.setattr(plugin.importlib.metadata, "version", lambda name: "0.320.0")
    with pytest.raises(WatchError, match=r"Got vLLM 0\.320\.0"):
        plugin.check_version()


def test_a_request_that_asks_for_something_else_is_served_and_told(llama):
    (output,) = llama.ask(SHORT, keep="everything", tokens=3)
    assert len(output.outputs[0].token_ids) == 3
    with pytest.raises(WatchError, match="Got 'everything'"):
        serving.record(llama.llm, output.request_id)


def test_an_error_of_ours_does_not_reach_the_server(llama, monkeypatch):
    def broken(*_, **__):
        raise RuntimeError("no such block")

    with monkeypatch.context() as patch:
        patch.setattr(plugin, "gather", broken)
        (output,) = llama.ask(SHORT, tokens=3)
    assert len(output.outputs[0].token_ids) == 3
    with pytest.raises(WatchError, match="RuntimeError: no such block"):
        serving.record(llama.llm, output.request_id)


def test_finished_requests_are_kept_until_there_are_too_many(llama, monkeypatch):
    (first,) = llama.ask(SHORT, tokens=2, skip_reading_prefix_cache=True)
    later = llama.ask(*[SHORT] * 5, tokens=2)
    agrees(llama, first, serving.record(llama.llm, first.request_id))
    monkeypatch.setattr("regard.serving.requests._STORED", 3)
    llama.ask(SHORT, tokens=2)
    assert len(serving.requests_seen(llama.llm)) == 4  # the last one still counts as running
    with pytest.raises(WatchError, match="not among the last 3"):
        serving.record(llama.llm, first.request_id)
    assert serving.record(llama.llm, later[-1].request_id)


def test_steps_that_nobody_saw_are_said(llama):
    """As in a CUDA graph of the whole model, in which no Python runs."""
    layers = worker_of(llama).vllm_config.compilation_config.static_forward_context

    request = WatchedRequest("a", [1, 2, 3], True, 0)
    share = plugin.Share(request, range(3))
    with plugin._wrapped(worker_of(llama), {"a": share}, {"a": 3}):
        assert all("forward" in vars(layer.impl) for layer in layers.values())
    assert not request.watching
    assert "the rows from token 0 on, which ran in a CUDA graph" in request.record().unseen[0]


def test_a_request_that_was_put_aside_goes_on(tmp_path):
    """Two requests that have no room together: one loses its keys and computes them again, in other chunks."""
    served = Served(
        tmp_path, transformers.LlamaConfig(**SIZES), num_gpu_blocks_override=9, max_num_batched_tokens=48,
        max_num_seqs=2, enable_prefix_caching=False, max_model_len=256,
    )  # fmt: skip
    resumed = []
    own = plugin._shares
    plugin._shares = lambda *args: resumed.extend(args[2].scheduled_cached_reqs.resumed_req_ids) or own(*args)
    try:
        for keep in (True, "matrix"):
            outputs = served.ask(LONG[:60], LONG[30:90], keep=keep, tokens=90)
            for output in outputs:
                agrees(served, output, serving.record(served.llm, output.request_id))
    finally:
        plugin._shares = own
    assert resumed


def test_half_precision(tmp_path):
    served = Served(tmp_path, transformers.LlamaConfig(**SIZES), dtype="bfloat16", max_num_batched_tokens=64)
    (output,) = served.ask(LONG, keep="matrix")
    record = serving.record(served.llm, output.request_id)
    assert record["model.layers.0.self_attn.attn"].matrix.dtype == torch.bfloat16
    assert record.check(40).difference < 0.01
    expected = served.dense(served.text(output))[0]
    assert (record["model.layers.0.self_attn.attn"].to_dense() - expected).abs().max() < 0.1


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="each of two workers takes a core")
def test_heads_in_two_processes(tmp_path):
    """Tensor parallel: the record is put together from what the processes answer, and brought over from another one."""
    cores = "|".join(map(str, sorted(os.sched_getaffinity(0))[:2]))
    command = [sys.executable, "-m", "support.serving.served_in_processes", str(tmp_path)]
    paths = os.pathsep.join(sys.path)
    environment = os.environ | {"PYTHONPATH": paths, "VLLM_CPU_OMP_THREADS_BIND": cores, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    differences = [float(line.split()[-1]) for line in done.stdout.splitlines() if line.startswith("differs by")]
    assert len(differences) == 12
    assert max(differences) < 2e-4
