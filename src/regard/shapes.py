"""Shapes in signatures: jaxtyping's `Float[Tensor, "heads queries width"]`, checked when the tests run.

jaxtyping is a tool of the tests, not of the user: without it the annotations stay readable and check nothing.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int
else:
    try:
        from jaxtyping import Bool, Float, Int
    except ImportError:

        class _Shape:
            def __class_getitem__(cls, item: tuple[Any, str]) -> Any:
                return item[0]

        Bool = Float = Int = _Shape

__all__ = ["Bool", "Float", "Int"]
