"""`StaticSearch`: the search on a GPU, in tensors of fixed shapes, with steps that never wait for Python.

A step (the decoder for one token of each target, then the step of the beams) is recorded as a CUDA graph and replayed.
Python checks only after every few steps which sentences are done. Their targets are then read back from the tokens and
parents of all steps, and the other sentences are packed when they fit into half the places.

Keys and values stay in place when a target of a beam continues another target: a table holds, for each target and
position, the slot of the beam in which the key lies. The targets of a sentence are queries of one attention to the keys
of all its slots, and the table becomes the mask. On a GPU a kernel of regard.backends.triton.beam_kernels reads it.

On a CPU the same code runs without graphs, for tests. The definition of the search is `definition.search`.
"""

from __future__ import annotations

import copy
import importlib
import math
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from importlib.util import find_spec
from itertools import chain
from types import ModuleType
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from regard.nn import DecoderLayer, MultiHeadAttention, Transformer
from regard.support import available, no_autocast
from regard.translation.searching.definition import (
    LAGS,
    REPEATS,
    Grown,
    Hypothesis,
    RepetitionGuard,
    block_width,
    grow,
    longest_target,
    trace_back,
)
from regard.translation.searching.engine import is_plain

Array = NDArray[Any]

_CHECK = 4  # steps between checks of what is done: a check waits for the GPU
_MOST = 4096  # targets of a batch: no GPU needs more to be busy
_LEAST = 32  # sentences of a batch: with fewer, a step takes as long
_SHORTEST = 16  # tokens of the smallest buffer for sources; then 32, 64, …
_FIRST = 32  # positions that the first steps attend to; then 64, 128, …
_TOGETHER = 256  # sources that are encoded at a time
_BIAS_COLUMNS = 8  # three are used; matrix products are faster with rows of a multiple of 16 bytes
_WARM = 2  # steps of a shape before it is recorded: GPU libraries initialize themselves in them


class _State(NamedTuple):
    """The state of a search; each tensor has a row for each sentence."""

    tokens: Tensor  # (sentences, beam): the last token of each target
    scores: Tensor  # (sentences, beam): sums of log-probabilities
    slots: Tensor  # (sentences, beam, positions): the slots with the keys of a target; -1: no key yet
    guard: tuple[Tensor, ...]  # (sentences, beam, lags): a `RepetitionGuard`
    limit: Tensor  # (sentences): the maximum number of steps
    ended: Tensor  # (sentences): the number of targets that ended
    done: Tensor  # (sentences): whether the search is done
    steps: Tensor  # (sentences): the number of steps until then
    history: tuple[Tensor, ...]  # (sentences, steps, beam): the results of `grow`
    hidden: Tensor  # (sentences, 1, others): 0, and -inf where a source has padding
    past: tuple[Tensor, ...]  # keys and values of each layer: (sentences, positions, beam, key heads, width)
    cross: tuple[Tensor, ...]  # keys and values of the source: (sentences, others, key heads, width)

    def first(self, sentences: int) -> _State:
        parts = [tuple(t[:sentences] for t in f) if isinstance(f, tuple) else f[:sentences] for f in self]
        return _State(*parts)  # type: ignore[arg-type]

    def tensors(self) -> list[Tensor]:
        return [t for f in self for t in (f if isinstance(f, tuple) else (f,))]


