"""`eager`: what torch.compile must not look into."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import torch

__all__ = ["eager"]

P = ParamSpec("P")
R = TypeVar("R")


def eager(compute: Callable[P, R]) -> Callable[P, R]:
    """Run as it is, in a compiled function too: there the graph breaks, and tiles and kernels are not traced.

    To say so beforehand, as a decorator does, would import the compiler, and make `import regard` twice as slow.
    """

    @wraps(compute)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        if torch.compiler.is_compiling():
            found: R = torch.compiler.disable(compute)(*args, **kwargs)  # type: ignore[no-untyped-call]
            return found
        return compute(*args, **kwargs)

    return run
