"""Hugging Face models: an attention function and a mask function under one name, and what their arguments mean.

The only file that imports transformers, and only when a model of it is watched.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard.errors import InputError, WatchError
from regard.scores import Dense, Mask
from regard.watching import registry
from regard.watching.call import Call, Source
from regard.watching.lazy_mask import LazyMask
from regard.watching.pattern import Pattern

__all__ = ["configs", "is_model", "load", "prepare", "routes"]

NAME = "regard"
_CROSS = ("cross", "encoder_attn", "encdec", "enc_dec")  # how models name attention to another text
_IMPLEMENTATION = "_attn_implementation_internal"  # where a config keeps it; its setter would also warn and spread


def is_model(module: nn.Module) -> bool:
    """Whether transformers made it; told without importing transformers."""
    return any(kind.__module__.startswith("transformers.") for kind in type(module).__mro__)


def prepare() -> None:
    """Make the two functions known to transformers. A name without a mask function would get no masks at all."""
    transformers = _transformers()
    transformers.AttentionInterface.register(NAME, _attention)
    transformers.AttentionMaskInterface.register(NAME, _mask)


def configs(modules: Iterable[Any]) -> Iterator[tuple[Any, str]]:
    """Every config that decides which attention function runs, and the attribute that says it."""
    todo = [module.config for module in modules if hasattr(module, "config")]
    seen: set[int] = set()
    while todo:
        config = todo.pop()
        if id(config) in seen or not hasattr(config, _IMPLEMENTATION):
            continue
        seen.add(id(config))
        todo += [getattr(config, name, None) for name in config.sub_configs]
        yield config, _IMPLEMENTATION


def routes(modules: Iterable[Any]) -> bool:
    """Whether any of them asks transformers which attention function to call, as far as its source tells."""
    told = [m._can_set_attn_implementation() for m in modules if hasattr(m, "_can_set_attn_implementation")]
    return any(told) or not told


def load(path: str | Path) -> tuple[nn.Module, Any]:
    """A model and its tokenizer from a folder or a GGUF file on this machine; nothing is fetched."""
    transformers, path = _transformers(), Path(path)
    if not path.exists():
        raise InputError(f"{path} does not exist. Give a folder with a model, or a GGUF file.")
    loud = transformers.logging.is_progress_bar_enabled()
    transformers.logging.disable_progress_bar()
    where: dict[str, Any] = {"pretrained_model_name_or_path": str(path), "local_files_only": True}
    if path.is_file():
        where |= {"pretrained_model_name_or_path": str(path.parent), "gguf_file": path.name, "dtype": torch.float32}
    try:
        maker = transformers.AutoModelForCausalLM  # which every GGUF file holds
        if path.is_dir():
            config = transformers.AutoConfig.from_pretrained(**where)
            if config.is_encoder_decoder:
                maker = transformers.AutoModelForSeq2SeqLM
            elif "CausalLM" not in (config.architectures or [""])[0]:
                maker = transformers.AutoModel
        model = maker.from_pretrained(**where)
        where.pop("dtype", None)
        return model.eval(), transformers.AutoTokenizer.from_pretrained(**where)
    except (OSError, ValueError, ImportError, KeyError) as error:
        raise InputError(f"{path} could not be read as a model: {error}") from error
    finally:
        if loud:
            transformers.logging.enable_progress_bar()


def _transformers() -> Any:
    try:
        import transformers
    except ImportError:
        raise WatchError("Hugging Face models need transformers: pip install 'regard[hf]'.") from None
    if int(transformers.__version__.split(".")[0]) < 5:
        raise WatchError(f"watching needs transformers 5 or newer. Got {transformers.__version__}.")
    return transformers


# Masks


def _mask(
    batch_size: int, q_length: int = 0, kv_length: int = 0, q_offset: int | Tensor = 0, kv_offset: int = 0,
    mask_function: Callable | None = None, attention_mask: Tensor | None = None, device: Any = None, **options: Any,
) -> Tensor | None:  # fmt: skip
    """The model's mask: as a pattern where it is one, else as the numbers that transformers makes of it."""
    from transformers import masking_utils

    if (places := options.get("cache_position")) is not None:  # transformers 5.0 gave the queries' places
        q_length, q_offset = len(places), places[0]
    first, function = int(q_offset), mask_function or masking_utils.causal_mask_function
    there = torch.device(device if device is not None else getattr(attention_mask, "device", "cpu"))
    queries, keys = range(first, first + q_length), range(kv_offset, kv_offset + kv_length)
    bands: list[tuple[int | None, int | None]] = []
    kept: list[Tensor] = []
    ids: list[Any] = []
    for atom in _atoms(function, masking_utils.__name__):
        if atom is None:
            dense = masking_utils.sdpa_mask(
                batch_size=batch_size, q_length=q_length, kv_length=kv_length, q_offset=first, kv_offset=kv_offset,
                mask_function=function, attention_mask=attention_mask, device=there,
                **{**options, "allow_is_causal_skip": False, "allow_is_bidirectional_skip": False},
            )  # fmt: skip
            return dense
        what, values = atom
        if what == "band":
            bands.append(values)
        else:
            (kept if what == "kept" else ids).append(values)
    if attention_mask is not None:
        kept.append(attention_mask.bool())
    # Padding before a window's keys stays: a later look at the whole text needs it.
    shown = tuple(k for k in kept if not bool(k.all()) or k.shape[-1] < keys.stop)
    same = tuple(i(keys.stop, there) if callable(i) else i for i in ids)
    return LazyMask(Pattern(_meet(bands), shown, same), queries, keys, batch_size, there)


