"""The attention matrix as an object that is never stored.

Read in this order:

lazy_matrix.py       `LazyMatrix`: all that users can ask of a matrix; its views and results, `Top` and `Summary`
attention_matrix.py  `AttentionMatrix`: the matrix on one device; `A @ value` is attention
axes.py              the user's axes and indices, and how they become (batch, heads, queries, keys)
normalised.py        scores and the normaliser of each row: what is computed, and what is kept
functional.py        `attention`, the function form, by torch's own kernels where they suffice
compiled.py          the same as one operator for torch.compile
picture.py           what to compute for a picture of a matrix of any size
"""

from regard.matrix.attention_matrix import AttentionMatrix
from regard.matrix.functional import attention
from regard.matrix.lazy_matrix import LazyMatrix, Parts, Summary, Top, Transposed

__all__ = ["AttentionMatrix", "LazyMatrix", "Parts", "Summary", "Top", "Transposed", "attention"]
