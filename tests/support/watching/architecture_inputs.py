"""Inputs for any model of transformers, found by trying: what a model takes is read from its signature and its config.

Where a name leaves the layout open (mel bins before or after the frames, images or videos), each is tried in turn.
Where a text must hold as many image tokens as there are image features, the model's own error says how many.
"""

from __future__ import annotations

import copy
import inspect
import itertools
import re
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from support.watching.architecture_exceptions import FEEDS

TEXT = 12  # tokens of a text


class CannotFeed(Exception):
    """No inputs were found that the model takes."""


def feed(model: nn.Module, model_type: str) -> dict[str, Any]:
    """Inputs that the model takes, a batch of two, the second with padding where the model has texts."""
    told = "takes nothing that is known here"
    for number, candidate in enumerate(_candidates(model, model_type)):
        for _ in range(3):
            try:
                torch.manual_seed(2)
                with torch.no_grad():
                    model(**copy.deepcopy(candidate))
                return candidate
            except Exception as error:
                if not number:
                    told = f"{type(error).__name__}: {error}"
                if not _add_tokens(candidate, str(error), model):
                    break
    raise CannotFeed(told)


def _candidates(model: nn.Module, model_type: str) -> Iterator[dict[str, Any]]:
    torch.manual_seed(1)
    names = list(inspect.signature(model.forward).parameters)
    parameters = inspect.signature(model.forward).parameters
    own = FEEDS.get(model_type, {})
    options: dict[str, list[Any]] = {}
    for name in names:
        required = parameters[name].default is inspect.Parameter.empty and name not in ("kwargs", "args")
        choices = [*_choices(name, model, names, required)]
        if choices:
            options[name] = choices
    options |= {name: [value(model.config)] for name, value in own.items() if value is not None}
    options = {name: choices for name, choices in options.items() if name not in own or own[name] is not None}
    for chosen in itertools.islice(itertools.product(*options.values()), 24):
        inputs: dict[str, Any] = {}
        for name, value in zip(options, chosen, strict=True):
            inputs |= value if isinstance(value, dict) else {name: value}
        yield inputs


def find(config: Any, *names: str, default: Any = None) -> Any:
    """The first of these fields that the config or one of its parts has."""
    for name in names:
        if isinstance(value := getattr(config, name, None), (int, list, tuple)) and not isinstance(value, bool):
            return value
    for part in getattr(type(config), "sub_configs", {}):
        if (inner := getattr(config, part, None)) is not None and (value := find(inner, *names)) is not None:
            return value
    return default


