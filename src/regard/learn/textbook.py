"""The documents' own examples, as numbers to compute with: `steps(*i_am_good())`."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.errors import InputError

__all__ = ["Example", "dog", "i_am_good", "i_am_hungry", "known", "sentence", "sushi", "untrained", "worked_example"]

_SHARPNESS = 6.0  # the scale of the queries: larger = more attention to the best match


class Example(NamedTuple):
    """The arguments of `steps`, in order."""

    x: NDArray[np.float64]
    w_q: NDArray[np.float64]
    w_k: NDArray[np.float64]
    w_v: NDArray[np.float64]
    words: tuple[str, ...]


def worked_example() -> Example:
    """Three words of four numbers each: small enough to check by hand.

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
    """The sentence "I am good": 512 numbers for each word, 64 for each query, and the weights of the text.

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
    # The text shows three columns of X. The other columns have the same range and number of decimals.
    x = random.uniform(0, 12, (3, 512)).round(2)
    x[:, [0, 1, -1]] = [[1.76, 2.22, 6.66], [7.77, 0.631, 5.35], [11.44, 10.10, 3.33]]
    # The text gives every weight. Weights determine the *differences* of the scores within a row, s_ij − s_ii =
    # √64 · log(p_ij / p_ii), so one score of each row is free: 110, 99 and 100 for a word with itself.
    shares = np.array([[90, 7, 3], [2.5, 95, 2.5], [21, 3, 76]])
    scores = np.array([[110.0], [99.0], [100.0]]) + 8 * np.log(shares / np.diag(shares)[:, None])
    # Any keys work: with Q = S (KKᵀ)⁻¹ K, QKᵀ = S.
    keys = random.normal(0, 1.25, (3, 64))
    queries = scores @ np.linalg.solve(keys @ keys.T, keys)
    values = random.normal(0, 1, (3, 64))
    w_q, w_k, w_v = (_weights(x, rows, random) for rows in (queries, keys, values))
    return Example(x, w_q, w_k, w_v, words=("I", "am", "good"))


def dog() -> Example:
    """The sentence about the hungry dog, with meanings written by hand: what each word is, and what it asks for.

    >>> from regard import steps
    >>> done = steps(*dog())
    >>> [done.words[place] for place in done.weights.argmax(1)][6]
    'dog'
    """
    #           what it is, and what it asks for:  animal food action link feeling
    return _meanings(
        ("A", (0, 0, 0, 0, 0), (0.9, 0, 0, 0, 0)),
        ("dog", (1, 0, 0, 0, 0), (0.8, 0, 0.5, 0, 0)),
        ("ate", (0, 0, 1, 0, 0), (0.6, 0.8, 0.3, 0, 0)),
        ("the", (0, 0, 0, 0, 0), (0, 0.9, 0, 0, 0)),
        ("food", (0, 1, 0, 0, 0), (0, 0.8, 0.5, 0, 0)),
        ("because", (0, 0, 0, 1, 0), (0, 0, 0.7, 0.3, 0.7)),
        ("it", (0.2, 0, 0, 0, 0), (1, 0.3, 0, 0, 0.4)),
        ("was", (0, 0, 0.4, 0, 0), (0.3, 0, 0, 0, 0.8)),
        ("hungry", (0, 0, 0, 0, 1), (0.9, 0, 0, 0, 0.4)),
    )


def sushi() -> Example:
    """The sentence about sushi, in which "it" is the sushi and "me" the speaker, with meanings written by hand.

    >>> from regard import steps
    >>> done = steps(*sushi())
    >>> [done.words[place] for place in done.weights.argmax(1)]
    ['I', 'sushi', 'sushi', 'happy', 'sushi', 'happy', 'I', 'I']
    """
    #           what it is, and what it asks for:  thing person action link feeling
    return _meanings(
        ("I", (0, 1, 0, 0, 0), (0, 0.8, 0.4, 0, 0)),
        ("like", (0, 0, 1, 0, 0), (0.7, 0.6, 0.2, 0, 0)),
        ("sushi", (1, 0, 0, 0, 0), (0.8, 0, 0.4, 0, 0)),
        ("because", (0, 0, 0, 1, 0), (0, 0, 0.5, 0.3, 0.7)),
        ("it", (0.2, 0, 0, 0, 0), (1, 0, 0.1, 0, 0.1)),
        ("makes", (0, 0, 0.9, 0, 0), (0.4, 0, 0.3, 0, 0.8)),
        ("me", (0, 0.4, 0, 0, 0), (0, 1, 0, 0, 0.2)),
        ("happy", (0, 0, 0, 0, 1), (0.2, 0.9, 0, 0, 0.3)),
    )


def i_am_hungry() -> Example:
    """The sentence "I am hungry", with meanings written by hand.

    >>> i_am_hungry().words
    ('I', 'am', 'hungry')
    """
    #           what it is, and what it asks for:  person being feeling
    return _meanings(
        ("I", (1, 0, 0), (0.6, 0.1, 0.3)), ("am", (0, 1, 0), (0.5, 0.3, 0.5)), ("hungry", (0, 0, 1), (0.7, 0, 0.4))
    )


def sentence(text: str) -> Example:
    """Any sentence: the four sentences of the documents as above, any other sentence as in `untrained`.

    >>> sentence("A dog ate the food because it was hungry.").words[6], sentence("Hello world").x.shape
    ('it', (2, 8))
    """
    example = known(text)
    return untrained(text) if example is None else example


def known(text: str) -> Example | None:
    """One of the four sentences of the documents, with its numbers; None for any other sentence.

    >>> known("I am good.").words, known("Hello world")
    (('I', 'am', 'good'), None)
    """
    example = _SENTENCES.get(" ".join(_split(text)).rstrip(".!").casefold())
    return None if example is None else example()


def untrained(text: str) -> Example:
    """Any sentence with random numbers, as in an untrained model: eight for each word, four for each query.

    >>> untrained("Hello world").x.shape
    (2, 8)
    """
    words = _split(text)
    # A word has the same numbers at every position and on every machine.
    rows = [np.random.default_rng(zlib.crc32(word.encode("utf-8", "replace"))).normal(size=8) for word in words]
    w_q, w_k, w_v = np.random.default_rng(64).normal(0, 0.5, (3, 8, 4)).round(2)
    return Example(np.array(rows).reshape(-1, 8).round(2), w_q, w_k, w_v, words)


def _split(text: str) -> tuple[str, ...]:
    words = tuple(text.split())
    if not words:
        raise InputError(f"no words: the sentence must have at least one. Got {text!r}.")
    return words


_SENTENCES: dict[str, Callable[[], Example]] = {
    "i am good": i_am_good,
    "i am hungry": i_am_hungry,
    "a dog ate the food because it was hungry": dog,
    "i like sushi because it makes me happy": sushi,
}


def _meanings(*words: tuple[str, tuple[float, ...], tuple[float, ...]]) -> Example:
    """A row of X says what a word is, which keys and values read, then what it asks for, which queries read."""
    x = np.array([(*meaning, *request) for _, meaning, request in words], dtype=np.float64)
    size = x.shape[1] // 2
    zeros, identity = np.zeros((size, size)), np.eye(size)
    first, second = np.concatenate([identity, zeros]), np.concatenate([zeros, _SHARPNESS * identity])
    return Example(x, w_q=second, w_k=first, w_v=first.copy(), words=tuple(word for word, _, _ in words))


def _weights(x: NDArray[np.float64], rows: NDArray[np.float64], random: np.random.Generator) -> NDArray[np.float64]:
    """Weights W with X W = rows; in the 509 directions that three words leave free, W is random."""
    inverse = np.linalg.pinv(x)
    free = random.normal(0, 512**-0.5, (512, 64))
    return inverse @ rows + free - inverse @ (x @ free)
