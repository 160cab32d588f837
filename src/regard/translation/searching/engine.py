"""`Engine`: the search on a CPU, by CTranslate2, with the weights of one of our models.

The weights are rounded to int8, row by row, and so are the inputs of each product: some of the best targets are others
than in float32, and scores differ a little. The engine is made at the first search; a cache on disk would not help, as
the sum of the weights that it needs takes as long.

It is used only where no hook, `watch` or subclass could notice the difference; `search_all` falls back to
our own search elsewhere, and for targets that a repetition guard or the maximum length would have changed.
"""

from __future__ import annotations

import ctypes
import os
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from importlib.util import find_spec
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from regard.matrix import attention
from regard.nn import Decoder, DecoderLayer, Encoder, EncoderLayer, FeedForward, MultiHeadAttention, Transformer
from regard.support import threads
from regard.translation.searching.definition import Hypothesis, longest_target

_NEVER = -1e9  # the bias of a token that is never generated
_POLL, _LONGEST_POLL = 0.001, 0.01  # seconds between looks whether a batch is done: a signal is noticed in between
_OURS = (
    nn.Linear, nn.Embedding, nn.LayerNorm, nn.Dropout, nn.ModuleList, MultiHeadAttention, FeedForward, EncoderLayer,
    DecoderLayer, Encoder, Decoder,
)  # fmt: skip
_METHODS = ("enter", "encode", "decode", "states", "logits")


class Engine:
    """CTranslate2's translator for one model.

    >>> import regard
    >>> model = regard.Transformer(regard.TransformerConfig.tiny(vocabulary=50)).eval()
    >>> ((first, second),) = Engine(model).search([[[5, 6, 7, 0], [8, 0]]], beam=2, length_penalty=1.0)
    >>> len(first), first[0].score >= first[1].score
    (2, True)
    """

    def __init__(self, model: Transformer, *, int8: bool = True):
        import ctranslate2  # type: ignore[import-untyped]

        # No reference to the model itself, so that it can be freed, and this with it.
        self.config = model.config
        self.workers = torch.get_num_threads()
        kind = "int8_float32"
        if not int8 or kind not in ctranslate2.get_supported_compute_types("cpu"):
            kind = "float32"
        with tempfile.TemporaryDirectory(prefix="regard-") as folder:
            with threads(work=0):  # a small step for each tensor
                specification = _specification(model, int8=kind != "float32")
            specification.save(folder)
            # Several batches at a time, each with one thread: threads that share the small steps of one batch would
            # wait for each other in a loop, and on a busy machine for other processes.
            self._translator = ctranslate2.Translator(
                folder, device="cpu", inter_threads=self.workers, intra_threads=1, compute_type=kind
            )
        # Made with one thread, it sets OpenMP's number in this thread to one: that of torch too.
        torch.set_num_threads(self.workers)

    @staticmethod
    def supports(model: Transformer) -> bool:
        """Whether it may replace the model's own computation: CTranslate2 can express it, and nobody would notice.

        >>> import regard
        >>> Engine.supports(regard.Transformer(regard.TransformerConfig.tiny(key_heads=2)).eval())
        False
        """
        if model.config.key_heads not in (None, model.config.heads) or find_spec("ctranslate2") is None:
            return False
        first = next(model.parameters())
        if first.device.type != "cpu" or first.dtype != torch.float32 or torch.is_autocast_enabled("cpu"):
            return False
        return is_plain(model)

    @classmethod
    def of(cls, model: Transformer) -> Engine | None:
        """The one for this model, made at its first search and again when its weights have changed; None without."""
        if not cls.supports(model):
            return None
        weights = (*model.parameters(), model.output_bias)
        versions = tuple((w.data_ptr(), 0 if w.is_inference() else w._version) for w in weights)
        with _state.lock:
            cached = _state.engines.get(model)
            if cached is None or cached[0] != versions:
                with threads(work=0):
                    finite = all(bool(extreme.isfinite()) for w in weights for extreme in torch.aminmax(w.detach()))
                try:
                    made = cls(model) if finite else None  # our own search says what is wrong with the weights
                except OSError:  # no folder for temporary files, or no room in it
                    made = None
                cached = _state.engines[model] = versions, made
            return cached[1]

    def search(
        self, batches: Iterable[Sequence[Sequence[int]]], *, beam: int, length_penalty: float
    ) -> Iterator[list[list[Hypothesis]]]:
        """The `beam` best targets of each source, batch by batch, as many batches at a time as torch has threads.

        For each worker another batch waits, so that none is idle until the batch before its own is done too.
        """
        running: deque[list[Any]] = deque()
        available = torch.get_num_threads()
        most = 2 * self.workers if available >= self.workers else available
        for batch in batches:
            if len(running) == most:
                yield self._wait(running.popleft())
            longest = longest_target(max(map(len, batch)), self.config.positions)
            running.append(
                self._translator.translate_batch(
                    [[str(token) for token in source] for source in batch],
                    asynchronous=True,
                    beam_size=beam,
                    num_hypotheses=beam,
                    length_penalty=length_penalty,
                    max_input_length=0,
                    max_decoding_length=longest,
                    min_decoding_length=0,
                    return_end_token=True,
                    return_scores=True,
                )
            )
        while running:
            yield self._wait(running.popleft())

    def _wait(self, batch: list[Any]) -> list[list[Hypothesis]]:
        """The results of a batch; Ctrl-C does not wait for them."""
        pause = _POLL
        for result in batch:
            while not result.done():
                time.sleep(pause)
                pause = min(1.1 * pause, _LONGEST_POLL)
        return [self._targets(each.result()) for each in batch]

    def _targets(self, result: Any) -> list[Hypothesis]:
        targets = []
        for names, score in zip(result.hypotheses, result.scores, strict=True):
            tokens = [int(name) for name in names]
            ended = bool(tokens) and tokens[-1] == self.config.end
            targets.append(Hypothesis(tokens[:-1] if ended else tokens, score, ended))
        return targets


