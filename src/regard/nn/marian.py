"""Hugging Face Marian folders, both ways: the names of their weights and the fields of their config.

Marian's Transformer is regard's with other names: one shared embedding, sines then cosines, post-norm, a bias on the
logits. Its config allows more; a folder that uses more is refused, and the error names the field.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.errors import FileError, InputError, RegardError
from regard.nn.config import TransformerConfig

# regard → Marian, inside a layer. `projection` is Marian's q, k and v, concatenated.
_NAMES = {
    "attention.output": "self_attn.out_proj",
    "attention.projection": "self_attn.{}_proj",
    "attention_norm": "self_attn_layer_norm",
    "cross.output": "encoder_attn.out_proj",
    "cross.projection": "encoder_attn.{}_proj",
    "cross_norm": "encoder_attn_layer_norm",
    "feed_forward.up": "fc1",
    "feed_forward.down": "fc2",
    "feed_forward_norm": "final_layer_norm",
}
_LAYER = re.compile(r"(encoder|decoder)\.layers\.(\d+)\.(.+)\.(weight|bias)")
# Copies of the shared embedding that Marian stores, and positions, which a formula gives
_COPIES = re.compile(r"lm_head\.weight|model\.(en|de)coder\.embed_(tokens|positions)\.weight")
_ACTIVATIONS = {"swish": "silu", "silu": "silu", "relu": "relu", "gelu": "gelu"}
_FIXED: dict[str, tuple[Any, ...]] = {  # required values; None: the field may be absent
    "scale_embedding": (True,),
    "share_encoder_decoder_embeddings": (True, None),
    "tie_word_embeddings": (True, None),
    "normalize_before": (False, None),
    "normalize_embedding": (False, None),
    "add_final_layer_norm": (False, None),
    "add_bias_logits": (False, None),
    "static_position_embeddings": (True, None),
}


def read_config(fields: Mapping[str, Any], folder: Path) -> TransformerConfig:
    """Convert a Marian config to a `TransformerConfig`."""
    if fields.get("model_type") != "marian":
        raise FileError(f"{folder / 'config.json'} is not a Marian config: model_type is {fields.get('model_type')!r}.")
    wrong = [f"{name} = {fields.get(name)!r}" for name, allowed in _FIXED.items() if fields.get(name) not in allowed]
    wrong += [
        f"encoder_{name} other than decoder_{name}"
        for name in ("attention_heads", "ffn_dim")
        if fields.get(f"encoder_{name}") != fields.get(f"decoder_{name}")
    ]
    if fields.get("decoder_vocab_size") not in (None, fields.get("vocab_size")):
        wrong.append("two vocabularies")
    if fields.get("activation_function") not in list(_ACTIVATIONS):  # a list: the field may hold anything
        wrong.append(f"activation_function = {fields.get('activation_function')!r}")
    if wrong:
        raise FileError(
            f"{folder / 'config.json'} asks for what regard's Transformer does not have: {', '.join(wrong)}."
        )
    try:
        return TransformerConfig(
            vocabulary=fields["vocab_size"],
            width=fields["d_model"],
            heads=fields["encoder_attention_heads"],
            hidden=fields["encoder_ffn_dim"],
            encoder_layers=fields["encoder_layers"],
            decoder_layers=fields["decoder_layers"],
            activation=_ACTIVATIONS[fields["activation_function"]],
            dropout=fields.get("dropout", 0.1),
            positions=fields["max_position_embeddings"],
            pad=fields["pad_token_id"],
            end=fields["eos_token_id"],
            start=fields["decoder_start_token_id"],
        )
    except (KeyError, TypeError, RegardError) as error:
        raise FileError(f"{folder / 'config.json'} does not describe a Transformer: {error}") from None


def write_config(config: TransformerConfig) -> dict[str, Any]:
    """Convert a config to Marian's, with every field set: published models differ from MarianConfig's defaults."""
    if config.norm_first or not config.bias or config.key_heads not in (None, config.heads):
        raise InputError("A Marian model needs norm_first=False, bias=True and no grouped heads. This model differs.")
    theirs = {ours: name for name, ours in _ACTIVATIONS.items() if name != "silu"}
    both = {
        f"{side}_{name}": number
        for side in ("encoder", "decoder")
        for name, number in (("attention_heads", config.heads), ("ffn_dim", config.hidden), ("layerdrop", 0.0))
    }
    return {
        "architectures": ["MarianMTModel"],
        "model_type": "marian",
        "activation_dropout": 0.0,
        "activation_function": theirs[config.activation],
        "attention_dropout": 0.0,
        "bos_token_id": None,
        "d_model": config.width,
        "decoder_layers": config.decoder_layers,
        "decoder_start_token_id": config.start,
        "decoder_vocab_size": config.vocabulary,
        "dropout": config.dropout,
        "encoder_layers": config.encoder_layers,
        "eos_token_id": config.end,
        "forced_eos_token_id": config.end,
        "init_std": config.width**-0.5,
        "is_encoder_decoder": True,
        "max_position_embeddings": config.positions,
        "num_hidden_layers": config.encoder_layers,
        "pad_token_id": config.pad,
        "scale_embedding": True,
        "share_encoder_decoder_embeddings": True,
        "tie_word_embeddings": True,
        "use_cache": True,
        "vocab_size": config.vocabulary,
    } | both


def generation(config: TransformerConfig) -> dict[str, Any]:
    """The content of Marian's generation_config.json; padding is never generated."""
    return {
        "bad_words_ids": [[config.pad]],
        "decoder_start_token_id": config.start,
        "eos_token_id": config.end,
        "forced_eos_token_id": config.end,
        "max_length": config.positions,
        "num_beams": 4,
        "pad_token_id": config.pad,
    }


