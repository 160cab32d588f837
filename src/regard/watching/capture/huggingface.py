"""Hugging Face models: an attention function and a mask function, registered under one name.

The only file that imports transformers, and only when one of its models is watched.
"""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.errors import InputError, WatchError
from regard.matrix import AttentionMatrix
from regard.scores import Dense, Mask, as_mask
from regard.watching.capture import calls
from regard.watching.capture.calls import AttentionCall
from regard.watching.capture.masks import LazyMask, Pattern, looks_causal, read_mask
from regard.watching.capture.steps import Hypotheses

_fused = functional.scaled_dot_product_attention
NAME = "regard"
_OF_TORCH = ("scaled_dot_product_attention", "multi_head_attention_forward")
IMPLEMENTATION = "_attn_implementation_internal"  # the attribute itself: its setter warns and propagates


class Name(str):
    """The name of our attention function in a config; `original` is the name that it replaces.

    It compares equal to "sdpa" where the original did, since models ask for SDPA to treat their masks as bools. A copy
    of the config gets the original.

    >>> Name("sdpa"), Name("sdpa") == "sdpa", Name("eager") == "eager"
    ('regard', True, False)
    """

    original: Any

    def __new__(cls, original: Any) -> Name:  # noqa: D102 (the class docstring covers it)
        name = super().__new__(cls, NAME)
        name.original = original
        return name

    def __eq__(self, other: object) -> bool:
        return str.__eq__(self, other) or (other == "sdpa" and self.bool_masks)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__

    def __deepcopy__(self, _: Any) -> Any:
        return self.original

    @property
    def bool_masks(self) -> bool:
        """Whether the model's code expects masks of bools, as for all functions but the eager one."""
        return self.original not in (None, "eager")


def is_model(kind: type[nn.Module]) -> bool:
    """Whether modules of a class belong to models of transformers, without importing transformers."""
    return any(base.__module__.startswith("transformers.") for base in kind.__mro__)


def wordless(modules: Mapping[str, nn.Module]) -> Callable[[str], bool]:
    """Return a function that tells by name whether a module reads something else than words.

    Each part of a model of transformers names what it reads. In a model that also reads images or audio, only the parts
    that read nothing but text read words.
    """
    models = {name: m for name, m in modules.items() if hasattr(type(m), "get_input_embeddings") and is_model(type(m))}
    read = {name: getattr(model, "input_modalities", "text") for name, model in models.items()}
    mixed = any("text" in what and what not in ("text", ("text",)) for what in read.values())
    others = tuple(f"{name}." for name, what in read.items() if "text" not in what)
    words = tuple(f"{name}." for name, what in read.items() if what in ("text", ("text",), ["text"])) if mixed else ()
    return functools.cache(
        lambda name: f"{name}.".startswith(others) or (bool(words) and not f"{name}.".startswith(words))
    )


def prepare() -> None:
    """Register both functions with transformers: without a mask function of that name, every mask would be None."""
    transformers = _transformers()
    transformers.AttentionInterface.register(NAME, _attention)
    transformers.AttentionMaskInterface.register(NAME, _mask)


def configs(modules: Iterable[Any]) -> list[Any]:
    """Return every config whose models call the registered attention function.

    A model that does not (its part of an encoder-decoder pair, say) keeps its own attention and its own masks.
    """
    routed: dict[int, bool] = {}  # by id of the config
    todo = []
    for module in modules:
        config, kind = vars(module).get("config"), type(module)
        if config is not None:
            routed[id(config)] = routed.get(id(config), True) and _may_route(kind)  # type: ignore[arg-type]
            todo.append(config)
    reached: dict[int, Any] = {}
    while todo:
        config = todo.pop()
        if id(config) not in reached and hasattr(config, IMPLEMENTATION):
            reached[id(config)] = config
            todo += [getattr(config, name, None) for name in config.sub_configs]
    return [config for key, config in reached.items() if routed.get(key, True)]


def keep_seeing(configs: Iterable[Any]) -> None:
    """Put our function back where the model set another one since, as Whisper's `generate` does."""
    for config in configs:
        if type(chosen := getattr(config, IMPLEMENTATION)) is not Name:
            setattr(config, IMPLEMENTATION, Name(chosen))


def routes(kind: Any) -> bool:
    """Whether a class of modules, or one that it extends, calls the registered function."""
    return "ALL_ATTENTION_FUNCTIONS" in _names(kind)


def calls_torch(kind: Any) -> bool:
    """Whether the code of a class calls an attention function of torch."""
    return not _names(kind).isdisjoint(_OF_TORCH)


