"""A tiny model with random weights, and inputs for it, of every model type that transformers knows.

Configs are made small by rules over the names of their fields; `EXCEPTIONS` has what the rules do not get right.
"""

from __future__ import annotations

import inspect
import sys
import warnings
from dataclasses import dataclass
from typing import Any

import torch
import transformers as hf
from torch import nn
from transformers.models.auto import modeling_auto as auto
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from support.watching.architecture_exceptions import CLASSES
from support.watching.architecture_sizes import tiny

# The first class found for a model type is built: those that generate before those that only encode.
_MAPPINGS = (
    "IMAGE_TEXT_TO_TEXT", "MULTIMODAL_LM", "SEQ_TO_SEQ_CAUSAL_LM", "SPEECH_SEQ_2_SEQ", "CAUSAL_LM", "", "PRETRAINING",
    "MASKED_LM", "OBJECT_DETECTION", "UNIVERSAL_SEGMENTATION", "SEMANTIC_SEGMENTATION", "DEPTH_ESTIMATION",
    "TEXT_TO_SPECTROGRAM", "TEXT_TO_WAVEFORM", "BACKBONE", "MASK_GENERATION", "KEYPOINT_MATCHING", "KEYPOINT_DETECTION",
    "TIME_SERIES_PREDICTION", "IMAGE_TO_IMAGE", "IMAGE_MATTING", "RETRIEVAL", "CTC", "AUDIO_CLASSIFICATION",
    "IMAGE_CLASSIFICATION", "VIDEO_CLASSIFICATION", "TOKEN_CLASSIFICATION", "SEQUENCE_CLASSIFICATION", "TEXT_ENCODING",
    "ZERO_SHOT_OBJECT_DETECTION", "TEXT_RECOGNITION", "TABLE_RECOGNITION", "POSE_ESTIMATION",
)  # fmt: skip

# Two models of any kind in one: no config of their own.
_COMPOSITES = ("encoder-decoder", "vision-encoder-decoder", "speech-encoder-decoder", "vision-text-dual-encoder", "rag")


@dataclass(frozen=True)
class Pair:
    """A class of transformers that puts two models together."""

    name: str
    first: str
    second: str
    more: dict[str, Any]

    def make(self, attention: str | None) -> nn.Module:
        """Build it."""
        kind = getattr(hf, self.name)
        if self.name.startswith("Llava"):
            config = hf.LlavaConfig(
                vision_config=tiny(self.first),
                text_config=tiny(self.second, tie_word_embeddings=False),
                image_token_id=3,
                tie_word_embeddings=False,
            )
        elif self.name == "VisionTextDualEncoderModel":
            config = hf.VisionTextDualEncoderConfig(
                vision_config=tiny(self.first).to_dict(), text_config=tiny(self.second).to_dict(), projection_dim=32
            )
        else:
            second = tiny(self.second, is_decoder=True, add_cross_attention=True, **self.more)
            config = kind.config_class(encoder=tiny(self.first).to_dict(), decoder=second.to_dict())
            config.decoder_start_token_id, config.pad_token_id = 1, 0
        return kind._from_config(config, attn_implementation=attention)


def _pairs(name: str, *pairs: tuple[str, str]) -> dict[str, Pair]:
    return {f"{first} + {second}": Pair(name, first, second, {}) for first, second in pairs}


PAIRS = {
    **_pairs("EncoderDecoderModel", ("bert", "bert"), ("bert", "rembert"), ("roformer", "bert"), ("bert", "gpt2"), ("roberta", "roformer")),
    **_pairs("VisionEncoderDecoderModel", ("vit", "trocr"), ("swin", "bert"), ("donut-swin", "mbart"), ("deit", "gpt2"), ("vit", "roberta")),
    **_pairs("SpeechEncoderDecoderModel", ("wavlm", "bert"), ("wav2vec2", "trocr"), ("hubert", "bart")),
    **_pairs("VisionTextDualEncoderModel", ("clip_vision_model", "bert"), ("vit", "bert")),
    **_pairs("LlavaForConditionalGeneration", ("clip_vision_model", "falcon"), ("clip_vision_model", "bloom"), ("siglip_vision_model", "gptj"), ("clip_vision_model", "mpt")),
}  # fmt: skip


def model_types() -> list[str]:
    """Every model type that has a model, and the pairs of two models."""
    return [*sorted(name for name in CONFIG_MAPPING if name not in _COMPOSITES and class_of(name)), *PAIRS]


def class_of(model_type: str) -> str:
    """The name of the class to build; "" where transformers has only a config."""
    if model_type in PAIRS:
        return PAIRS[model_type].name
    if model_type in CLASSES:
        return CLASSES[model_type]
    for task in _MAPPINGS:
        if task == "CAUSAL_LM" and model_type in auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES:
            continue  # encoders may be used as decoders, but are not made for it
        mapping = getattr(auto, f"MODEL_FOR_{task}_MAPPING_NAMES".replace("FOR__", ""))
        mapping = auto.MODEL_MAPPING_NAMES if task == "" else mapping
        if task == "PRETRAINING":
            mapping = auto.MODEL_FOR_PRETRAINING_MAPPING_NAMES
        if found := mapping.get(model_type):
            return found if isinstance(found, str) else found[0]
    return ""


def has_attention(model_type: str) -> bool:
    """Whether the file of its class computes attention, or puts in models that may."""
    source = inspect.getsource(sys.modules[getattr(hf, class_of(model_type)).__module__])
    words = ("softmax", "scaled_dot_product", "MultiheadAttention", "ATTENTION_FUNCTIONS", "AutoModel", "load_backbone")
    return any(word in source for word in words)


def build(model_type: str, attention: str | None = None) -> nn.Module:
    """The model, always with the same weights. `attention`: which function computes it, else transformers' choice."""
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if model_type in PAIRS:
            model = PAIRS[model_type].make(attention)
        else:
            config = tiny(model_type)
            model = getattr(hf, class_of(model_type))._from_config(config, attn_implementation=attention)
    _randomise(model.float().eval())
    return model


def _randomise(model: nn.Module) -> None:
    """Weights of a size that makes attention far from uniform, also where a model begins with zeros."""
    draw = torch.Generator().manual_seed(1)
    convolutions = {id(m.weight) for m in model.modules() if isinstance(m, nn.modules.conv._ConvNd)}
    with torch.no_grad():
        for parameter in model.parameters():
            noise = torch.randn(parameter.shape, generator=draw)
            if not parameter.is_floating_point():
                continue
            if parameter.dim() > 1:
                inputs = parameter[0].numel() if id(parameter) in convolutions else parameter.shape[-1]
                parameter.copy_(noise * 1.2 / max(inputs, 1) ** 0.5)
            else:
                parameter.nan_to_num_(0.0).add_(noise * 0.1)
