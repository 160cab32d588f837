"""Where the rules that make configs small, choose classes and find inputs do not do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from transformers import ResNetConfig

CLASSES: dict[str, str] = {}

_RESNET = {"use_timm_backbone": False, "use_pretrained_backbone": False, "backbone": None}


def _resnet(stages: list[str]) -> ResNetConfig:
    return ResNetConfig(embedding_size=16, hidden_sizes=[16, 16, 16, 16], depths=[1, 1, 1, 1], layer_type="basic", out_features=stages)


_SERIES = {"prediction_length": 4, "context_length": 16, "lags_sequence": [1, 2, 3], "num_time_features": 2}
_SWIN = {"depths": [2, 1], "num_heads": [2, 4], "window_size": 2, "embed_dim": 32, "image_size": 32, "patch_size": 4}
_MAMBA = {"mamba_n_heads": 8, "mamba_d_head": 16, "mamba_expand": 2, "mamba_n_groups": 1}
_SAM_VISION = {"output_channels": 64, "num_pos_feats": 32, "global_attn_indexes": [1], "window_size": 2}

# By field; "part.field" is a field of a part, and "default" are arguments that the config cannot do without.
EXCEPTIONS: dict[str, dict[str, Any]] = {
    "autoformer": {"default": {"prediction_length": 4}, **_SERIES},
    "bamba": _MAMBA,
    "conditional_detr": {"default": {**_RESNET, "backbone_config": _resnet(["stage4"])}},
    "dab-detr": {"default": {**_RESNET, "backbone_config": _resnet(["stage4"])}},
    "deformable_detr": {"default": {**_RESNET, "backbone_config": _resnet(["stage2", "stage3", "stage4"])}},
    "detr": {"default": {**_RESNET, "backbone_config": _resnet(["stage4"])}},
    "donut-swin": _SWIN,
    "gpt_neo": {"attention_types": [[["global", "local"], 1]], "num_layers": 2, "window_size": 5},
    "granitemoehybrid": _MAMBA,
    "hunyuan_v1_dense": {"head_dim": 16},
    "hunyuan_v1_moe": {"head_dim": 16},
    "hunyuan_vl": {"text_config.head_dim": 16},
    "hunyuan_vl_text": {"head_dim": 16},
    "informer": {"default": {"prediction_length": 4}, **_SERIES},
    "led": {"attention_window": 4},
    "longformer": {"attention_window": 4},
    "ministral": {"head_dim": 16},
    "nemotron": {"num_key_value_heads": 2},
    "sam": {f"vision_config.{name}": value for name, value in _SAM_VISION.items()} | {"prompt_encoder_config.image_embedding_size": 4},
    "sam_hq": {f"vision_config.{name}": value for name, value in _SAM_VISION.items()} | {"prompt_encoder_config.image_embedding_size": 4},
    "swin": _SWIN,
    "table-transformer": {"default": {**_RESNET, "backbone_config": _resnet(["stage4"])}},
    "time_series_transformer": {"default": {"prediction_length": 4}, **_SERIES},
    "xmod": {"default_language": "en_XX"},
}  # fmt: skip


def _noise(*shape: int) -> Callable[[Any], Any]:
    return lambda config: torch.randn(shape)


# By argument of forward; None: not given.
FEEDS: dict[str, dict[str, Callable[[Any], Any] | None]] = {
    "wavlm + bert": {"input_values": _noise(2, 4000)},
    "wav2vec2 + trocr": {"input_values": _noise(2, 4000)},
    "hubert + bart": {"input_values": _noise(2, 4000)},
    "mllama": {
        "pixel_values": _noise(2, 1, 4, 3, 32, 32),
        "aspect_ratio_ids": lambda config: torch.ones(2, 1, dtype=torch.long),
        "aspect_ratio_mask": lambda config: torch.ones(2, 1, 4, dtype=torch.long),
    },
    "lxmert": {"visual_feats": lambda config: torch.randn(2, 5, config.visual_feat_dim), "visual_pos": _noise(2, 5, 4)},
    "pix2struct": {"flattened_patches": lambda config: torch.cat([torch.ones(2, 9, 2), torch.randn(2, 9, config.vision_config.patch_embed_hidden_size)], -1)},
}  # fmt: skip
