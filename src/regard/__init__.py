"""Self-attention computed at full speed, with nothing hidden.

A = regard.AttentionMatrix(query, key, mask=regard.causal()) is the attention matrix as an object that is never
stored: `A @ value` is attention, `A[…]` any exact slice of it, `A.received()`, `A.top(8)`, `A.pool(256, 256)` and the
rest look at all of it in O(tokens) memory. `regard.attention` is the function form; `regard.steps` shows the four
steps of the calculation on small arrays.
"""

from regard.attention import attention
from regard.errors import (
    ChangedError,
    DeviceError,
    DTypeError,
    InputError,
    OutOfRange,
    RegardError,
    ShapeError,
    TooLargeError,
    WatchError,
)
from regard.masks import Mask, bias, causal, documents, padding, window
from regard.matrix import AttentionMatrix, Summary, Top
from regard.steps import Steps, steps
from regard.watch import Record, watch

__version__ = "0.1.0"

__all__ = [
    "AttentionMatrix",
    "ChangedError",
    "DTypeError",
    "DeviceError",
    "InputError",
    "Mask",
    "OutOfRange",
    "Record",
    "RegardError",
    "ShapeError",
    "Steps",
    "Summary",
    "TooLargeError",
    "Top",
    "WatchError",
    "attention",
    "bias",
    "causal",
    "documents",
    "padding",
    "steps",
    "watch",
    "window",
]
