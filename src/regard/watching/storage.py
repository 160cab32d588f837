"""Records as safetensors files: tensors by number, and a description of what they are."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any

from torch import Tensor

from regard.errors import InputError
from regard.matrix import Top
from regard.scores import Band, Dense, Keep, Mask, Same
from regard.watching.entries import AttentionCall, Entry
from regard.watching.reductions import REDUCTIONS
from regard.watching.tokens import Tokens, Word

__all__ = ["load", "save"]

_ATOMS = {kind.__name__: kind for kind in (Band, Keep, Same, Dense)}
_FORMAT = 1
# The names below are part of the format: "source" is what a matrix is computed from, "kept" the reductions.
_SOURCE = ("query", "key", "scale", "softcap", "sinks")


def save(entries: Mapping[str, Entry], path: str | PathLike[str]) -> None:
    """Write entries; a tensor that several share is written once."""
    from safetensors.torch import save_file

    tensors = _SharedTensors()
    described = [_describe(entry, tensors) for entry in entries.values()]
    metadata = {"regard": json.dumps({"format": _FORMAT, "entries": described}, ensure_ascii=False)}
    save_file(tensors.by_name, path, metadata=metadata)


def load(path: str | PathLike[str]) -> dict[str, Entry]:
    """Read entries."""
    from safetensors import safe_open

    with safe_open(path, framework="pt") as file:
        metadata = (file.metadata() or {}).get("regard")
        if metadata is None:
            raise InputError(f"{path} is a safetensors file, but no record: record.save(path) writes one.")
        description = json.loads(metadata)
        if description["format"] != _FORMAT:
            raise InputError(f"{path} has format {description['format']}, this regard reads {_FORMAT}. Update regard.")
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (it is no mapping)
    return {item["name"]: _read_entry(item, tensors) for item in description["entries"]}


class _SharedTensors:
    """Tensors to be written, each once."""

    def __init__(self) -> None:
        self.by_name: dict[str, Tensor] = {}
        self._names: dict[int, str] = {}
        self._originals: list[Tensor] = []  # an id may be reused as soon as its tensor is freed

    def put(self, value: Any) -> Any:
        """A reference to a tensor by its name in the file; anything else as it is."""
        if not isinstance(value, Tensor):
            return value
        if id(value) not in self._names:
            self._names[id(value)] = str(len(self._names))
            self._originals.append(value)
            self.by_name[self._names[id(value)]] = value.detach().cpu().contiguous().clone()
        return {"tensor": self._names[id(value)]}


def _describe(entry: Entry, tensors: _SharedTensors) -> dict[str, Any]:
    item: dict[str, Any] = {"name": entry.name, "kind": entry.kind, "layer": entry.layer, "calls": entry.calls}
    item |= {"ids": tensors.put(entry.ids), "key_ids": tensors.put(entry.key_ids)}
    item |= {"tokens": _describe_tokens(entry.tokens), "heads": [entry.heads.start, entry.heads.stop]}
    item["key_tokens"] = "tokens" if entry.key_tokens is entry.tokens else _describe_tokens(entry.key_tokens)
    if entry.reductions is not None:
        queries, keys = entry.shape[2:]
        top = entry.reductions.get("top")
        kept: dict[str, Any] = {"queries": queries, "keys": keys}
        kept |= {name: tensors.put(entry.reductions.get(name)) for name in REDUCTIONS if name != "top"}
        item["kept"] = kept | {"top": None if top is None else [tensors.put(top.weights), tensors.put(top.keys)]}
        return item
    call = entry.call
    assert call is not None
    item["source"] = {name: tensors.put(getattr(call, name)) for name in _SOURCE}
    item["mask"] = [
        [type(atom).__name__, {name: tensors.put(value) for name, value in vars(atom).items()}]
        for atom in call.mask.atoms
    ]
    return item


def _describe_tokens(sequences: Sequence[Tokens] | None) -> Any:
    if sequences is None:
        return None
    return [{"pieces": text.pieces, "words": [[w.text, w.start, w.stop] for w in text.words]} for text in sequences]


def _read_entry(item: dict[str, Any], tensors: Mapping[str, Tensor]) -> Entry:
    def get(value: Any) -> Any:
        return tensors[value["tensor"]] if isinstance(value, dict) else value

    first, stop = item["heads"]
    tokens = _read_tokens(item["tokens"])
    about: dict[str, Any] = {
        "name": item["name"],
        "kind": item["kind"],
        "layer": item["layer"],
        "calls": item["calls"],
        "tokens": tokens,
        "key_tokens": tokens if item["key_tokens"] == "tokens" else _read_tokens(item["key_tokens"]),
        "ids": get(item["ids"]),
        "key_ids": get(item["key_ids"]),
    }
    if "kept" in item:
        kept = item["kept"]
        values = {name: get(kept[name]) for name in REDUCTIONS if name != "top"}
        values["top"] = kept["top"] and Top(*map(get, kept["top"]))
        reductions: Any = {name: value for name, value in values.items() if value is not None}
        some = reductions[next(iter(reductions))]
        batch, heads = (some.weights if isinstance(some, Top) else some).shape[:2]
        return Entry(
            shape=(batch, heads, kept["queries"], kept["keys"]), reductions=reductions, first_head=first, **about
        )
    atoms = (_ATOMS[kind](**{name: get(value) for name, value in fields.items()}) for kind, fields in item["mask"])
    inputs = {name: get(value) for name, value in item["source"].items()}
    call = AttentionCall(mask=Mask(tuple(atoms)), kind=item["kind"], **inputs)
    matrix = call.matrix()
    batch, heads, queries, keys = matrix.shape
    entry = Entry(shape=(batch, heads, queries, keys), call=call, attention=matrix, **about)
    return entry if stop - first == heads else entry.head(slice(first, stop))


def _read_tokens(sequences: Any) -> list[Tokens] | None:
    if sequences is None:
        return None
    return [Tokens(text["pieces"], words=[Word(*word) for word in text["words"]]) for text in sequences]
