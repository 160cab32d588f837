"""Cross-attention by the word that is being written.

A decoder reads one token and writes the next. Whoever asks what "chien" looked at in the source means the row that
wrote it, the one where the token before it was read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from regard.watching.record.entries import Entry
from regard.watching.record.record import Record
from regard.watching.record.tokens import Tokens

__all__ = ["by_written_word"]


def by_written_word(record: Record, written: Sequence[Tokens]) -> Record:
    """The record with the rows of its cross-attention named after the tokens that were written, one text a pass."""
    passes = [
        {name: _renamed(entry, tokens) for name, entry in one.items()}
        for one, tokens in zip(record.passes, written, strict=True)
    ]
    return Record(passes, record.model, record.unseen, changes=record.changes)


def _renamed(entry: Entry, written: Tokens) -> Entry:
    batch, _, queries, _ = entry.shape
    return replace(entry, tokens=[written]) if (entry.kind, batch, queries) == ("cross", 1, len(written)) else entry