def computes(kind: Any) -> bool:
    """Whether the code of a class may compute attention beside the registered function, or without it."""
    return not _names(kind).isdisjoint((*_OF_TORCH, "softmax", "Softmax", "logsumexp"))


@functools.cache
def _names(kind: Any) -> frozenset[str]:
    """Return the names in the code of a class of transformers, and in the code of the functions which it calls.

    If the class calls the registered function, its other functions are left out: it calls them only without it.
    """
    bases = [base for base in kind.__mro__ if base.__module__.startswith("transformers.models.")]
    names, called = _names_in([member for base in bases for member in vars(base).values()])
    while called and "ALL_ATTENTION_FUNCTIONS" not in names:
        more, called = _names_in(called)
        called = [] if more <= names else called
        names |= more
    return frozenset(names)


def _names_in(members: Iterable[Any]) -> tuple[set[str], list[Any]]:
    """Return the names in the code of some functions, and the functions of transformers' models among them."""
    names: set[str] = set()
    called: list[Any] = []
    for member in members:
        function: Any = inspect.unwrap(getattr(member, "__func__", getattr(member, "fget", member)) or member)
        todo = [function.__code__] if inspect.isfunction(function) else []
        while todo:
            code = todo.pop()
            names.update(code.co_names)
            todo += [constant for constant in code.co_consts if inspect.iscode(constant)]
            named = [function.__globals__.get(name) for name in code.co_names]
            called += [n for n in named if inspect.isfunction(n) and n.__module__.startswith("transformers.models.")]
    return names, called


