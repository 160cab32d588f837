"""Files that are written as a whole or not at all: a draft beside the file, flushed to disk, then renamed."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from regard.errors import FileError
from regard.support import DRAFT, write_file

_LARGEST_JSON = 2**27  # bytes: vocabularies take a few million


def make_folder(folder: Path) -> None:
    """Create a folder and its parents, unless it exists."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(f"the folder {folder} cannot be made: {error.strerror or error}.") from None


def sha256(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except (OSError, ValueError) as error:
        raise FileError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}.") from None


def write_bytes(path: Path, data: bytes) -> None:
    """Write any file."""
    _write(path, lambda draft: draft.write_bytes(data))


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
            save_file(on_cpu, Path(room, "tensors"), metadata)
            os.replace(Path(room, "tensors"), draft)

    _write(path, fill, before)


def read_safetensors(path: Path, hint: str) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Read the tensors of a file, and its metadata."""
    try:
        with safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dictionary)
            return tensors, file.metadata() or {}
    except Exception as error:  # a damaged header raises many types of errors
        raise FileError(f"{path} is damaged: {error}. {hint}") from None


def remove_drafts(folder: Path) -> None:
    """Delete the drafts that killed processes left in a folder."""
    for draft in folder.glob(f".*{DRAFT}"):
        if draft.is_dir():
            shutil.rmtree(draft, ignore_errors=True)
        else:
            with contextlib.suppress(OSError):
                draft.unlink()


def _write(path: Path, fill: Callable[[Path], object], before: Callable[[Path], None] | None = None) -> None:
    def write(draft: Path) -> None:
        try:
            fill(draft)
        except SafetensorError as error:  # a full disk is one too
            raise OSError(str(error)) from None

    write_file(path, write, before)
