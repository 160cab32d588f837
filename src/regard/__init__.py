"""Self-attention computed at full speed, with nothing hidden.

A = regard.AttentionMatrix(query, key, mask=regard.causal()) is the attention matrix as an object that is never
stored: `A @ value` is attention, `A[…]` any exact slice of it, `A.received()`, `A.top(8)`, `A.pool(256, 256)` and the
rest look at all of it in O(tokens) memory. `regard.attention` is the function form; `regard.steps` shows the four
steps of the calculation on small arrays; what has numbers has a `.picture()`, a `regard.Picture` to print or save.
"""

from regard import textbook as textbook
from regard.attention import attention
from regard.config import TransformerConfig
from regard.drawing.picture import Picture
from regard.errors import (
    ChangedError,
    DeviceError,
    DTypeError,
    FileError,
    InputError,
    MissingError,
    OutOfRange,
    RegardError,
    ShapeError,
    TooLargeError,
    WatchError,
)
from regard.exchange import from_torch
from regard.layers import DecoderLayer, EncoderLayer, FeedForward, MultiHeadAttention, SelfAttention
from regard.masks import Mask, bias, causal, documents, padding, window
from regard.matrix import AttentionMatrix, Summary, Top
from regard.stacks import Cache, Decoder, Encoder
from regard.steps import Steps, steps
from regard.transformer import Memory, Transformer
from regard.translation.translated import Translation
from regard.translation.translator import Translator
from regard.watch import Record, watch

__version__ = "0.1.0"

__all__ = [
    "AttentionMatrix",
    "Cache",
    "ChangedError",
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
    "MissingError",
    "MultiHeadAttention",
    "OutOfRange",
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
