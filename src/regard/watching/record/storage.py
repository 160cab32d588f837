"""Records that leave their process: as files, or to one rank, which gathers the heads of all.

A file is safetensors: tensors by number, a JSON description of what they are, and a checksum of both. It is checked
before anything in it is used: a damaged file raises a `FileError`, whatever the damage.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, distributed

from regard.errors import FileError, InputError, RegardError, WatchError
from regard.matrix import Top
from regard.nn.model_folder import checksum, read_safetensors, write_safetensors
from regard.scores import Band, Cut, Dense, Keep, Mask, Same
from regard.scores.masks import FAR
from regard.watching.capture.calls import AttentionCall, Shard
from regard.watching.images.families import Grid
from regard.watching.record.entries import Entry, Values
from regard.watching.record.reductions import REDUCTIONS, Reductions
from regard.watching.record.tokens import Tokens, Word

_FORMAT = 1
# The names below are part of the format: "source" is what a matrix is computed from, "kept" the reductions.
_SOURCE = ("query", "key", "scale", "softcap", "sinks")
_SUM = "sha256"
_LARGEST = 2**40  # a number in a description: anything larger overflows in positions


def save(
    entries: Mapping[str, Entry], unseen: Sequence[str], changes: Sequence[str], path: str | PathLike[str]
) -> None:
    """Write entries, the names of what was not seen, and the changes; a tensor that several share is written once."""
    tensors = _SharedTensors()
    missing = {name: list(texts) for name, texts in (("unseen", unseen), ("changes", changes)) if texts}
    entries_described = [_describe(entry, tensors) for entry in entries.values()]
    description = json.dumps({"format": _FORMAT, "sum": _SUM, "entries": entries_described} | missing)
    metadata = {"regard": description, _SUM: checksum(description, tensors.by_name)}
    write_safetensors(Path(path), tensors.by_name, metadata)


def load(path: str | PathLike[str]) -> tuple[dict[str, Entry], tuple[str, ...], tuple[str, ...]]:
    """Read entries, the names of what was not seen, and the changes."""
    if not Path(path).is_file():
        raise FileError(f"{path} cannot be read: it is not a file.")
    tensors, metadata = read_safetensors(Path(path), "Copy it again, or save the record again.")
    if "regard" not in metadata:
        raise InputError(f"{path} is a safetensors file, but no record: record.save(path) writes one.")
    try:
        description = json.loads(metadata["regard"])
        number = description["format"]
        if number == _FORMAT:
            _require(_SUM in metadata, "its checksum is missing")
            _require(metadata[_SUM] == checksum(metadata["regard"], tensors), "its checksum is another")
            entries = [_Reading(item, tensors).entry() for item in description["entries"]]
            unseen, changes = (tuple(description.get(name, [])) for name in ("unseen", "changes"))
            return {entry.name: entry for entry in entries}, unseen, changes
    except Exception as error:  # whatever a damaged description may cause
        reason = str(error) if isinstance(error, RegardError) else f"{type(error).__name__}: {error}"
        raise FileError(f"{path} is damaged: {reason.rstrip('.')}. Copy it again, or save the record again.") from error
    raise InputError(f"{path} has format {number}, this regard reads {_FORMAT}. Update regard.")


# Writing


class _SharedTensors:
    """Tensors to write, each once."""

    def __init__(self) -> None:
        self.by_name: dict[str, Tensor] = {}
        self._originals: dict[int, tuple[str, Tensor]] = {}  # by id, which a freed tensor would pass on

    def put(self, value: Any) -> Any:
        """Return a reference to a tensor by its name in the file, and anything else unchanged."""
        if not isinstance(value, Tensor):
            return value
        name, _ = self._originals.setdefault(id(value), (str(len(self._originals)), value))
        if name not in self.by_name:
            self.by_name[name] = value.detach().cpu().contiguous().clone()
        return {"tensor": name}

    def put_fields(self, value: Any) -> dict[str, Any]:
        """Return all fields of a dataclass."""
        return {name: self.put(field) for name, field in vars(value).items()}


def _describe(entry: Entry, tensors: _SharedTensors) -> dict[str, Any]:
    item: dict[str, Any] = {"name": entry.name, "kind": entry.kind, "layer": entry.layer, "calls": entry.calls}
    item |= {"ids": tensors.put(entry.ids), "key_ids": tensors.put(entry.key_ids)}
    item |= {"tokens": _describe_tokens(entry.tokens, tensors), "heads": [entry.heads.start, entry.heads.stop]}
    shared = entry.key_tokens is entry.tokens
    item["key_tokens"] = "tokens" if shared else _describe_tokens(entry.key_tokens, tensors)
    real = entry.real, entry.real_keys
    for stored, by_mask in zip(real, _real_by_mask(entry), strict=True):
        equal = stored is not None and by_mask is not None and torch.equal(stored, by_mask)
        if not equal and stored is not by_mask:
            item["real"] = [tensors.put(each) for each in real]
    if entry.reductions is not None:
        kept: dict[str, Any] = {"queries": entry.shape[2], "keys": entry.shape[3]}
        kept |= {name: tensors.put(entry.reductions.get(name)) for name in REDUCTIONS}
        if "top" in entry.reductions:
            kept["top"] = [tensors.put(part) for part in entry.reductions["top"]]
        return item | {"kept": kept}
    call = entry.call
    assert call is not None
    item["source"] = {name: tensors.put(getattr(call, name)) for name in _SOURCE}
    if entry.shard is not None:
        item["shard"] = [entry.shard.first, entry.shard.heads]
    item["mask"] = _describe_mask(call.mask, tensors)
    if call.zeroed.atoms:
        item["zeroed"] = _describe_mask(call.zeroed, tensors)
    elif entry.attention is not None and entry.attention.shape[1] == call.query.shape[1]:
        # The kernel that ran gave the normalizer of each row: with it, a part of a long text is computed alone.
        item["normaliser"] = tensors.put(entry.attention.known_logsumexp)
    if entry.values is not None:
        item["values"] = tensors.put_fields(entry.values)
    return item


def _describe_mask(mask: Mask, tensors: _SharedTensors) -> list[Any]:
    def put(value: Any) -> Any:
        if isinstance(value, range):
            return [value.start, value.stop if value.stop <= _LARGEST else None]
        if isinstance(value, Band):
            return {name: put(field) for name, field in vars(value).items()}
        return None if isinstance(value, float) and value == -math.inf else tensors.put(value)

    return [[type(atom).__name__, {name: put(value) for name, value in vars(atom).items()}] for atom in mask.atoms]


def _describe_tokens(sequences: Sequence[Tokens] | None, tensors: _SharedTensors) -> Any:
    if sequences is None:
        return None
    texts = []
    for tokens in sequences:
        text: dict[str, Any] = {"pieces": tokens.pieces, "words": [[w.text, w.start, w.stop] for w in tokens.words]}
        text |= {"grids": [tensors.put_fields(grid) for grid in tokens.grids]} if tokens.grids else {}
        text |= {} if tokens.named else {"named": False}
        texts.append(text | ({"first": tokens.first} if tokens.first else {}))
    return texts


# Reading


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise FileError(otherwise)


def _real_by_mask(entry: Entry) -> tuple[Tensor | None, Tensor | None]:
    """Return which tokens are not padding, as far as the mask of an entry tells it."""
    keys = None if entry.call is None else entry.call.real_keys()
    keys = None if keys is None or bool(keys.all()) else keys.cpu()
    return (keys if entry.shape[2] == entry.shape[3] and entry.kind != "cross" else None), keys


class _Reading:
    """Reads the description of one entry, whose checksum has shown that `save` wrote it."""

    def __init__(self, item: dict[str, Any], tensors: Mapping[str, Tensor]):
        self._item, self._tensors = item, tensors

    def entry(self) -> Entry:
        """Return the entry."""
        item, get = self._item, self._get
        first, stop = item["heads"]
        about: dict[str, Any] = {name: item[name] for name in ("name", "kind", "layer", "calls")}
        if "kept" in item:
            kept = item["kept"]
            reductions: Reductions = {name: get(kept[name]) for name in REDUCTIONS if kept[name] is not None}
            if "top" in reductions:
                reductions["top"] = Top(*map(get, reductions["top"]))
            numbers = reductions["top"].weights if "top" in reductions else next(iter(reductions.values()))
            shape = *numbers.shape[:2], kept["queries"], kept["keys"]
            entry = Entry(shape=shape, reductions=reductions, first_head=first, **about)
        else:
            call = self._call()
            matrix = call.matrix()
            batch, heads, queries, keys = matrix.shape
            shape = batch, heads, queries, keys
            if (logsumexp := get(item.get("normaliser"))) is not None:
                fits = logsumexp.is_floating_point() and logsumexp.shape == shape[:3]
                _require(fits and not bool(logsumexp.isnan().any()), "a normaliser does not fit its matrix")
                matrix = matrix.normalised_by(logsumexp)
            values = (
                Values(**{name: get(value) for name, value in item["values"].items()}) if "values" in item else None
            )
            entry = Entry(shape=shape, call=call, attention=matrix, values=values, **about)
            if "shard" in item:  # of a model on several ranks
                begin, total = item["shard"]
                entry = replace(entry, first_head=begin, shard=Shard(begin, total))
            entry = entry if stop - first == heads else entry.head(slice(first, stop))
        tokens = self._tokens_of(item["tokens"])
        key_tokens = tokens if item["key_tokens"] == "tokens" else self._tokens_of(item["key_tokens"])
        # Where a file does not tell what is padding, the mask does.
        real, real_keys = map(get, item["real"]) if "real" in item else _real_by_mask(entry)
        sides = {"tokens": tokens, "key_tokens": key_tokens, "ids": get(item["ids"]), "key_ids": get(item["key_ids"])}
        return replace(entry, real=real, real_keys=real_keys, **sides)

    def _get(self, value: Any) -> Any:
        """Return the tensor that is meant by a reference, and anything else unchanged."""
        return self._tensors[value["tensor"]] if isinstance(value, dict) else value

    def _call(self) -> AttentionCall:
        inputs = {name: self._get(self._item["source"][name]) for name in _SOURCE}
        mask, zeroed = (self._mask(self._item.get(name, [])) for name in ("mask", "zeroed"))
        return AttentionCall(mask=mask, kind=self._item["kind"], zeroed=zeroed, **inputs)

    def _mask(self, atoms: list[Any]) -> Mask:
        return Mask(tuple(_ATOMS[kind](**{name: self._part(name, value) for name, value in fields.items()})
                          for kind, fields in atoms))  # fmt: skip

    def _part(self, name: str, value: Any) -> Any:
        """Return a part of a mask."""
        if name == "bias" and value is None:
            return -math.inf
        if name == "band" and value is not None:
            return Band(**value)
        if name == "heads" and isinstance(value, list):
            return tuple(value)
        if isinstance(value, list):  # positions
            return range(value[0], FAR if value[1] is None else value[1])
        return self._get(value)

    def _tokens_of(self, sequences: Any) -> list[Tokens] | None:
        return None if sequences is None else [self._sequence(text) for text in sequences]

    def _sequence(self, text: dict[str, Any]) -> Tokens:
        words = [Word(*word) for word in text["words"]]
        grids = [{name: self._get(value) for name, value in grid.items()} for grid in text.get("grids", ())]
        options: dict[str, Any] = {"named": text.get("named", True), "first": text.get("first", 0)}
        pictures = [Grid(**grid | {"box": tuple(grid["box"])}) for grid in grids]
        return Tokens(text["pieces"], words=words, grids=pictures, **options)


_ATOMS: dict[str, Any] = {atom.__name__: atom for atom in (Band, Keep, Same, Dense, Cut)}


# The heads of all ranks


def gathered(entries: Mapping[str, Entry]) -> dict[str, Entry] | None:
    """Return the entries with all heads on the first rank of their group, None on the others; every rank must call."""
    gathered = {
        name: entry if entry.shard is None else _with_all_heads(entry, entry.shard) for name, entry in entries.items()
    }
    whole = {name: entry for name, entry in gathered.items() if entry is not None}
    return whole if len(whole) == len(gathered) else None


def _with_all_heads(entry: Entry, shard: Shard) -> Entry | None:
    """Return an entry with the heads of all ranks; None on all ranks but the first."""
    if shard.group is None:
        raise WatchError(f"{entry.name} has {shard}, from a file: the other ranks are gone. Gather before saving.")
    if entry.shape[1] * distributed.get_world_size(shard.group) != shard.heads:
        raise WatchError(f"{entry.name} has only some heads of this rank. Gather the whole record, then choose heads.")
    call = entry.call
    if call is not None and any(isinstance(a, Cut) and a.heads is not None for a in (call.mask & call.zeroed).atoms):
        raise WatchError(f"{entry.name}: links were cut or steered in some heads, which cannot be gathered.")
    tensors = {name: _gather(tensor, axis, shard.group) for name, (tensor, axis) in tensors_by_head(entry).items()}
    if distributed.get_rank(shard.group) != 0:
        return None
    return replace(with_tensors(entry, tensors, shard=None), first_head=0)


def _gather(tensor: Tensor, axis: int, group: Any) -> Tensor:
    """Return the tensors of all ranks side by side on the first rank; this rank's tensor on the others."""
    # As bytes: gloo knows fewer types of numbers than torch.
    local = tensor.detach().contiguous()
    is_first = distributed.get_rank(group) == 0
    parts = [torch.empty_like(local) for _ in range(distributed.get_world_size(group))] if is_first else [local]
    into = [part.view(-1).view(torch.uint8) for part in parts] if is_first else None
    distributed.gather(local.view(-1).view(torch.uint8), into, group=group, group_dst=0)
    return torch.cat(parts, axis)


