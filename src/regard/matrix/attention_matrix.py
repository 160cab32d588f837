"""`AttentionMatrix`: the attention matrix as an object that is never stored, on one device."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.overrides import handle_torch_function

from regard.backends import Attend, Dropout, Result
from regard.errors import InputError, MissingDependencyError, ShapeError
from regard.matrix import compiled
from regard.matrix.axes import Axes, basic, coordinates, fold_value
from regard.matrix.lazy_matrix import LazyMatrix
from regard.matrix.normalised import NormalisedScores, Source, largest_score
from regard.scores import Mask, as_mask, bind, make_scores
from regard.support import Float, ensure_room, inside_func, no_compile, recording, transformed, whole

if TYPE_CHECKING:
    from scipy.sparse.linalg import LinearOperator  # type: ignore[import-untyped]

    from regard.drawing.viewer import Feed

_LEAST_WEIGHT = 1e-30  # float32 loses digits below 1.2e-38


class AttentionMatrix(LazyMatrix):
    """softmax(QKᵀ · scale) with a mask: `A @ value` is attention; slices, reductions and views are computed on request.

    NaN or inf in a key or value that no query may see never leaks; in one that some query sees, it may reach any row
    of `A @ value`. A row that sees no key is 0.

    Args:
        query: (*batch, heads, queries, width), or (queries, width) for a single matrix.
        key: (*batch, key heads, keys, width); fewer key heads than heads are shared by groups of heads.
        mask: `causal()`, `padding(…)`, …, joined by `&`; or a tensor: bool (True: attend) or float (added).
        scale: the factor of QKᵀ; 1/√width by default.
        softcap: scores become softcap · tanh(scores / softcap), before the mask.
        sinks: for each head a logit without a value, which takes a share of each row.

    >>> import torch, regard
    >>> query, key, value = torch.randn(3, 2, 8, 1000, 64).unbind(0)        # (batch, heads, tokens, width)
    >>> A = regard.AttentionMatrix(query, key, mask=regard.causal())
    >>> A
    AttentionMatrix(shape=(2, 8, 1000, 1000), dtype=float32, device=cpu, mask=causal())
    >>> (A @ value).shape, A[0, 3, 6].shape, A.received().shape
    (torch.Size([2, 8, 1000, 64]), torch.Size([1000]), torch.Size([2, 8, 1000]))
    """

    _core: NormalisedScores

    def __init__(
        self,
        query: Float[Tensor, "*batch heads queries width"] | Float[Tensor, "queries width"],
        key: Float[Tensor, "*batch key_heads keys width"] | Float[Tensor, "keys width"],
        *,
        mask: Mask | Tensor | None = None,
        scale: float | None = None,
        softcap: float | None = None,
        sinks: Tensor | float | None = None,
    ):
        self._mask = as_mask(mask)
        scores = make_scores(query, key, self._mask, scale, softcap, sinks)
        if inside_func() and transformed(query, key, sinks, *self._mask.tensors):
            raise InputError(
                "an AttentionMatrix cannot be made inside torch.func (grad, vmap, …). Use regard.attention there, or "
                "torch.autograd.grad and a batch axis instead."
            )
        self._core = NormalisedScores(scores, Source.of_inputs(query, key, self._mask, sinks))
        self._axes = Axes(tuple(query.shape[:-3]), query.dim() > 2)

    # Products

    def __matmul__(self, value: Float[Tensor, "*any keys width"]) -> Float[Tensor, "*any_too queries width"]:
        return self.attend(value)

    def attend(
        self, value: Float[Tensor, "*any keys width"], dropout: float = 0.0, seed: Tensor | None = None
    ) -> Float[Tensor, "*any_too queries width"]:
        """`A @ value`: the weighted sums of the values, by the fused kernel.

        Args:
            value: one row per key, with the heads of the keys or of the queries.
            dropout: the share of the weights that is dropped.
            seed: a tensor of one whole number; the same seed drops the same weights.

        >>> import torch, regard
        >>> q, k, v = torch.randn(3, 4, 10, 8).unbind(0)
        >>> A = regard.AttentionMatrix(q, k)
        >>> torch.allclose(A @ v, A.to_dense() @ v, atol=1e-6)
        True
        """
        traced = recording()
        if torch._C._is_torch_function_mode_enabled() and not (traced or torch.compiler.is_compiling()):
            # Like torch's functions, so that `watch` sees the call.
            return handle_torch_function(AttentionMatrix.attend, (), self, value, dropout, seed)  # type: ignore[no-any-return]
        scores = self._core.scores
        if traced and seed is None and self._whole is None and self._core.has_all_keys:
            query, key = self._axes.unfold(scores.query), self._axes.unfold(scores.key)
            sinks = None if scores.sinks is None else self._axes.unfold(scores.sinks)
            return compiled.attend(query, key, value, self._mask, scores.scale, scores.softcap, sinks, dropout)
        drops = dropout != 0.0 if isinstance(dropout, float) else True
        request = Attend(
            fold_value(self._axes, scores, value, self._key_heads_before), Dropout.of(dropout, seed) if drops else None
        )
        return self._axes.unfold(self._core.compute(request))

    # Weights and matrices derived from these

    def diagonal(self, offset: int = 0) -> Float[Tensor, "*leading n"]:
        """The weights A[i, i + offset]: of each query for its own token, or with -1 for the token before it."""
        queries, keys = self.shape[-2:]
        offset = max(-queries, min(whole("offset", offset), keys))
        first = max(-offset, 0)
        row = torch.arange(first, max(min(queries, keys - offset), first), device=self.device)
        index = (*(torch.arange(n, device=self.device) for n in self.shape[:-2]), row)
        *leading, row = torch.meshgrid(*index, indexing="ij")
        self._core.check_sources()
        return self._points("weights", [*leading, row, row + offset])

    def where(self, mask: Mask | Tensor) -> AttentionMatrix:
        """The same weights where a mask lets a query see a key, and 0 elsewhere: rows are not normalised again.

        >>> import torch, regard
        >>> A = regard.AttentionMatrix(torch.randn(100, 16), torch.randn(100, 16), mask=regard.causal())
        >>> near = A.where(regard.window(9, 0)) @ torch.ones(100, 1)      # what each query gives to its last ten keys
        >>> bool((near < 1).any()), bool((near[:10] > 0.999).all())
        (True, True)
        """
        shown, axes = as_mask(mask), self._axes
        if self._whole is not None:
            raise InputError(
                "where takes a mask of the whole matrix: A.where(mask).part[…], not A.part[…].where(mask)."
            )
        bound = bind(shown, (*axes.batch, *self._core.shape[1:]), self.device, plain=not axes.has_heads)
        if bound.biased:
            raise InputError(f"where takes a mask that shows or hides. Got a mask that adds to the scores: {shown}.")
        sources = Source.of(**{f"mask of where ({n})": tensor for n, tensor in enumerate(shown.tensors)})
        return self._derived(core=self._core.where(bound, sources), mask=self._mask & shown)

    @property
    def known_logsumexp(self) -> Float[Tensor, "*leading queries"] | None:
        """`logsumexp`, if a product or an earlier reduction has computed it; None otherwise.

        >>> import torch, regard
        >>> A = regard.AttentionMatrix(torch.randn(1, 2, 5, 16), torch.randn(1, 2, 7, 16))
        >>> before, output, after = A.known_logsumexp, A @ torch.randn(1, 2, 7, 3), A.known_logsumexp
        >>> before is None, after.shape
        (True, torch.Size([1, 2, 5]))
        """
        return self._axes.unfold(self._core.lse()) if self._core.knows_lse() else None

    def normalised_by(self, logsumexp: Float[Tensor, "*leading queries"]) -> AttentionMatrix:
        """The same matrix with a known `logsumexp`, as from a file; nothing checks that it belongs to the matrix.

        >>> import torch, regard
        >>> A = regard.AttentionMatrix(torch.zeros(3, 4), torch.zeros(2, 4))
        >>> A.normalised_by(A.logsumexp).received(), A.normalised_by(torch.zeros(3)).received()    # right, and wrong
        (tensor([1.5000, 1.5000]), tensor([3., 3.]))
        """
        return self._derived(core=self._core.normalised_by(logsumexp.reshape(self._core.shape[:3])))

    def as_linear_operator(self) -> LinearOperator:
        """One head as SciPy's linear operator, for its solvers: `svds`, `eigs`, `lsmr`, …; the matrix is never stored.

        >>> import torch, regard
        >>> from scipy.sparse.linalg import svds
        >>> A = regard.AttentionMatrix(torch.randn(2, 500, 16), torch.randn(2, 500, 16), mask=regard.causal())
        >>> svds(A.part[0].as_linear_operator(), k=3, return_singular_vectors=False).shape
        (3,)
        """
        try:
            from scipy.sparse.linalg import LinearOperator
        except ImportError:
            raise MissingDependencyError("as_linear_operator needs SciPy: pip install scipy.") from None
        *leading, queries, keys = self.shape
        if any(count != 1 for count in leading):
            example = ", ".join("0" for _ in leading)
            raise ShapeError(
                f"a linear operator is one matrix. Got {tuple(self.shape)}. Choose one: A.part[{example}]."
            )
        # Solvers multiply hundreds of times: halves would lose too many digits.
        dtype = torch.promote_types(self.dtype, torch.float32)
        A = self._derived(core=self._core.in_dtype(dtype), axes=Axes((), False))

        def product(x: NDArray[Any], multiply: Callable[[Tensor], Tensor]) -> NDArray[Any]:
            if np.iscomplexobj(x):
                return product(x.real, multiply) + 1j * product(x.imag, multiply)
            columns = torch.as_tensor(np.ascontiguousarray(x)).to(device=A.device, dtype=dtype)
            with torch.no_grad():
                result = multiply(columns.reshape(len(columns), -1))
            return np.asarray(result.cpu().numpy()).reshape(-1, *x.shape[1:])

        forward, adjoint = partial(product, multiply=A.__matmul__), partial(product, multiply=A.mT.__matmul__)
        products = {"matvec": forward, "rmatvec": adjoint, "matmat": forward, "rmatmat": adjoint}
        return LinearOperator(shape=(queries, keys), dtype=np.dtype(str(dtype).removeprefix("torch.")), **products)

    # Computed on one device

    def _begin(
        self, call: str, prepare: Callable[[], Sequence[Any]] = list, operand: Tensor | None = None
    ) -> Sequence[Any]:
        return prepare()

    def _highest(self, lse: Float[Tensor, "batch heads queries"], top: Result) -> Float[Tensor, "batch heads queries"]:
        # Beside a large sink, or keys outside of a part, the largest weight of a row may be too small for its dtype. To
        # ask for that waits for a GPU: no other matrix does, and a CUDA graph, which cannot wait, computes it anew.
        alone = self._core.has_all_keys and self._core.sinks is None
        recorded = lse.is_cuda and torch.cuda.is_current_stream_capturing()
        if alone or recorded or bool(((top[0][..., 0] < _LEAST_WEIGHT) & (lse > -math.inf)).any()):
            return super()._highest(lse, top)
        return largest_score(lse, top)

    @no_compile
    def _read(self, stage: str, index: Any) -> Tensor:
        self._core.check_sources()
        axes = basic(index, tuple(self.shape))
        if axes is None:  # by torch's general rules, one number at a time
            grids = coordinates(index, tuple(self.shape), self.device)
            size = grids[0].shape
            ensure_room(size, 12 + 8 * len(grids), self.device, lambda: f"A[…] of shape {tuple(size)}")
            return self._points(stage, grids)
        part = self._part_to_read(axes)
        return part._as_indexed(part._core.dense(stage), axes)

    def _points(self, stage: str, grids: list[Tensor]) -> Tensor:
        """One stage at single points: an index tensor for each axis of the user's shape."""
        return self._core.points(stage, self._places(grids)).view(grids[0].shape)

    def _places(self, grids: list[Tensor]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The batch, head, row and column of single points."""
        *leading, row, column = (grid.reshape(-1) for grid in grids)
        head = leading.pop() if self._axes.has_heads else torch.zeros_like(row)
        batch = torch.zeros_like(row)
        for size, position in zip(self._axes.batch, leading, strict=True):
            batch = batch * size + position
        return batch, head, row, column

    def _feed(
        self, rows: Sequence[str] | None, columns: Sequence[str] | None, heads: Sequence[int] | None, title: str
    ) -> Feed:
        # `maps` imports this room, and only the map of a matrix needs it here: hence an import by name.
        maps = import_module("regard.maps")
        feed: Feed = maps.MatrixFeed([maps.MapEntry.from_matrix(self, heads)], rows, columns, title=title)
        return feed