class WatchedGenerate:
    """Replaces `generate` of a watched model: follows beams, and refuses at once what cannot be followed."""

    def __init__(self, original: Callable[..., Any]):
        self._original = original
        functools.update_wrapper(self, original)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return copy.deepcopy(self._original, memo)  # a method of the copy, which is not watched

    def __call__(self, *args: Any, **options: Any) -> Any:
        """Return what `generate` returns, if its steps can be put together."""
        model: Any = self._original.__self__  # type: ignore[attr-defined]
        configs = (*args, options.get("generation_config"), model.generation_config)
        config = copy.copy(next(value for value in configs if hasattr(value, "get_generation_mode")))
        for name, value in options.items():
            if hasattr(config, name):
                setattr(config, name, value)
        try:
            mode = config.get_generation_mode(options.get("assistant_model")).value
        except NotImplementedError:  # a model that generates in a way of its own
            return self._original(*args, **options)
        custom = type(model).generate.__module__ != "transformers.generation.utils"
        if custom and any("generate" in vars(part) for part in model.modules() if part is not model):
            return self._original(*args, **options)  # a model inside generates for it, and is watched too
        guided = getattr(config, "guidance_scale", None) not in (None, 1) and not custom
        beams = mode in ("beam_search", "beam_sample")
        if mode not in ("greedy_search", "sample") and not beams:
            raise WatchError(
                f"{mode.replace('_', ' ')} rewrites the cache between two steps, so the steps cannot be put together "
                "into one matrix. Generate without an assistant, or watch model(sequences) on what came out."
            )
        filled = getattr(options.get("past_key_values"), "get_seq_length", int)() > 0
        if beams and (custom or guided or filled or options.get("custom_generate") or config.prefill_chunk_size):
            raise WatchError(
                "beams cannot be followed together with guidance_scale, prefill_chunk_size, a cache that was filled "
                "before, or a generate of the model's own. Generate with num_beams=1, or watch model(sequences) on "
                "what came out."
            )
        watchers = calls.watchers_of(model)
        hypotheses: Hypotheses | None = None
        end = config.eos_token_id  # one, several or none
        ends = () if end is None else (end,) if isinstance(end, int) else tuple(end)
        inputs = {"input_ids": next(iter(args), None)} | options
        kind = "beams" if beams else "guided" if guided else ""
        for watcher, name in watchers:
            watcher.begin_generation(name, model, inputs, kind, ends)
        try:
            if not beams:
                return self._original(*args, **options)
            output = self._original(*args, **options | {"return_dict_in_generate": True})
            rows, count = output.beam_indices.long().cpu(), config.num_return_sequences or 1
            hypotheses = Hypotheses(rows, output.sequences, len(rows) // count, config.num_beams)
            return output if config.return_dict_in_generate else output.sequences
        finally:
            for watcher, _ in watchers:
                watcher.end_generation(hypotheses)


@functools.cache
def _may_route(kind: Any) -> bool:
    """Whether a class of models calls the registered function, as far as transformers can tell from its source."""
    can_set = getattr(kind, "_can_set_attn_implementation", None)
    return can_set is None or bool(can_set())


def load(path: str | Path, *, trust_remote_code: bool = False) -> tuple[nn.Module, Any]:
    """A model and its tokenizer from a folder or a GGUF file on this machine; nothing is downloaded.

    Args:
        path: the folder or the GGUF file.
        trust_remote_code: run Python code that lies in the folder.
    """
    transformers, path = _transformers(), Path(path)
    if not path.exists():
        raise InputError(f"{path} does not exist. Give a folder with a model, or a GGUF file.")
    had_progress_bar = transformers.logging.is_progress_bar_enabled()
    transformers.logging.disable_progress_bar()
    source: dict[str, Any] = {"pretrained_model_name_or_path": str(path), "local_files_only": True}
    source["trust_remote_code"] = trust_remote_code  # without it, transformers asks on standard input
    if path.is_file():
        source |= {"pretrained_model_name_or_path": str(path.parent), "gguf_file": path.name, "dtype": torch.float32}
    try:
        auto_class = transformers.AutoModelForCausalLM  # as in every GGUF file
        if path.is_dir():
            config = transformers.AutoConfig.from_pretrained(**source)
            if type(config) in transformers.MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING:
                auto_class = transformers.AutoModelForSpeechSeq2Seq
            elif config.is_encoder_decoder:
                auto_class = transformers.AutoModelForSeq2SeqLM
            elif "CausalLM" not in (config.architectures or [""])[0]:
                auto_class = transformers.AutoModel
        with _gguf_read_once() if path.is_file() else nullcontext():
            model = auto_class.from_pretrained(**source)
            source.pop("dtype", None)
            return model.eval(), transformers.AutoTokenizer.from_pretrained(**source)
    except Exception as error:  # a damaged folder or a folder of something else may raise anything
        own_code = not trust_remote_code and "trust_remote_code" in str(error)
        hint = " It runs only if you trust it: --trust-remote-code." if own_code else ""
        raise InputError(f"{path} could not be read as a model: {error or type(error).__name__}{hint}") from error
    finally:
        if had_progress_bar:
            transformers.logging.enable_progress_bar()


@contextmanager
def _gguf_read_once() -> Iterator[None]:
    """Let transformers, which reads a GGUF file three times, read it once, and without a progress bar."""
    import gguf
    from transformers import modeling_gguf_pytorch_utils as reader

    with (
        calls.replaced(gguf, "GGUFReader", functools.cache),
        calls.replaced(gguf, "get_tensor_name_map", functools.cache),
        calls.replaced(reader, "tqdm", lambda _: lambda items, **_: items),
    ):
        yield


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
    """Return the model's mask: lazy where its pattern is known, else the numbers that transformers computes."""
    masking_utils = _masking_utils()
    if (positions := options.get("cache_position")) is not None:  # transformers 5.0 passed the queries' positions
        q_length, q_offset = len(positions), positions[0]
    first, function = int(q_offset), mask_function or masking_utils.causal_mask_function
    target = torch.device(device if device is not None else getattr(attention_mask, "device", "cpu"))
    dtype = torch.bool if _expects_bools(options.get("config")) else options.get("dtype", torch.float32)
    queries, keys = range(first, first + q_length), range(kv_offset, kv_offset + kv_length)
    atoms = list(_atoms(function, masking_utils.__name__))
    if None in atoms:
        dense = masking_utils.sdpa_mask(
            batch_size=batch_size, q_length=q_length, kv_length=kv_length, q_offset=first, kv_offset=kv_offset,
            mask_function=function, attention_mask=attention_mask, device=target,
            **{**options, "allow_is_causal_skip": False, "allow_is_bidirectional_skip": False},
        )  # fmt: skip
        return LazyMask(Pattern(), queries, keys, batch_size, dtype, target, dense)
    parts: dict[str, list[Any]] = {"band": [], "padding": [], "documents": []}
    for kind, value in filter(None, atoms):
        parts[kind].append(value)
    if attention_mask is not None:
        parts["padding"].append(attention_mask.bool())
    # Padding before the keys of a window is needed later, when the steps are joined to the whole text.
    padding = tuple(p for p in parts["padding"] if not bool(p.all()) or p.shape[-1] < keys.stop)
    ids = tuple(d(keys.stop, target) if callable(d) else d for d in parts["documents"])
    lowest = max((low for low, _ in parts["band"] if low is not None), default=None)
    highest = min((high for _, high in parts["band"] if high is not None), default=None)
    bands = ((lowest, highest),) if parts["band"] else ()  # where several hold at once, as in a causal window
    pattern = Pattern(bands, padding, ids)
    if options.get("allow_is_bidirectional_skip") and not pattern.causal and not pattern.mask(queries, keys).atoms:
        return None  # as for eager attention: some models run without a mask, and fail on a mask of all keys
    return LazyMask(pattern, queries, keys, batch_size, dtype, target)


def _expects_bools(config: Any) -> bool:
    """Whether a model had the masks of SDPA before it was watched, rather than those of eager attention."""
    name = getattr(config, IMPLEMENTATION, None)
    return isinstance(name, Name) and name.bool_masks


@functools.cache
def _masking_utils() -> Any:
    """Import the module once: `from transformers import …` is slow in each step."""
    from transformers import masking_utils

    return masking_utils


def _atoms(function: Callable, home: str) -> Iterator[tuple[str, Any] | None]:
    """Yield the patterns that a mask function combines; None for an unknown pattern."""
    name = function.__qualname__.split(".")[0] if function.__module__ == home else ""
    if name == "causal_mask_function":
        yield "band", (None, 0)
        return
    captured = dict(inspect.getclosurevars(function).nonlocals) if name else {}
    if name == "and_masks":
        for part in captured["mask_functions"]:
            yield from _atoms(part, home)
    elif name == "sliding_window_overlay":
        yield "band", (1 - captured["sliding_window"], None)
    elif name == "sliding_window_bidirectional_overlay":
        yield "band", (-captured["sliding_window"], captured["sliding_window"])
    elif name == "padding_mask_function":
        yield "padding", captured["padding_mask"].bool()
    elif name == "packed_sequence_mask_function":
        yield "documents", captured["packed_sequence_mask"].long()
    elif name == "remap_positions_for_packed_sequence":  # since transformers 5.23
        positions = captured["position_ids"]
        yield from (_within_packed(atom, positions) for atom in _atoms(captured["mask_function"], home))
    elif name == "chunked_overlay":
        size, left = captured["chunk_size"], captured["left_padding"]
        yield "documents", lambda tokens, device: (torch.arange(tokens, device=device) - left[:, None]) // size
    elif name != "bidirectional_mask_function":
        yield None


def _within_packed(atom: tuple[str, Any] | None, positions: Tensor) -> tuple[str, Any] | None:
    """Turn a pattern in positions of each packed sequence into a pattern in positions of the whole row.

    Inside a packed sequence positions grow by one from token to token, so that distances, and with them bands, stay the
    same; chunks are counted from the beginning of the sequence.
    """
    match atom:
        case ("band", _):
            return atom
        case ("documents", chunks) if callable(chunks):
            return "documents", lambda tokens, device: chunks(int(positions.max()) + 1, device).gather(1, positions)
        case _:
            return None


# Attention


def _attention(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None = None,
    dropout: float = 0.0, scaling: float | None = None, is_causal: bool | None = None,
    position_bias: Tensor | None = None, softcap: float | None = None, s_aux: Tensor | None = None, **options: Any,
) -> tuple[Tensor, Tensor | None]:  # fmt: skip
    """Compute for transformers what eager attention or SDPA would; every watcher observes the call."""
    grouped = query.shape[1] != key.shape[1]
    plain = query.shape[2] == 1 and position_bias is None and softcap is None and s_aux is None
    plain = plain and not (options.get("output_attentions") or _may_change_weights(tuple(options)))
    if plain and calls.follow(module, query, key, attention_mask, scaling):
        output = _fused(query, key, value, dropout_p=dropout, scale=scaling, enable_gqa=grouped)
        return output.transpose(1, 2).contiguous(), None
    if options.get("cache") is not None:
        raise WatchError("continuous batching keeps its keys in pages, which regard cannot read. Use model.generate.")
    calls.check_readable(query)
    query, key, value = calls.to_one_dtype(query, key, value)
    if query.shape[0] != key.shape[0]:  # learned queries, the same for every text
        query, key, value = (t.expand(max(len(query), len(key)), -1, -1, -1) for t in (query, key, value))
    watchers = calls.watchers_of(module)
    name = watchers[0][1] if watchers else ""
    causal = False
    if attention_mask is None and query.shape[2] > 1 and _expects_bools(getattr(module, "config", None)):
        # For SDPA the module decides then; eager attention is causal by its mask only.
        causal = getattr(module, "is_causal", False) if is_causal is None else is_causal
    pattern, mask, dense_masks, queries, keys, causal = read_mask(attention_mask, query.shape[2], key.shape[2], causal)
    if len(keys) < key.shape[2]:
        key, value = key[:, :, : len(keys)], value[:, :, : len(keys)]
    dense_masks += () if position_bias is None else (position_bias,)
    dense_masks += tuple(_selected_keys(module, options, query, len(keys)))
    dense, kind = as_mask(None), _kind(module, name, causal, dense_masks)
    if dense_masks:
        dense = Mask(tuple(Dense(_with_infinities(mask)[..., : len(keys)]) for mask in dense_masks))
        mask = mask & dense
    sinks = None if s_aux is None else s_aux.to(query.dtype)
    shard = calls.shard_of(module, name, query.shape[1])
    call = AttentionCall(query, key, mask, scaling, softcap, sinks, kind, queries, keys, pattern, dense, shard=shard)
    wants_weights = bool(options.get("output_attentions"))

    def compute() -> tuple[Tensor, AttentionMatrix | None]:
        if query.shape[2] == 1 and not (mask.atoms or wants_weights) and softcap is None and sinks is None:
            # A step of a generation becomes a row of the matrix of all steps, and needs no matrix of its own.
            return _fused(query, key, value, dropout_p=dropout, scale=scaling, enable_gqa=grouped), None
        return call.attend(value, dropout)

    output, matrix = calls.attend(watchers, call, value, compute, dropout)
    weights = matrix.to_dense() if matrix is not None and wants_weights else None
    output = output.transpose(1, 2).contiguous()
    for watcher, own_name in watchers:
        watcher.note_output(own_name, output)
    return output, weights


# How models name tensors that change the weights. Other tensors, such as lengths and positions, are for other kernels.
_CHANGES_WEIGHTS = ("indices", "index", "mask", "bias", "sinks", "scores", "logits")


@functools.lru_cache(maxsize=256)
def _may_change_weights(options: tuple[str, ...]) -> bool:
    return any(name.endswith(_CHANGES_WEIGHTS) for name in options)


def _selected_keys(module: nn.Module, options: dict[str, Any], query: Tensor, keys: int) -> list[Tensor]:
    """Return masks of the keys that a sparse model's indexer selected: the model masks for eager attention only."""
    masks = []
    for name, value in options.items():
        if not isinstance(value, Tensor) or not name.endswith(_CHANGES_WEIGHTS):
            continue
        if name == "indices":  # (batch, queries, selected)
            visible = value.new_zeros(*value.shape[:2], keys, dtype=torch.bool)
            masks.append(visible.scatter_(-1, value.long(), True)[:, None])
        elif name == "block_indices":  # (batch, groups of heads, queries, selected), -1 for none
            size: int = module.indexer.block_size  # type: ignore[union-attr, assignment]
            blocks = -(-keys // size)
            selected = value.new_zeros(*value.shape[:3], blocks + 1, dtype=torch.bool)
            selected.scatter_(-1, value.masked_fill(value < 0, blocks).long(), True)
            visible = selected[..., :blocks].repeat_interleave(size, -1)[..., :keys]
            masks.append(visible.repeat_interleave(query.shape[1] // visible.shape[1], 1))
        else:
            raise WatchError(
                f"{type(module).__name__} passes {name!r} to its attention function, and regard does not know it: what "
                "it showed might not be what ran. Please report the model."
            )
    return masks


def _with_infinities(mask: Tensor) -> Tensor:
    """Turn the smallest float16 into -inf: it is not small enough to count as hidden everywhere."""
    if mask.dtype != torch.float16:
        return mask
    return mask.masked_fill(mask == torch.finfo(torch.float16).min, -torch.inf)


def _kind(module: nn.Module, name: str, causal_pattern: bool, dense: Iterable[Tensor]) -> str:
    if _attribute(module, "is_cross_attention") or calls.names_another_sequence(name):
        return "cross"
    causal = causal_pattern or _attribute(module, "is_causal") or any(map(looks_causal, dense))
    return "decoder" if causal else "encoder"


def _attribute(module: nn.Module, name: str) -> Any:
    """Return an attribute of a module or False; `getattr` of a missing attribute is slow in torch."""
    return vars(module).get(name) or getattr(type(module), name, False)


# Attention that a vision model computes part by part

_BOUNDARIES = "cu_seqlens"  # where a row of patches is cut into parts


def takes_parts(kind: type[nn.Module]) -> bool:
    """Whether the forward of a class receives boundaries at which it cuts a row into parts."""
    return _BOUNDARIES in inspect.signature(kind.forward).parameters


def boundaries(module: nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Tensor | None:
    """The boundaries that a forward of a module received, if any."""
    cuts = inspect.signature(module.forward).bind_partial(*args, **kwargs).arguments.get(_BOUNDARIES)
    return cuts if isinstance(cuts, Tensor) else None
