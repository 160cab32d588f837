"""A model on disk: a folder with config.json and model.safetensors, written whole or not at all."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from regard.errors import FileError

__all__ = ["fit", "read_config", "read_tensors", "write", "write_json"]


def write(folder: Path, config: Mapping[str, Any], tensors: Mapping[str, Tensor], *, int8: bool = False) -> None:
    """Write both files; each appears under its name only once it is complete.

    With `int8`, each row of a matrix is whole numbers from -127 to 127 (under the name `x.int8`) and the number they
    are multiples of (`x.scale`): a quarter the size, and off by at most half such a number.
    """
    folder.mkdir(parents=True, exist_ok=True)
    whole = {name: tensor.detach().contiguous().cpu() for name, tensor in tensors.items()}
    if int8:
        whole = {name: part for pair in whole.items() for name, part in _rounded(*pair)}
    _replace(folder / "model.safetensors", lambda path: save_file(whole, path, {"format": "pt"}))
    write_json(folder / "config.json", config)


def write_json(path: Path, found: Mapping[str, Any]) -> None:
    """One JSON file, for people to read too."""
    text = json.dumps(dict(found), indent=2, ensure_ascii=False) + "\n"
    _replace(path, lambda draft: Path(draft).write_text(text, encoding="utf-8"))


def _replace(path: Path, fill: Callable[[str], object]) -> None:
    handle, draft = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    os.close(handle)
    try:
        fill(draft)
        os.chmod(draft, 0o644)
        os.replace(draft, path)
    except BaseException:
        os.unlink(draft)
        raise


def _rounded(name: str, tensor: Tensor) -> list[tuple[str, Tensor]]:
    if tensor.dim() != 2:
        return [(name, tensor)]
    scale = tensor.float().abs().amax(1) / 127
    rows = tensor.float() / torch.where(scale > 0, scale, 1.0)[:, None]
    return [(f"{name}.int8", rows.round().to(torch.int8)), (f"{name}.scale", scale)]


def _restored(found: dict[str, Tensor], path: Path) -> dict[str, Tensor]:
    """The same tensors with every pair of `x.int8` and `x.scale` as the `x` they stand for."""
    whole = dict(found)
    for name in [name for name in found if name.endswith((".int8", ".scale"))]:
        stem, _, kind = name.rpartition(".")
        rows, scale = found.get(f"{stem}.int8"), found.get(f"{stem}.scale")
        if rows is None or scale is None or stem in found:
            raise FileError(f"{path} must hold {stem} either whole or as {stem}.int8 with {stem}.scale.")
        if (
            rows.dtype != torch.int8
            or rows.dim() != 2
            or scale.shape != rows.shape[:1]
            or not scale.is_floating_point()
        ):
            raise FileError(
                f"{path}: {stem}.int8 must be a matrix of int8 with a scale for each row. Got {rows.dtype} "
                f"{tuple(rows.shape)} with {scale.dtype} {tuple(scale.shape)}."
            )
        del whole[name]
        if kind == "int8":
            whole[stem] = rows.float() * scale.float()[:, None]
    return whole


def read_config(folder: Path) -> dict[str, Any]:
    """config.json as a dictionary."""
    path = folder / "config.json"
    if not folder.is_dir():
        raise FileError(f"{folder} is not a folder. A model is a folder with config.json and model.safetensors.")
    if not path.is_file():
        raise FileError(f"{path} is missing. A model is a folder with config.json and model.safetensors.")
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise FileError(f"{path} is not JSON: {error}. Was it cut short? Copy the folder again.") from None
    if not isinstance(found, dict):
        raise FileError(f"{path} must hold a JSON object. Got {type(found).__name__}.")
    return found


def read_tensors(folder: Path) -> dict[str, Tensor]:
    """The tensors of model.safetensors or, in old folders, of pytorch_model.bin (as data only, never as code)."""
    path = folder / "model.safetensors"
    if path.is_file():
        try:
            found = load_file(path)
        except (SafetensorError, OSError) as error:
            raise FileError(f"{path} is damaged: {error}. Was it cut short? Copy it again.") from None
        return _restored(found, path)
    old = folder / "pytorch_model.bin"
    if not old.is_file():
        raise FileError(f"{folder} holds neither model.safetensors nor pytorch_model.bin.")
    try:
        found = torch.load(old, map_location="cpu", weights_only=True)
    except Exception as error:
        raise FileError(f"{old} cannot be read as plain weights: {error}.") from None
    if not isinstance(found, dict) or not all(isinstance(t, Tensor) for t in found.values()):
        raise FileError(f"{old} must hold a dictionary of tensors.")
    return found


def fit(model: torch.nn.Module, tensors: Mapping[str, Tensor], source: Path) -> None:
    """Put tensors into a model, each in its place; name what is missing, left over or of another shape."""
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
