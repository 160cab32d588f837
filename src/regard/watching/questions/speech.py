"""When each word was spoken: a path through the rows of Whisper's alignment heads, as transformers computes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from regard.drawing.maps import spectrogram
from regard.errors import InputError
from regard.support import Float
from regard.watching.questions.looks import Answer, query_side
from regard.watching.record.entries import Entry

if TYPE_CHECKING:
    from regard.drawing import Picture

_SECONDS, _FRAMES = 0.02, 100  # of sound for each key, and of the spectrogram in a second
# By model type: where the generation config has [layer, head] of each head that follows the sound, and where the config
# has the width of the median over time.
ALIGNMENT = {"whisper": ("alignment_heads", "median_filter_width")}


class Spoken(NamedTuple):
    """A word, and when it begins and ends, in seconds."""

    word: str
    start: float
    end: float


@dataclass(frozen=True, eq=False, repr=False)
class Speech(Answer[Spoken]):
    """Words with their times, in order.

    Args:
        items: the words.
        times: the time of each token that was read, in seconds; 0 for those of the prompt.
        loudness: the spectrogram that the model read, if it is known, of 100 frames a second.

    >>> print(Speech((Spoken("A", 0.0, 0.26), Spoken("dog", 0.26, 0.5))))
       0.00 –   0.26  A
       0.26 –   0.50  dog
    """

    items: tuple[Spoken, ...]
    times: Float[Tensor, " tokens"] | None = None
    loudness: Float[Tensor, "pitches frames"] | None = None

    def __str__(self) -> str:
        return "\n".join(f"{spoken.start:7.2f} – {spoken.end:6.2f}  {spoken.word}" for spoken in self)

    def picture(self, loudness: Float[Tensor, "pitches frames"] | None = None, title: str = "") -> Picture:
        """Draw the words over the spectrogram, by default over that of `listen`."""
        loudness = self.loudness if loudness is None else loudness
        if loudness is None:
            raise InputError("picture takes the spectrogram that the model read: input_features[0].")
        return spectrogram(loudness.float().cpu().numpy(), list(self), _FRAMES, title=title)


def spoken(
    entries: Sequence[Entry], model: Any, frames: int | None, heads: Sequence[Sequence[int]] | None, prompt: int | None
) -> Speech:
    """Answer `Record.spoken`: the words that were read, and when."""
    names = ALIGNMENT.get(getattr(getattr(model, "config", None), "model_type", ""), ("", ""))
    heads = getattr(getattr(model, "generation_config", None), names[0], None) if heads is None else heads
    cross = {entry.layer: entry for entry in entries if entry.kind == "cross"}
    if not heads or any(layer not in cross or head not in cross[layer].heads for layer, head in heads):
        raise InputError(
            f"spoken needs heads that follow the sound: [(layer, head), …] of a cross-attention. Got {heads}."
        )
    entry = next(iter(cross.values()))
    first = entry.shape[2] - entry.calls + 1 if prompt is None else prompt  # each step after the prompt reads one token
    stop = None if frames is None else frames // 2
    rows = torch.stack([cross[layer].matrix[0, head - cross[layer].first_head, first:, :stop] for layer, head in heads])
    times = torch.zeros(entry.shape[2])
    if rows.shape[1]:
        times[first:] = torch.from_numpy(_times(rows.float().cpu(), getattr(model.config, names[1], 7)))
    side = query_side(entry)
    words = [
        word
        for word in side.words
        if word.start >= first and not (word.text.startswith("<|") or side.is_special(word.start))
    ]
    after = [*times.tolist(), float(times[-1])]
    return Speech(tuple(Spoken(word.text, after[word.start], after[word.stop]) for word in words), times)


def _times(rows: Float[Tensor, "heads tokens keys"], width: int) -> NDArray[np.float64]:
    """Return when each token begins, by the mean of the normalized and smoothed rows."""
    deviation, mean = torch.std_mean(rows, dim=-2, keepdim=True, correction=0)
    rows = (rows - mean) / deviation
    if rows.shape[-1] > width // 2:  # the median over time
        padded = functional.pad(rows, (width // 2, width // 2), mode="reflect")
        rows = padded.unfold(-1, width, 1).sort()[0][..., width // 2]
    tokens, times = warp(-rows.mean(0).double().numpy())
    return np.asarray(times[np.diff(tokens, prepend=-1) > 0] * _SECONDS)


def warp(costs: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the rows and the columns of the cheapest path from the first to the last number (dynamic time warping).

    A step goes down, right or both. All numbers of a diagonal are computed at once. Sums are float32, and equal sums go
    right, as in transformers.

    >>> rows, columns = warp(np.array([[0.0, 1, 9], [9, 0, 0]]))
    >>> rows.tolist(), columns.tolist()
    ([0, 1, 1], [0, 1, 2])
    """
    height, width = costs.shape
    total = np.full((height + width + 1, height + 1), np.inf, np.float32)  # [i + j, i]: of the best path to (i, j)
    step = np.full(total.shape, 2, np.int8)  # 0: both, 1: down, 2: right
    total[0, 0] = 0
    for diagonal in range(2, height + width + 1):
        i = np.arange(max(1, diagonal - width), min(height, diagonal - 1) + 1)
        ways = np.stack([total[diagonal - 2, i - 1], total[diagonal - 1, i - 1], total[diagonal - 1, i]])
        both, down, right = ways
        best = np.where((both < down) & (both < right), 0, np.where((down < both) & (down < right), 1, 2))
        step[diagonal, i] = best
        total[diagonal, i] = costs[i - 1, diagonal - i - 1] + np.take_along_axis(ways, best[None], 0)[0]
    i, j, path = height, width, []
    while i > 0 or j > 0:
        path.append((i - 1, j - 1))
        way = 1 if j == 0 else 2 if i == 0 else step[i + j, i]
        i, j = i - (way != 2), j - (way != 1)
    rows, columns = np.array(path[::-1]).T
    return rows, columns
