"""Single files that are written whole or not at all: a draft beside the file, flushed to the disk, then renamed."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from regard.errors import FileError, RegardError

__all__ = [
    "make_folder",
    "read_json",
    "read_safetensors",
    "remove_drafts",
    "sha256",
    "write_bytes",
    "write_json",
    "write_safetensors",
]

_DRAFT = ".draft"


def make_folder(folder: Path) -> None:
    """Create a folder and those above it, unless it is there."""
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
    """Any file."""
    _write(path, lambda draft: Path(draft).write_bytes(data))


def write_json(path: Path, fields: Mapping[str, Any]) -> None:
    """One JSON file, indented for people to read."""
    write_bytes(path, (json.dumps(dict(fields), indent=2, ensure_ascii=False) + "\n").encode())


def read_json(path: Path, hint: str = "") -> Any:
    """The content of a JSON file."""
    try:
        return json.loads(path.read_bytes().decode("utf-8"))
    except OSError as error:
        raise FileError(f"{path} cannot be read: {error.strerror}.") from None
    except RecursionError:
        raise FileError(f"{path} is not JSON that can be read: it is nested too deeply.{hint}") from None
    except ValueError as error:  # of JSON, of UTF-8, or a number of thousands of digits
        raise FileError(f"{path} is not JSON: {error}.{hint}") from None


def write_safetensors(
    path: Path, tensors: Mapping[str, Tensor], metadata: dict[str, str], *, before: Callable[[Path], None] | None = None
) -> None:
    """Tensors of any device, and a few strings about them; `before` gets the finished draft before it is renamed."""
    on_cpu = {name: tensor.detach().contiguous().cpu() for name, tensor in tensors.items()}
    _write(path, lambda draft: save_file(on_cpu, draft, metadata), before)


def read_safetensors(path: Path, hint: str) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors of a file, and its metadata."""
    try:
        with safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dictionary)
            return tensors, file.metadata() or {}
    except Exception as error:  # a damaged header reaches torch: a dtype it lacks, a shape it cannot count
        raise FileError(f"{path} is damaged: {error}. {hint}") from None


def remove_drafts(folder: Path) -> None:
    """Delete what processes that were killed while writing have left in a folder."""
    for draft in folder.glob(f".*{_DRAFT}"):
        with contextlib.suppress(OSError):
            draft.unlink()


def _write(path: Path, fill: Callable[[str], object], before: Callable[[Path], None] | None = None) -> None:
    """Readers see the old content or the new, never a part, even if the machine stops."""
    draft = None
    try:
        handle, draft = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=_DRAFT)
        os.close(handle)
        fill(draft)
        os.chmod(draft, 0o644)
        _flush(draft, os.O_RDWR)
        if before is not None:
            before(Path(draft))
        os.replace(draft, path)
        draft = None
        if hasattr(os, "O_DIRECTORY"):  # the new name is on the disk too
            _flush(path.parent, os.O_RDONLY)
    except RegardError:
        raise
    except (OSError, SafetensorError) as error:
        why = getattr(error, "strerror", None) or error
        raise FileError(f"{path} cannot be written: {why}. What was there before is unharmed.") from None
    finally:
        if draft is not None:
            with contextlib.suppress(OSError):
                os.unlink(draft)


def _flush(path: str | Path, flags: int) -> None:
    handle = os.open(path, flags)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
