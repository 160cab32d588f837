"""`Engine`: the search on a CPU, by CTranslate2, with the weights of a regard model.

The weights are rounded to int8, row by row, and so are the inputs of each product: some of the best targets differ from
those in float32, and scores differ slightly. The engine is made at the first search; a cache on disk would not help,
because the checksum of the weights that it needs takes as long.

The engine is used only if no hook, `watch` or subclass could notice the difference. Otherwise `search_all` uses
regard's own search, and also for targets that the repetition guard or the maximum length would have changed.
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
from itertools import chain
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from regard.matrix import attention
from regard.nn import Decoder, DecoderLayer, Encoder, EncoderLayer, FeedForward, MultiHeadAttention, Transformer
from regard.support import threads
from regard.translation.searching.definition import Hypothesis, longest_target

_NEVER = -1e9  # the bias of a token that is never generated
_POLL, _LONGEST_POLL = 0.001, 0.01  # seconds between polls of a batch: signals are handled in between
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

        # No reference to the model itself, so that both can be freed.
        self.config, self.workers, kind = model.config, torch.get_num_threads(), "int8_float32"
        if not int8 or kind not in ctranslate2.get_supported_compute_types("cpu"):
            kind = "float32"
        with tempfile.TemporaryDirectory(prefix="regard-") as folder:
            with threads(work=0):  # one thread: small steps
                specification = _specification(model, int8=kind != "float32")
            specification.save(folder)
            # Several batches at a time, each with one thread: threads that share the small steps of a batch would wait
            # for each other in a loop, and on a busy machine for other processes.
            self._translator = ctranslate2.Translator(
                folder, device="cpu", inter_threads=self.workers, intra_threads=1, compute_type=kind
            )
        # With intra_threads=1, CTranslate2 has set the number of OpenMP, and so that of torch, to one.
        torch.set_num_threads(self.workers)

    @staticmethod
    def supports(model: Transformer) -> bool:
        """Whether CTranslate2 can compute this model, and nothing would notice the difference.

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
        """The cached engine of this model, made again when its weights have changed; None if there can be none."""
        if not cls.supports(model):
            return None
        weights = (*model.parameters(), model.output_bias)
        versions = tuple((w.data_ptr(), 0 if w.is_inference() else w._version) for w in weights)
        with _lock:
            cached = _engines.get(model)
            if cached is None or cached[0] != versions:
                with threads(work=0):
                    finite = all(bool(extreme.isfinite()) for w in weights for extreme in torch.aminmax(w.detach()))
                try:
                    engine = cls(model) if finite else None  # regard's own search reports what is wrong
                except OSError:  # there is no folder for temporary files, or it is full
                    engine = None
                cached = _engines[model] = versions, engine
            return cached[1]

    def search(
        self, batches: Iterable[Sequence[Sequence[int]]], *, beam: int, length_penalty: float
    ) -> Iterator[list[list[Hypothesis]]]:
        """The `beam` best targets of each source, batch by batch, as many batches at a time as torch has threads.

        A second batch waits for each worker, so that no worker is idle.
        """
        running: deque[list[Any]] = deque()
        available = torch.get_num_threads()
        most = 2 * self.workers if available >= self.workers else available
        options = {"beam_size": beam, "num_hypotheses": beam, "length_penalty": length_penalty, "max_input_length": 0}
        options |= {"min_decoding_length": 0, "return_end_token": True, "return_scores": True, "asynchronous": True}
        for batch in batches:
            if len(running) == most:
                yield self._wait(running.popleft())
            names = [[str(token) for token in source] for source in batch]
            longest = longest_target(max(map(len, batch)), self.config.positions)
            running.append(self._translator.translate_batch(names, max_decoding_length=longest, **options))
        while running:
            yield self._wait(running.popleft())

    def _wait(self, batch: list[Any]) -> list[list[Hypothesis]]:
        """The results of a batch; Ctrl-C interrupts the wait."""
        pause = _POLL
        targets: list[list[Hypothesis]] = []
        for each in batch:
            while not each.done():
                time.sleep(pause)
                pause = min(1.1 * pause, _LONGEST_POLL)
        for result in (each.result() for each in batch):
            targets.append([])
            for names, score in zip(result.hypotheses, result.scores, strict=True):
                tokens = [int(name) for name in names]
                ended = tokens[-1:] == [self.config.end]
                targets[-1].append(Hypothesis(tokens[:-1] if ended else tokens, score, ended))
        return targets


def is_plain(model: Transformer) -> bool:
    """Whether a model is in eval mode, without hooks, `watch` or overridden methods that would notice a replacement.

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
    for part in chain(*(child.modules() for child in (model.encoder, model.decoder, model.embedding))):
        if type(part) not in _OURS or part._forward_hooks or part._forward_pre_hooks:
            return False
        if isinstance(part, MultiHeadAttention) and part.attend is not attention:
            return False
    return True


# The model for CTranslate2


@torch.no_grad()
def _specification(model: Transformer, int8: bool) -> Any:
    """The model as a CTranslate2 specification; the names of its tokens are their ids."""
    from ctranslate2.specs import TransformerSpec  # type: ignore[import-untyped]
    from ctranslate2.specs.common_spec import Activation  # type: ignore[import-untyped]

    config = model.config
    activations = {"relu": Activation.RELU, "silu": Activation.SWISH, "gelu": Activation.GELU}
    layers, activation = (config.encoder_layers, config.decoder_layers), activations[config.activation]
    specification = TransformerSpec.from_config(layers, config.heads, pre_norm=config.norm_first, activation=activation)

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


_lock = threading.Lock()
_engines: WeakKeyDictionary[Transformer, tuple[Any, Engine | None]] = WeakKeyDictionary()


def _forget() -> None:
    """After a fork, the child has no threads of these engines: it makes new engines, and never frees these."""
    global _lock, _engines
    for _, engine in _engines.values():
        if engine is not None:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(engine._translator))  # its destructor would wait forever
    _lock, _engines = threading.Lock(), WeakKeyDictionary()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
