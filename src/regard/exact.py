"""`exact`: numbers that autocast must not round."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import torch

__all__ = ["exact"]

P = ParamSpec("P")
R = TypeVar("R")


def exact(compute: Callable[P, R]) -> Callable[P, R]:
    """Run outside any autocast: within it torch rounds every product to half precision, whatever was handed in."""

    @wraps(compute)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        if not (torch.is_autocast_enabled("cpu") or torch.is_autocast_enabled("cuda")):
            return compute(*args, **kwargs)
        with torch.autocast("cpu", enabled=False), torch.autocast("cuda", enabled=False):
            return compute(*args, **kwargs)

    return run
