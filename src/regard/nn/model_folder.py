"""A model on disk: a folder with config.json and model.safetensors, regard's or Marian's.

Every file is written as a whole or not at all: as a draft beside it, flushed to the disk and then renamed. config.json
holds the SHA-256 of the other files and of itself (without these checksums), which reveals damage. Older folders have
no checksums and open all the same.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from regard.errors import FileError, InputError, RegardError
from regard.nn.config import TransformerConfig
from regard.support import DRAFT, reading, write_file

# Files

_LARGEST_JSON = 2**27  # bytes: vocabularies take a few million


def make_folder(folder: Path) -> None:
    """Create a folder and its parents, unless it exists."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(f"the folder {folder} cannot be made: {error.strerror or error}.") from None


def sha256(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    with reading(path), path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_bytes(path: Path, data: bytes) -> None:
    """Write any file."""
    write_file(path, lambda draft: draft.write_bytes(data))


def write_json(path: Path, fields: Mapping[str, Any]) -> None:
    """Write a JSON file, indented for people to read."""
    write_bytes(path, (json.dumps(dict(fields), indent=2, ensure_ascii=False) + "\n").encode())


def read_json(path: Path, hint: str = "") -> Any:
    """Read a JSON file."""
    try:
        if path.stat().st_size > _LARGEST_JSON:
            raise ValueError(f"larger than {_LARGEST_JSON:,} bytes")
        return json.loads(path.read_bytes().decode("utf-8"))
    except OSError as error:
        raise FileError(f"{path} cannot be read: {error.strerror}.") from None
    except RecursionError:
        raise FileError(f"{path} cannot be read: its JSON is nested too deeply.{hint}") from None
    except ValueError as error:  # wrong JSON, wrong UTF-8, or a number with thousands of digits
        raise FileError(f"{path} is not JSON: {error}.{hint}") from None


def write_safetensors(
    path: Path, tensors: Mapping[str, Tensor], metadata: dict[str, str], *, before: Callable[[Path], None] | None = None
) -> None:
    """Write tensors of any device, and a few strings; `before` gets the finished draft before it is renamed."""
    on_cpu = {name: tensor.detach().contiguous().cpu() for name, tensor in tensors.items()}

    def fill(draft: Path) -> None:
        # safetensors writes a temporary file beside the draft, which a killed process would leave behind.
        with TemporaryDirectory(prefix=".", suffix=DRAFT, dir=draft.parent) as room:
            try:
                save_file(on_cpu, Path(room, "tensors"), metadata)
            except SafetensorError as error:  # a full disk, for one
                raise OSError(str(error)) from None
            os.replace(Path(room, "tensors"), draft)

    write_file(path, fill, before)


def read_safetensors(path: Path, hint: str) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Read the tensors of a file, and its metadata."""
    try:
        with safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dictionary)
            return tensors, file.metadata() or {}
    except Exception as error:  # a damaged header raises many types of errors
        raise FileError(f"{path} is damaged: {error}. {hint}") from None


def checksum(text: str, tensors: Mapping[str, Tensor]) -> str:
    """The SHA-256 of a text, and of the name, the dtype, the shape and the numbers of every tensor."""
    digest = hashlib.sha256(text.encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(f"\n{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def remove_drafts(folder: Path) -> None:
    """Delete the drafts that killed processes left in a folder."""
    for draft in folder.glob(f".*{DRAFT}"):
        if draft.is_dir():
            shutil.rmtree(draft, ignore_errors=True)
        else:
            with contextlib.suppress(OSError):
                draft.unlink()


# regard's folders

_CONFIG, _WEIGHTS = "config.json", "model.safetensors"
_SUMS = "sha256"  # the field of config.json: the checksum of each file, or two while a file is replaced


def write(folder: Path, config: Mapping[str, Any], tensors: Mapping[str, Tensor], *, int8: bool = False) -> None:
    """Write both files; each appears under its name only when it is complete.

    With `int8`, each row of a matrix is stored as integers from -127 to 127 (`x.int8`) and a scale (`x.scale`): a
    quarter of the size, with an error of at most half a scale.
    """
    make_folder(folder)
    if int8:
        tensors = {name: part for pair in tensors.items() for name, part in _quantized(*pair)}
    weights = folder / _WEIGHTS
    digests: list[str] = []

    def announce(draft: Path) -> None:
        # If the process is killed before or after the rename, config.json has the checksum of the file in place.
        digests.append(sha256(draft))
        if weights.is_file():
            write_json(folder / _CONFIG, _with_sums(config, {_WEIGHTS: [sha256(weights), *digests]}))

    write_safetensors(weights, tensors, {"format": "pt"}, before=announce)
    write_json(folder / _CONFIG, _with_sums(config, {_WEIGHTS: digests[0]}))


def add_sum(folder: Path, name: str) -> None:
    """Add the checksum of another file of the folder to config.json."""
    fields = read_config(folder)
    sums = fields.pop(_SUMS, {})
    write_json(folder / _CONFIG, _with_sums(fields, sums | {name: sha256(folder / name)}))


def check_sum(folder: Path, name: str) -> None:
    """Raise if a file of the folder, or config.json itself, does not match its checksum in config.json."""
    fields = read_config(folder)
    sums = fields.pop(_SUMS, None)
    if sums is None:
        return
    if not isinstance(sums, dict) or sums.get(_CONFIG) != _own_sum(fields, sums):
        raise FileError(
            f"Checksum mismatch for {folder / _CONFIG}: the file is damaged or was edited. Copy it again, or delete "
            f'its field "{_SUMS}" if the edit is intended.'
        )
    expected = sums.get(name)
    if expected is not None and sha256(folder / name) not in (expected if isinstance(expected, list) else [expected]):
        raise FileError(f"Checksum mismatch for {folder / name}: the file is damaged. Copy it again.")


def _with_sums(config: Mapping[str, Any], sums: Mapping[str, Any]) -> dict[str, Any]:
    return dict(config) | {_SUMS: {_CONFIG: _own_sum(config, sums)} | {k: v for k, v in sums.items() if k != _CONFIG}}


def _own_sum(config: Mapping[str, Any], sums: Mapping[str, Any]) -> str:
    """The checksum of config.json: of its fields in any layout, and of the checksums of the other files."""
    fields = dict(config) | {_SUMS: {name: digest for name, digest in sums.items() if name != _CONFIG}}
    return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()


def read_config(folder: Path) -> dict[str, Any]:
    """Read config.json."""
    path = folder / _CONFIG
    if not folder.is_dir():
        raise FileError(f"{folder} is not a folder. A model is a folder with config.json and model.safetensors.")
    if not path.is_file():
        raise FileError(f"{path} is missing. A model is a folder with config.json and model.safetensors.")
    config = read_json(path, " Was it cut short? Copy the folder again.")
    if not isinstance(config, dict):
        raise FileError(f"{path} must hold a JSON object. Got {type(config).__name__}.")
    return config


def read_tensors(folder: Path) -> dict[str, Tensor]:
    """Read model.safetensors or, in old folders, pytorch_model.bin (as data, never as code)."""
    path = folder / _WEIGHTS
    if path.is_file():
        return _dequantized(read_safetensors(path, "Was it cut short? Copy it again.")[0], path)
    old = folder / "pytorch_model.bin"
    if not old.is_file():
        raise FileError(f"{folder} holds neither model.safetensors nor pytorch_model.bin.")
    try:
        tensors = torch.load(old, map_location="cpu", weights_only=True)
    except Exception as error:
        raise FileError(f"{old} cannot be read as plain weights: {error}.") from None
    if not isinstance(tensors, dict) or not all(isinstance(t, Tensor) for t in tensors.values()):
        raise FileError(f"{old} must hold a dictionary of tensors.")
    return tensors


def load_into(model: torch.nn.Module, tensors: Mapping[str, Tensor], source: Path) -> None:
    """Copy tensors into a model; the error names tensors that are missing, unknown, misshaped or not finite."""
    weights = model.state_dict()
    wrong = [f"{name} is missing" for name in weights if name not in tensors]
    wrong += [f"{name} is not a part of this model" for name in tensors if name not in weights]
    wrong += [
        f"{name} must be {tuple(weights[name].shape)}. Got {tuple(tensor.shape)}"
        for name, tensor in tensors.items()
        if name in weights and weights[name].shape != tensor.shape
    ]
    wrong += [f"{name} holds whole numbers" for name, tensor in tensors.items() if not tensor.is_floating_point()]
    if wrong:
        more = f", and {len(wrong) - 3} more" if len(wrong) > 3 else ""
        raise FileError(f"the weights of {source} do not fit its config.json: {'; '.join(wrong[:3])}{more}.")
    check_sum(source, _WEIGHTS)
    model.load_state_dict(dict(tensors))
    for name, tensor in weights.items():
        if not all(extreme.isfinite() for extreme in torch.aminmax(tensor)):
            raise FileError(f"the weights of {source} are damaged: {name} holds NaN or inf. Copy the folder again.")


# int8


def _quantized(name: str, tensor: Tensor) -> list[tuple[str, Tensor]]:
    if tensor.dim() != 2:
        return [(name, tensor)]
    tensor = tensor.detach().cpu().float()
    scale = tensor.abs().amax(1) / 127
    rows = tensor / torch.where(scale > 0, scale, 1.0)[:, None]
    return [(f"{name}.int8", rows.round().to(torch.int8)), (f"{name}.scale", scale)]


def _dequantized(stored: dict[str, Tensor], path: Path) -> dict[str, Tensor]:
    """Replace every pair of `x.int8` and `x.scale` by `x`."""
    whole = dict(stored)
    for name in [name for name in stored if name.endswith((".int8", ".scale"))]:
        stem, _, kind = name.rpartition(".")
        rows, scale = stored.get(f"{stem}.int8"), stored.get(f"{stem}.scale")
        if rows is None or scale is None or stem in stored:
            raise FileError(f"{path} must hold {stem} either whole or as {stem}.int8 with {stem}.scale.")
        is_matrix = rows.dtype == torch.int8 and rows.dim() == 2
        if not is_matrix or scale.shape != rows.shape[:1] or not scale.is_floating_point():
            raise FileError(
                f"{path}: {stem}.int8 must be a matrix of int8 with a scale for each row. Got {rows.dtype} "
                f"{tuple(rows.shape)} with {scale.dtype} {tuple(scale.shape)}."
            )
        del whole[name]
        if kind == "int8":
            whole[stem] = rows.float() * scale.float()[:, None]
    return whole


# Marian's folders: the same Transformer under other names. Fields that ask for more than that are refused.

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


def from_marian_config(fields: Mapping[str, Any], folder: Path) -> TransformerConfig:
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


def to_marian_config(config: TransformerConfig) -> dict[str, Any]:
    """Convert a config to Marian's, with every field set: published models differ from MarianConfig's defaults."""
    if config.norm_first or not config.bias or config.key_heads not in (None, config.heads):
        raise InputError("A Marian model needs norm_first=False, bias=True and no grouped heads. This model differs.")
    return {
        "architectures": ["MarianMTModel"],
        "model_type": "marian",
        "activation_dropout": 0.0,
        "activation_function": {"silu": "swish"}.get(config.activation, config.activation),
        "attention_dropout": 0.0,
        "bos_token_id": None,
        "d_model": config.width,
        "decoder_attention_heads": config.heads,
        "decoder_ffn_dim": config.hidden,
        "decoder_layerdrop": 0.0,
        "decoder_layers": config.decoder_layers,
        "decoder_start_token_id": config.start,
        "decoder_vocab_size": config.vocabulary,
        "dropout": config.dropout,
        "encoder_attention_heads": config.heads,
        "encoder_ffn_dim": config.hidden,
        "encoder_layerdrop": 0.0,
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
    }


def write_marian(folder: Path, config: TransformerConfig, tensors: Mapping[str, Tensor]) -> None:
    """Write a Marian folder. It has no checksums: transformers would copy them when it saves other weights."""
    fields = to_marian_config(config)
    make_folder(folder)
    write_safetensors(folder / _WEIGHTS, to_marian(tensors, config), {"format": "pt"})
    write_json(folder / _CONFIG, fields)
    generation = {
        "bad_words_ids": [[config.pad]],  # padding is never generated
        "decoder_start_token_id": config.start,
        "eos_token_id": config.end,
        "forced_eos_token_id": config.end,
        "max_length": config.positions,
        "num_beams": 4,
        "pad_token_id": config.pad,
    }
    write_json(folder / "generation_config.json", generation)


def to_marian(tensors: Mapping[str, Tensor], config: TransformerConfig) -> dict[str, Tensor]:
    """Rename weights from regard to Marian."""
    renamed = {"model.shared.weight": tensors["embedding.weight"], "final_logits_bias": tensors["output_bias"][None]}
    for name, marian_names in _layer_weights(config):
        renamed |= zip(marian_names, tensors[name].chunk(len(marian_names)), strict=True)
    return renamed


def _layer_weights(config: TransformerConfig) -> Iterator[tuple[str, list[str]]]:
    """The names of the weights of all layers: regard's, and Marian's one name or three."""
    for side, layers in (("encoder", config.encoder_layers), ("decoder", config.decoder_layers)):
        parts = [pair for pair in _NAMES.items() if side == "decoder" or not pair[0].startswith("cross")]
        for layer, (part, marian_part), kind in product(range(layers), parts, ("weight", "bias")):
            marian = f"model.{side}.layers.{layer}.{marian_part}.{kind}"
            names = [marian.format(letter) for letter in "qkv"] if "{}" in marian else [marian]
            yield f"{side}.layers.{layer}.{part}.{kind}", names


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
    for name, marian_names in _layer_weights(config):
        parts = [take(each) for each in marian_names]
        if len({part.shape for part in parts}) > 1 or not parts[0].dim():
            shapes = [tuple(part.shape) for part in parts]
            raise FileError(f"{', '.join(marian_names)} of {folder} have shapes that do not match: {shapes}.")
        renamed[name] = torch.cat(parts)
    unknown = [name for name in rest if not _COPIES.fullmatch(name)]
    if unknown:
        raise FileError(
            f"The weights of {folder} have parts that regard's Transformer lacks: {', '.join(unknown[:3])}."
        )
    for name, tensor in rest.items():
        if "positions" not in name and not torch.equal(tensor, renamed["embedding.weight"]):
            raise FileError(f"{name} of {folder} differs from the shared embedding; regard ties all three embeddings.")
    return renamed
