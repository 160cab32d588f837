"""`Bins`: a range of tokens cut into bins, the last of which may lie past the last token."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from regard.errors import OutOfRangeError

__all__ = ["Bins"]


@dataclass(frozen=True)
class Bins:
    """A range of tokens of one side in nearly equal bins, the last of which may lie past the last token."""

    start: int
    stop: int  # not past the last token
    size: float  # tokens of a bin
    bins: int

    @property
    def tokens(self) -> int:
        """The number of tokens."""
        return self.stop - self.start

    @classmethod
    def of(cls, name: str, span: tuple[int, int], bins: int, tokens: int) -> Bins:
        """A range of a side that has so many tokens."""
        start, stop = span
        if not 0 <= start < tokens or not 1 <= bins <= stop - start:
            raise OutOfRangeError(
                f"{name} of a tile are a range (start, stop) that starts below {tokens}, in at most stop - start bins. "
                f"Got {span} in {bins}."
            )
        if stop > tokens and (stop - start) % bins:
            raise OutOfRangeError(
                f"{name} that reach past the last token, {tokens}, take bins of one size. Got {span} in {bins}."
            )
        return cls(start, min(stop, tokens), (stop - start) / bins, bins)

    def runs(self) -> Iterator[tuple[int, slice, int]]:
        """The first bin, the tokens counted from `start`, and the number of bins, of what `pool` can do in one go."""
        if self.tokens == round(self.size * self.bins):
            yield 0, slice(0, self.tokens), self.bins
            return
        size = int(self.size)
        whole = self.tokens // size
        if whole:
            yield 0, slice(0, whole * size), whole
        if whole * size < self.tokens:
            yield whole, slice(whole * size, self.tokens), 1

    def within(self, first: int, end: int) -> tuple[int, Bins]:
        """The bins that have tokens from `first` to before `end`, and the number of the first of them.

        >>> Bins(100, 200, 20, 5).within(130, 141)
        (1, Bins(start=120, stop=160, size=20, bins=2))
        """
        if self.size != int(self.size):
            return 0, self  # of unequal size: each has its place only beside all others
        size = int(self.size)
        low = min(max(first - self.start, 0) // size, self.bins)
        high = max(min(-(-(min(end, self.stop) - self.start) // size), self.bins), low)
        start = min(self.start + low * size, self.stop)
        return low, Bins(start, min(self.start + high * size, self.stop), self.size, high - low)
