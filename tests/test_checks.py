"""The checks of signatures that run with the tests do check: shapes, types, results, nested functions, the library's own."""

import pytest
import torch
from jaxtyping import Float
from support import checks
from torch import Tensor

import regard


@checks.checked
def shaped(left: Float[Tensor, "rows width"], right: Float[Tensor, "rows"]) -> Float[Tensor, "width"]:
    return right @ left


@checks.checked
def plain(count: int, *, name: str = "a") -> list[str]:
    return [name] * count if count < 9 else "too many"


def test_shapes_that_do_not_agree_are_refused():
    assert shaped(torch.ones(2, 3), torch.ones(2)).shape == (3,)
    with pytest.raises(Exception, match="rows"):
        shaped(torch.ones(2, 3), torch.ones(3))
    with pytest.raises(Exception, match="right"):
        shaped(torch.ones(2, 3), torch.ones(2, 1))


def test_types_and_results_are_checked():
    assert plain(2, name="b") == ["b", "b"]
    for call in (lambda: plain("2"), lambda: plain(2, name=3), lambda: plain(9)):
        with pytest.raises(Exception, match="violates type hint"):
            call()


def test_checks_can_be_switched_off(unchecked):
    assert plain(9) == "too many"


def test_a_nested_function_is_checked_when_it_is_first_made():
    def make():
        @checks.checked
        def inner(count: int) -> int:
            return count

        return inner

    with pytest.raises(Exception, match="violates type hint"):
        make()("1")


@pytest.mark.parametrize(
    "call", [lambda: regard.TransformerConfig.tiny(vocabulary="many"), lambda: regard.FeedForward(8, 16)("text")]
)
def test_the_library_is_checked(call):
    with pytest.raises(Exception, match=r"violates type hint|Type-check error"):
        call()
