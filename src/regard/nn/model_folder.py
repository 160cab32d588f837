"""A model on disk: a folder with config.json and model.safetensors, each file written atomically.

config.json holds the SHA-256 of the other files and of itself (without these sums), so that damage is noticed. A folder
without sums, as older ones are, is opened all the same.
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

__all__ = ["add_sum", "check_size", "check_sum", "load_into", "read_config", "read_tensors", "write"]

_CONFIG, _WEIGHTS = "config.json", "model.safetensors"
_SUMS = "sha256"  # the field of config.json: for each file its sum, or while it is replaced the old and the new one


def write(
    folder: Path, config: Mapping[str, Any], tensors: Mapping[str, Tensor], *, int8: bool = False, sums: bool = True
) -> None:
    """Write both files; each appears under its name only once it is complete.

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
    found: list[str] = []

    def announce(draft: Path) -> None:
        # Whether the process is killed before or after the rename, config.json has the sum of what is there.
        found.append(sha256(draft))
        if weights.is_file():
            write_json(folder / _CONFIG, _with_sums(config, {_WEIGHTS: [sha256(weights), *found]}))

    write_safetensors(weights, tensors, {"format": "pt"}, before=announce)
    write_json(folder / _CONFIG, _with_sums(config, {_WEIGHTS: found[0]}))


def add_sum(folder: Path, name: str) -> None:
    """Put the sum of another file of the folder into config.json."""
    fields = read_config(folder)
    sums = fields.pop(_SUMS, {})
    write_json(folder / _CONFIG, _with_sums(fields, sums | {name: sha256(folder / name)}))


def check_sum(folder: Path, name: str) -> None:
    """Raise if a file of the folder is not the one whose sum is in config.json, or config.json has been changed."""
    fields = read_config(folder)
    sums = fields.pop(_SUMS, None)
    if sums is None:
        return
    if not isinstance(sums, dict) or sums.get(_CONFIG) != _own_sum(fields, sums):
        raise FileError(
            f"{folder / _CONFIG} is damaged or was edited: its own sha256 is another. Copy it again; if the change is "
            f'meant, delete its field "{_SUMS}".'
        )
    expected = sums.get(name)
    if expected is not None and sha256(folder / name) not in (expected if isinstance(expected, list) else [expected]):
        raise FileError(f"{folder / name} is damaged: its sha256 is not the one in {_CONFIG}. Copy it again.")


def _with_sums(config: Mapping[str, Any], sums: Mapping[str, Any]) -> dict[str, Any]:
    return dict(config) | {_SUMS: {_CONFIG: _own_sum(config, sums)} | {k: v for k, v in sums.items() if k != _CONFIG}}


def _own_sum(config: Mapping[str, Any], sums: Mapping[str, Any]) -> str:
    """The sum of config.json: of its fields, however they are laid out, and of the sums of the other files."""
    fields = dict(config) | {_SUMS: {name: found for name, found in sums.items() if name != _CONFIG}}
    return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()


def read_config(folder: Path) -> dict[str, Any]:
    """config.json as a dictionary."""
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
    """The tensors of model.safetensors or, in old folders, of pytorch_model.bin (as data only, never as code)."""
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
    """Raise if a model is far larger than its weights, before it is built: a wrong config must not fill the memory."""
    stored = sum(tensor.numel() for tensor in tensors.values())
    if parameters > 2 * stored:
        raise FileError(
            f"the weights of {source} do not fit its config.json, which describes {parameters:,} parameters. They hold "
            f"{stored:,} numbers."
        )


def load_into(model: torch.nn.Module, tensors: Mapping[str, Tensor], source: Path) -> None:
    """Copy tensors into a model; names those that are missing, unknown, of another shape or not finite."""
    own = model.state_dict()
    wrong = [f"{name} is missing" for name in own if name not in tensors]
    wrong += [f"{name} has no place in this model" for name in tensors if name not in own]
    wrong += [
        f"{name} must be {tuple(own[name].shape)}, is {tuple(tensor.shape)}"
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
    """The same tensors, with `x` in place of every pair of `x.int8` and `x.scale`."""
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
