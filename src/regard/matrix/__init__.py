"""The attention matrix as an object that is never stored.

Read in this order:

lazy_matrix.py       `LazyMatrix`: the methods of every matrix; its views, and the results `Top` and `Summary`
attention_matrix.py  `AttentionMatrix`: the matrix on one device; `A @ value` is attention
axes.py              the user's axes and indices, and how they become (batch, heads, queries, keys)
normalised.py        `NormalisedScores`: scores and the normaliser of each row, which is cached
functional.py        `attention`, the function form, by torch's kernels where they suffice
compiled.py          `attention` as one operator for torch.compile
mixture.py           `Mixture`: a weighted sum of heads, as lazy as one of them
guiding.py           `guide`: a loss that teaches a head where to look
picture.py           the numbers of a picture of a matrix of any size
"""

from regard.matrix.attention_matrix import AttentionMatrix
from regard.matrix.functional import attention
from regard.matrix.guiding import guide
from regard.matrix.lazy_matrix import LazyMatrix, Parts, Summary, Top, Transposed
from regard.matrix.mixture import Mixture, mix

__all__ = [
    "AttentionMatrix",
    "LazyMatrix",
    "Mixture",
    "Parts",
    "Summary",
    "Top",
    "Transposed",
    "attention",
    "guide",
    "mix",
]
