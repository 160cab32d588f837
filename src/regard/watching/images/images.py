"""The images that a model read in one pass: which tokens are their patches, in the tower and in the language model."""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.errors import InputError
from regard.support import Float, Int
from regard.watching.images.families import (
    FAMILIES,
    TOWERS,
    WHOLE,
    Anyres,
    Box,
    Grid,
    View,
    anyres,
    patch_order,
    read_views,
    side_by_side,
    tower_of,
)
from regard.watching.record.tokens import Tokens

__all__ = ["Stated", "check_stated", "correlation", "read_images"]

Stated = tuple[tuple[int, ...], ...]  # what the user says: (rows, columns), or (rows, columns, first token), of each
_PIXELS = ("pixel_values", "hidden_states")
_ALIKE = 0.9  # the least correlation of two images that show the same
_FEWEST = 16  # patches that a correlation is taken of


def check_stated(images: Any) -> Stated:
    """The images that a user speaks of, checked."""
    if images is None:
        return ()
    try:
        stated = tuple(tuple(int(number) for number in image) for image in images)
    except (TypeError, ValueError):
        stated = ((),)
    if not all(len(image) in (2, 3) and min(image) >= 0 and image[0] * image[1] for image in stated):
        raise InputError(
            "images are one (rows, columns) of patches for each image, or (rows, columns, first token). "
            f"Got {images!r}."
        )
    return stated


def read_images(
    name: str, model: nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any], stated: Stated
) -> ReadImages | StatedImages | None:
    """What a model of this name is shown by these arguments; None where there is no image."""
    given = [*args, *(kwargs.get(pixels) for pixels in _PIXELS)]
    if not any(isinstance(each, Tensor) and each.is_floating_point() for each in given):
        return None
    said = StatedImages(model, kwargs, stated) if stated else None
    if (tower := tower_of(model)) is None:
        return said
    names = list(inspect.signature(model.forward).parameters)
    inputs = dict(zip(names, args, strict=False)) | dict(kwargs)
    try:
        views = read_views(model, tower[1], inputs)
    except Exception as error:
        # A version of transformers whose inputs look otherwise: the record is right all the same.
        return StatedImages(model, kwargs, stated, f"its inputs could not be read ({type(error).__name__}: {error})")
    if views is None:
        return None
    inside = ".".join(filter(None, (name, tower[0])))
    kept = {key: value for key, value in inputs.items() if isinstance(value, Tensor) and not value.is_floating_point()}
    return ReadImages(model, inside, tower[1], views, kept, said)


