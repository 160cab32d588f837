"""An `AttentionMatrix` as SciPy's linear operator: its solvers then find spectra without the matrix."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from regard.errors import MissingDependencyError, ShapeError
from regard.matrix.views import Axes

if TYPE_CHECKING:
    from scipy.sparse.linalg import LinearOperator  # type: ignore[import-untyped]
    from torch import Tensor

    from regard.matrix.attention_matrix import AttentionMatrix

__all__ = ["linear_operator"]


def linear_operator(A: AttentionMatrix) -> LinearOperator:
    """What `AttentionMatrix.as_linear_operator` returns: products with the matrix and with its transpose."""
    try:
        from scipy.sparse.linalg import LinearOperator
    except ImportError:
        raise MissingDependencyError("as_linear_operator needs SciPy: pip install scipy.") from None
    *leading, queries, keys = A.shape
    if any(count != 1 for count in leading):
        example = ", ".join("0" for _ in leading)
        raise ShapeError(f"a linear operator is one matrix. Got {tuple(A.shape)}. Choose one: A.part[{example}].")
    # Solvers multiply hundreds of times: halves would lose what they look for.
    dtype = torch.promote_types(A.dtype, torch.float32)
    one = A._derived(core=A._core.in_dtype(dtype), axes=Axes((), False))

    def product(x: NDArray[Any], multiply: Any) -> NDArray[Any]:
        if np.iscomplexobj(x):
            real, imaginary = (product(part, multiply) for part in (x.real, x.imag))
            return real + 1j * imaginary
        columns = torch.as_tensor(np.ascontiguousarray(x)).to(device=A.device, dtype=dtype)
        with torch.no_grad():
            found: Tensor = multiply(columns.reshape(len(columns), -1))
        return np.asarray(found.cpu().numpy()).reshape(-1, *x.shape[1:])

    def forward(x: NDArray[Any]) -> NDArray[Any]:
        return product(x, lambda columns: one @ columns)

    def adjoint(x: NDArray[Any]) -> NDArray[Any]:
        return product(x, lambda columns: one.mT @ columns)

    return LinearOperator(
        shape=(queries, keys), dtype=np.dtype(str(dtype).removeprefix("torch.")), matvec=forward, rmatvec=adjoint,
        matmat=forward, rmatmat=adjoint,
    )  # fmt: skip
