"""Look into a model while it runs: `watch` gives a `Record` of the attention of every layer."""

from regard.watch.entry import Entry
from regard.watch.knockout import Effect, knock_out
from regard.watch.record import Record
from regard.watch.watching import watch

__all__ = ["Effect", "Entry", "Record", "knock_out", "watch"]
