"""A model on disk: a folder with config.json and model.safetensors, each file written atomically.

config.json holds the SHA-256 of the other files and of itself (without these checksums), which reveals damage. Older
folders have no checksums and open all the same.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.errors import FileError
from regard.nn.files import make_folder, read_json, read_safetensors, sha256, write_json, write_safetensors

_CONFIG, _WEIGHTS = "config.json", "model.safetensors"
_SUMS = "sha256"  # the field of config.json: the checksum of each file, or two while a file is replaced


def write(
    folder: Path, config: Mapping[str, Any], tensors: Mapping[str, Tensor], *, int8: bool = False, sums: bool = True
) -> None:
    """Write both files; each appears under its name only when it is complete.

    With `int8`, each row of a matrix is stored as integers from -127 to 127 (`x.int8`) and a scale (`x.scale`): a
    quarter of the size, with an error of at most half a scale.
    """
    make_folder(folder)
    if int8:
        tensors = {name: part for pair in tensors.items() for name, part in _quantized(*pair)}
    weights = folder / _WEIGHTS
    if not sums:
        write_safetensors(weights, tensors, {"format": "pt"})
        write_json(folder / _CONFIG, config)
        return
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


def check_size(parameters: int, tensors: Mapping[str, Tensor], source: Path) -> None:
    """Raise if a model is far larger than its weights: a wrong config must not exhaust the memory."""
    stored = sum(tensor.numel() for tensor in tensors.values())
    if parameters > 2 * stored:
        raise FileError(
            f"The weights of {source} hold {stored:,} numbers, but its config.json describes {parameters:,} parameters."
        )


def load_into(model: torch.nn.Module, tensors: Mapping[str, Tensor], source: Path) -> None:
    """Copy tensors into a model; the error names tensors that are missing, unknown, misshaped or not finite."""
    own = model.state_dict()
    wrong = [f"{name} is missing" for name in own if name not in tensors]
    wrong += [f"{name} is not a part of this model" for name in tensors if name not in own]
    wrong += [
        f"{name} must be {tuple(own[name].shape)}. Got {tuple(tensor.shape)}"
        for name, tensor in tensors.items()
        if name in own and own[name].shape != tensor.shape
    ]
    wrong += [f"{name} holds whole numbers" for name, tensor in tensors.items() if not tensor.is_floating_point()]
    if wrong:
        more = f", and {len(wrong) - 3} more" if len(wrong) > 3 else ""
        raise FileError(f"the weights of {source} do not fit its config.json: {'; '.join(wrong[:3])}{more}.")
    check_sum(source, _WEIGHTS)
    model.load_state_dict(dict(tensors))
    for name, tensor in own.items():
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
