"""`Grid`: which tokens are the patches of an image, and where they lie in it; `Patch`, a place in one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from regard.errors import InputError
from regard.support import Float, Int

__all__ = ["WHOLE", "Box", "Grid", "Patch", "find_patch", "patch_names", "side_by_side"]

Box = tuple[float, float, float, float]  # top, left, bottom and right, as shares of a height and a width
_ALL: Box = (0.0, 0.0, 1.0, 1.0)
WHOLE = "whole"  # the name of the grid that shows all of an image which is also there in tiles


class Patch(NamedTuple):
    """A patch of an image: its row and column, the number of the image, and whether it is of the small whole image.

    A model that reads an image in tiles, and once more as a whole, has two grids of it; a patch is of the tiles, unless
    `whole`. Wherever a question takes a word, it takes a patch: `record.looks(regard.Patch(3, 5))`.
    """

    row: int
    column: int
    image: int = 0
    whole: bool = False


@dataclass(frozen=True, eq=False, repr=False)
class Grid:
    """The tokens of an image, row by row; -1 where a place has none.

    >>> Grid(torch.arange(6).view(2, 3) + 4)
    Grid(2 × 3 patches of image 0: tokens 4 to 9)
    """

    tokens: Int[Tensor, "rows columns"]
    image: int = 0  # counted in the order of the text
    name: str = ""  # "tiles", "whole", or which tile it is
    box: Box = _ALL  # of the image, as the model was shown it, that the grid covers
    aspect: float = 1.0  # the width of that image divided by its height
    brightness: Float[Tensor, "rows columns"] | None = None  # of each patch, in the units that the model read

    def __repr__(self) -> str:
        rows, columns = self.tokens.shape
        own = self.tokens[self.tokens >= 0]
        which = f"tokens {int(own.min())} to {int(own.max())}" if own.numel() else "no tokens"
        part = f" ({self.name})" if self.name else ""
        return f"Grid({rows} × {columns} patches of image {self.image}{part}: {which})"

    def shifted(self, by: int) -> Grid:
        """The same, so many tokens later."""
        return replace(self, tokens=torch.where(self.tokens < 0, -1, self.tokens + by))


def side_by_side(parts: Sequence[Sequence[Tensor]]) -> Tensor:
    """Equal grids of numbers in rows and columns, as one.

    >>> side_by_side([[torch.zeros(1, 2), torch.ones(1, 2)]])
    tensor([[0., 0., 1., 1.]])
    """
    return torch.cat([torch.cat(list(row), -1) for row in parts], -2)


def find_patch(grids: Sequence[Grid], patch: Patch) -> int:
    """The token of a patch."""
    if not grids:
        raise InputError(f"no image is known here, so {patch} is no token. See docs/how-to: which part of the image.")
    of_image = [grid for grid in grids if grid.image == patch.image]
    chosen = [grid for grid in of_image if (grid.name == WHOLE) == patch.whole] or of_image
    if not chosen:
        numbers = sorted({grid.image for grid in grids})
        raise InputError(f"there are images {', '.join(map(str, numbers))}. Got {patch}.")
    rows, columns = chosen[0].tokens.shape
    if not (0 <= patch.row < rows and 0 <= patch.column < columns):
        raise InputError(f"image {patch.image} has {rows} × {columns} patches, counted from 0. Got {patch}.")
    token = int(chosen[0].tokens[patch.row, patch.column])
    if token < 0:
        raise InputError(f"the model has no token for {patch}.")
    return token


def patch_names(grids: Sequence[Grid]) -> Iterator[tuple[int, str]]:
    """Each token that is a patch, and what to call it.

    >>> list(patch_names([Grid(torch.tensor([[4, 5]]))]))
    [(4, 'patch 0,0'), (5, 'patch 0,1')]
    """
    several = len({grid.image for grid in grids}) > 1
    for grid in grids:
        before = f"image {grid.image} " if several else ""
        before += f"{grid.name} " if grid.name and len(grids) > 1 else ""
        for row, tokens in enumerate(grid.tokens.tolist()):
            yield from ((token, f"{before}patch {row},{n}") for n, token in enumerate(tokens) if token >= 0)
