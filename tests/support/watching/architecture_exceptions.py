"""Where the rules that make configs small, choose classes and find inputs do not do."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import torch
import transformers
from transformers import ResNetConfig

CLASSES: dict[str, str] = {
    "musicgen": "MusicgenForConditionalGeneration",
    "musicgen_melody": "MusicgenMelodyForConditionalGeneration",
    # The attention of these is in their head.
    "pp_ocrv5_mobile_rec": "PPOCRV5MobileRecForTextRecognition",
    "pp_ocrv5_server_rec": "PPOCRV5ServerRecForTextRecognition",
    "pp_ocrv6_small_rec": "PPOCRV6SmallRecForTextRecognition",
    "pp_ocrv6_tiny_rec": "PPOCRV6TinyRecForTextRecognition",
}

# Why a model is not tried, where its error does not say so.
REASONS: dict[str, str] = {
    "sam3_video": "needs a video and a text that describes what to follow",
    "voxtral_realtime_text": "transformers does not export its class",
}

_RESNET = {"use_timm_backbone": False, "use_pretrained_backbone": False, "backbone": None}


def _resnet(stages: list[str]) -> ResNetConfig:
    return ResNetConfig(
        embedding_size=16, hidden_sizes=[16, 16, 16, 16], depths=[1, 1, 1, 1], layer_type="basic", out_features=stages
    )


_ROTATION = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [4, 2, 2]}
_QWEN4 = {
    "indexer_n_heads": 2, "indexer_kv_heads": 1, "indexer_head_dim": 16, "indexer_budget": 4, "indexer_compress_ratio": 2,
    "ngram_vocab_size_base": 50,
}  # fmt: skip
_MINIMAX = {"index_block_size": 2, "index_topk_blocks": 1, "layer_types": ["full_attention", "minimax_m3_sparse"]}
_SERIES = {"prediction_length": 4, "context_length": 16, "lags_sequence": [1, 2, 3], "num_time_features": 2}
_SWIN = {"depths": [2, 1], "num_heads": [2, 4], "window_size": 2, "embed_dim": 32, "image_size": 32, "patch_size": 4}
_MAMBA = {"mamba_n_heads": 8, "mamba_d_head": 16, "mamba_expand": 2, "mamba_n_groups": 1}
_SAM_VISION = {"output_channels": 64, "num_pos_feats": 32, "global_attn_indexes": [1], "window_size": 2}
_COMPASS = {"full_attention": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [4, 2, 2]}}
_ASSISTANT = {
    "hidden_size_per_layer_input": 0,
    "vocab_size_per_layer_input": 0,
    "num_kv_shared_layers": 2,
    "num_hidden_layers": 2,
}
_SPARK_AUDIO = {
    "patch_sizes": [16, 6, 5, 4],
    "hidden_sizes": [8, 8, 16, 16],
    "depths": [1, 1, 1, 1],
    "num_hidden_layers": 4,
}
_HIERA = {
    "hidden_size": 16, "image_size": [64, 64], "blocks_per_stage": [1, 1, 2, 1], "embed_dim_per_stage": [16, 32, 48, 64],
    "num_attention_heads_per_stage": [1, 2, 2, 4], "window_size_per_stage": [4, 2, 4, 2], "global_attention_blocks": [3],
    "window_positional_embedding_background_size": [4, 4],
}  # fmt: skip
_SAM2_VISION = {
    **{f"backbone_config.{name}": value for name, value in _HIERA.items()}, "backbone_channel_list": [64, 48, 32, 16],
    "backbone_feature_sizes": [[16, 16], [8, 8], [4, 4]],
}  # fmt: skip
_INTRACLASS = {"reduce_channel": [1, 1, 0], "return_channel": [1, 1, 0]} | {
    f"{name}_{ratio}ratio": [size, [1, 1], [size[0] // 2, size[1] // 2]]
    for ratio, long in (("long", 7), ("mid", 5), ("short", 3))
    for name, size in (("vertical_long_to_small_conv", (long, 1)), ("horizontal_small_to_long_conv", (1, long)), ("symmetric_conv_long", (long, long)))
}  # fmt: skip
_MEMORY = dict.fromkeys((  # memories of 64 channels must be narrower than the rest
    "vision_config.fpn_hidden_size", "prompt_encoder_config.hidden_size", "mask_decoder_config.hidden_size",
    "memory_attention_hidden_size", "memory_encoder_hidden_size", "memory_fuser_embed_dim", "mask_downsampler_embed_dim",
), 128)  # fmt: skip
_SAM2_MEMORY = _MEMORY | {"image_size": 64, "memory_attention_rope_feat_sizes": [4, 4]}
_EDGETAM = _SAM2_MEMORY | {
    "memory_attention_rope_k_sizes": [2, 2],
    "perceiver_resampler_num_latents": 4,
    "perceiver_resampler_num_latents_2d": 4,
    "perceiver_resampler_attention_head_dim": 64,
}
_LCNET = {
    "backbone_config.stem_channels": [3, 48, 96], "backbone_config.out_features": ["stage1", "stage2", "stage3", "stage4"],
    "backbone_config.block_configs": [[[3, 96, 96, 1, True]], [[3, 96, 96, 2, False]], [[3, 96, 192, 2, False]], [[3, 192, 384, 2, True]]],
}  # fmt: skip
_SAM2 = {"prompt_encoder_config.image_size": 64, "prompt_encoder_config.patch_size": 16}

# By field; "part.field" is a field of a part, and "default" are arguments that the config cannot do without.
EXCEPTIONS: dict[str, dict[str, Any]] = {
    "autoformer": {"default": {"prediction_length": 4}, **_SERIES},
    "bamba": {**_MAMBA, "num_hidden_layers": 2, "attn_layer_indices": [1]},
    "blip-2": {"image_token_index": 3},
    "chameleon": {"vocabulary_map": {"<image>": 3, "IMGIMGAZ": 4, "IMGIMGBZ": 5}},
    "colpali": {"vlm_config.text_config.num_key_value_heads": 1},
    "csm": {"codec_config.upsample_groups": 64},
    "cosmos3_edge": {"text_config.rope_parameters": _ROTATION},
    "cosmos3_edge_text": {"rope_parameters": _ROTATION},
    "cvt": {"depth": [1, 2, 3]},
    "dbrx": {"attn_config.rope_theta": 10000.0, "attn_config.clip_qkv": 8.0},
    "depth_anything": {"backbone_config.reshape_hidden_states": False},
    "gemma4_audio": {"subsampling_conv_channels": [16, 8]},
    "groupvit": {"vision_config.num_group_tokens": [8, 4, 0], "vision_config.num_output_groups": [8, 4, 4], "vision_config.depths": [1, 1, 1]},
    "prompt_depth_anything": {"backbone_config.reshape_hidden_states": False},
    "qwen4_exp": {f"text_config.{name}": value for name, value in _QWEN4.items()},
    "step3p7": {"text_config.sliding_window": 5},
    "tipsv2_dpt": {"backbone_config.reshape_hidden_states": False},
    "zoedepth": {"backbone_config.reshape_hidden_states": False},
    "deepseek_v2": {"num_experts_per_tok": 2, "n_group": 1, "topk_group": 1, "first_k_dense_replace": 1},
    "dots1": {"n_routed_experts": 4, "num_experts_per_tok": 2, "n_shared_experts": 1, "first_k_dense_replace": 1},
    "esm": {"vocab_size": 99, "pad_token_id": 0, "mask_token_id": 3},
    "falcon_h1": {**_MAMBA, "mamba_d_ssm": 128},
    "instructblip": {"image_token_index": 3},
    "instructblipvideo": {"video_token_index": 3},
    "jamba": {"num_hidden_layers": 2, "attn_layer_offset": 1, "attn_layer_period": 2, "expert_layer_offset": 1, "expert_layer_period": 2},
    "kosmos-2": {"latent_query_num": 4},
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
    "minimax_m3_vl": {f"text_config.{name}": value for name, value in _MINIMAX.items()},
    "minimax_m3_vl_text": _MINIMAX,
    "mllama": {"vision_config.intermediate_layers_indices": [0], "vision_config.vision_output_dim": 128, "text_config.cross_attention_layers": [1], "vision_config.num_global_layers": 1},
    "paligemma": {"text_config.num_key_value_heads": 1},
    "pocket_tts_audio_tokenizer": {"upsample_groups": 64},
    "pocket_tts_audio_tokenizer_decoder": {"upsample_groups": 64},
    "qwen4_exp_text": _QWEN4,
    "recurrent_gemma": {"num_hidden_layers": 3},
    "sam3_lite_text_text_model": {"num_hidden_layers": 4},
    "reformer": {"axial_pos_embds": False},
    "zamba": {"num_hidden_layers": 4, "layers_block_type": ["mamba", "hybrid", "mamba", "hybrid"]},
    "conditional_detr": {"default": {**_RESNET, "backbone_config": _resnet(["stage4"])}},
    "dab-detr": {"default": {**_RESNET, "backbone_config": _resnet(["stage4"])}},
    "deformable_detr": {"default": {**_RESNET, "backbone_config": _resnet(["stage2", "stage3", "stage4"])}},
    "detr": {"default": {**_RESNET, "backbone_config": _resnet(["stage4"])}},
    "donut-swin": _SWIN,
    "gpt_neo": {"attention_types": [[["global", "local"], 1]], "num_layers": 2, "window_size": 5},
    "granitemoehybrid": {**_MAMBA, "num_hidden_layers": 2, "layer_types": ["linear_attention", "full_attention"]},
    "glm5_next": {"text_config.index_kpool": 2},
    "glm5_next_text": {"index_kpool": 2},
    "moonshine_streaming": {"num_key_value_heads": 4},
    "nemo_speechlm": {"audio_config.diarization_config.chunk_right_context": 2, "text_config.num_key_value_heads": 2},
    "nemotron3_5_transcribe_audio": {"diarization_config.chunk_right_context": 2},
    "nemotron3_diarization": {"chunk_right_context": 2},
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
    "vjepa2": {"crop_size": 32, "frames_per_clip": 4},
    "voxtral": {"audio_token_id": 3},
    "xmod": {"default_language": "en_XX"},
    "align": {"projection_dim": 128},
    "chmv2": {"backbone_config.return_class_token": True},
    "clap": {"audio_config.depths": [2, 1], "audio_config.num_attention_heads": [2, 4], "audio_config.patch_embeds_hidden_size": 64, "audio_config.hidden_size": 128},
    "clvp": {"text_config.num_attention_heads": 2, "speech_config.num_attention_heads": 2},
    "granite4_vision": {"deepstack_layer_map": [[-1, 0]], "downsample_rate": "1/2", "spatial_target_layers": [1], "image_grid_pinpoints": [[32, 32]]},
    "muse_glimmer": {"out_hidden_size": 256},
    "pp_ocrv5_server_det": {"intraclass_block_config": _INTRACLASS, "kernel_list": [3, 2, 2], "scale_factor_list": [1, 2, 4, 8]},
    "pp_ocrv6_medium_det": {"intraclass_block_config": _INTRACLASS, "kernel_list": [3, 2, 2], "scale_factor_list": [1, 2, 4, 8], **_LCNET},
    "qwen2_5_omni_thinker": {"vision_start_token_id": 20, "vision_end_token_id": 21, "audio_start_token_id": 22, "audio_end_token_id": 23},
    "qwen3_omni_moe_thinker": {"vision_start_token_id": 20, "vision_end_token_id": 21, "audio_start_token_id": 22, "audio_end_token_id": 23, "audio_config.n_window": 50, "audio_config.n_window_infer": 100},
    "seggpt": {"image_size": [64, 32]},
    "edgetam_video": {f"vision_config.{name}": value for name, value in _SAM2_VISION.items()} | _SAM2 | _EDGETAM,
    "neucodec": {"quantization_dim": 128},
    "sam2_video": {f"vision_config.{name}": value for name, value in _SAM2_VISION.items()} | _SAM2 | _SAM2_MEMORY,
    "sam3_tracker_video": {"vision_config.backbone_feature_sizes": [[16, 16], [8, 8], [4, 4]], "memory_attention_rope_feat_sizes": [4, 4], "image_size": 32, **_MEMORY},
    "xcodec": {"acoustic_model_config.downsampling_ratios": [8, 5, 4, 2], "acoustic_model_config.upsampling_ratios": [8, 5, 4, 2]},
    "xcodec2": {"quantization_dim": 128},
    "aria": {"projector_patch_to_query_dict": {"16": 4}},
    "cohere_compass": {"text_config.rope_parameters": _COMPASS},
    "cohere_compass_text": {"rope_parameters": _COMPASS},
    "deepseek_ocr2": {"vision_config.sam_config.downsample_channels": [32, 64], "text_config.mlp_layer_types": ["dense", "sparse"], "text_config.num_experts_per_tok": 2},
    "depth_pro": {"patch_size": 32, "intermediate_hook_ids": [1, 0], "fusion_hidden_size": 32, "intermediate_feature_dims": [16, 16], "scaled_images_feature_dims": [16, 16, 16]},
    "diffusion_gemma": {"text_config.num_experts": 4, "text_config.top_k_experts": 2, "text_config.moe_intermediate_size": 64},
    "efficientloftr": {"stage_num_blocks": [1, 1, 1, 1], "out_features": [16, 16, 32, 64], "num_attention_heads": 8},
    "emu3": {"vocabulary_map": {"<image>": 3, "<|extra_200|>": 4}},
    "ernie4_5_vl_moe": {"text_config.rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [3, 3, 2]}},
    "fastspeech2_conformer_with_hifigan": {"vocoder_config.model_in_dim": 16},
    "fun_asr_nano": {"adaptor_config.intermediate_size": 16},
    "gemma4_assistant": {"default": {"text_config": _ASSISTANT}, **{f"text_config.{name}": value for name, value in _ASSISTANT.items()}},
    "granite_speech": {"window_size": 4, "downsample_rate": 2},
    "granite_speech_plus": {"window_size": 4, "downsample_rate": 2},
    "lightglue": {"keypoint_detector_config.keypoint_decoder_dim": 65},
    "llama4": {"vision_config.intermediate_size": 256, "vision_config.projector_input_dim": 64, "vision_config.vision_output_dim": 64},
    "lw_detr": {"projector_scale_factors": [1.0]},
    "markuplm": {"tag_pad_id": 10, "subs_pad_id": 10},
    "molmo2": {"vision_config.image_size": [32, 32], "vision_config.num_position_embeddings": 16},
    "muse_spark": {f"audio_config.{name}": value for name, value in _SPARK_AUDIO.items()} | {"out_hidden_size": 256},
    "muse_spark_audio": _SPARK_AUDIO,
    "nemotron_h_omni": {"vision_config.video_temporal_patch_size": 2, "image_token_id": 3, "audio_token_id": 4, "video_token_id": 5},
    "pp_doclayout_v2": {"class_thresholds": [0.5] * 25, "class_order": [i % 20 for i in range(25)], "num_labels": 25, **{f"reading_order_config.{name}_token_id": i for i, name in enumerate(("start", "pad", "end", "pred"))}},
    "pp_ocrv6_small_det": {"layer_list_out_channels": [96, 96, 192, 384], **_LCNET},
    "pp_ocrv6_small_rec": {"backbone_config.stem_channels": [3, 48, 96]},
    "pp_ocrv6_tiny_rec": {"backbone_config.stem_channels": [3, 48, 96]},
    "pi0": {"vlm_config.text_config.num_key_value_heads": 1, "dit_config.num_key_value_heads": 1},
    "qwen3_asr": {"audio_config.n_window": 50, "audio_config.n_window_infer": 100},
    "qwen3_asr_encoder": {"n_window": 50, "n_window_infer": 100},
    "sam2": {f"vision_config.{name}": value for name, value in _SAM2_VISION.items()} | _SAM2,
    "sam2_hiera_det_model": _HIERA,
    "sam2_vision_model": _SAM2_VISION,
    "sam3_tracker": {"vision_config.backbone_feature_sizes": [[16, 16], [8, 8], [4, 4]]},
    "superglue": {"keypoint_detector_config.keypoint_decoder_dim": 65},
    "superpoint": {"keypoint_decoder_dim": 65},
    "t5gemma2_encoder": {"text_config.dropout_rate": 0.0},
    "tvp": {"visual_prompt_size": 8, "max_img_size": 64},
    "vibevoice_asr": {"acoustic_tokenizer_chunk_size": 3200},
    "vitmatte": {"backbone_config.patch_size": 16, "backbone_config.image_size": 64, "backbone_config.num_channels": 4},
    "xlstm": {"qk_dim_factor": 1.0},
}  # fmt: skip


def _noise(*shape: int) -> Callable[[Any], Any]:
    return lambda config: torch.randn(shape)


def _with(token: int, count: int, length: int = 12) -> torch.Tensor:
    """A text, some tokens of which stand for an image or audio."""
    text = torch.randint(50, 96, (2, length))
    text[:, 5 : 5 + count] = token
    return text


def _video(name: str, size: int) -> dict[str, Callable[[Any], Any] | None]:
    """The second frame of a video, whose first one has been shown to a model of other weights, with a point in it."""

    def session(config: Any) -> Any:
        kind = getattr(transformers, f"{name}Model")
        modeling = importlib.import_module(kind.__module__)
        made = getattr(modeling, f"{name}InferenceSession")(
            torch.randn(2, 3, size, size), size, size, dtype=torch.float32
        )
        made.add_point_inputs(
            made.obj_id_to_idx(1),
            0,
            {
                "point_coords": torch.full((1, 1, 1, 2), size / 2),
                "point_labels": torch.ones(1, 1, 1, dtype=torch.int32),
            },
        )
        made.obj_with_new_inputs = [1]
        with torch.no_grad():
            kind(config).eval()(made, frame_idx=0)
        made.cache.clear_all()
        return made

    return {"inference_session": session, "frame_idx": lambda config: 1}


_SIGLIP2 = {
    "pixel_values": _noise(2, 16, 192), "spatial_shapes": lambda config: torch.tensor([[4, 4], [4, 4]]),
    "pixel_attention_mask": lambda config: torch.ones(2, 16, dtype=torch.long),
}  # fmt: skip
_ASSISTED = {
    "input_ids": None, "inputs_embeds": lambda config: torch.randn(2, 1, 2 * config.backbone_hidden_size),
    "shared_kv_states": lambda config: {"shared_kv_states": {
        kind: (torch.randn(2, 2, 12, width), torch.randn(2, 2, 12, width))
        for kind, width in (("sliding_attention", 256), ("full_attention", 512))
    }},
    "position_ids": lambda config: torch.full((2, 1), 11),
}  # fmt: skip
_WINDOWS = {
    "input_features": _noise(2, 16, 200),
    "input_features_mask": lambda config: torch.ones(2, 200, dtype=torch.long),
}
_PACKED = {"pixel_values": _noise(1, 3, 8, 256), "target_sizes": lambda config: torch.tensor([[4, 4], [4, 4]])}
_CODEC = {"input_values": _noise(2, 1, 320 * 24), "input_features": _noise(2, 24, 64), "input_features_mask": None}
# By argument of forward; None: not given.
FEEDS: dict[str, dict[str, Callable[[Any], Any] | None]] = {
    "chameleon": {"pixel_values": None},
    "deepseek_vl_hybrid": {"high_res_pixel_values": _noise(2, 3, 32, 32)},
    "dia": {"decoder_input_ids": lambda config: torch.randint(5, 50, (2, 7, 9))},
    "fuyu": {"pixel_values": None},
    "idefics": {"pixel_values": _noise(2, 1, 3, 32, 32), "image_attention_mask": lambda config: torch.ones(2, 12, 1, dtype=torch.long)},
    "kosmos-2": {"image_embeds_position_mask": lambda config: torch.arange(12).lt(config.latent_query_num).long().expand(2, 12)},
    "blip_2_qformer": {"query_embeds": _noise(2, 5, 64), "encoder_hidden_states": lambda config: torch.randn(2, 9, config.encoder_hidden_size)},
    "timesfm": {"past_values_padding": lambda config: torch.zeros(2, config.context_length), "freq": lambda config: torch.zeros(2, 1, dtype=torch.long), "past_values": lambda config: torch.randn(2, config.context_length)},
    "lfm2_vl": {"pixel_values": None, "spatial_shapes": None},
    "musicgen": {"decoder_input_ids": lambda config: torch.randint(5, 50, (2 * config.decoder.num_codebooks, 7))},
    "musicgen_melody": {"decoder_input_ids": lambda config: torch.randint(5, 50, (2 * config.decoder.num_codebooks, 7)), "input_features": _noise(2, 9, 12)},
    "neomme": {"pixel_values": None},
    "perceiver": {"inputs": lambda config: torch.randn(2, 12, config.d_model)},
    "pop2piano": {"input_ids": None, "attention_mask": None, "input_features": _noise(2, 12, 64)},
    "siglip2": _SIGLIP2,
    "siglip2_vision_model": _SIGLIP2,
    "video_llama_3": {"image_merge_sizes": lambda config: torch.tensor([2, 2])},
    "video_llama_3_vision": {"merge_sizes": lambda config: torch.tensor([2, 2])},
    "voxtral_realtime": {"input_features": _noise(2, 16, 96)},
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
    "clap": {"input_features": _noise(2, 1, 64, 16)},
    "colqwen2": {"pixel_values": _noise(2, 16, 384), "image_grid_thw": lambda config: torch.tensor([[1, 4, 4]] * 2), "input_ids": lambda config: _with(config.vlm_config.image_token_id, 4)},
    "depth_pro": {"pixel_values": _noise(2, 3, 128, 128)},
    "efficientloftr": {"pixel_values": _noise(2, 2, 3, 64, 64)},
    "emu3": {"pixel_values": None},
    "fun_asr_nano_encoder": {"input_features": _noise(2, 48, 112)},
    "fun_asr_nano": {"input_features": _noise(2, 48, 112)},
    "gemma3n_audio": {"audio_mel_mask": lambda config: torch.zeros(2, 48, dtype=torch.bool)},
    "gemma4_audio": {"input_features": _noise(2, 48, 16)},
    "gemma4_vision": {"pixel_values": _noise(2, 16, 192), "pixel_position_ids": lambda config: torch.cartesian_prod(torch.arange(4), torch.arange(4)).expand(2, 16, 2)},
    "glm_image": {"pixel_values": None},
    "granite_speech5_ctc": {"input_features": _noise(2, 48, 64)},
    "granite_speech5_encoder": {"input_features": _noise(2, 48, 64)},
    "inkling_mm_model": {"pixel_values": _noise(4, 2, 8, 8, 3), "input_ids": lambda config: _with(config.image_token_id, 2)},
    "kyutai_speech_to_text": {"input_ids": lambda config: torch.randint(5, 50, (2, 12, config.num_codebooks + 1))},
    "edgetam_video": _video("EdgeTamVideo", 64),
    "gemma4_assistant": _ASSISTED,
    "gemma4_unified_assistant": _ASSISTED,
    "sam2_video": _video("Sam2Video", 64),
    "sam3_tracker_video": _video("Sam3TrackerVideo", 32),
    "granite_speech": {"input_features_mask": lambda config: torch.ones(2, 24, dtype=torch.bool)},
    "granite_speech_plus": {"input_features_mask": lambda config: torch.ones(2, 24, dtype=torch.bool)},
    "nemotron_h_omni": {"input_ids": lambda config: _with(3, 4), "input_features": None, "input_features_mask": None, "pixel_values": _noise(32, 192), "image_grid_hw": lambda config: torch.tensor([[4, 4]] * 2)},
    "qwen2_audio": {"input_features": _noise(2, 16, 256), "input_ids": lambda config: _with(config.audio_token_id, 64, 72), "attention_mask": lambda config: torch.ones(2, 72, dtype=torch.long)},
    "diffusion_gemma": {"attention_mask": lambda config: torch.ones(2, 12, dtype=torch.long)},
    "qwen3_asr": _WINDOWS,
    "qwen3_asr_encoder": _WINDOWS,
    "qwen3_omni_moe_thinker": {"input_features": _noise(2, 16, 200), "feature_attention_mask": lambda config: torch.ones(2, 200, dtype=torch.long)},
    "tvp": {"pixel_values": _noise(1, 16, 3, 64, 64), "input_ids": lambda config: torch.randint(50, 96, (1, 12)), "attention_mask": lambda config: torch.ones(1, 12, dtype=torch.long)},
    "xcodec": {"input_values": _noise(2, 1, 3200)},
    "lightglue": {"pixel_values": _noise(2, 2, 3, 64, 64)},
    "mimi_decoder": {"latents": _noise(2, 64, 9)},
    "minicpm_ocr_vision": _PACKED,
    "minicpmv4_7_vision": _PACKED,
    "molmo2": {"pixel_values": None},
    "muse_glimmer_assistant": {"noise_embeds": _noise(2, 4, 64), "context_hidden_states": lambda config: torch.randn(2, 6, 64 * len(config.target_layer_ids))},
    "muse_spark_audio": {"input_values": _noise(2, 5760)},
    "neucodec": _CODEC,
    "pi0": {"input_ids": lambda config: _with(config.vlm_config.image_token_id, 16, 28), "attention_mask": lambda config: torch.ones(2, 28, dtype=torch.long), "pixel_values": _noise(2, 1, 3, 32, 32), "pixel_attention_mask": lambda config: torch.ones(2, 1, dtype=torch.bool), "state": lambda config: torch.randn(2, config.max_state_dim)},
    "pocket_tts_audio_tokenizer_decoder": {"latents": _noise(2, 64, 9)},
    "pp_ocrv5_mobile_rec": {"pixel_values": _noise(2, 3, 80, 64)},
    "pp_ocrv5_server_rec": {"pixel_values": _noise(2, 3, 80, 64)},
    "pp_ocrv6_small_rec": {"pixel_values": _noise(2, 3, 80, 64)},
    "pp_ocrv6_tiny_rec": {"pixel_values": _noise(2, 3, 80, 64)},
    "sam2": {"pixel_values": _noise(2, 3, 64, 64)},
    "sam2_hiera_det_model": {"pixel_values": _noise(2, 3, 64, 64)},
    "sam2_vision_model": {"pixel_values": _noise(2, 3, 64, 64)},
    "seggpt": {name: _noise(2, 3, 32, 32) for name in ("pixel_values", "prompt_pixel_values", "prompt_masks")},
    "superglue": {"pixel_values": _noise(2, 2, 3, 64, 64)},
    "vibevoice_acoustic_tokenizer_decoder": {"hidden_states": lambda config: torch.randn(2, config.hidden_size, 2)},
    "vibevoice_acoustic_tokenizer_encoder": {"hidden_states": _noise(2, 1, 3200)},
    "vitmatte": {"pixel_values": _noise(2, 4, 64, 64)},
    "xcodec2": _CODEC,
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
