"""Records as safetensors files: tensors by number, and a description of what they are."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from os import PathLike
from typing import Any

from torch import Tensor

from regard.errors import InputError
from regard.matrix import Top
from regard.scores import Band, Dense, Keep, Mask, Same
from regard.watching.call import Source
from regard.watching.entry import Entry
from regard.watching.summary import Kept
from regard.watching.tokens import Tokens, Word

__all__ = ["load", "save"]

_ATOMS = {kind.__name__: kind for kind in (Band, Keep, Same, Dense)}
_FORMAT = 1


def save(entries: Mapping[str, Entry], path: str | PathLike[str]) -> None:
    """Write entries; a tensor that several share is written once."""
    from safetensors.torch import save_file

    shelf = _Shelf()
    described = [_described(entry, shelf) for entry in entries.values()]
    about = {"regard": json.dumps({"format": _FORMAT, "entries": described}, ensure_ascii=False)}
    save_file(shelf.tensors, path, metadata=about)


def load(path: str | PathLike[str]) -> dict[str, Entry]:
    """Read entries."""
    from safetensors import safe_open

    with safe_open(path, framework="pt") as file:
        about = (file.metadata() or {}).get("regard")
        if about is None:
            raise InputError(f"{path} is a safetensors file, but no record: record.save(path) writes one.")
        read = json.loads(about)
        if read["format"] != _FORMAT:
            raise InputError(f"{path} has format {read['format']}, this regard reads {_FORMAT}. Update regard.")
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (it is no mapping)
    return {item["name"]: _made(item, tensors) for item in read["entries"]}


class _Shelf:
    """Tensors to be written, each once."""

    def __init__(self) -> None:
        self.tensors: dict[str, Tensor] = {}
        self._names: dict[int, str] = {}
        self._held: list[Tensor] = []  # an id is only an id while its tensor lives

    def put(self, value: Any) -> Any:
        """A tensor's name on the shelf; anything else as it is."""
        if not isinstance(value, Tensor):
            return value
        if id(value) not in self._names:
            self._names[id(value)] = str(len(self._names))
            self._held.append(value)
            self.tensors[self._names[id(value)]] = value.detach().cpu().contiguous().clone()
        return {"tensor": self._names[id(value)]}


def _described(entry: Entry, shelf: _Shelf) -> dict[str, Any]:
    item: dict[str, Any] = {"name": entry.name, "kind": entry.kind, "layer": entry.layer, "calls": entry.calls}
    item |= {"ids": shelf.put(entry.ids), "key_ids": shelf.put(entry.key_ids)}
    item |= {"tokens": _texts(entry.tokens), "heads": [entry.heads.start, entry.heads.stop]}
    item["key_tokens"] = "tokens" if entry.key_tokens is entry.tokens else _texts(entry.key_tokens)
    if entry.kept is not None:
        kept = {field.name: getattr(entry.kept, field.name) for field in fields(Kept)}
        top = kept.pop("top")
        item["kept"] = {name: shelf.put(value) for name, value in kept.items()}
        item["kept"]["top"] = None if top is None else [shelf.put(top.weights), shelf.put(top.keys)]
        return item
    source = entry.source
    assert source is not None
    item["source"] = {name: shelf.put(getattr(source, name)) for name in ("query", "key", "scale", "softcap", "sinks")}
    item["mask"] = [
        [type(atom).__name__, {name: shelf.put(value) for name, value in vars(atom).items()}]
        for atom in source.mask.atoms
    ]
    return item


def _texts(tokens: Sequence[Tokens] | None) -> Any:
    if tokens is None:
        return None
    return [{"pieces": text.pieces, "words": [[w.text, w.start, w.stop] for w in text.words]} for text in tokens]


def _made(item: dict[str, Any], tensors: Mapping[str, Tensor]) -> Entry:
    def get(value: Any) -> Any:
        return tensors[value["tensor"]] if isinstance(value, dict) else value

    source = matrix = kept = None
    if "kept" in item:
        parts = dict(item["kept"])
        top = parts.pop("top")
        kept = Kept(**{name: get(value) for name, value in parts.items()}, top=top and Top(*map(get, top)))
    else:
        atoms = (_ATOMS[kind](**{name: get(value) for name, value in of.items()}) for kind, of in item["mask"])
        source = Source(mask=Mask(tuple(atoms)), **{name: get(value) for name, value in item["source"].items()})
        matrix = source.matrix()
    entry = Entry(item["name"], item["kind"], item["layer"], source, matrix, kept, item["calls"])
    entry.ids, entry.key_ids = get(item["ids"]), get(item["key_ids"])
    entry.tokens = _read(item["tokens"])
    entry.key_tokens = entry.tokens if item["key_tokens"] == "tokens" else _read(item["key_tokens"])
    first, stop = item["heads"]
    return entry.head(slice(first, stop)) if kept is None and stop - first != entry.shape[1] else entry.from_head(first)


def _read(texts: Any) -> list[Tokens] | None:
    if texts is None:
        return None
    return [Tokens(text["pieces"], words=[Word(*word) for word in text["words"]]) for text in texts]