def tensors_by_head(entry: Entry) -> dict[str, tuple[Tensor, int]]:
    """Return the tensors of an entry that have numbers for each head, with the axis of the heads, by name."""
    if entry.call is None:
        kept: dict[str, Any] = dict(entry.reductions or {})
        top = kept.pop("top", None)
        return {name: (tensor, 1) for name, tensor in (kept | ({} if top is None else top._asdict())).items()}
    call = entry.call
    tensors = {"query": (call.query, 1), "key": (call.key, 1)}
    if call.sinks is not None and call.sinks.dim():
        tensors["sinks"] = call.sinks, -1
    for n, atom in enumerate(call.mask.atoms):
        if isinstance(atom, Dense) and atom.tensor.dim() > 2 and atom.tensor.shape[-3] > 1:
            tensors[f"mask {n}"] = atom.tensor, -3
    return tensors


def with_tensors(entry: Entry, tensors: Mapping[str, Tensor], shard: Shard | None) -> Entry:
    """Return the entry with other tensors in the place of `tensors_by_head`, and with their heads."""
    batch, _, queries, keys = entry.shape
    shape = batch, next(iter(tensors.values())).shape[1], queries, keys
    if entry.call is None:
        kept: dict[str, Any] = dict(tensors)
        if "weights" in kept:
            kept["top"] = Top(kept.pop("weights"), kept.pop("keys"))
        return replace(entry, shape=shape, reductions=kept, shard=shard)  # type: ignore[arg-type]
    atoms = [
        Dense(tensors[f"mask {n}"]) if f"mask {n}" in tensors else atom for n, atom in enumerate(entry.call.mask.atoms)
    ]
    numbers: dict[str, Any] = {name: tensors[name] for name in ("query", "key", "sinks") if name in tensors}
    call = replace(entry.call, mask=Mask(tuple(atoms)), shard=shard, **numbers)
    return replace(entry, shape=shape, call=call, attention=call.matrix(), shard=shard)
