"""Self-attention computed at full speed, with nothing hidden.

A = regard.AttentionMatrix(query, key, mask=regard.causal()) is the attention matrix as an object that is never
stored: `A @ value` is attention, `A[…]` is an exact slice, and `A.received()`, `A.top(8)`, `A.pool(256, 256)` and the
other reductions read the whole matrix in O(tokens) memory. `regard.attention` is the function form. `regard.steps`
shows the four steps of the calculation on small arrays. Results have a `.picture()`: a `regard.Picture` to print or
save.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from regard import _interrupts as _interrupts

# Names are imported when they are first used: torch takes seconds, and `regard --help` does not need it.
if TYPE_CHECKING:
    from regard import distributed as distributed
    from regard import serving as serving
    from regard.drawing import Picture
    from regard.errors import (
        DeviceError,
        DTypeError,
        FileError,
        InputError,
        MissingDependencyError,
        ModifiedInPlaceError,
        OutOfRangeError,
        RankError,
        RegardError,
        ShapeError,
        TooLargeError,
        UnseenWarning,
        WatchError,
    )
    from regard.learn import Steps, steps
    from regard.learn import textbook as textbook
    from regard.matrix import AttentionMatrix, Summary, Top, attention, guide
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
    from regard.scores import Mask, bias, causal, cut, documents, padding, window
    from regard.translation import Translation, Translator
    from regard.watching import Activation, Effect, Effects, Link, Patch, Record, effect, effects, monitor, watch

__version__ = "0.1.0"

__all__ = [
    "Activation",
    "AttentionMatrix",
    "Cache",
    "DTypeError",
    "Decoder",
    "DecoderLayer",
    "DeviceError",
    "Effect",
    "Effects",
    "Encoder",
    "EncoderLayer",
    "FeedForward",
    "FileError",
    "InputError",
    "Link",
    "Mask",
    "Memory",
    "MissingDependencyError",
    "ModifiedInPlaceError",
    "MultiHeadAttention",
    "OutOfRangeError",
    "Patch",
    "Picture",
    "RankError",
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
    "cut",
    "documents",
    "effect",
    "effects",
    "from_torch",
    "guide",
    "monitor",
    "padding",
    "steps",
    "watch",
    "window",
]

_ROOMS = ("errors", "drawing", "scores", "matrix", "learn", "nn", "watching", "translation")  # that export the names
_MODULES = (*_ROOMS, "backends", "distributed", "serving", "support")

if not TYPE_CHECKING:  # a type checker sees the names above only

    def __getattr__(name: str) -> Any:
        """Import a name of `__all__` from the room that exports it, or a room."""
        if name == "textbook":
            return import_module("regard.learn.textbook")
        if name in _MODULES:
            return import_module(f"regard.{name}")
        if name in __all__:
            for room in _ROOMS:
                module = import_module(f"regard.{room}")
                if hasattr(module, name):
                    globals()[name] = getattr(module, name)
                    return globals()[name]
        raise AttributeError(f"module 'regard' has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__, *_MODULES, "textbook"})