def is_plain(model: Transformer) -> bool:
    """Whether nobody would notice if another computation took the place of the model's own.

    >>> import regard
    >>> model = regard.Transformer(regard.TransformerConfig.tiny()).eval()
    >>> with regard.watch(model):
    ...     watched = is_plain(model)
    >>> is_plain(model), watched
    (True, False)
    """
    if model.training or model._forward_hooks or model._forward_pre_hooks:
        return False
    # Neither overridden nor patched:
    if any(getattr(getattr(model, name), "__func__", None) is not getattr(Transformer, name) for name in _METHODS):
        return False
    return all(map(_is_ours, (model.encoder, model.decoder, model.embedding)))


def _is_ours(module: nn.Module) -> bool:
    """Whether all submodules are as we made them, and none is hooked or watched."""
    for part in module.modules():
        if type(part) not in _OURS or part._forward_hooks or part._forward_pre_hooks:
            return False
        if isinstance(part, MultiHeadAttention) and part.attend is not attention:
            return False
    return True


# The model for CTranslate2


@torch.no_grad()
def _specification(model: Transformer, int8: bool) -> Any:
    """The model as CTranslate2 describes it; its tokens are called by their numbers."""
    from ctranslate2.specs import TransformerSpec  # type: ignore[import-untyped]
    from ctranslate2.specs.common_spec import Activation  # type: ignore[import-untyped]

    config = model.config
    activations = {"relu": Activation.RELU, "silu": Activation.SWISH, "gelu": Activation.GELU}
    specification = TransformerSpec.from_config(
        (config.encoder_layers, config.decoder_layers),
        config.heads,
        pre_norm=config.norm_first,
        activation=activations[config.activation],
    )

    def fill(part: Any, weight: Tensor, bias: Tensor | None = None) -> None:
        if int8:
            largest = weight.abs().amax(1)
            scale = 127 / torch.where(largest > 0, largest, 127.0)
            part.weight, part.weight_scale = (weight * scale[:, None]).round().to(torch.int8).numpy(), scale.numpy()
        else:
            part.weight = weight.contiguous().numpy()
        if bias is not None:
            part.bias = bias.contiguous().numpy()

    def fill_norm(part: Any, norm: nn.LayerNorm) -> None:
        part.gamma = norm.weight.numpy()
        part.beta = (torch.zeros_like(norm.weight) if norm.bias is None else norm.bias).numpy()

    def fill_attention(part: Any, layer: MultiHeadAttention, norm: nn.LayerNorm) -> None:
        weight, bias = layer.projection.weight, layer.projection.bias
        sizes = [sum(layer.sizes)] if layer.kind != "cross" else [layer.sizes[0], sum(layer.sizes[1:])]
        biases = [None] * len(sizes) if bias is None else torch.split(bias, sizes)
        for linear, *both in zip(part.linear, torch.split(weight, sizes), biases, strict=False):
            fill(linear, *both)
        fill(part.linear[-1], layer.output.weight, layer.output.bias)
        fill_norm(part.layer_norm, norm)

    for part, stack in ((specification.encoder, model.encoder), (specification.decoder, model.decoder)):
        fill(part.embeddings[0] if isinstance(part.embeddings, list) else part.embeddings, model.embedding.weight)
        part.position_encodings.encodings = model.positions.numpy()
        for place, layer in zip(part.layer, stack.layers, strict=True):
            assert isinstance(layer, EncoderLayer | DecoderLayer)
            fill_attention(place.self_attention, layer.attention, layer.attention_norm)
            if isinstance(layer, DecoderLayer):
                fill_attention(place.attention, layer.cross, layer.cross_norm)
            fill(place.ffn.linear_0, layer.feed_forward.up.weight, layer.feed_forward.up.bias)
            fill(place.ffn.linear_1, layer.feed_forward.down.weight, layer.feed_forward.down.bias)
            fill_norm(place.ffn.layer_norm, layer.feed_forward_norm)
        if stack.norm is not None:
            fill_norm(part.layer_norm, stack.norm)
    bias = model.output_bias.clone()
    bias[config.pad] = _NEVER
    fill(specification.decoder.projection, model.embedding.weight, bias)
    names = [str(token) for token in range(config.vocabulary)]
    specification.register_source_vocabulary(names)
    specification.register_target_vocabulary(names)
    for name in ("bos_token", "eos_token", "unk_token"):
        setattr(specification.config, name, str(config.end))
    specification.config.decoder_start_token = str(config.start)
    specification.validate()
    return specification


# Engines of this process


class _State:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.engines: WeakKeyDictionary[Transformer, tuple[Any, Engine | None]] = WeakKeyDictionary()


_state = _State()


def _forget() -> None:
    """After a fork: the child has none of the engines' threads. It makes its own engines, and never ends these."""
    global _state
    for _, engine in _state.engines.values():
        if engine is not None:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(engine._translator))  # its destructor would wait for ever
    _state = _State()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
