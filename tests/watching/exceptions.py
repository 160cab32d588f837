"""Where the rules that make configs small, choose classes and find inputs do not do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from transformers import ResNetConfig

CLASSES: dict[str, str] = {
    "musicgen": "MusicgenForConditionalGeneration",
    "musicgen_melody": "MusicgenMelodyForConditionalGeneration",
}

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
    "blip-2": {"image_token_index": 3},
    "chameleon": {"vocabulary_map": {"<image>": 3, "IMGIMGAZ": 4, "IMGIMGBZ": 5}},
    "colpali": {"vlm_config.text_config.num_key_value_heads": 1},
    "csm": {"codec_config.upsample_groups": 64},
    "dbrx": {"attn_config.rope_theta": 10000.0},
    "deepseek_v2": {"num_experts_per_tok": 2, "n_group": 1, "topk_group": 1, "first_k_dense_replace": 1},
    "dots1": {"n_routed_experts": 4, "num_experts_per_tok": 2, "n_shared_experts": 1, "first_k_dense_replace": 1},
    "esm": {"vocab_size": 99, "pad_token_id": 0, "mask_token_id": 3},
    "falcon_h1": {**_MAMBA, "mamba_d_ssm": 128},
    "instructblip": {"image_token_index": 3},
    "instructblipvideo": {"video_token_index": 3},
    "jamba": {"num_hidden_layers": 2, "attn_layer_offset": 1, "attn_layer_period": 2, "expert_layer_offset": 1, "expert_layer_period": 2},
    "kyutai_speech_to_text": {"codec_config.upsample_groups": 64},
    "layoutlmv3": {"coordinate_size": 8, "shape_size": 16},
    "lfm2_moe": {"num_hidden_layers": 2, "layer_types": ["conv", "full_attention"], "num_dense_layers": 1},
    "lilt": {"hidden_size": 48},
    "llava_next": {"image_grid_pinpoints": [[32, 32]]},
    "llava_next_video": {"image_grid_pinpoints": [[32, 32]]},
    "llava_onevision": {"image_grid_pinpoints": [[32, 32]]},
    "longcat_flash": {"head_dim": 4},
    "mamba2": {"num_heads": 8, "head_dim": 16, "expand": 2, "n_groups": 1},
    "mimi": {"upsample_groups": 64},
    "mimi_decoder": {"upsample_groups": 64},
    "mllama": {"vision_config.intermediate_layers_indices": [0], "vision_config.vision_output_dim": 128, "text_config.cross_attention_layers": [1], "vision_config.num_global_layers": 1},
    "paligemma": {"text_config.num_key_value_heads": 1},
    "pocket_tts_audio_tokenizer": {"upsample_groups": 64},
    "pocket_tts_audio_tokenizer_decoder": {"upsample_groups": 64},
    "qwen4_exp_text": {"indexer_n_heads": 2, "indexer_kv_heads": 1, "indexer_head_dim": 16, "indexer_budget": 4, "indexer_compress_ratio": 2, "ngram_vocab_size_base": 50},
    "reformer": {"axial_pos_embds": False},
    "zamba": {"num_hidden_layers": 4, "layers_block_type": ["mamba", "hybrid", "mamba", "hybrid"]},
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
    "chameleon": {"pixel_values": None},
    "gemma4": {"pixel_values": None, "input_features": None, "input_features_mask": None},
    "gemma4_unified": {"pixel_values": None, "input_features": None, "input_features_mask": None},
    "embedding_gemma2": {"pixel_values": None, "input_features": None, "input_features_mask": None},
    "oneformer": {"task_inputs": lambda config: torch.randint(5, 50, (2, config.task_seq_len))},
    "instructblipvideo": {"pixel_values": _noise(2, 4, 3, 32, 32)},
    "decision_transformer": {
        "states": lambda config: torch.randn(2, 5, config.state_dim), "actions": lambda config: torch.randn(2, 5, config.act_dim),
        "rewards": _noise(2, 5, 1), "returns_to_go": _noise(2, 5, 1), "timesteps": lambda config: torch.arange(5).expand(2, 5),
        "attention_mask": lambda config: torch.ones(2, 5, dtype=torch.long),
    },
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