def to_marian(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Rename weights from regard to Marian."""
    renamed = {"model.shared.weight": tensors["embedding.weight"], "final_logits_bias": tensors["output_bias"][None]}
    for name, tensor in tensors.items():
        match = _LAYER.fullmatch(name)
        if match is None:
            continue
        side, layer, part, kind = match.groups()
        theirs = f"model.{side}.layers.{layer}.{_NAMES[part]}.{kind}"
        if "{}" in theirs:
            renamed |= {theirs.format(letter): third for letter, third in zip("qkv", tensor.chunk(3), strict=True)}
        else:
            renamed[theirs] = tensor
    return renamed


def from_marian(tensors: Mapping[str, Tensor], config: TransformerConfig, folder: Path) -> dict[str, Tensor]:
    """Rename weights from Marian to regard; the error names missing and unknown weights."""
    rest = {name: tensor.float() for name, tensor in tensors.items()}
    renamed: dict[str, Tensor] = {}

    def take(name: str) -> Tensor:
        if name not in rest:
            raise FileError(f"The weights of {folder} lack {name}. Is it a complete Marian model?")
        return rest.pop(name)

    renamed["embedding.weight"] = take("model.shared.weight")
    if renamed["embedding.weight"].dim() != 2:
        raise FileError(f"model.shared.weight of {folder} must be a matrix.")
    bias = rest.pop("final_logits_bias", None)
    renamed["output_bias"] = torch.zeros(len(renamed["embedding.weight"])) if bias is None else bias.flatten()
    for side, layers in (("encoder", config.encoder_layers), ("decoder", config.decoder_layers)):
        for layer in range(layers):
            for ours, theirs in _NAMES.items():
                if side == "encoder" and ours.startswith("cross"):
                    continue
                for kind in ("weight", "bias"):
                    name = f"model.{side}.layers.{layer}.{theirs}.{kind}"
                    parts = [take(name.format(letter)) for letter in "qkv"] if "{}" in name else [take(name)]
                    if len({part.shape for part in parts}) > 1 or not parts[0].dim():
                        raise FileError(
                            f"{name} of {folder} has shapes that do not match: {[tuple(part.shape) for part in parts]}."
                        )
                    renamed[f"{side}.layers.{layer}.{ours}.{kind}"] = torch.cat(parts)
    unknown = [name for name in rest if not _COPIES.fullmatch(name)]
    if unknown:
        raise FileError(
            f"The weights of {folder} have parts that regard's Transformer lacks: {', '.join(unknown[:3])}."
        )
    for name, tensor in rest.items():
        if "positions" not in name and not torch.equal(tensor, renamed["embedding.weight"]):
            raise FileError(f"{name} of {folder} differs from the shared embedding; regard ties all three embeddings.")
    return renamed
