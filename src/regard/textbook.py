"""The textbook's own examples, as numbers to compute with: `steps(*i_am_good())`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Example", "i_am_good", "worked_example"]


class Example(NamedTuple):
    """What `steps` takes, in its order."""

    x: NDArray[np.float64]
    w_q: NDArray[np.float64]
    w_k: NDArray[np.float64]
    w_v: NDArray[np.float64]
    words: tuple[str, ...]


def worked_example() -> Example:
    """Three words of four numbers, every one of them given: small enough to check by hand.

    >>> worked_example().x
    array([[1., 0., 1., 0.],
           [0., 2., 0., 2.],
           [1., 1., 1., 1.]])
    """
    return Example(
        x=np.array([[1.0, 0.0, 1.0, 0.0], [0.0, 2.0, 0.0, 2.0], [1.0, 1.0, 1.0, 1.0]]),
        w_q=np.array([[0.1, 0.2, 0.0, 0.0], [0.0, 0.1, 0.3, 0.0], [0.1, 0.0, 0.0, 0.2], [0.0, 0.0, 0.2, 0.3]]),
        w_k=np.array([[0.2, 0.0, 0.1, 0.0], [0.0, 0.1, 0.0, 0.3], [0.1, 0.0, 0.2, 0.0], [0.0, 0.2, 0.0, 0.1]]),
        w_v=np.array([[0.0, 0.1, 0.0, 0.2], [0.2, 0.0, 0.2, 0.0], [0.0, 0.3, 0.1, 0.0], [0.1, 0.0, 0.0, 0.3]]),
        words=("word 1", "word 2", "word 3"),
    )


def i_am_good() -> Example:
    """The sentence "I am good": 512 numbers for each word, 64 for each query, and the weights that the text explains.

    >>> example = i_am_good()
    >>> example.x[:, [0, 1, -1]]
    array([[ 1.76 ,  2.22 ,  6.66 ],
           [ 7.77 ,  0.631,  5.35 ],
           [11.44 , 10.1  ,  3.33 ]])
    >>> q, k = example.x @ example.w_q, example.x @ example.w_k
    >>> (q @ k.T).round(1)
    array([[110. ,  89.6,  82.8],
           [ 69.9,  99. ,  69.9],
           [ 89.7,  74.1, 100. ]])
    """
    random = np.random.default_rng(64)
    # The text shows three columns of X. The others are as large as those, and as short.
    x = random.uniform(0, 12, (3, 512)).round(2)
    x[:, [0, 1, -1]] = [[1.76, 2.22, 6.66], [7.77, 0.631, 5.35], [11.44, 10.10, 3.33]]
    # It names every share of the softmax. Shares fix the *differences* of the scores within a row, s_ij − s_ii =
    # √64 · log(p_ij / p_ii), so one score of each row is free: 110, 99 and 100 for a word with itself.
    shares = np.array([[90, 7, 3], [2.5, 95, 2.5], [21, 3, 76]])
    own = np.diag(shares)[:, None]
    scores = np.array([[110.0], [99.0], [100.0]]) + 8 * np.log(shares / own)
    # Any keys will do, for queries can be found that give these scores with them: Q = S (KKᵀ)⁻¹ K, then QKᵀ = S.
    keys = random.normal(0, 1.25, (3, 64))
    queries = scores @ np.linalg.solve(keys @ keys.T, keys)
    values = random.normal(0, 1, (3, 64))
    w_q, w_k, w_v = (_weights(x, rows, random) for rows in (queries, keys, values))
    return Example(x, w_q, w_k, w_v, words=("I", "am", "good"))


def _weights(x: NDArray[np.float64], rows: NDArray[np.float64], random: np.random.Generator) -> NDArray[np.float64]:
    """Weights W with X W = rows. Three words leave 509 directions free: there W is as random as before training."""
    inverse = np.linalg.pinv(x)
    free = random.normal(0, 512**-0.5, (512, 64))
    return inverse @ rows + free - inverse @ (x @ free)
