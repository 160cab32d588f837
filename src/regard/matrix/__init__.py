"""The attention matrix as an object that is never stored.

Read in this order:

attention_matrix.py  `AttentionMatrix`: products, slices, reductions, each a few lines over the next two
normalised.py        scores and the normaliser of each row: what is computed, and what is kept
views.py             its transpose, stages, parts and leading axes; `A[…]` read as torch reads `tensor[…]`
top.py               `Top`, the largest weights of each row
functional.py        `attention`, the function form, by torch's own kernels where they can do all of it
compiled.py          the same as one operator for torch.compile
linear_operator.py   a matrix as SciPy's linear operator, for its solvers
matrix_picture.py    what to compute for a picture of a matrix of any size
"""

from regard.matrix.attention_matrix import AttentionMatrix, Summary
from regard.matrix.functional import attention
from regard.matrix.top import Top
from regard.matrix.views import Parts, Transposed

__all__ = ["AttentionMatrix", "Parts", "Summary", "Top", "Transposed", "attention"]