class StatedImages:
    """The images of a model of which nothing is known but what the user says."""

    def __init__(self, model: Any, inputs: Mapping[str, Any], stated: Stated, unread: str = ""):
        self.stated, self._ids, self._unread = stated, inputs.get("input_ids"), unread
        self._token = _image_token(getattr(model, "config", None))

    def sees(self, name: str) -> bool:
        """Whether a module lies in a tower: of such a model that is not known."""
        return False

    def place(
        self, name: str, cross: bool, length: int, batch: int, tokens: list[Tokens] | None, has_words: bool
    ) -> list[Tokens] | None:
        """The tokens with the images where the user says, if there are so many tokens."""
        if not self.stated:
            places: list[list[Grid]] | str = self._unread
        else:
            places = self._by_id(batch) if has_words else self._by_number(length, batch)
        if isinstance(places, str):
            return [each.with_images((), places) for each in tokens or [Tokens.numbered(length)] * batch]
        named = [Tokens.numbered(length)] * batch if tokens is None else tokens
        return [each.with_images(own) for each, own in zip(named, places, strict=True)]

    def _by_number(self, length: int, batch: int) -> list[list[Grid]] | str:
        grids, after = [], 0
        for image, (rows, columns, *first) in enumerate(self.stated):
            start = first[0] if first else after
            grids.append(Grid(torch.arange(rows * columns).view(rows, columns) + start, image, aspect=columns / rows))
            after = start + rows * columns
        exactly = all(len(image) == 2 for image in self.stated)
        if after > length or (exactly and after != length):
            return (
                f"images = {list(self.stated)} are {after} tokens, but there are {length} here. Say which token of an "
                "image is the first: (rows, columns, first)"
            )
        return [grids] * batch

    def _by_id(self, batch: int) -> list[list[Grid]] | str:
        if self._token is None or not isinstance(self._ids, Tensor) or any(len(image) > 2 for image in self.stated):
            return self._by_number(-1 if self._ids is None else self._ids.shape[-1], batch)
        sizes = [rows * columns for rows, columns in self.stated]
        texts = []
        for row in self._ids:
            places = (row == self._token).nonzero().flatten().cpu()
            if len(places) != sum(sizes):
                return (
                    f"images = {list(self.stated)} are {sum(sizes)} tokens, but the text has {len(places)} for images"
                )
            parts = enumerate(zip(torch.split(places, sizes), self.stated, strict=True))
            texts.append([Grid(part.view(h, w), image, aspect=w / h) for image, (part, (h, w)) in parts])
        return [texts[n * len(texts) // batch] for n in range(batch)]


def _image_token(config: Any) -> int | None:
    found = (getattr(config, name, None) for name in ("image_token_id", "image_token_index"))
    return next((token for token in found if token is not None), None)


class ReadImages:
    """The images of one pass through a model of transformers, as its tower read them."""

    def __init__(
        self,
        model: Any,
        tower: str,
        config: Any,
        views: list[View],
        inputs: Mapping[str, Tensor],
        said: StatedImages | None,
    ):
        self._model, self._tower, self._config = model, tower, config
        self._views, self._inputs, self._said = views, inputs, said
        self._stated = () if said is None else said.stated
        self._kind = FAMILIES.get(model.config.model_type, "")
        self._rule = TOWERS[config.model_type]
        registers = [f"[REG{n}]" for n in range(getattr(config, "num_register_tokens", 0))]
        self._before = [name for rule in self._rule.before for name in (registers if rule == "[REG]" else [rule])]
        self._cache: dict[tuple[Any, ...], list[Tokens] | None] = {}

    def sees(self, name: str) -> bool:
        """Whether a module lies in the tower: its tokens are patches, not words."""
        return not self._tower or f"{name}.".startswith(f"{self._tower}.")

    def place(
        self, name: str, cross: bool, length: int, batch: int, tokens: list[Tokens] | None, has_words: bool
    ) -> list[Tokens] | None:
        """These tokens of a module (its keys, if `cross`) with the images among them."""
        role = "tower" if self.sees(name) else "cross" if cross else "text" if has_words else ""
        key = (role, length, batch)
        if key not in self._cache:
            find = {"tower": self._of_tower, "cross": self._of_cross, "text": self._of_text}.get(role)
            try:
                self._cache[key] = tokens if find is None else find(tokens, length, batch)
            except Exception as error:  # of a check, or in a version of transformers that is made otherwise
                why = str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {error}"
                named = tokens or [Tokens.numbered(length)] * batch
                self._cache[key] = [each.with_images((), why) for each in named]
        return self._cache[key]

    def _of_tower(self, tokens: list[Tokens] | None, length: int, batch: int) -> list[Tokens] | None:
        grids = self._tower_grids(length, batch)
        if grids is None:
            return tokens
        named = [self._named(length)] * batch if tokens is None else tokens
        return [each.with_images(own) for each, own in zip(named, grids, strict=True)]

    def _of_cross(self, tokens: list[Tokens] | None, length: int, batch: int) -> list[Tokens] | None:
        """The tokens that a connector, or cross-attention, looks at."""
        if self._kind == "queries":
            return self._of_tower(tokens, length, batch)
        grids = self._cross_grids(length, batch) if self._kind == "cross" else None
        return tokens if grids is None else [Tokens.numbered(length).with_images(own) for own in grids]

    def _of_text(self, tokens: list[Tokens] | None, length: int, batch: int) -> list[Tokens] | None:
        """The tokens of the language model."""
        if self._kind == "" and self._said is not None:
            return self._said.place("", False, length, batch, tokens, has_words=True)
        if self._kind in ("", "cross"):
            return tokens
        named, grids = tokens or [Tokens.numbered(length)] * batch, self._text_grids
        times = batch // len(grids)  # copies of each text
        return [each.with_images(grids[n // times]) for n, each in enumerate(named)]

    # The tower

    def _named(self, length: int) -> Tokens:
        """The tokens of the tower that are no patches have names."""
        pieces = [str(n) for n in range(length)]
        if not self._rule.packed and self._kind != "cross":
            pieces[: len(self._before)] = self._before
            pieces[length - len(self._rule.after) :] = self._rule.after
        return Tokens(pieces, [*self._before, *self._rule.after])

    def _tower_grids(self, length: int, batch: int) -> list[list[Grid]] | None:
        sizes = [math.prod(view.shape) for view in self._views]
        orders = [patch_order(self._rule.order, *view.shape, self._config) for view in self._views]
        if self._rule.packed:
            starts = [sum(sizes[:n]) for n in range(len(sizes))]
            both = zip(self._views, orders, starts, strict=True)
            fits = (batch, length) == (1, sum(sizes))
            return [[_grid(view, order + start, n) for n, (view, order, start) in enumerate(both)]] if fits else None
        if self._kind == "cross":
            return self._padded_tiles(length, batch)
        special = len(self._before) + len(self._rule.after)
        padded = self._config.model_type == "siglip2_vision_model"
        fits = all(size + special == length or (padded and size < length) for size in sizes)
        if batch != len(self._views) or not fits:
            return None
        grids = [_grid(view, order + len(self._before)) for view, order in zip(self._views, orders, strict=True)]
        for number, name, box in self._tiles():
            grids[number] = replace(grids[number], name=name, box=box)
        return [[grid] for grid in grids]

    def _tiles(self) -> Iterator[tuple[int, str, Box]]:
        """The views that are tiles of an image: which, and which part of it they are."""
        if self._kind == "anyres":
            start = 0
            for image in self._anyres:
                yield from ((start + n, f"tile {n}", box) for n, box in enumerate(image.boxes, 1))
                start += image.views
        elif self._kind == "tiles":
            for tiles, _ in chain.from_iterable(map(self._arranged, self._views_of_texts)):
                high, wide = len(tiles), len(tiles[0])
                for n, view in enumerate(chain.from_iterable(tiles) if high * wide > 1 else ()):
                    row, column = divmod(n, wide)
                    box = (row / high, column / wide, (row + 1) / high, (column + 1) / wide)
                    yield view, f"tile {n + 1}", box

    # The language model

    @cached_property
    def _anyres(self) -> list[Anyres]:
        return anyres(self._model, self._inputs)

    @cached_property
    def _places(self) -> list[Int[Tensor, "tokens 2"]]:
        """The tokens of each view, or of each image: the number of the text, and that of the token."""
        token, ids = _image_token(self._model.config), self._inputs.get("input_ids")
        if ids is None or token is None:
            raise InputError("the model was given no input_ids, in which its image tokens could be found")
        places = (ids == token).nonzero().cpu()
        if self._kind == "anyres":
            counts = [image.length for image in self._anyres]
        else:
            counts = _cells(self._views, len(places), len(self._before))
        if sum(counts) != len(places):
            shapes = " and ".join(sorted({f"{h} × {w}" for h, w in (view.shape for view in self._views)}))
            raise InputError(
                f"the text has {len(places)} image tokens (of id {token}), but its {len(self._views)} images or tiles "
                f"of {shapes} patches would have {sum(counts)}"
            )
        own = list(torch.split(places, counts))
        if any(len(set(part[:, 0].tolist())) != 1 for part in own):
            raise InputError("the patches of one image lie in two texts")
        return own

    @cached_property
    def _views_of_texts(self) -> list[list[int]]:
        """Which views belong to which text; all to one where the tower runs by itself."""
        try:
            texts = [int(part[0, 0]) for part in self._places]
        except InputError:
            return [list(range(len(self._views)))]
        return [[n for n, text in enumerate(texts) if text == own] for own in range(len(self._inputs["input_ids"]))]

    @cached_property
    def _text_grids(self) -> list[list[Grid]]:
        """The images of each text."""
        if self._kind == "queries":
            raise InputError(
                "the language model sees no patches but learned queries, each of which has looked at the whole image: "
                'ask those, with kind = "cross" and the number of a query'
            )
        if self._kind == "anyres":
            return self._anyres_grids()
        grids = [_merged(view, part[:, 1]) for view, part in zip(self._views, self._places, strict=True)]
        texts: list[list[Grid]] = []
        for views in self._views_of_texts:
            images = self._arranged(views) if self._kind == "tiles" else [([[n]], None) for n in views]
            found: list[Grid] = []
            for number, (tiles, whole) in enumerate(images):
                name = "" if whole is None else "tiles"
                found.append(_together([[grids[n] for n in row] for row in tiles], number, name))
                found += [] if whole is None else [replace(grids[whole], image=number, name=WHOLE)]
            _compare(self._stated, [grid for grid in found if grid.name != WHOLE])
            texts.append(found)
        return texts

    def _anyres_grids(self) -> list[list[Grid]]:
        texts: list[list[Grid]] = [[] for _ in self._inputs["input_ids"]]
        first = 0
        for image, part in zip(self._anyres, self._places, strict=True):
            view, text = self._views[first], texts[int(part[0, 0])]
            number = len({grid.image for grid in text})
            own = part[: math.prod(view.shape), 1].view(view.shape)
            whole = Grid(own, number, aspect=image.aspect, brightness=view.brightness.cpu())
            tiles = Grid(part[:, 1][image.tiles], number, "tiles", image.box, image.aspect)
            text += [tiles, replace(whole, name=WHOLE)] if image.tiles.numel() else [whole]
            first += image.views
        for text in texts:
            _compare(self._stated, [grid for grid in text if grid.name != WHOLE])
        return texts

    # Tiles in a row, then the whole

    def _arranged(self, views: Sequence[int]) -> list[tuple[list[list[int]], int | None]]:
        """The views of one text as images: the tiles of each in rows and columns, and the whole that follows them.

        As the user says; else tiles are found by what they show. Together, and made smaller, they are the whole that
        follows them. A view that is no tile is an image of its own.
        """
        if self._stated:
            cells = _merged(self._views[0], self._places[0][:, 1]).tokens.shape
            return _as_stated(self._stated, views, (cells[0], cells[1]))
        images: list[tuple[list[list[int]], int | None]] = []
        rest = list(views)
        while rest:
            tiles = self._tiles_before_their_whole(rest)
            images.append(tiles or ([[rest[0]]], None))
            rest = rest[len(tiles[0]) * len(tiles[0][0]) + 1 :] if tiles else rest[1:]
        return images

    def _tiles_before_their_whole(self, views: Sequence[int]) -> tuple[list[list[int]], int] | None:
        shown = [self._views[n].brightness.cpu() for n in views]
        best: tuple[float, list[list[int]], int] | None = None
        for count in range(2, len(views) if shown[0].numel() >= _FEWEST else 0):
            for high in (n for n in range(1, count + 1) if count % n == 0):
                wide = count // high
                rows = [slice(row * wide, (row + 1) * wide) for row in range(high)]
                together = side_by_side([shown[row] for row in rows])
                alike = correlation(_smaller(together, shown[count].shape), shown[count])
                if alike >= _ALIKE and (best is None or alike > best[0]):
                    best = alike, [list(views[row]) for row in rows], views[count]
        return None if best is None else best[1:]

    # Mllama: the tiles of an image in a row, with a class token before each, and padding after it in the tower

    def _padded_tiles(self, length: int, batch: int) -> list[list[Grid]] | None:
        """The images as entries of the batch of the tower."""
        most, numbers = self._config.max_num_tiles, self._inputs["aspect_ratio_ids"].flatten().tolist()
        patches = math.prod(self._views[0].shape) + 1
        if batch != len(numbers) or length != most * (patches + -patches % 8):
            return None
        return [[self._tiled(n, number, length // most)] if number else [] for n, number in enumerate(numbers)]

    def _cross_grids(self, length: int, batch: int) -> list[list[Grid]] | None:
        """The images of each text, one after the other, as the language model looks at them."""
        most, numbers = self._config.max_num_tiles, self._inputs["aspect_ratio_ids"]
        images, patches = numbers.shape[1], math.prod(self._views[0].shape) + 1
        if batch != len(numbers) or length != images * most * patches:
            return None
        return [
            [
                replace(self._tiled(text * images + n, number, patches).shifted(n * most * patches), image=n)
                for n, number in enumerate(own)
                if number  # 0 is no image
            ]
            for text, own in enumerate(numbers.tolist())
        ]

    def _tiled(self, image: int, ratio: int, step: int) -> Grid:
        """An image in tiles of this ratio, each of which has `step` tokens."""
        most = self._config.max_num_tiles
        shapes = [(high, wide) for high in range(1, most + 1) for wide in range(1, most + 1) if high * wide <= most]
        high, wide = shapes[ratio - 1]
        rows = [range(row * wide, (row + 1) * wide) for row in range(high)]
        views = self._views[image * most : (image + 1) * most]
        patches = patch_order("rows", *views[0].shape, self._config) + 1
        tokens = side_by_side([[patches + tile * step for tile in row] for row in rows])
        shown = side_by_side([[views[tile].brightness for tile in row] for row in rows])
        return Grid(tokens, aspect=wide / high, brightness=shown.cpu())


def _grid(view: View, tokens: Tensor, image: int = 0) -> Grid:
    return Grid(tokens, image, aspect=view.aspect, brightness=view.brightness.cpu())


def _cells(views: Sequence[View], tokens: int, special: int) -> list[int]:
    """How many tokens of the text each view has, where there are so many in all."""
    sizes = [math.prod(view.shape) for view in views]
    if tokens == sum(sizes) + special * len(views):
        return [size + special for size in sizes]
    side = math.isqrt(sum(sizes) // max(tokens, 1))
    if not side or any(number % side for view in views for number in view.shape):
        return sizes
    return [size // side**2 for size in sizes]


def _merged(view: View, tokens: Int[Tensor, " tokens"]) -> Grid:
    """The grid of a view whose patches were merged in square blocks, or have become a token each."""
    rows, columns = view.shape
    extra = len(tokens) - rows * columns
    if extra > 0:  # with the class token before them
        return Grid(tokens[extra:].view(rows, columns), aspect=view.aspect, brightness=view.brightness.cpu())
    side = math.isqrt(rows * columns // len(tokens))
    shape = rows // side, columns // side
    return Grid(tokens.view(shape), aspect=view.aspect, brightness=_smaller(view.brightness.cpu(), shape))


def _together(grids: Sequence[Sequence[Grid]], number: int, name: str) -> Grid:
    """Tiles as one grid."""
    tokens = side_by_side([[grid.tokens for grid in row] for row in grids])
    shown = [[grid.brightness for grid in row if grid.brightness is not None] for row in grids]
    aspect = grids[0][0].aspect * len(grids[0]) / len(grids)
    return Grid(tokens, number, name, aspect=aspect, brightness=side_by_side(shown))


def _smaller(numbers: Float[Tensor, "rows columns"], shape: Sequence[int]) -> Float[Tensor, "high wide"]:
    return functional.adaptive_avg_pool2d(numbers[None, None], (shape[0], shape[1]))[0, 0]


def correlation(one: Tensor, other: Tensor) -> float:
    """How alike two grids of numbers are, from -1 to 1; 0 where one of them is the same everywhere."""
    a, b = (numbers.double() - numbers.double().mean() for numbers in (one, other))
    size = float(a.norm() * b.norm())
    flat = min(float(a.norm()), float(b.norm())) < 1e-6 * max(1.0, float(one.abs().max()), float(other.abs().max()))
    return 0.0 if flat or not size else float((a * b).sum()) / size


# What the user says


def _compare(stated: Stated, found: Sequence[Grid]) -> None:
    """Raise where the user speaks of other images than those that were found."""
    said, shapes = [image[:2] for image in stated], [tuple(grid.tokens.shape) for grid in found]
    if said and said != shapes:
        raise InputError(f"images = {said} was said, but the model has {shapes}")


def _as_stated(
    stated: Stated, views: Sequence[int], cells: tuple[int, int]
) -> list[tuple[list[list[int]], int | None]]:
    """Views in the tiles that the user speaks of, each image with its whole after it or none of them."""
    shapes = [(rows / cells[0], columns / cells[1]) for rows, columns, *_ in stated]
    whole_numbers = all(high == int(high) and wide == int(wide) for high, wide in shapes)
    tiles = [int(high * wide) for high, wide in shapes]
    with_whole = sum(tiles) + sum(count > 1 for count in tiles) == len(views)
    if not whole_numbers or not (with_whole or sum(tiles) == len(views)):
        raise InputError(
            f"images = {[image[:2] for image in stated]} was said, but the model has {len(views)} tiles of "
            f"{cells[0]} × {cells[1]} patches (a whole image after its tiles is one more)"
        )
    images: list[tuple[list[list[int]], int | None]] = []
    rest: Iterator[int] = iter(views)
    for (high, wide), count in zip(shapes, tiles, strict=True):
        rows = [[next(rest) for _ in range(int(wide))] for _ in range(int(high))]
        images.append((rows, next(rest) if with_whole and count > 1 else None))
    return images