def _meet(bands: list[tuple[int | None, int | None]]) -> tuple[tuple[int | None, int | None], ...]:
    """Bands that all hold, as one: a window that is causal too."""
    lowest = max((low for low, _ in bands if low is not None), default=None)
    highest = min((high for _, high in bands if high is not None), default=None)
    return ((lowest, highest),) if bands else ()


def _atoms(function: Callable, home: str) -> Iterator[tuple[str, Any] | None]:
    """The known patterns that a mask function is made of; None for one that is not known."""
    name = function.__qualname__.split(".")[0] if function.__module__ == home else ""
    inside = dict(inspect.getclosurevars(function).nonlocals) if name else {}
    if name == "and_masks":
        for part in inside["mask_functions"]:
            yield from _atoms(part, home)
    elif name == "causal_mask_function":
        yield "band", (None, 0)
    elif name == "sliding_window_overlay":
        yield "band", (1 - inside["sliding_window"], None)
    elif name == "sliding_window_bidirectional_overlay":
        yield "band", (-inside["sliding_window"], inside["sliding_window"])
    elif name == "padding_mask_function":
        yield "kept", inside["padding_mask"].bool()
    elif name == "packed_sequence_mask_function":
        yield "ids", inside["packed_sequence_mask"].long()
    elif name == "chunked_overlay":
        size, left = inside["chunk_size"], inside["left_padding"]
        yield "ids", lambda tokens, device: (torch.arange(tokens, device=device) - left[:, None]) // size
    elif name != "bidirectional_mask_function":
        yield None


# Attention


def _attention(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None = None,
    dropout: float = 0.0, scaling: float | None = None, is_causal: bool | None = None,
    position_bias: Tensor | None = None, softcap: float | None = None, s_aux: Tensor | None = None, **options: Any,
) -> tuple[Tensor, Tensor | None]:  # fmt: skip
    """What transformers calls in place of eager or SDPA: the same output, seen by whoever watches."""
    if options.get("cache") is not None:
        raise WatchError("continuous batching keeps its keys in pages, which regard cannot read. Use model.generate.")
    if query.is_meta:
        raise WatchError(
            "the model lies on the meta device, where tensors have no numbers to see. Move it to a real one."
        )
    query, key, value = _one_dtype(query, key, value)
    watchers = registry.watchers(module)
    name = watchers[0][1] if watchers else ""
    pattern, numbers, queries, keys = _placed(attention_mask, query.shape[2], key.shape[2])
    if attention_mask is None and query.shape[2] > 1:  # then the module says it, as for SDPA
        causal = getattr(module, "is_causal", False) if is_causal is None else is_causal
        pattern = Pattern(bands=((None, 0),)) if causal else pattern
    if pattern.causal and queries.stop < keys.stop:  # a static cache is longer than what can be seen of it
        keys = range(keys.start, queries.stop)
        key, value = key[:, :, : len(keys)], value[:, :, : len(keys)]
    numbers += [] if position_bias is None else [position_bias]
    dense = Mask(tuple(Dense(_hiding(number)[..., : len(keys)]) for number in numbers))
    sinks = None if s_aux is None else s_aux.to(query.dtype)
    source = Source(query, key, pattern.mask(queries, keys) & dense, scaling, softcap, sinks)
    matrix = source.matrix()
    output = matrix.attend(value, dropout)
    call = Call(source, _kind(module, name, pattern), queries, keys, pattern, dense)
    for watcher, own_name in watchers:
        output = watcher.saw(own_name, call, matrix, output)
    weights = matrix.to_dense() if options.get("output_attentions") else None
    return output.transpose(1, 2).contiguous(), weights


def _placed(mask: Tensor | None, queries: int, keys: int) -> tuple[Pattern, list[Tensor], range, range]:
    """A mask as pattern and as numbers, and where the queries and keys lie in the text."""
    if isinstance(mask, LazyMask):  # its keys may be more than a model uses, as eager attention cuts it too
        return mask.pattern, [], mask.queries, range(mask.keys.start, mask.keys.start + keys)
    places = range(max(keys - queries, 0), max(keys, queries)), range(keys)
    if mask is None:
        return Pattern(), [], range(queries), places[1]
    if mask.dim() == 2:
        return Pattern(kept=(mask.bool(),)), [], *places
    return Pattern(), [mask[..., :keys]], *places


def _hiding(numbers: Tensor) -> Tensor:
    """Half precision cannot write a number low enough to be read as "hidden" everywhere: say -inf instead."""
    if numbers.dtype != torch.float16:
        return numbers
    return numbers.masked_fill(numbers == torch.finfo(torch.float16).min, -torch.inf)


def _kind(module: nn.Module, name: str, pattern: Pattern) -> str:
    path = name.lower()
    if getattr(module, "is_cross_attention", False) or any(word in path for word in _CROSS):
        return "cross"
    return "decoder" if pattern.causal or getattr(module, "is_causal", False) else "encoder"


def _one_dtype(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Under autocast a model's rotated queries may be float32 beside values that are not."""
    kind = query.device.type
    if torch.is_autocast_enabled(kind):
        wide = torch.get_autocast_dtype(kind)
    elif query.dtype == key.dtype == value.dtype:
        return query, key, value
    else:
        wide = value.dtype
    return query.to(wide), key.to(wide), value.to(wide)
