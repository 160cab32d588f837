"""Records that leave their process: as files, or to one rank, which gathers the heads of all.

A file is safetensors: tensors by number, a JSON description of what they are, and a checksum of both. It is checked
before anything in it is used: a damaged file raises a `FileError`, whatever the damage.
"""

from __future__ import annotations

import hashlib
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
from regard.nn.model_folder import read_safetensors, write_safetensors
from regard.scores import Band, Cut, Dense, Mask, as_mask, cut, documents, padding, window
from regard.support import WHOLE
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
_LARGEST_EMPTY = 2**20  # the longest axis of a tensor without numbers, of which a file holds no proof


def save(
    entries: Mapping[str, Entry], unseen: Sequence[str], changes: Sequence[str], path: str | PathLike[str]
) -> None:
    """Write entries, the names of what was not seen, and the changes; a tensor that several share is written once."""
    tensors = _SharedTensors()
    missing = {name: list(texts) for name, texts in (("unseen", unseen), ("changes", changes)) if texts}
    entries_described = [_describe(entry, tensors) for entry in entries.values()]
    description = json.dumps({"format": _FORMAT, "sum": _SUM, "entries": entries_described} | missing)
    metadata = {"regard": description, _SUM: _checksum(description, tensors.by_name)}
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
            _require(_SUM in metadata or "sum" not in description, "its checksum is missing")
            if _SUM in metadata:
                _require(metadata[_SUM] == _checksum(metadata["regard"], tensors), "its checksum is another")
            entries = [_Reading(item, tensors).entry() for item in description["entries"]]
            _require(len({entry.name for entry in entries}) == len(entries), "two entries have one name")
            unseen, changes = (tuple(map(_string, description.get(name, []))) for name in ("unseen", "changes"))
            return {entry.name: entry for entry in entries}, unseen, changes
    except Exception as error:  # whatever a damaged description may cause
        reason = str(error) if isinstance(error, RegardError) else f"{type(error).__name__}: {error}"
        raise FileError(f"{path} is damaged: {reason.rstrip('.')}. Copy it again, or save the record again.") from error
    raise InputError(f"{path} has format {number}, this regard reads {_FORMAT}. Update regard.")


