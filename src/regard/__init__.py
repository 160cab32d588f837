"""Self-attention computed at full speed, with nothing hidden.

A = regard.AttentionMatrix(query, key, mask=regard.causal()) is the attention matrix as an object that is never
stored: `A @ value` is attention, `A[…]` any exact slice of it, `A.received()`, `A.top(8)`, `A.pool(256, 256)` and the
rest look at all of it in O(tokens) memory. `regard.attention` is the function form; `regard.steps` shows the four
steps of the calculation on small arrays; what has numbers has a `.picture()`, a `regard.Picture` to print or save.
"""

from regard import _interrupts as _interrupts  # first: importing the rest takes a second or more
from regard.drawing import Picture
from regard.errors import (
    DeviceError,
    DTypeError,
    FileError,
    InputError,
    MissingDependencyError,
    ModifiedInPlaceError,
    OutOfRangeError,
    RegardError,
    ShapeError,
    TooLargeError,
    UnseenWarning,
    WatchError,
)
from regard.learn import Steps, steps
from regard.learn import textbook as textbook
from regard.matrix import AttentionMatrix, Summary, Top, attention
from regard.nn import (
    Cache,
    Decoder,
    DecoderLayer,
    Encoder,
    EncoderLayer,
    FeedForward,
    Memory,
    MultiHeadAttention,
    SelfAttention,
    Transformer,
    TransformerConfig,
    from_torch,
)
from regard.scores import Mask, bias, causal, documents, padding, window
from regard.translation import Translation, Translator
from regard.watching import Patch, Record, watch

__version__ = "0.1.0"

__all__ = [
    "AttentionMatrix",
    "Cache",
    "DTypeError",
    "Decoder",
    "DecoderLayer",
    "DeviceError",
    "Encoder",
    "EncoderLayer",
    "FeedForward",
    "FileError",
    "InputError",
    "Mask",
    "Memory",
    "MissingDependencyError",
    "ModifiedInPlaceError",
    "MultiHeadAttention",
    "OutOfRangeError",
    "Patch",
    "Picture",
    "Record",
    "RegardError",
    "SelfAttention",
    "ShapeError",
    "Steps",
    "Summary",
    "TooLargeError",
    "Top",
    "Transformer",
    "TransformerConfig",
    "Translation",
    "Translator",
    "UnseenWarning",
    "WatchError",
    "attention",
    "bias",
    "causal",
    "documents",
    "from_torch",
    "padding",
    "steps",
    "watch",
    "window",
]