def _text(config: Any, tokens: int = TEXT) -> Tensor:
    vocabulary = find(config, "vocab_size", default=99)
    vocabulary = vocabulary[0] if isinstance(vocabulary, (list, tuple)) else vocabulary
    return torch.randint(min(50, vocabulary // 2), max(vocabulary - 3, 2), (2, tokens))


def _real(tokens: int, side: str = "left") -> Tensor:
    real = torch.ones(2, tokens, dtype=torch.long)
    real[1, slice(0, 4) if side == "left" else slice(tokens - 4, tokens)] = 0
    return real


def _choices(name: str, model: nn.Module, names: list[str], required: bool) -> Iterator[Any]:
    config = model.config
    vision = getattr(config, "vision_config", config)
    channels = find(vision, "num_channels", "in_channels", "in_chans", default=3)
    channels = channels if isinstance(channels, int) else 3
    size = find(vision, "image_size", "img_size", "input_size", default=32)
    height, width = (size, size) if isinstance(size, int) else (*size, *size)[:2]
    patch = find(vision, "patch_size", default=8)
    patch = patch if isinstance(patch, int) else patch[0]
    frames = find(config, "num_frames", "frames_per_clip", default=4)
    mel = find(
        config,
        "feature_projection_input_dim",
        "num_mel_bins",
        "input_feat_per_channel",
        "feature_size",
        "input_feat_size",
        "n_mels",
        default=80,
    )
    long = find(config, "max_source_positions", "max_length", default=24)
    long = 2 * long if isinstance(long, int) else 48
    if name == "input_ids" and (
        required or model.main_input_name in (name, "pixel_values", "input_features") or "pixel_values" in names
    ):
        yield _text(config)
    elif name == "attention_mask" and "input_ids" in names:
        yield _real(TEXT, "right" if getattr(config, "is_encoder_decoder", False) or not _causal(model) else "left")
    elif name == "decoder_input_ids":
        yield _text(config, 7)
    elif name == "pixel_values" or (name == "image" and required):
        if "image_grid_thw" in names or "grid_thw" in names:
            yield from _patches(
                config, vision, channels, patch, "image_grid_thw" if "image_grid_thw" in names else "grid_thw", name
            )
        yield torch.randn(2, channels, height, width)
        yield torch.randn(2, 1, channels, height, width)
        yield torch.randn(2, frames, channels, height, width)
        yield torch.randn(2, channels, 64, 64)
        yield torch.randn(2, 2, channels, height, width)
    elif name == "pixel_values_videos" and (required or model.main_input_name == name):
        yield torch.randn(2, frames, channels, height, width)
        yield torch.randn(2, channels, frames, height, width)
    elif name == "hidden_states" and required and "grid_thw" in names:
        yield from _patches(config, vision, channels, patch, "grid_thw", name)
    elif name in ("input_features", "audio_mel", "spectrogram") and (
        required or model.main_input_name in (name, "input_ids")
    ):
        yield torch.randn(2, long, mel)
        yield torch.randn(2, mel, long)
        yield torch.randn(2, 1, mel, long)
    elif name in ("input_values", "padding_values") and (required or model.main_input_name == name):
        yield torch.randn(2, 4000)
        yield torch.randn(2, 1, 4000)
        yield torch.randn(2, find(config, "max_length", default=48), mel)
    elif name == "bbox":
        yield torch.randint(0, 8, (2, TEXT, 4)).cumsum(-1)
        yield torch.randn(2, TEXT, 8)
    elif name == "past_values" and required:
        length, many = (
            find(config, "context_length", default=32),
            find(config, "num_input_channels", "input_size", default=1),
        )
        more = find(config, "lags_sequence", default=[0])
        yield torch.randn(2, length + max(more), many)
        yield torch.randn(2, length + max(more))
        yield torch.randn(2, length + max(more), 1)
    elif name == "past_time_features" and required:
        yield torch.randn(
            2,
            find(config, "context_length") + max(find(config, "lags_sequence")),
            find(config, "num_time_features", default=0),
        )
    elif name == "future_time_features":
        yield torch.randn(2, find(config, "prediction_length"), find(config, "num_time_features", default=0))
    elif name == "future_values" and "past_time_features" in names:
        yield torch.randn(2, find(config, "prediction_length"))
    elif name == "past_observed_mask" and required:
        yield torch.ones(2, find(config, "context_length") + max(find(config, "lags_sequence")))
    elif (name == "inputs_embeds" and required) or (name == "encoder_hidden_states" and required):
        yield torch.randn(2, TEXT, find(config, "hidden_size", "d_model", default=32))
    elif name == "spatial_shapes" and required:
        yield torch.tensor([[4, 4], [4, 4]])
    elif name in ("mm_token_type_ids", "qformer_attention_mask") and "input_ids" in names:
        yield torch.full((2, TEXT), int(name != "mm_token_type_ids"))
    elif name == "qformer_input_ids":
        yield _text(config)
    elif name == "image_sizes":
        yield {}
        yield torch.tensor([[height, width]] * 2)
    elif name in ("input_features_mask", "feature_attention_mask"):
        yield torch.ones(2, long, dtype=torch.long)
    elif name == "use_cache":
        yield False


def _patches(config: Any, vision: Any, channels: int, patch: int, grid: str, name: str) -> Iterator[dict[str, Any]]:
    """Patches in rows and the grid that they come from, as the Qwen models take images."""
    for depth in dict.fromkeys((find(vision, "temporal_patch_size", "patch_temporal", default=1), 1)):
        for shape in ((2 * 16, channels * depth * patch * patch), (2 * 16, channels, patch, patch)):
            yield {name: torch.randn(shape), grid: torch.tensor([[1, 4, 4]] * 2)}


def _causal(model: nn.Module) -> bool:
    return bool(getattr(model, "can_generate", lambda: False)())


_KINDS = {"image": "image", "video": "video", "audio": "audio"}


def _add_tokens(inputs: dict[str, Any], message: str, model: nn.Module) -> bool:
    """Put in as many image, video or audio tokens as the error asks for."""
    found = re.search(
        r"(image|video|audio|multimodal|placeholder).*?features:?\s*\(?(\d+)", message, re.IGNORECASE | re.DOTALL
    )
    if not found or "input_ids" not in inputs or not int(found[2]):
        return False
    kind = found[1].lower()
    kind = kind if kind in _KINDS else ("audio" if "input_features" in inputs else "image")
    token = find(model.config, f"{kind}_token_id", f"{kind}_token_index", f"{kind}_token")
    if token is None:
        return False
    ids = inputs["input_ids"]
    each = -(-int(found[2]) // 2)
    if (ids == token).sum() == int(found[2]):  # it was the number of elements
        each //= find(getattr(model.config, "text_config", model.config), "hidden_size", "n_embd", "d_model", default=1)
    text = ids[ids != token].view(2, -1)
    inputs["input_ids"] = torch.cat([text[:, :5], torch.full((2, each), token), text[:, 5:]], 1)
    if "mm_token_type_ids" in inputs:
        inputs["mm_token_type_ids"] = (inputs["input_ids"] == token).long() * (2 if kind == "video" else 1)
    real = torch.ones_like(inputs["input_ids"])
    real[1, :4] = 0
    if "attention_mask" in inputs:
        inputs["attention_mask"] = real
    return True