def _checksum(description: str, tensors: Mapping[str, Tensor]) -> str:
    """Return a checksum of the description, and of the name, the dtype, the shape and the numbers of every tensor."""
    checksum = hashlib.sha256(description.encode())
    for name, tensor in sorted(tensors.items()):
        checksum.update(f"\n{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        checksum.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return checksum.hexdigest()


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


def _whole(value: Any, least: int = 0) -> int:
    _require(type(value) is int and least <= value <= _LARGEST, f"a whole number from {least} was expected")
    return int(value)


def _string(value: Any) -> str:
    _require(isinstance(value, str), "a string was expected")
    return str(value)


def _is_whole(value: Any) -> bool:
    return isinstance(value, Tensor) and value.dtype in WHOLE


def _real_by_mask(entry: Entry) -> tuple[Tensor | None, Tensor | None]:
    """Return which tokens are not padding, as far as the mask of an entry tells it."""
    keys = None if entry.call is None else entry.call.real_keys()
    keys = None if keys is None or bool(keys.all()) else keys.cpu()
    return (keys if entry.shape[2] == entry.shape[3] and entry.kind != "cross" else None), keys


class _Reading:
    """Reads the description of one entry."""

    def __init__(self, item: dict[str, Any], tensors: Mapping[str, Tensor]):
        self._item, self._tensors = item, tensors

    def entry(self) -> Entry:
        """Return the entry, checked."""
        item, get = self._item, self._get
        first, stop = (_whole(head) for head in item["heads"])
        about: dict[str, Any] = {"name": _string(item["name"]), "kind": _string(item["kind"])}
        about |= {"layer": _whole(item["layer"]), "calls": _whole(item["calls"], least=1)}
        if "kept" in item:
            shape, reductions = self._reductions()
            entry = Entry(shape=shape, reductions=reductions, first_head=first, **about)
        else:
            call = self._call()
            matrix = call.matrix()  # which checks shapes and dtypes
            batch, heads, queries, keys = matrix.shape
            shape = batch, heads, queries, keys
            if (logsumexp := get(item.get("normaliser"))) is not None:
                fits = logsumexp.is_floating_point() and logsumexp.shape == shape[:3]
                _require(fits and not bool(logsumexp.isnan().any()), "a normaliser does not fit its matrix")
                matrix = matrix.normalised_by(logsumexp)
            values = self._values(shape) if "values" in item else None
            entry = Entry(shape=shape, call=call, attention=matrix, values=values, **about)
            if "shard" in item:  # of a model on several ranks
                begin, total = (_whole(number) for number in item["shard"])
                _require(begin + heads <= total, f"{entry.name} has no {heads} heads from {begin} on, of {total}")
                entry = replace(entry, first_head=begin, shard=Shard(begin, total))
            entry = entry if stop - first == heads else entry.head(slice(first, stop))
        _require(entry.heads == range(first, stop), f"{entry.name} does not have heads {first} to {stop - 1}")
        batch, _, queries, keys = entry.shape
        real = self._real(entry)
        tokens = self._tokens(item["tokens"], batch, queries)
        shared = item["key_tokens"] == "tokens"
        _require(not shared or tokens is None or queries == keys, f"the queries and keys of {entry.name} differ")
        key_tokens = tokens if shared else self._tokens(item["key_tokens"], batch, keys)
        ids, key_ids = get(item["ids"]), get(item["key_ids"])
        for each, count in ((ids, queries), (key_ids, keys)):
            fits = each is None or (_is_whole(each) and each.shape == (batch, count))
            _require(fits, f"the ids of tokens must be {(batch, count)}")
        return replace(
            entry, tokens=tokens, key_tokens=key_tokens, ids=ids, key_ids=key_ids, real=real[0], real_keys=real[1]
        )

    def _get(self, value: Any) -> Any:
        """Return the tensor that is meant by a reference, and anything else unchanged."""
        if not isinstance(value, dict):
            return value
        tensor = self._tensors[value["tensor"]]
        _require(tensor.numel() > 0 or max(tensor.shape) <= _LARGEST_EMPTY, "a tensor without numbers is too long")
        return tensor

    def _real(self, entry: Entry) -> tuple[Tensor | None, Tensor | None]:
        """Return which tokens are not padding: where a file does not tell it, the mask does."""
        if "real" not in self._item:
            return _real_by_mask(entry)
        batch, _, queries, keys = entry.shape
        real, real_keys = (self._get(value) for value in self._item["real"])
        for each, least, most in ((real, queries, _LARGEST), (real_keys, keys, keys)):
            fits = each is None or (each.dtype == torch.bool and each.dim() == 2 and len(each) == batch)
            fits = fits and (each is None or least <= each.shape[1] <= most)
            _require(fits, "what is padding does not fit the tokens")
        return real, real_keys

    def _call(self) -> AttentionCall:
        inputs = {name: self._get(self._item["source"][name]) for name in _SOURCE}
        _require(inputs["query"].dim() == 4, "a query must have 4 axes")
        for name in ("scale", "softcap"):
            _require(inputs[name] is None or type(inputs[name]) in (int, float), f"{name} must be a number")
        _require(inputs["sinks"] is None or isinstance(inputs["sinks"], Tensor), "sinks must be a tensor")
        mask, zeroed = self._mask(self._item["mask"]), self._mask(self._item.get("zeroed", []))
        return AttentionCall(mask=mask, kind=self._item["kind"], zeroed=zeroed, **inputs)

    def _mask(self, atoms: list[Any]) -> Mask:
        mask = Mask()
        for kind, fields in atoms:
            if kind == "Cut":
                mask &= self._cut(fields)
            else:
                mask &= _read_atom(kind, {name: self._get(value) for name, value in fields.items()})
        return mask

    def _cut(self, fields: dict[str, Any]) -> Mask:
        _require(set(fields) == {"queries", "keys", "heads", "band", "bias"}, "a cut has other parts")

        def places(value: Any) -> Any:
            if isinstance(value, dict):
                return self._get(value)
            return slice(*(None if end is None else _whole(end) for end in value))

        band, bias, heads = fields["band"], fields["bias"], fields["heads"]
        return cut(
            places(fields["queries"]),
            places(fields["keys"]),
            within=None if band is None else _read_atom("Band", band),
            heads=[_whole(head) for head in heads] if isinstance(heads, list) else self._get(heads),
            bias=-math.inf if bias is None else bias,
        )

    def _values(self, shape: tuple[int, int, int, int]) -> Values:
        batch, heads, queries, keys = shape
        tensors = [self._get(self._item["values"][name]) for name in ("value", "projection", "gradient")]
        value, projection, gradient = tensors
        _require(all(tensor is None or tensor.is_floating_point() for tensor in tensors), "values must be numbers")
        fits = value.dim() == 4 and (value.shape[0], value.shape[2]) == (batch, keys)
        fits = fits and value.shape[1] > 0 and heads % value.shape[1] == 0
        _require(fits, f"the values do not fit {batch} × {heads} heads × {keys} keys: {tuple(value.shape)}")
        width = value.shape[3]
        fits = projection is None or (projection.dim() == 3 and projection.shape[:2] == (heads, width))
        fits = fits and (gradient is None or gradient.shape == (batch, heads, queries, width))
        _require(fits, "a projection or a gradient does not fit the values")
        return Values(value, projection, gradient)

    def _reductions(self) -> tuple[tuple[int, int, int, int], Reductions]:
        kept = self._item["kept"]
        queries, keys = _whole(kept["queries"]), _whole(kept["keys"])
        reductions: Reductions = {name: self._get(kept[name]) for name in REDUCTIONS if kept[name] is not None}
        numbers = dict(reductions)
        if "top" in reductions:
            reductions["top"] = Top(*map(self._get, reductions["top"]))
            numbers["top"], places = reductions["top"]
            _require(
                _is_whole(places) and places.shape == numbers["top"].shape, "the keys of top do not fit its weights"
            )
            _require(bool(((places >= -1) & (places < keys)).all()), f"a key of top is not one of {keys}")
        batch, heads = next(iter(numbers.values())).shape[:2]
        most = {"received": (keys,), "entropy": (queries,), "pool": (queries, keys), "top": (queries, keys)}
        for name, tensor in numbers.items():
            fits = tensor.is_floating_point() and tensor.dim() == 2 + len(most[name])
            fits = fits and tensor.shape[:2] == (batch, heads)
            sizes = list(zip(tensor.shape[2:], most[name], strict=False))
            fits = fits and all(size <= limit for size, limit in sizes)
            fits = fits and (name == "pool" or sizes[0][0] == sizes[0][1])
            _require(fits, f"{name} does not fit {queries} queries and {keys} keys: {tuple(tensor.shape)}")
        return (batch, heads, queries, keys), reductions

    def _tokens(self, sequences: Any, batch: int, length: int) -> list[Tokens] | None:
        _require(sequences is None or len(sequences) == batch, f"tokens must be of {batch} sequences")
        return None if sequences is None else [self._sequence(text, length) for text in sequences]

    def _sequence(self, text: dict[str, Any], length: int) -> Tokens:
        pieces = [_string(piece) for piece in text["pieces"]]
        words = [Word(_string(word), _whole(start), _whole(stop, 1)) for word, start, stop in text["words"]]
        edges = [0, *(word.stop for word in words)]
        in_order = all(word.start == edge < word.stop for word, edge in zip(words, edges, strict=False))
        in_order = in_order and edges[-1] == length == len(pieces)
        _require(in_order, f"words must be made of all {length} tokens, in order")
        grids = [self._grid(fields, length) for fields in text.get("grids", ())]
        named, first = text.get("named") is not False, _whole(text.get("first", 0))
        return Tokens(pieces, words=words, named=named, grids=grids, first=first)

    def _grid(self, fields: dict[str, Any], length: int) -> Grid:
        """Return the patches of an image, each of which is one of `length` tokens, or none."""
        tokens, brightness = self._get(fields["tokens"]), self._get(fields["brightness"])
        fits = _is_whole(tokens) and tokens.dim() == 2 and bool(((tokens >= -1) & (tokens < length)).all())
        _require(fits, f"the patches of an image are not among {length} tokens")
        fits = brightness is None or (brightness.is_floating_point() and brightness.shape == tokens.shape)
        _require(fits, "the brightness of patches is no grid")
        numbers = [*fields["box"], fields["aspect"]]
        _require(len(numbers) == 5 and all(type(n) in (int, float) for n in numbers), "an image has no box")
        top, left, bottom, right, aspect = map(float, numbers)
        image, name = _whole(fields["image"]), _string(fields["name"])
        return Grid(tokens.long(), image, name, (top, left, bottom, right), aspect, brightness)


def _read_atom(kind: str, fields: dict[str, Any]) -> Mask:
    """Return a part of a mask, made as a user makes it, which checks it."""
    numbers = [value for value in fields.values() if type(value) is int]
    _require(all(abs(number) <= _LARGEST for number in numbers), f"a mask has a number above {_LARGEST}")
    match kind, fields:
        case "Band", {"lowest": lowest, "highest": highest, "offset": offset} if len(fields) == 3:
            return window(None if lowest is None else -lowest, highest, offset)
        case "Keep", {"keys": Tensor() as keys} if len(fields) == 1:
            return padding(keys)
        case "Same", {"queries": Tensor() as queries, "keys": Tensor() as keys} if len(fields) == 2:
            return documents(queries, keys)
        case "Dense", {"tensor": Tensor() as tensor} if len(fields) == 1:
            return as_mask(tensor)
    raise FileError(f"a mask has an unknown part, {kind!r} of {list(fields)}")


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
