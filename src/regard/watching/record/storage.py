"""Records as safetensors files: tensors by number, a description of what they are, and a checksum of both.

A file is checked before anything of it is used: a damaged one is a `FileError`, whatever the damage.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor

from regard.errors import FileError, InputError, RegardError
from regard.matrix import AttentionMatrix, Top
from regard.nn.files import write_safetensors
from regard.scores import Band, Mask, as_mask, cut, documents, padding, window
from regard.watching.capture.calls import AttentionCall, Shard
from regard.watching.images.families import Grid
from regard.watching.record.entries import Entry, Values
from regard.watching.record.reductions import REDUCTIONS, Reductions
from regard.watching.record.tokens import Tokens, Word

__all__ = ["load", "save"]

_FORMAT = 1
# The names below are part of the format: "source" is what a matrix is computed from, "kept" the reductions.
_SOURCE = ("query", "key", "scale", "softcap", "sinks")
_SUM = "sha256"
_LARGEST = 2**40  # a number in a description: anything larger overflows in positions
_LARGEST_EMPTY = 2**20  # the longest axis of a tensor without numbers, of which a file holds no proof


def save(
    entries: Mapping[str, Entry], unseen: Sequence[str], changes: Sequence[str], path: str | PathLike[str]
) -> None:
    """Write entries, what was not seen, and what was changed; a tensor that several share is written once."""
    tensors = _SharedTensors()
    described = [_describe(entry, tensors) for entry in entries.values()]
    missing = {name: list(said) for name, said in (("unseen", unseen), ("changes", changes)) if said}
    description = json.dumps({"format": _FORMAT, "sum": _SUM, "entries": described} | missing)
    metadata = {"regard": description, _SUM: _checksum(description, tensors.by_name)}
    write_safetensors(Path(path), tensors.by_name, metadata)


def load(path: str | PathLike[str]) -> tuple[dict[str, Entry], tuple[str, ...], tuple[str, ...]]:
    """Read entries, what was not seen, and what was changed."""
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (it is no mapping)
    except OSError as error:
        raise FileError(f"{path} cannot be read: {error.strerror or error}.") from None
    except Exception as error:
        raise FileError(f"{path} is no safetensors file, or damaged: {error}.") from None
    if "regard" not in metadata:
        raise InputError(f"{path} is a safetensors file, but no record: record.save(path) writes one.")
    try:
        description = json.loads(metadata["regard"])
        number = description["format"]
        if number == _FORMAT:
            _require(_SUM in metadata or "sum" not in description, "its checksum is missing")
            if _SUM in metadata:
                _require(metadata[_SUM] == _checksum(metadata["regard"], tensors), "its checksum is another")
            entries = [_read_entry(item, tensors) for item in description["entries"]]
            names = {entry.name: entry for entry in entries}
            _require(len(names) == len(entries), "two entries have one name")
            unseen, changes = (description.get(name, []) for name in ("unseen", "changes"))
            for said in (unseen, changes):
                words = isinstance(said, list) and all(isinstance(name, str) for name in said)
                _require(words, "what was not seen, or changed, is no list of names")
            return names, tuple(unseen), tuple(changes)
    except Exception as error:  # whatever a description that is not one may cause
        what = str(error) if isinstance(error, RegardError) else f"{type(error).__name__}: {error}"
        raise FileError(f"{path} is damaged: {what.rstrip('.')}. Copy it again, or save the record again.") from error
    raise InputError(f"{path} has format {number}, this regard reads {_FORMAT}. Update regard.")


def _checksum(description: str, tensors: Mapping[str, Tensor]) -> str:
    """A sum of the description, and of the name, the dtype, the shape and the numbers of every tensor."""
    found = hashlib.sha256(description.encode())
    for name, tensor in sorted(tensors.items()):
        found.update(f"\n{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        found.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return found.hexdigest()


# Writing


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
    item |= {"tokens": _describe_tokens(entry.tokens, tensors), "heads": [entry.heads.start, entry.heads.stop]}
    shared = entry.key_tokens is entry.tokens
    item["key_tokens"] = "tokens" if shared else _describe_tokens(entry.key_tokens, tensors)
    real, by_mask = (entry.real, entry.real_keys), _real_by_mask(entry)
    if not all(
        a is b or (a is not None and b is not None and torch.equal(a, b)) for a, b in zip(real, by_mask, strict=True)
    ):
        item["real"] = [tensors.put(each) for each in real]
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
    if entry.shard is not None:
        item["shard"] = [entry.shard.first, entry.shard.heads]
    item["mask"] = _describe_mask(call.mask, tensors)
    if call.zeroed.atoms:
        item["zeroed"] = _describe_mask(call.zeroed, tensors)
    elif entry.attention is not None and entry.attention.shape[1] == call.query.shape[1]:
        # The kernel that ran gave the normaliser of each row: with it, no part of a long text waits for all of it.
        item["normaliser"] = tensors.put(entry.attention.known_logsumexp)
    if entry.values is not None:
        item["values"] = {name: tensors.put(tensor) for name, tensor in vars(entry.values).items()}
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
    found = []
    for text in sequences:
        described: dict[str, Any] = {"pieces": text.pieces, "words": [[w.text, w.start, w.stop] for w in text.words]}
        if text.grids:
            described["grids"] = [
                {name: tensors.put(value) for name, value in vars(each).items()} for each in text.grids
            ]
        described |= {} if text.named else {"named": False}
        found.append(described | ({"first": text.first} if text.first else {}))
    return found


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


def _read_entry(item: dict[str, Any], tensors: Mapping[str, Tensor]) -> Entry:
    def get(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        tensor = tensors[value["tensor"]]
        _require(tensor.numel() > 0 or max(tensor.shape) <= _LARGEST_EMPTY, "a tensor without numbers is too long")
        return tensor

    first, stop = (_whole(head) for head in item["heads"])
    about: dict[str, Any] = {
        "name": _string(item["name"]),
        "kind": _string(item["kind"]),
        "layer": _whole(item["layer"]),
        "calls": _whole(item["calls"], least=1),
    }
    if "kept" in item:
        shape, reductions = _read_reductions(item["kept"], get)
        entry = Entry(shape=shape, reductions=reductions, first_head=first, **about)
    else:
        call = _read_call(item, get)
        matrix = call.matrix()  # which checks shapes and dtypes
        batch, heads, queries, keys = matrix.shape
        matrix = _normalised(matrix, get(item.get("normaliser")))
        values = _read_values(item["values"], get, (batch, heads, queries, keys)) if "values" in item else None
        entry = Entry(shape=(batch, heads, queries, keys), call=call, attention=matrix, values=values, **about)
        if "shard" in item:  # of a model on several ranks
            begin, total = (_whole(number) for number in item["shard"])
            _require(begin + heads <= total, f"{entry.name} does not have {heads} heads from {begin} on, of {total}")
            entry = replace(entry, first_head=begin, shard=Shard(begin, total))
        entry = entry if stop - first == heads else entry.head(slice(first, stop))
    _require(entry.heads == range(first, stop), f"{entry.name} does not have heads {first} to {stop - 1}")
    batch, _, queries, keys = entry.shape
    real, real_keys = _read_real(item, entry, get)
    tokens = _read_tokens(item["tokens"], batch, queries, get)
    shared = item["key_tokens"] == "tokens"
    _require(not shared or tokens is None or queries == keys, f"the queries and keys of {entry.name} differ")
    return replace(
        entry,
        tokens=tokens,
        key_tokens=tokens if shared else _read_tokens(item["key_tokens"], batch, keys, get),
        ids=_read_ids(get(item["ids"]), (batch, queries)),
        key_ids=_read_ids(get(item["key_ids"]), (batch, keys)),
        real=real,
        real_keys=real_keys,
    )


def _real_by_mask(entry: Entry) -> tuple[Tensor | None, Tensor | None]:
    """Which tokens are no padding, as far as the mask of an entry says it."""
    keys = None if entry.call is None else entry.call.real_keys()
    keys = None if keys is None or bool(keys.all()) else keys.cpu()
    return (keys if entry.shape[2] == entry.shape[3] and entry.kind != "cross" else None), keys


def _read_real(item: dict[str, Any], entry: Entry, get: Callable[[Any], Any]) -> tuple[Tensor | None, Tensor | None]:
    """Which tokens are no padding: where a file does not say it, the mask does."""
    if "real" not in item:
        return _real_by_mask(entry)
    batch, _, queries, keys = entry.shape
    found = [get(value) for value in item["real"]]
    for real, least, most in zip(found, (queries, keys), (_LARGEST, keys), strict=True):
        fits = isinstance(real, Tensor) and real.dtype == torch.bool and real.dim() == 2 and len(real) == batch
        _require(real is None or (fits and least <= real.shape[1] <= most), "what is padding does not fit the tokens")
    return found[0], found[1]


def _normalised(matrix: AttentionMatrix, logsumexp: Any) -> AttentionMatrix:
    """The matrix with the normaliser of its rows, if the file has it."""
    if logsumexp is None:
        return matrix
    fits = isinstance(logsumexp, Tensor) and logsumexp.is_floating_point() and logsumexp.shape == matrix.shape[:3]
    _require(fits and not bool(logsumexp.isnan().any()), "a normaliser does not fit its matrix")
    return matrix.normalised_by(logsumexp)


def _read_call(item: dict[str, Any], get: Callable[[Any], Any]) -> AttentionCall:
    inputs = {name: get(item["source"][name]) for name in _SOURCE}
    query, key = inputs["query"], inputs["key"]
    _require(isinstance(query, Tensor) and isinstance(key, Tensor) and query.dim() == 4, "a query must have 4 axes")
    for name in ("scale", "softcap"):
        _require(inputs[name] is None or type(inputs[name]) in (int, float), f"{name} must be a number")
    _require(inputs["sinks"] is None or isinstance(inputs["sinks"], Tensor), "sinks must be a tensor")
    mask, zeroed = _read_mask(item["mask"], get), _read_mask(item.get("zeroed", []), get)
    return AttentionCall(mask=mask, kind=item["kind"], zeroed=zeroed, **inputs)


def _read_mask(atoms: list[Any], get: Callable[[Any], Any]) -> Mask:
    mask = Mask()
    for kind, fields in atoms:
        mask &= _read_cut(fields, get) if kind == "Cut" else _read_atom(kind, {n: get(v) for n, v in fields.items()})
    return mask


def _read_cut(fields: dict[str, Any], get: Callable[[Any], Any]) -> Mask:
    _require(set(fields) == {"queries", "keys", "heads", "band", "bias"}, "a cut has other parts")

    def places(value: Any) -> Any:
        if isinstance(value, dict):
            return get(value)
        return slice(*(None if end is None else _whole(end) for end in value))

    band, bias, heads = fields["band"], fields["bias"], fields["heads"]
    return cut(
        places(fields["queries"]),
        places(fields["keys"]),
        within=None if band is None else _read_atom("Band", band),
        heads=get(heads) if isinstance(heads, dict) else None if heads is None else [_whole(head) for head in heads],
        bias=-math.inf if bias is None else bias,
    )


def _read_atom(kind: str, fields: dict[str, Any]) -> Mask:
    """A part of a mask, made as a user makes it, which checks it."""
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


def _read_values(
    item: dict[str, Any], get: Callable[[Any], Any], shape: tuple[int, int, int, int]
) -> Values:  # fmt: skip
    batch, heads, queries, keys = shape
    value, projection, gradient = (get(item[name]) for name in ("value", "projection", "gradient"))
    given = [tensor for tensor in (value, projection, gradient) if tensor is not None]
    _require(value is not None and all(isinstance(t, Tensor) and t.is_floating_point() for t in given), "no values")
    fits = value.dim() == 4 and value.shape[0] == batch and value.shape[2] == keys
    fits = fits and value.shape[1] > 0 and heads % value.shape[1] == 0
    _require(fits, f"the values do not fit {batch} × {heads} heads × {keys} keys: {tuple(value.shape)}")
    width = value.shape[3]
    fits = projection is None or (projection.dim() == 3 and projection.shape[:2] == (heads, width))
    fits = fits and (gradient is None or gradient.shape == (batch, heads, queries, width))
    _require(fits, "a projection or a gradient does not fit the values")
    return Values(value, projection, gradient)


def _read_reductions(kept: dict[str, Any], get: Callable[[Any], Any]) -> tuple[tuple[int, int, int, int], Reductions]:
    queries, keys = _whole(kept["queries"]), _whole(kept["keys"])
    found: dict[str, Any] = {name: get(kept[name]) for name in REDUCTIONS if name != "top" and kept[name] is not None}
    numbers: dict[str, Any] = dict(found)
    if kept["top"] is not None:
        weights, places = map(get, kept["top"])
        numbers |= {"top": weights}
        found["top"] = Top(weights, places)
    _require(bool(numbers) and all(isinstance(t, Tensor) for t in numbers.values()), "no reduction was kept")
    batch, heads = next(iter(numbers.values())).shape[:2]
    axes = {"received": (keys,), "entropy": (queries,), "pool": (None, None), "top": (queries, None)}
    for name, tensor in numbers.items():
        fits = tensor.is_floating_point() and tensor.dim() == 2 + len(axes[name]) and tensor.shape[:2] == (batch, heads)
        fits &= all(size in (None, own) for size, own in zip(axes[name], tensor.shape[2:], strict=False))
        _require(fits, f"{name} does not fit {queries} queries and {keys} keys: {tuple(tensor.shape)}")
    if "pool" in found:
        rows, columns = found["pool"].shape[2:]
        _require(rows <= queries and columns <= keys, "a pool is larger than its matrix")
    if "top" in found:
        _require(_are_whole(places) and places.shape == weights.shape, "the keys of top do not fit its weights")
        _require(bool(((places >= -1) & (places < keys)).all()), f"a key of top is not one of {keys}")
    return (batch, heads, queries, keys), found  # type: ignore[return-value]


def _are_whole(value: Any) -> bool:
    return isinstance(value, Tensor) and not (
        value.is_floating_point() or value.is_complex() or value.dtype == torch.bool
    )


def _read_ids(ids: Any, shape: tuple[int, int]) -> Tensor | None:
    _require(ids is None or (_are_whole(ids) and ids.shape == shape), f"the ids of tokens must be {shape}")
    return None if ids is None else ids  # type: ignore[no-any-return]


def _read_tokens(sequences: Any, batch: int, length: int, get: Callable[[Any], Any]) -> list[Tokens] | None:
    if sequences is None:
        return None
    _require(len(sequences) == batch, f"tokens must be of {batch} sequences")
    return [_read_sequence(text, length, get) for text in sequences]


def _read_sequence(text: dict[str, Any], length: int, get: Callable[[Any], Any]) -> Tokens:
    pieces = [_string(piece) for piece in text["pieces"]]
    words = [Word(_string(word), _whole(start), _whole(stop, 1)) for word, start, stop in text["words"]]
    edges = [0, *(word.stop for word in words)]
    in_order = edges[-1] == length == len(pieces) and all(
        w.start == e < w.stop for w, e in zip(words, edges, strict=False)
    )
    _require(in_order, f"words must be made of all {length} tokens, in order")
    grids = [_read_grid({name: get(value) for name, value in each.items()}, length) for each in text.get("grids", ())]
    named, first = text.get("named") is not False, _whole(text.get("first", 0))
    return Tokens(pieces, words=words, named=named, grids=grids, first=first)


def _read_grid(fields: dict[str, Any], length: int) -> Grid:
    """The patches of an image, each of which is one of so many tokens, or none."""
    tokens, brightness, box = fields["tokens"], fields["brightness"], fields["box"]
    fits = _are_whole(tokens) and tokens.dim() == 2 and bool(((tokens >= -1) & (tokens < length)).all())
    _require(fits, f"the patches of an image are not among {length} tokens")
    shown = brightness is None or (isinstance(brightness, Tensor) and brightness.is_floating_point())
    _require(shown and (brightness is None or brightness.shape == tokens.shape), "the brightness of patches is no grid")
    numbers = [*box, fields["aspect"]]
    _require(len(numbers) == 5 and all(type(n) in (int, float) for n in numbers), "the box of an image is none")
    edges = (float(box[0]), float(box[1]), float(box[2]), float(box[3]))
    image, name = _whole(fields["image"]), _string(fields["name"])
    return Grid(tokens.long(), image, name, edges, float(fields["aspect"]), brightness)
