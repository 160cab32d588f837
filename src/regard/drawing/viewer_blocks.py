"""Arrays as text inside a page: byte planes, deflate, base 85, without any character that could be markup.

The first bytes of neighbouring numbers are alike, their last ones are noise: apart from each other they are smaller.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Block", "block", "decoded"]

# That of base64.b85encode, with "," for "<": no tag can begin.
_ALPHABET = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;,=>?@^_`{|}~"
_DIGITS = np.frombuffer(_ALPHABET, np.uint8)


@dataclass(frozen=True, eq=False)
class Block:
    """An array as text, with what is needed to read it."""

    dtype: str
    shape: tuple[int, ...]
    text: str


def block(array: NDArray[Any]) -> Block:
    """An array as text.

    >>> zeros = block(np.zeros((20, 50), np.float32))
    >>> zeros.dtype, zeros.shape, len(zeros.text) < 50
    ('float32', (20, 50), True)
    """
    little = array.astype(array.dtype.newbyteorder("<"), copy=False)
    planes = np.ascontiguousarray(little).view(np.uint8).reshape(-1, array.dtype.itemsize).T
    return Block(array.dtype.name, array.shape, _base85(zlib.compress(planes.tobytes(), 9)))


def decoded(some: Block) -> NDArray[Any]:
    """The array of a block, as the page reads it.

    >>> decoded(block(np.arange(5, dtype=np.int32))).tolist()
    [0, 1, 2, 3, 4]
    """
    values = np.zeros(256, np.uint32)
    values[_DIGITS] = np.arange(85)
    missing = -len(some.text) % 5
    digits = values[np.frombuffer(some.text.encode() + b"~" * missing, np.uint8)].reshape(-1, 5)
    words = (digits.astype(np.uint64) @ 85 ** np.arange(4, -1, -1, dtype=np.uint64)).astype(">u4")
    planes = np.frombuffer(zlib.decompress(words.tobytes()[: 4 * len(words) - missing]), np.uint8)
    dtype = np.dtype(some.dtype).newbyteorder("<")
    flat: NDArray[Any] = np.ascontiguousarray(planes.reshape(dtype.itemsize, -1).T).view(dtype)
    return flat.reshape(some.shape)


def _base85(data: bytes) -> str:
    """Four bytes as five digits; as many digits are left out at the end as bytes were filled up there."""
    missing = -len(data) % 4
    words = np.frombuffer(data + bytes(missing), ">u4").astype(np.uint32)
    digits = np.empty((len(words), 5), np.uint8)
    for place in range(4, -1, -1):
        words, digits[:, place] = words // 85, words % 85
    return _DIGITS[digits].tobytes()[: 5 * len(digits) - missing].decode("ascii")
