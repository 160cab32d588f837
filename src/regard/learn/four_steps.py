"""`steps`: self-attention in four steps on small arrays, with every number kept and shown."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from rich.text import Text
from torch import Tensor

from regard.drawing import calculation, tables
from regard.drawing.terminal import Table, beside, mixtures, told_apart, visible
from regard.errors import DeviceError, DTypeError, InputError, ShapeError
from regard.matrix import AttentionMatrix
from regard.support import Float

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

    from regard.drawing import Picture

Array = TypeVar("Array", NDArray[Any], Tensor)
_REAL = {torch.float16, torch.bfloat16, torch.float32, torch.float64}
_REAL |= {torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64}


@dataclass(frozen=True, eq=False, repr=False)
class Steps(Generic[Array]):
    """The result of `steps`; printed, it shows all of the calculation, from the words to their outputs.

    >>> import regard
    >>> done = steps(*regard.textbook.i_am_good())
    >>> done
    Steps(words=3, width=512, d=64, dtype=float64)
    >>> print(done)  # doctest: +ELLIPSIS
    Each word is a row of X...
    z("I") = 90 % v("I") + 7 % v("am") + 3 % v("good")
    z("am") = 2.5 % v("I") + 95 % v("am") + 2.5 % v("good")
    z("good") = 21 % v("I") + 3 % v("am") + 76 % v("good")
    """

    x: Float[Array, "words width"]
    w_q: Float[Array, "width d"]
    w_k: Float[Array, "width d"]
    w_v: Float[Array, "width d_v"]
    words: tuple[str, ...]
    queries: Float[Array, "words d"]  # Q = X W_Q
    keys: Float[Array, "words d"]  # K = X W_K
    values: Float[Array, "words d_v"]  # V = X W_V
    scores: Float[Array, "words words"]  # QKᵀ
    scaled: Float[Array, "words words"]  # QKᵀ / √d
    weights: Float[Array, "words words"]  # softmax of each row
    output: Float[Array, "words d_v"]  # Z = weights V

    def as_matrix(self) -> AttentionMatrix:
        """The same weights as an `AttentionMatrix`, which never stores them and so fits long inputs.

        >>> import regard
        >>> A = steps(*regard.textbook.worked_example()).as_matrix()
        >>> A
        AttentionMatrix(shape=(3, 3), dtype=float64, device=cpu, mask=None)
        """
        return AttentionMatrix(torch.as_tensor(self.queries), torch.as_tensor(self.keys))

    def __repr__(self) -> str:
        (words, width), d = self.x.shape, self.w_q.shape[1]
        return f"Steps({words=}, {width=}, {d=}, dtype={self.x.dtype})"

    def __str__(self) -> str:
        return "\n".join(line.rstrip() for line in self._text(80).plain.split("\n"))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield self._text(options.max_width)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        """Show the picture in a notebook."""
        return self.picture()._repr_mimebundle_()

    def picture(
        self, cell: tuple[int, int] | None = None, title: str | None = None, only: str | None = None
    ) -> Picture:
        """The whole calculation as a picture.

        Args:
            cell: (row, column) of the score to show term by term.
            title: the title; by default the words.
            only: draw a single matrix, named as in this class: "x", "w_q", "queries", "scores", "weights", ….

        >>> import regard
        >>> steps(*regard.textbook.i_am_good()).picture()
        Picture('steps', X=(3, 512), W_Q=(512, 64), ...)
        """
        title = " ".join(map(visible, self.words[:20])) if title is None else title
        if only is not None:
            every = [table for _, drawn in self._sections() for table in drawn]  # in the order of the fields
            names = [field.name for field in fields(self) if field.name != "words"]
            if only not in names:
                raise InputError(f"only must be one of {', '.join(names)}. Got {only!r}.")
            return tables([every[names.index(only)]], title=title)
        queries, keys, values, weights = map(_numbers, (self.queries, self.keys, self.values, self.weights))
        return calculation(
            self._sections(), words=told_apart(self.words), queries=queries, keys=keys, weights=weights, values=values,
            text=self._text, cell=cell, title=title,
        )  # fmt: skip

    def _sections(self) -> list[tuple[str, list[Table]]]:
        """Sentences with their tables, in the order of the calculation."""
        words, columns = told_apart(self.words), self.words
        (n, m), d, d_v = self.x.shape, self.w_q.shape[1], self.w_v.shape[1]
        root = math.sqrt(d)
        divided = f"÷ √{d} " + (f"= {root:.0f}" if root.is_integer() else f"≈ {root:.4g}")
        x, w_q, w_k, w_v = map(_numbers, (self.x, self.w_q, self.w_k, self.w_v))
        queries, keys, values = map(_numbers, (self.queries, self.keys, self.values))
        scores, scaled, weights, output = map(_numbers, (self.scores, self.scaled, self.weights, self.output))
        inputs = [
            Table(x, "X", shape=f"{n}×{m}", rows=words),
            Table(w_q, "W_Q", shape=f"{m}×{d}"),
            Table(w_k, "W_K", shape=f"{m}×{d}"),
            Table(w_v, "W_V", shape=f"{m}×{d_v}"),
        ]
        projected = [
            Table(queries, "queries", "Q = X W_Q", f"{n}×{d} = ({n}×{m})({m}×{d})", words),
            Table(keys, "keys", "K = X W_K", f"{n}×{d} = ({n}×{m})({m}×{d})", words),
            Table(values, "values", "V = X W_V", f"{n}×{d_v} = ({n}×{m})({m}×{d_v})", words),
        ]
        compared = [
            Table(scores, "1 scores", "QKᵀ", f"{n}×{n} = ({n}×{d})({d}×{n})", words, columns),
            Table(scaled, "2 scaled", divided, f"{n}×{n}", words, columns),
            Table(weights, "3 weights", "softmax", f"{n}×{n}  each row is 100 %", words, columns, shares=True),
        ]
        mixed = Table(output, "4 output", f"Z = softmax(QKᵀ/√{d}) V", f"{n}×{d_v} = ({n}×{n})({n}×{d_v})", words)
        return [
            ("Each word is a row of X. The matrices W are what a model learns.", inputs),
            ("Each word asks with its query, answers with its key, gives its value.", projected),
            ("Each query meets each key. A row of scores becomes shares of the whole.", compared),
            ("Each output is a mixture of the values, in these shares.", [mixed]),
        ]

    def _text(self, width: int) -> Text:
        parts: list[Text] = [
            Text.assemble((text, "italic"), "\n", beside(drawn, width)) for text, drawn in self._sections()
        ]
        return Text("\n\n").join([*parts, mixtures(told_apart(self.words), _numbers(self.weights), width)])


def steps(x: Array, w_q: Array, w_k: Array, w_v: Array, words: Iterable[str] | None = None) -> Steps[Array]:
    """Self-attention step by step, for NumPy arrays or torch tensors; the results are of the same kind.

    Args:
        x: a row for each word.
        w_q, w_k, w_v: the matrices (width × d) of queries, keys and values; w_v may have another d.
        words: the names of the rows.

    >>> import numpy as np
    >>> done = steps(np.eye(2), np.eye(2), np.eye(2), np.array([[1], [3]]), words=("yes", "no"))
    >>> done.weights.round(2)
    array([[0.67, 0.33],
           [0.33, 0.67]])
    >>> done.output.round(2)
    array([[1.66],
           [2.34]])
    """
    x, w_q, w_k, w_v = _floats(x=x, w_q=w_q, w_k=w_k, w_v=w_v)
    _check_shapes(x=x, w_q=w_q, w_k=w_k, w_v=w_v)
    names = _names(words, len(x))

    queries, keys, values = x @ w_q, x @ w_k, x @ w_v
    scores = queries @ keys.T
    scaled = scores / math.sqrt(keys.shape[1])
    library: Any = torch if isinstance(scaled, Tensor) else np
    # The softmax of each row; subtracting the maximum cancels out and prevents overflow.
    powers = library.exp(scaled - library.amax(scaled, axis=-1, keepdims=True))
    weights: Array = powers / powers.sum(axis=-1, keepdims=True)
    output = weights @ values
    return Steps(x, w_q, w_k, w_v, names, queries, keys, values, scores, scaled, weights, output)


def _floats(**arrays: Any) -> list[Any]:
    """The arrays in one float dtype; integers become float64."""
    if len({isinstance(array, Tensor) for array in arrays.values()}) > 1:
        kinds = ", ".join(f"{name}: {type(array).__name__}" for name, array in arrays.items())
        raise DTypeError(f"x and the weights must be all NumPy or all torch. Got {kinds}. Use torch.from_numpy.")
    for name, array in arrays.items():
        if not isinstance(array, np.ndarray | Tensor):
            kind = type(array).__name__
            raise DTypeError(f"{name} must be a NumPy array or a torch tensor. Got a {kind}. Use numpy.array({name}).")
        if array.dtype not in _REAL if isinstance(array, Tensor) else array.dtype.kind not in "fiu":
            raise DTypeError(f"{name} must hold floats or whole numbers. Got {array.dtype}. Convert it to float64.")
    if isinstance(arrays["x"], Tensor):
        devices = {name: str(tensor.device) for name, tensor in arrays.items()}
        if len(set(devices.values())) > 1:
            listed = ", ".join(f"{name}: {device}" for name, device in devices.items())
            raise DeviceError(f"x and the weights must lie on one device. Got {listed}. Use .to(x.device).")
        floats = [t if t.is_floating_point() else t.double() for t in arrays.values()]
        common = functools.reduce(torch.promote_types, (t.dtype for t in floats))
        return [t.to(common) for t in floats]
    plain = [np.asarray(array) for array in arrays.values()]
    common = np.result_type(*(a.dtype if a.dtype.kind == "f" else np.float64 for a in plain))
    return [a.astype(common, copy=False) for a in plain]


def _check_shapes(x: Any, w_q: Any, w_k: Any, w_v: Any) -> None:
    weights = {"w_q": w_q, "w_k": w_k, "w_v": w_v}
    for name, axes, array in (("x", "(words, width)", x), *((name, "(width, d)", w) for name, w in weights.items())):
        if array.ndim != 2:
            hint = " For a batch, take its sentences one by one." if array.ndim > 2 else ""
            raise ShapeError(f"{name} must be {axes}: 2 axes. Got {tuple(array.shape)}: {array.ndim}.{hint}")
        if 0 in array.shape:
            raise ShapeError(f"{name} must be {axes}, each at least 1. Got {tuple(array.shape)}: nothing to attend to.")
    for name, w in weights.items():
        if len(w) != x.shape[1]:
            hint = f" Is it transposed? Use {name}.T." if w.shape[1] == x.shape[1] else ""
            raise ShapeError(
                f"{name} must have a row for each column of x: width = {x.shape[1]}. Got {tuple(w.shape)}.{hint}"
            )
    if w_q.shape[1] != w_k.shape[1]:
        raise ShapeError(
            f"w_q and w_k must have one width d, for a query is multiplied by keys. "
            f"Got {w_q.shape[1]} and {w_k.shape[1]}. Only w_v may have another."
        )


def _names(words: Iterable[str] | None, count: int) -> tuple[str, ...]:
    if words is None:
        return tuple(f"x{n}" for n in range(1, count + 1))
    if isinstance(words, str):
        raise DTypeError(
            f"words must be a sequence of strings, one for each row of x. Got the string {words!r}. Use words.split()."
        )
    names = tuple(words)
    for name in names:
        if not isinstance(name, str):
            raise DTypeError(f"words must be strings. Got {name!r} of type {type(name).__name__}. Use map(str, words).")
    if len(names) != count:
        raise ShapeError(f"words must name the rows of x: words = {count}. Got {len(names)}.")
    return names


def _numbers(array: NDArray[Any] | Tensor) -> NDArray[np.float64]:
    """The array in float64 on the CPU, for drawing."""
    return array.detach().to("cpu", torch.float64).numpy() if isinstance(array, Tensor) else array.astype(np.float64)
