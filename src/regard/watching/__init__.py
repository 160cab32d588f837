"""Look into a model while it runs: `watch` gives a `Record` of the attention of every layer."""

from regard.watching.entry import Entry
from regard.watching.knockout import Effect, knock_out
from regard.watching.record import Record
from regard.watching.session import watch

__all__ = ["Effect", "Entry", "Record", "knock_out", "watch"]