class StaticSearch:
    """The search for one model: a copy of its decoder in one dtype, buffers for a batch, and recorded steps.

    >>> import regard
    >>> model = regard.Transformer(regard.TransformerConfig.tiny(vocabulary=50)).eval()
    >>> first, second = StaticSearch(model).search(model, [[5, 6, 7, 0], [8, 0]], beam=2)
    >>> len(first), first[0].score >= first[1].score
    (2, True)
    """

    def __init__(self, model: Transformer):
        # No reference to the model itself, so that both can be freed.
        self.config, self.kind = model.config, _kind(model)
        device, dtype = self.kind
        self.decoder = copy.deepcopy(model.decoder).to(device, dtype).requires_grad_(False)
        self.embedding = model.embedding.weight.detach().to(dtype, copy=True)
        self.positions = model.positions.clone()
        self.bias = model.output_bias.to(torch.promote_types(dtype, torch.float32), copy=True)
        self.kernels = _own_kernels(device, dtype)
        self.head = _with_bias(self.embedding, self.bias, self.config.pad) if dtype != self.bias.dtype else None
        self.graphs: dict[tuple[int, ...], torch.cuda.CUDAGraph] = {}
        self.used: Counter[tuple[int, ...]] = Counter()
        self.step = torch.zeros(1, dtype=torch.long, device=device)
        self._states: dict[tuple[int, int], _State] = {}
        self._room: list[Tensor] = []  # keys and values of the targets, for batches of all shapes
        self._memory = (available(device) or 2**32) // 4
        self._pool: Any = None
        self._lock = threading.Lock()

    @staticmethod
    def supports(model: Transformer) -> bool:
        """Whether a model is on a GPU, and nothing would notice a replacement of its computation."""
        return model.embedding.weight.device.type == "cuda" and is_plain(model)

    @classmethod
    def of(cls, model: Transformer) -> StaticSearch | None:
        """The cached search for this model; None if it is not supported."""
        if not cls.supports(model):
            return None
        with _lock:
            static = _cache.get(model)
            if static is None or static.kind != _kind(model):
                static = _cache[model] = cls(model)
        return static

    @torch.inference_mode()
    def search(
        self,
        model: Transformer,
        sources: Sequence[Sequence[int]],
        *,
        beam: int = 4,
        length_penalty: float = 1.0,
        needed: int | None = None,
        advance: Callable[[float], None] | None = None,
    ) -> list[list[Hypothesis]]:
        """The best targets of each source, at least those `needed`; `advance` gets the source tokens of each batch."""
        results: list[list[Hypothesis]] = [[] for _ in sources]
        order = sorted(range(len(sources)), key=lambda n: -len(sources[n]))
        with self._lock:
            self._refresh(model)
            while order:
                others = _double(_SHORTEST, len(sources[order[0]]))
                size = self._most(beam, others)
                batch, order = order[:size], order[size:]
                inputs = [sources[n] for n in batch]
                lengths = [sum(token != self.config.pad for token in source) for source in inputs]
                limits = [longest_target(length, self.config.positions) for length in lengths]
                state = self._begin(model, inputs, limits, beam, others)
                best = self._run(state, limits, length_penalty, beam if needed is None else min(needed, beam))
                for n, each in zip(batch, best, strict=True):
                    results[n] = each
                if advance is not None:
                    advance(sum(map(len, inputs)))
        return results

    def _refresh(self, model: Transformer) -> None:
        """Copy the weights of the model, which may have changed."""
        self.embedding.copy_(model.embedding.weight)
        self.bias.copy_(model.output_bias)
        for copied, original in zip(self.decoder.parameters(), model.decoder.parameters(), strict=True):
            copied.copy_(original)
        if self.head is not None:
            self.head.copy_(_with_bias(self.embedding, self.bias, self.config.pad))

    # A batch

    def _most(self, beam: int, others: int) -> int:
        """The number of sentences in a batch: a power of 2."""
        config, bytes_each = self.config, self.embedding.element_size()
        past = 2 * config.decoder_layers * beam * self._positions(others) * config.width * bytes_each
        logits = 4 * 4 * beam * config.vocabulary
        encoder = 4 * others * (4 * config.width + 2 * config.hidden)
        fits = min(self._memory // (past + logits + encoder), _MOST // beam)
        return 1 << max(fits.bit_length() - 1, 0)

    def _positions(self, others: int) -> int:
        """The positions for targets of sources of up to `others` tokens, a multiple of 16 for the kernels."""
        return -(-longest_target(others, self.config.positions) // 16) * 16

    def _place(self, sentences: int, beam: int, others: int) -> _State:
        """Buffers for a number of sentences; larger buffers invalidate the recorded steps."""
        state = self._states.get((beam, others))
        if state is None or len(state.tokens) < sentences:
            config, positions = self.config, self._positions(others)
            heads = (config.key_heads or config.heads, config.width // config.heads)
            shape = (sentences, positions, beam, *heads)
            self.graphs.clear()
            self._pool = None
            if not self._room or self._room[0].numel() < math.prod(shape):
                self._states.clear()
                self._room.clear()
                self._room += [self.embedding.new_zeros(math.prod(shape)) for _ in range(2 * config.decoder_layers)]

            def new(*shape: int, dtype: torch.dtype = torch.long) -> Tensor:
                return self.step.new_zeros((sentences, *shape), dtype=dtype)

            history = (torch.float32, torch.long, torch.long, torch.float32, torch.long)
            state = self._states[beam, others] = _State(
                new(beam), new(beam, dtype=torch.float32), new(beam, positions, dtype=torch.int16),
                tuple(new(beam, LAGS) for _ in range(3)), new(), new(), new(dtype=torch.bool), new(),
                tuple(new(positions, beam, dtype=dtype) for dtype in history),
                self.embedding.new_zeros((sentences, 1, others)),
                tuple(flat[: math.prod(shape)].view(shape) for flat in self._room),
                tuple(self.embedding.new_zeros((sentences, others, *heads)) for _ in self._room),
            )  # fmt: skip
        return state.first(sentences)

    def _begin(
        self, model: Transformer, sources: Sequence[Sequence[int]], limits: list[int], beam: int, others: int
    ) -> _State:
        """The state before the first step."""
        config, device, count, tokens = self.config, self.step.device, len(sources), max(map(len, sources))
        # torch.tensor of lists of lists would take longer than all steps.
        lengths, padded = np.array([len(source) for source in sources]), np.full((count, tokens), config.pad)
        padded[np.arange(tokens) < lengths[:, None]] = np.fromiter(chain.from_iterable(sources), int, lengths.sum())
        source = torch.from_numpy(padded).to(device)
        state = self._place(_double(_LEAST, count), beam, others)
        for tensor in state.tensors():
            tensor.zero_()  # NaN in a hidden key of the last batch would spread
        state.tokens.fill_(config.start)
        state.scores[:, 1:] = -torch.inf
        state.slots.fill_(-1)
        guard = RepetitionGuard.over(source, source != config.pad, beam, REPEATS)
        for buffer, new in zip(state.guard, guard, strict=True):
            buffer[:count] = new.view(count, beam, LAGS)
        state.limit[:count] = torch.tensor(limits).to(device)
        state.hidden[:count] = -torch.inf  # not in places without a sentence: the softmax of an empty row would be NaN
        for first in range(0, count, _TOGETHER):  # the longest come first: later sources need less width
            some = slice(first, min(first + _TOGETHER, count))
            width = int(lengths[some].max())
            memory = model.encode(source[some, :width])
            state.hidden[some, 0, :width].masked_fill_(memory.visible, 0.0)
            self._read(memory.states, state, some)
        self.step.zero_()
        return state

    @no_autocast
    def _read(self, states: Tensor, state: _State, places: slice) -> None:
        """Keys and values of the sources in these places, for each layer."""
        for n, layer in enumerate(self._layers()):
            weight, bias = _rows(layer.cross, slice(layer.cross.sizes[0], None))
            both = functional.linear(states.to(weight.dtype), weight, bias)
            for buffer, new in zip(state.cross[2 * n : 2 * n + 2], both.chunk(2, -1), strict=True):
                buffer[places, : states.shape[1]] = new.view(*states.shape[:2], *buffer.shape[2:])

    def _run(self, state: _State, limits: list[int], length_penalty: float, needed: int) -> list[list[Hypothesis]]:
        """All steps of a batch; the best targets of each of its sentences."""
        results: dict[int, list[Hypothesis]] = {}
        sentences, step = list(range(len(limits))), 0  # the sentence in each place
        ended: tuple[list[int], list[Array]] | None = None  # sentences that are done, and their history
        while sentences:
            for _ in range(min(_CHECK, max(limits) - step)):
                self._advance(state, step)
                step += 1
            if ended is not None:  # meanwhile the GPU computes these steps
                results.update(zip(ended[0], trace_back(ended[1], length_penalty, needed), strict=True))
                ended = None
            done = state.done.tolist()
            left = [place for place in range(len(sentences)) if not done[place]]
            size = _double(_LEAST, len(left))
            if left and size == len(state.tokens):
                continue
            places = [place for place in range(len(sentences)) if done[place]]
            index = torch.tensor(places).to(state.done.device)
            tensors = [*(each[:, :step].index_select(0, index) for each in state.history), state.steps[index]]
            ended = [sentences[place] for place in places], [tensor.cpu().numpy() for tensor in tensors]
            if left:  # pack the others
                rows = torch.tensor(left + [left[0]] * (size - len(left))).to(state.done.device)
                smaller = state.first(size)
                for old, new in zip(state.tensors(), smaller.tensors(), strict=True):
                    new.copy_(old.index_select(0, rows))
                state = smaller
            sentences = [sentences[place] for place in left]
        if ended is not None:
            results.update(zip(ended[0], trace_back(ended[1], length_penalty, needed), strict=True))
        return [results[n] for n in range(len(limits))]

    # A step

    def _advance(self, state: _State, step: int) -> None:
        """One step, by its CUDA graph if it is recorded."""
        (sentences, beam), others = state.tokens.shape, state.hidden.shape[2]
        length = min(_double(_FIRST, step + 1), state.slots.shape[2])
        key = (sentences, beam, others, length)
        if key in self.graphs:
            self.graphs[key].replay()
            return
        device = state.tokens.device
        if device.type != "cuda":
            self._grow(state, length)
            return
        # cuDNN would build a plan for every shape. Triton kernels and graphs run on the current device.
        with sdpa_kernel([SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]), torch.cuda.device(device):
            self._grow(state, length)
            self.used[key] += 1
            if self.used[key] >= _WARM:
                self._pool = self._pool or torch.cuda.graph_pool_handle()
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph, pool=self._pool, capture_error_mode="thread_local"):
                    self._grow(state, length)  # is recorded, not run
                self.graphs[key] = graph

    @no_autocast
    def _grow(self, state: _State, length: int) -> None:
        """One step, with keys up to `length`: updates the state in place, without waiting for a GPU."""
        sentences, beam = state.tokens.shape
        guard = RepetitionGuard(*(t.flatten(0, 1) for t in state.guard))
        grown = self._grown(self._logits(state, length), state.scores, guard)
        for buffer, new in zip(state.history, grown, strict=True):
            buffer.index_copy_(1, self.step, new[:, None])
        # The targets that continue
        state.tokens.copy_(grown.tokens)
        state.scores.copy_(grown.scores)
        slots = state.slots[:, :, :length]
        slots.copy_(slots.gather(1, grown.parents[..., None].expand_as(slots)))
        rows = (torch.arange(sentences, device=slots.device)[:, None] * beam + grown.parents).flatten()
        for buffer, new in zip(state.guard, guard.after(grown.tokens.flatten(), rows), strict=True):
            buffer.copy_(new.view_as(buffer))
        # The sentences that are done
        self.step.add_(1)
        state.ended.add_((grown.ended > -torch.inf).sum(1))
        state.steps.copy_(torch.where(state.done, state.steps, self.step))
        state.done.logical_or_((state.ended >= beam) | (self.step >= state.limit))

    def _grown(self, logits: Tensor, scores: Tensor, guard: RepetitionGuard) -> Grown:
        """The best continuations, by the logits of each target's next token."""
        block = block_width(logits.shape[1], scores.shape[1])
        if self.kernels is None or block == 1:
            logs = torch.log_softmax(logits, -1)
            guard.forbid(logs)
            return grow(logs, scores, self.config.end)
        normaliser, maxima = self.kernels.normaliser_and_maxima(logits, guard.forbidden(), block)
        guard.forbid(logits)
        return grow(logits, scores - normaliser.view_as(scores), self.config.end, maxima)

    def _logits(self, state: _State, length: int) -> Tensor:
        """(sentences × beam, vocabulary): the logits of the next token, in float32."""
        beam, config = state.tokens.shape[1], self.config
        slots = torch.arange(beam, dtype=state.slots.dtype, device=state.slots.device)
        state.slots.index_copy_(2, self.step, slots[:, None].expand(len(state.slots), beam, 1))
        x = functional.embedding(state.tokens, self.embedding) * math.sqrt(config.width)
        x = (x + self.positions.index_select(0, self.step)).to(self.embedding.dtype)
        kernels = self.kernels
        attend = partial(kernels.attend_own, slots=state.slots, step=self.step) if kernels else _masked(state, length)
        for n, layer in enumerate(self._layers()):
            past, cross = state.past[2 * n : 2 * n + 2], state.cross[2 * n : 2 * n + 2]
            x = layer._residual(x, layer.attention_norm, partial(self._attend_own, layer.attention, past, attend))
            x = layer._residual(x, layer.cross_norm, partial(_attend_cross, layer.cross, cross, state.hidden))
            x = layer._residual(x, layer.feed_forward_norm, layer.feed_forward)
        x = x if self.decoder.norm is None else self.decoder.norm(x)
        x = x.flatten(0, 1)
        if self.head is not None:
            # Logits are large numbers: rounded to bfloat16, some tokens would no longer differ.
            return _product(functional.pad(x, (0, _BIAS_COLUMNS), value=1.0), self.head, self.bias.dtype)
        logits = functional.linear(x, self.embedding, self.bias).float()
        logits[:, config.pad].fill_(-torch.inf)  # padding is never generated
        return logits

    def _attend_own(
        self, layer: MultiHeadAttention, cache: Sequence[Tensor], attend: Callable[..., Tensor], x: Tensor
    ) -> Tensor:
        query, *new = torch.split(layer.projection(x), layer.sizes, -1)
        for buffer, part in zip(cache, new, strict=True):
            buffer.index_copy_(1, self.step, part.view(len(x), 1, *buffer.shape[2:]))
        joined: Tensor = layer.output(attend(query, *cache))
        return joined

    def _layers(self) -> list[DecoderLayer]:
        return list(self.decoder.layers)  # type: ignore[arg-type]


def _attend_cross(layer: MultiHeadAttention, cache: Sequence[Tensor], mask: Tensor, x: Tensor) -> Tensor:
    query = functional.linear(x, *_rows(layer, slice(layer.sizes[0])))
    joined: Tensor = layer.output(_attend(query, cache[0], cache[1], mask))
    return joined


def _rows(layer: MultiHeadAttention, rows: slice) -> tuple[Tensor, Tensor | None]:
    """Some rows of the projection to queries, keys and values."""
    weight, bias = layer.projection.weight, layer.projection.bias
    return weight[rows], None if bias is None else bias[rows]


def _masked(state: _State, length: int) -> Callable[..., Tensor]:
    """Attention of the targets to their keys up to `length`, by a mask over the keys of all slots."""
    slots = torch.arange(state.tokens.shape[1], dtype=state.slots.dtype, device=state.slots.device)
    # (sentences, beam, positions × beam): 0 for the keys of a target, -inf for other keys and empty slots
    seen = (state.slots[:, :, :length, None] == slots).flatten(2)
    mask = torch.where(seen, 0.0, -torch.inf).to(state.hidden.dtype)

    def attend(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return _attend(query, key[:, :length].flatten(1, 2), value[:, :length].flatten(1, 2), mask)

    return attend


def _attend(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
    """From (sentences, queries, width) to (sentences, keys, key heads, width of a head); one mask for all heads."""
    (sentences, queries, width), (key_heads, size) = query.shape, key.shape[2:]
    group = width // (key_heads * size)
    # Heads that share keys become more queries.
    query = query.view(sentences, queries, key_heads, group, size).permute(0, 2, 1, 3, 4).flatten(2, 3)
    mask = mask.expand(-1, queries, -1).repeat_interleave(group, 1) if group > 1 else mask
    key, value = key.transpose(1, 2), value.transpose(1, 2)
    mixed = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask[:, None])
    return mixed.view(sentences, key_heads, queries, group, size).permute(0, 2, 1, 3, 4).flatten(2)


def _with_bias(embedding: Tensor, bias: Tensor, pad: int) -> Tensor:
    """The matrix of the logits with the bias in columns, for vectors that end in ones: the bias needs no extra pass.

    In bfloat16 the bias is a sum of three numbers. Padding has -inf: it is never generated.
    """
    parts, rest = [], bias.float()
    for _ in range(3):
        parts.append(rest.to(embedding.dtype))
        rest = (rest - parts[-1].float()).masked_fill(parts[-1].isinf(), 0.0)
    columns = functional.pad(torch.stack(parts, 1), (0, _BIAS_COLUMNS - 3))
    columns[pad, 0] = -torch.inf
    return torch.cat([embedding, columns], 1)


def _product(x: Tensor, matrix: Tensor, dtype: torch.dtype) -> Tensor:
    """x matrixᵀ in a wider dtype."""
    return torch.mm(x, matrix.mT, out_dtype=dtype) if x.is_cuda else x.to(dtype) @ matrix.to(dtype).mT


def _double(least: int, needed: int) -> int:
    """The smallest of least, 2 least, 4 least, … that is at least `needed`."""
    return least << max((needed - 1) // least, 0).bit_length()


def _own_kernels(device: torch.device, dtype: torch.dtype) -> ModuleType | None:
    """The kernels of regard, on a GPU with Triton."""
    if device.type != "cuda" or dtype == torch.float64 or find_spec("triton") is None:
        return None
    return importlib.import_module("regard.backends.triton.beam_kernels")


def _kind(model: Transformer) -> tuple[torch.device, torch.dtype]:
    """The device and the dtype of the search: that of autocast, or that of the model."""
    weight = model.embedding.weight
    half = weight.dtype == torch.float32 and torch.is_autocast_enabled(weight.device.type)
    return weight.device, torch.get_autocast_dtype(weight.device.type) if half else weight.dtype


_lock = threading.Lock()
_cache: WeakKeyDictionary[Transformer, StaticSearch] = WeakKeyDictionary()
