"""Hugging Face Marian folders, both ways: the names of their weights and the fields of their config.

Marian's Transformer is ours with other names: one embedding for everything, sines then cosines, norms after the sums,
a bias on the logits. Its config has fields for more than that; a folder that uses them is refused by name.
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

__all__ = ["from_marian", "generation", "read_config", "to_marian", "write_config"]

# Ours → theirs, inside a layer. `projection` is their three, one above the other.
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
# Copies that Marian keeps of the one embedding, and positions that are a formula
_COPIES = re.compile(r"lm_head\.weight|model\.(en|de)coder\.embed_(tokens|positions)\.weight")
_ACTIVATIONS = {"swish": "silu", "silu": "silu", "relu": "relu", "gelu": "gelu"}
_FIXED: dict[str, tuple[Any, ...]] = {  # what must hold, and what a folder may say for it (None: nothing)
    "scale_embedding": (True,),
    "share_encoder_decoder_embeddings": (True, None),
    "tie_word_embeddings": (True, None),
    "normalize_before": (False, None),
    "normalize_embedding": (False, None),
    "add_final_layer_norm": (False, None),
    "add_bias_logits": (False, None),
    "static_position_embeddings": (True, None),
}


def read_config(found: Mapping[str, Any], place: Path) -> TransformerConfig:
    """Our config for one of theirs."""
    if found.get("model_type") != "marian":
        raise FileError(f"{place / 'config.json'} is no Marian config: model_type is {found.get('model_type')!r}.")
    wrong = [f"{name} = {found.get(name)!r}" for name, allowed in _FIXED.items() if found.get(name) not in allowed]
    wrong += [
        f"encoder_{name} other than decoder_{name}"
        for name in ("attention_heads", "ffn_dim")
        if found.get(f"encoder_{name}") != found.get(f"decoder_{name}")
    ]
    if found.get("decoder_vocab_size") not in (None, found.get("vocab_size")):
        wrong.append("two vocabularies")
    if found.get("activation_function") not in _ACTIVATIONS:
        wrong.append(f"activation_function = {found.get('activation_function')!r}")
    if wrong:
        raise FileError(
            f"{place / 'config.json'} asks for what regard's Transformer does not have: {', '.join(wrong)}."
        )
    try:
        return TransformerConfig(
            vocabulary=found["vocab_size"],
            width=found["d_model"],
            heads=found["encoder_attention_heads"],
            hidden=found["encoder_ffn_dim"],
            encoder_layers=found["encoder_layers"],
            decoder_layers=found["decoder_layers"],
            activation=_ACTIVATIONS[found["activation_function"]],
            dropout=found.get("dropout", 0.1),
            positions=found["max_position_embeddings"],
            pad=found["pad_token_id"],
            end=found["eos_token_id"],
            start=found["decoder_start_token_id"],
        )
    except (KeyError, RegardError) as error:
        raise FileError(f"{place / 'config.json'} does not describe a Transformer: {error}") from None


def write_config(config: TransformerConfig) -> dict[str, Any]:
    """Their config for ours, with every field set: the defaults of MarianConfig are not those of published models."""
    if config.norm_first or not config.bias or config.key_heads not in (None, config.heads):
        raise InputError("Marian has norms after the sums, biases everywhere and no grouped heads; this model has not.")
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
    """Their generation_config.json: padding is never an answer."""
    return {
        "bad_words_ids": [[config.pad]],
        "decoder_start_token_id": config.start,
        "eos_token_id": config.end,
        "forced_eos_token_id": config.end,
        "max_length": config.positions,
        "num_beams": 4,
        "pad_token_id": config.pad,
    }


def to_marian(tensors: Mapping[str, Tensor], config: TransformerConfig) -> dict[str, Tensor]:
    """Our weights under their names."""
    given = {"model.shared.weight": tensors["embedding.weight"], "final_logits_bias": tensors["output_bias"][None]}
    for name, tensor in tensors.items():
        match = _LAYER.fullmatch(name)
        if match is None:
            continue
        side, layer, part, kind = match.groups()
        theirs = f"model.{side}.layers.{layer}.{_NAMES[part]}.{kind}"
        if "{}" in theirs:
            given |= {theirs.format(letter): third for letter, third in zip("qkv", tensor.chunk(3), strict=True)}
        else:
            given[theirs] = tensor
    return given


def from_marian(tensors: Mapping[str, Tensor], config: TransformerConfig, place: Path) -> dict[str, Tensor]:
    """Their weights under our names; what has no place here is named."""
    rest = {name: tensor.float() for name, tensor in tensors.items()}
    taken: dict[str, Tensor] = {}

    def take(name: str) -> Tensor:
        if name not in rest:
            raise FileError(f"the weights of {place} lack {name}. Is it a whole Marian model?")
        return rest.pop(name)

    taken["embedding.weight"] = take("model.shared.weight")
    bias = rest.pop("final_logits_bias", None)
    taken["output_bias"] = torch.zeros(config.vocabulary) if bias is None else bias.flatten()
    for side, layers in (("encoder", config.encoder_layers), ("decoder", config.decoder_layers)):
        for layer in range(layers):
            for ours, theirs in _NAMES.items():
                if side == "encoder" and ours.startswith("cross"):
                    continue
                for kind in ("weight", "bias"):
                    name = f"model.{side}.layers.{layer}.{theirs}.{kind}"
                    parts = [take(name.format(letter)) for letter in "qkv"] if "{}" in name else [take(name)]
                    taken[f"{side}.layers.{layer}.{ours}.{kind}"] = torch.cat(parts)
    left = [name for name in rest if not _COPIES.fullmatch(name)]
    if left:
        raise FileError(f"the weights of {place} hold what regard's Transformer does not have: {', '.join(left[:3])}.")
    for name, tensor in rest.items():
        if "positions" not in name and not torch.equal(tensor, taken["embedding.weight"]):
            raise FileError(f"{name} of {place} is not the shared embedding: regard ties all three.")
    return taken
