"""`record`: the record of a request that asked, from the processes of vLLM."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from regard.errors import InputError, WatchError
from regard.matrix import Top
from regard.serving.plugin import check_version
from regard.watching.record.entries import Entry
from regard.watching.record.record import Record
from regard.watching.record.tokens import Vocabulary

__all__ = ["read", "record", "requests_seen"]


def record(llm: Any, request_id: str, *, tokenizer: Any = None) -> Record:
    """What a request looked at, that was made with `SamplingParams(extra_args={"regard": True})`.

    Any time: while it runs, the rows of the tokens so far. Words are those of the model's tokenizer, or of `tokenizer`.
    The last token that a model wrote has no row: it was not read any more.
    """
    check_version()
    if tokenizer is None and not llm.model_config.skip_tokenizer_init:
        tokenizer = llm.get_tokenizer()
    return read(llm.collective_rpc("regard_record", args=(request_id,)), tokenizer=tokenizer)


def requests_seen(llm: Any) -> list[str]:
    """The requests of which there is a record, as vLLM's processes name them, the oldest first."""
    check_version()
    names: list[str] = llm.collective_rpc("regard_requests")[0]
    return names


def read(answers: Sequence[bytes | str], *, tokenizer: Any = None) -> Record:
    """The record from what the processes answered: for an `AsyncLLM`, whose calls have to be awaited.

    `regard.serving.read(await engine.collective_rpc("regard_record", args=(request_id,)))`
    """
    records = [_open(answer) for answer in answers]
    if not records:
        raise InputError("no process answered.")
    entries: dict[str, Entry] = {}
    for one in records:  # pipeline parallel: other layers; tensor parallel: other heads
        for name, entry in one.items():
            entries[name] = entry if name not in entries else _beside(entries[name], entry)
    vocabulary = Vocabulary(tokenizer)
    named = {name: _named(entry, vocabulary) for name, entry in entries.items()}
    return Record([named], unseen=tuple(dict.fromkeys(said for one in records for said in one.unseen)))


def _open(answer: bytes | str) -> Record:
    if isinstance(answer, str):
        raise WatchError(answer)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "record.safetensors"
        path.write_bytes(answer)
        return Record.open(path)


def _named(entry: Entry, vocabulary: Vocabulary) -> Entry:
    tokens = None if entry.ids is None else vocabulary.read(entry.ids)
    same = entry.key_ids is entry.ids or entry.shape[2] == entry.shape[3]
    key_tokens = tokens if same or entry.key_ids is None else vocabulary.read(entry.key_ids)
    return replace(entry, tokens=tokens, key_tokens=key_tokens)


def _beside(first: Entry, second: Entry) -> Entry:
    """The heads of two ranks as one entry."""
    batch, heads, *places = first.shape
    about: dict[str, Any] = {"shape": (batch, heads + second.shape[1], *places), "shard": None}
    if first.reductions is not None and second.reductions is not None:
        kept: Any = {}
        for name, value in first.reductions.items():
            other: Any = second.reductions[name]  # type: ignore[literal-required]
            if isinstance(value, Top):
                kept[name] = Top(*(torch.cat(both, 1) for both in zip(value, other, strict=True)))
            else:
                kept[name] = torch.cat([value, other], 1)  # type: ignore[list-item]
        return replace(first, reductions=kept, **about)
    one, other = first.call, second.call
    assert one is not None
    assert other is not None
    sinks = None if one.sinks is None or other.sinks is None else torch.cat([one.sinks, other.sinks], -1)
    call = replace(
        one, query=torch.cat([one.query, other.query], 1), key=torch.cat([one.key, other.key], 1), sinks=sinks,
        shard=None,
    )  # fmt: skip
    return replace(first, call=call, attention=call.matrix(), **about)
