"""Configs of transformers made small, by rules over the names of their fields.

`EXCEPTIONS` (architecture_exceptions.py) has what the rules do not get right.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator
from typing import Any

import transformers as hf
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from support.watching.architecture_exceptions import EXCEPTIONS

WIDTH, HEADS, HEAD, INNER, VOCABULARY, POSITIONS, IMAGE, PATCH, EXPERTS = 64, 4, 16, 128, 99, 128, 32, 8, 4


def tiny(model_type: str, **more: Any) -> Any:
    """The config of this model type with the smallest sensible sizes."""
    own = EXCEPTIONS.get(model_type, {}) | more
    kind = CONFIG_MAPPING[model_type]
    default = kind(**own.get("default", {}))
    tokens = {name: 3 + i for i, name in enumerate(sorted(set(_token_names(default))))}
    config = _tiny(default, {k: v for k, v in own.items() if k != "default"}, tokens)
    for part in _tree(config):
        _fix_rotation(part)
    return config


def _tiny(default: Any, own: dict[str, Any], tokens: dict[str, int]) -> Any:
    kind = type(default)
    rows = _layers_to_keep(default)
    values: dict[str, Any] = {}
    subs = set(getattr(kind, "sub_configs", {}))
    for field in dataclasses.fields(kind):
        name = field.name
        if name.startswith("_") or not field.init:
            continue
        value = _get(default, name)
        if name in subs or isinstance(value, hf.PreTrainedConfig):
            if isinstance(value, hf.PreTrainedConfig):
                inner = {k.removeprefix(f"{name}."): v for k, v in own.items() if k.startswith(f"{name}.")}
                values[name] = _tiny(value, inner, tokens)
            continue
        class_default = None if field.default is dataclasses.MISSING else field.default
        per_layer = rows and isinstance(value, (list, tuple)) and len(value) == rows[0]
        if per_layer and name not in ("deepstack_visual_indexes",):
            values[name] = [_small(name, value[i], default, tokens) if "heads" in name else value[i] for i in rows[1]]
        elif class_default is not None or name in _ALWAYS:
            small = _small(name, value, default, tokens)
            if small is not value:
                values[name] = small
        elif isinstance(value, (int, list, tuple)) and not isinstance(value, bool) and _token(name):
            values[name] = _small(name, value, default, tokens)
    if rows:
        values[_layers_field(default)] = len(rows[1])
    if len(stages := _get(default, "out_features") or ()) > 1:
        if _get(default, "depths") or not rows:
            values["out_features"] = list(stages)
        else:  # as many layers as stages are asked for
            values[_layers_field(default)], values["out_indices"] = len(stages), [*range(1, len(stages) + 1)]
    values |= {k: v for k, v in own.items() if "." not in k}
    return kind(**{k: v for k, v in values.items() if v is not _LEAVE_OUT})


def _get(config: Any, name: str) -> Any:
    try:
        return getattr(config, name, None)
    except Exception:  # some fields vary by layer, and may not be asked of the whole
        return None


_LEAVE_OUT = object()
_ALWAYS = ("vision_feature_layer",)


def _layers_field(config: Any) -> str:
    for name in ("num_hidden_layers", "num_layers", "n_layer", "decoder_layers"):
        mapped = getattr(type(config), "attribute_map", {}).get(name, name)
        if mapped in {f.name for f in dataclasses.fields(type(config))} and isinstance(_get(config, mapped), int):
            return mapped
    return ""


def _layers_to_keep(config: Any) -> tuple[int, list[int]] | None:
    """The number of layers, and for each kind of layer the first that has it."""
    if not (field := _layers_field(config)):
        return None
    count = getattr(config, field)
    if not isinstance(count, int) or isinstance(count, bool) or count < 2:
        return None
    lists = []
    for part in dataclasses.fields(type(config)):
        value = _get(config, part.name)
        if isinstance(value, (list, tuple)) and len(value) == count and "indices" not in part.name:
            lists.append(value)
    kinds: dict[str, int] = {}
    for i in range(count):
        kinds.setdefault(str([values[i] for values in lists]), i)
    rows = sorted(kinds.values())[:4]
    rows += [i for i in range(count) if i not in rows][: max(2 - len(rows), 0)]
    return count, sorted(rows)


def _token(name: str) -> str:
    """A field that names a special token, without what varies in such names."""
    found = re.fullmatch(r"(.+?)(_token)?_(id|index|ids)", name)
    return found[1] if found and ("token" in name) else ""


def _token_names(config: Any) -> Iterator[str]:
    for part in _tree(config):
        for field in dataclasses.fields(type(part)):
            if _token(field.name) and _token(field.name) not in ("pad", "bos", "eos", "decoder_start"):
                yield _token(field.name)


def _tree(config: Any) -> Iterator[Any]:
    yield config
    for name in getattr(type(config), "sub_configs", {}):
        if isinstance(value := getattr(config, name, None), hf.PreTrainedConfig):
            yield from _tree(value)


# In this order; the first whose pattern is found in the name decides.
_RULES: list[tuple[str, Callable[[int], int]]] = [
    (r"token_|mask_time|mask_feature|kernel|stride|dilation|ratio|factor|_rate$|coef|cost|loss|temperature|theta|base$"
     r"|interval|_frequency|num_labels|output_stride|padding|seed|num_feature_levels|_every|_step$|_steps$|scale", lambda v: v),
    (r"codebook_size|num_codevectors", lambda v: min(v, 64)),
    (r"filters", lambda v: min(v, 8)),
    (r"vocab|num_embeddings$|entity_", lambda v: min(v, VOCABULARY)),
    (r"image_size|input_size|resolution$|img_size", lambda v: min(v, IMAGE)),
    (r"tokens_per_image|image_seq|soft_tokens", lambda v: min(v, 4)),
    (r"num_(mel_bins|frames)$", lambda v: min(v, 16)),
    (r"patch_size|^patch_length", lambda v: min(v, PATCH)),
    (r"per_tok|top_?k$|moe_k", lambda v: min(v, 2)),
    (r"(n|topk|num)_group|group$", lambda v: 1),
    (r"shared_experts", lambda v: min(v, 1)),
    (r"experts$|expert_num", lambda v: min(v, EXPERTS)),
    (r"expert_capacity", lambda v: v),
    (r"first_k_dense", lambda v: min(v, 1)),
    (r"kv_shared_layers|max_window_layers|sparse_layers", lambda v: 0),
    (r"feature_layer|layer_i", lambda v: v),
    (r"(key_value|kv)_heads?", lambda v: min(v, 2)),
    (r"heads?$|n_heads?|heads_", lambda v: min(HEADS, 1 << (v.bit_length() - 1)) if v > 0 else v),
    (r"layers?$|depths?$|n_layer|num_blocks$|num_layers", lambda v: min(v, 2)),
    (r"rope_head_dim|rotary_dim", lambda v: min(v, 4)),
    (r"head_dim|d_kv|head_size|dim_head|d_head|head_width", lambda v: min(v, HEAD)),
    (r"rank$|d_state|state_size", lambda v: min(v, 8)),
    (r"position|n_ctx|context_length|max_len|max_length|max_seq", lambda v: min(v, POSITIONS)),
    (r"sliding_window", lambda v: min(v, 5)),
    (r"window", lambda v: min(v, 4)),
    (r"chunk", lambda v: min(v, 8)),
    (r"num_queries|num_query|num_object_queries|num_latents|num_proposals|num_denoising", lambda v: min(v, 5)),
    (r"intermediate|ffn|d_ff|mlp_dim|inner|dff|feed_forward|dim_ff", lambda v: min(v, INNER)),
    (r"hidden|d_model|embed|n_embd|_dims?$|^dim$|width|channels?$|size$|features?$|filters|d_latents|planes", lambda v: min(v, WIDTH)),
]  # fmt: skip


def _small(name: str, value: Any, config: Any, tokens: dict[str, int]) -> Any:
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        if short := _token(name):
            standard = {"pad": 0, "bos": 1, "eos": 2, "decoder_start": 1}
            return standard.get(short, tokens.get(short, 3))
        if name == "window_size" and hasattr(config, "spatial_merge_size"):
            return 2 * PATCH * config.spatial_merge_size  # in pixels
        for pattern, rule in _RULES:
            if re.search(pattern, name):
                new = rule(value)
                if re.search(r"(key_value|kv)_heads?", name) and value >= (_get(config, "num_attention_heads") or 0):
                    new = min(value, HEADS)
                return new if new != value else value
        return value
    if (
        isinstance(value, (list, tuple))
        and value
        and all(isinstance(v, int) and not isinstance(v, bool) for v in value)
    ):
        if _token(name):
            return [2 for _ in value][:1] if "eos" in name else [_small(name[:-1], v, config, tokens) for v in value]
        if re.search(r"block_indexes|attn_indexes|deepstack|feature_layers?$|extract_layers", name):
            return [v if v < 0 else 1 for v in value[:1]]
        if re.search(r"depths$|blocks_per_stage|layer_repeat", name):
            return [min(v, 2 if i == 0 else 1) for i, v in enumerate(value)]
        new = [_small(name, v, config, tokens) for v in value]
        return new if list(value) != new else value
    return value


def _fix_rotation(config: Any) -> None:
    """Sections of a rotation (time, height, width) must add up to half of what is rotated of a head."""
    parameters = getattr(config, "rope_parameters", None)
    if not isinstance(parameters, dict):
        return
    try:
        head = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    except Exception:
        return
    for part in (parameters, *(p for p in parameters.values() if isinstance(p, dict))):
        if "rope_type" in part or "mrope_section" in part:
            half = int(head * part.get("partial_rotary_factor", 1.0)) // 2
            if sum(part.get("mrope_section", ())) != half:
                part["mrope_section"] = [half - 2 * (half // 3), half // 3, half // 3]
