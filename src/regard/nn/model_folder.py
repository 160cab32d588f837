"""A model on disk: a folder with config.json and model.safetensors, each file written atomically."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from regard.errors import FileError

__all__ = [
    "load_into",
    "read_config",
    "read_json",
    "read_safetensors",
    "read_tensors",
    "write",
    "write_json",
    "write_safetensors",
]

_LARGEST_JSON = 2**27  # bytes: vocabularies take a few million


def write(folder: Path, config: Mapping[str, Any], tensors: Mapping[str, Tensor], *, int8: bool = False) -> None:
    """Write both files; each appears under its name only once it is complete.

    With `int8`, each row of a matrix is stored as integers from -127 to 127 (`x.int8`) and a scale (`x.scale`): a
    quarter of the size, with an error of at most half a scale.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if int8:
        tensors = {name: part for pair in tensors.items() for name, part in _quantized(*pair)}
    write_safetensors(folder / "model.safetensors", tensors, {"format": "pt"})
    write_json(folder / "config.json", config)


def read_config(folder: Path) -> dict[str, Any]:
    """config.json as a dictionary."""
    path = folder / "config.json"
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
    path = folder / "model.safetensors"
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
    """Copy tensors into a model; names those that are missing, unknown or of another shape."""
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
    model.load_state_dict(dict(tensors))


# Single files


def write_json(path: Path, fields: Mapping[str, Any]) -> None:
    """One JSON file, indented for people to read."""
    text = json.dumps(dict(fields), indent=2, ensure_ascii=False) + "\n"
    _write_atomically(path, lambda draft: Path(draft).write_text(text, encoding="utf-8"))


def read_json(path: Path, hint: str = "") -> Any:
    """The content of a JSON file."""
    try:
        if path.stat().st_size > _LARGEST_JSON:
            raise ValueError(f"larger than {_LARGEST_JSON:,} bytes")
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise FileError(f"{path} cannot be read: {error.strerror}.") from None
    except (ValueError, RecursionError) as error:  # not UTF-8, not JSON, too many digits, nested too deeply
        raise FileError(f"{path} is not JSON: {error}.{hint}") from None


def write_safetensors(path: Path, tensors: Mapping[str, Tensor], metadata: dict[str, str]) -> None:
    """Tensors of any device, and a few strings about them."""
    on_cpu = {name: tensor.detach().contiguous().cpu() for name, tensor in tensors.items()}
    _write_atomically(path, lambda draft: save_file(on_cpu, draft, metadata))


def read_safetensors(path: Path, hint: str) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors of a file, and its metadata."""
    try:
        with safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dictionary)
            return tensors, file.metadata() or {}
    except (SafetensorError, OSError) as error:
        raise FileError(f"{path} is damaged: {error}. {hint}") from None


def _write_atomically(path: Path, fill: Callable[[str], object]) -> None:
    """Write to a draft beside the file, then rename it: readers see the old content or the new, never a part."""
    handle, draft = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    os.close(handle)
    try:
        fill(draft)
        os.chmod(draft, 0o644)
        os.replace(draft, path)
    except BaseException:
        os.unlink(draft)
        raise


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
