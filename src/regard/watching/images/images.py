"""The images that a model read in one pass: which tokens are their patches, in the tower and in the language model."""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.errors import InputError
from regard.support import Float, Int
from regard.watching.images.diffusion import Latents, read_latents
from regard.watching.images.families import (
    FAMILIES,
    TOWERS,
    WHOLE,
    Anyres,
    Box,
    Grid,
    View,
    anyres,
    in_order,
    is_video,
    joined,
    patch_order,
    read_views,
    side_by_side,
    tile_boxes,
    tower_of,
)
from regard.watching.record.tokens import Tokens

Stated = tuple[tuple[int, ...], ...]  # as the user gives them: (rows, columns) or (rows, columns, first token) of each
_Arranged = list[tuple[list[list[int]], int | None]]  # of each image: the views in rows and columns; the whole, if any
_PIXELS = ("pixel_values", "pixel_values_videos", "hidden_states", "sample")
_ALIKE = 0.9  # the least correlation of two images that show the same
_FEWEST = 16  # patches needed for a correlation


def check_stated(images: Any) -> Stated:
    """Read the argument `images` of `watch`."""
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
) -> Images | None:
    """Return the images that a model of this name is shown by these arguments; None where there is no image."""
    inputs = [*args, *(kwargs.get(pixels) for pixels in _PIXELS)]
    if not any(isinstance(each, Tensor) and each.is_floating_point() for each in inputs):
        return None
    fallback = StatedImages(model, kwargs, stated) if stated else None
    by_name = dict(zip(inspect.signature(model.forward).parameters, args, strict=False)) | dict(kwargs)
    if (tower := tower_of(model)) is None:
        return fallback or read_latents(model, by_name)
    try:
        views = read_views(model, tower[1], by_name)
    except Exception as error:
        # A version of transformers whose inputs look otherwise: the record is right all the same.
        return StatedImages(model, kwargs, stated, f"its inputs could not be read ({type(error).__name__}: {error})")
    if views is None:
        return None
    inside = ".".join(filter(None, (name, tower[0])))
    video = is_video(by_name)
    kept = {key: x for key, x in by_name.items() if isinstance(x, Tensor) and not x.is_floating_point()}
    return ReadImages(model, inside, tower[1], views, kept, fallback, video)


class StatedImages:
    """The images of a model of which nothing is known but what the user says."""

    def __init__(self, model: Any, inputs: Mapping[str, Any], stated: Stated, unread: str = ""):
        self.stated, self._ids, self._unread = stated, inputs.get("input_ids"), unread
        self._token = _image_token(getattr(model, "config", None))

    def sees(self, name: str) -> bool:
        """Whether a module lies in a tower, which is not known here."""
        return False

    def words(self, length: int, cross: bool) -> None:
        """How many of the tokens are text, where a sequence joins text and image: see `Latents`."""

    def place(
        self, name: str, cross: bool, length: int, batch: int, tokens: list[Tokens] | None, has_words: bool
    ) -> list[Tokens] | None:
        """Return the tokens with the images where the user says, if the number of tokens fits."""
        named = tokens or [Tokens.numbered(length)] * batch
        try:
            if not self.stated:
                raise InputError(self._unread)
            grids = self._by_id(batch) if has_words else self._by_number(length, batch)
        except InputError as error:
            return [each.with_images((), str(error)) for each in named]
        return [each.with_images(tuple(some)) for each, some in zip(named, grids, strict=True)]

    def _by_number(self, length: int, batch: int) -> list[list[Grid]]:
        return [list(_stated_grids(self.stated, length))] * batch

    def _by_id(self, batch: int) -> list[list[Grid]]:
        if self._token is None or not isinstance(self._ids, Tensor) or any(len(image) > 2 for image in self.stated):
            return self._by_number(-1 if self._ids is None else self._ids.shape[-1], batch)
        count, texts = sum(rows * columns for rows, columns in self.stated), []
        for row in self._ids:
            places = (row == self._token).nonzero().flatten().cpu()
            if len(places) != count:
                raise InputError(
                    f"images = {list(self.stated)} are {count} tokens, but the text has {len(places)} for images"
                )
            texts.append([*in_order(self.stated, places)])
        return [texts[n * len(texts) // batch] for n in range(batch)]


@lru_cache(maxsize=8)  # the blocks and steps of a model have the same
def _stated_grids(stated: Stated, length: int) -> tuple[Grid, ...]:
    grids, after = [], 0
    for image, (rows, columns, *first) in enumerate(stated):
        start = first[0] if first else after
        grids.append(Grid(torch.arange(rows * columns).view(rows, columns) + start, image, aspect=columns / rows))
        after = start + rows * columns
    exactly = all(len(image) == 2 for image in stated)
    if after > length or (exactly and after != length):
        raise InputError(
            f"images = {list(stated)} are {after} tokens, but there are {length} here. Say which token of an "
            "image is the first: (rows, columns, first)"
        )
    return tuple(grids)


def _image_token(config: Any) -> int | None:
    ids = (getattr(config, name, None) for name in ("image_token_id", "image_token_index"))
    return next((token for token in ids if token is not None), None)


class ReadImages:
    """The images of one pass through a model of transformers, as its tower read them."""

    def __init__(
        self,
        model: Any,
        tower: str,
        config: Any,
        views: list[View],
        inputs: Mapping[str, Tensor],
        fallback: StatedImages | None,
        video: bool = False,
    ):
        self._model, self._tower, self._config = model, tower, config
        self._views, self._inputs, self._fallback, self._video = views, inputs, fallback, video
        self._stated = () if fallback is None else fallback.stated
        self._kind = FAMILIES.get(model.config.model_type, "")
        self._rule = TOWERS[config.model_type]
        registers = [f"[REG{n}]" for n in range(getattr(config, "num_register_tokens", 0))]
        self._before = [name for rule in self._rule.before for name in (registers if rule == "[REG]" else [rule])]
        self._cache: dict[tuple[Any, ...], list[Tokens] | None] = {}

    def sees(self, name: str) -> bool:
        """Whether a module lies in the tower: its tokens are patches, not words."""
        return not self._tower or f"{name}.".startswith(f"{self._tower}.")

    def words(self, length: int, cross: bool) -> None:
        """How many of the tokens are text, where a sequence joins text and image: see `Latents`."""

    def place(
        self, name: str, cross: bool, length: int, batch: int, tokens: list[Tokens] | None, has_words: bool
    ) -> list[Tokens] | None:
        """Return these tokens of a module (of its keys, if `cross`) with the images among them."""
        role = "tower" if self.sees(name) else "cross" if cross else "text" if has_words else ""
        key = (role, length, batch)
        if key not in self._cache:
            if role == "text" and self._kind == "" and self._fallback is not None:
                self._cache[key] = self._fallback.place(name, cross, length, batch, tokens, has_words)
            else:
                self._cache[key] = self._placed(role, length, batch, tokens)
        return self._cache[key]

    def _placed(self, role: str, length: int, batch: int, tokens: list[Tokens] | None) -> list[Tokens] | None:
        try:
            grids = self._grids(role, length, batch)
        except Exception as error:  # of a check, or in a version of transformers that differs
            why = str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {error}"
            return [each.with_images((), why) for each in tokens or [Tokens.numbered(length)] * batch]
        if grids is None:
            return tokens
        if self._video:
            grids = [
                [joined([frames], name=f"{len(frames)} frames", frames=len(frames))] if len(shapes) == 1 else frames
                for frames in grids
                for shapes in [{frame.tokens.shape for frame in frames}]
            ]
        if tokens is None:
            of_tower = role == "tower" or self._kind == "queries"
            tokens = [self._named(length) if of_tower else Tokens.numbered(length)] * batch
        return [each.with_images(tuple(some)) for each, some in zip(tokens, grids, strict=True)]

    def _grids(self, role: str, length: int, batch: int) -> list[list[Grid]] | None:
        """Return the images of each entry of a batch; None where nothing is to be placed."""
        if role == "tower" or (role == "cross" and self._kind == "queries"):  # a connector looks at the tower's tokens
            return self._tower_grids(length, batch)
        if role == "cross" and self._kind == "cross":
            return self._rows_of_tiles(length, batch, in_tower=False)
        if role == "text" and self._kind not in ("", "cross"):
            copies = batch // len(self._text_grids)  # of each text
            return [self._text_grids[n // copies] for n in range(batch)]
        return None

    def _named(self, length: int) -> Tokens:
        """Return the tokens of the tower, of which those that are not patches have names."""
        pieces = [str(n) for n in range(length)]
        if not self._rule.packed and self._kind != "cross":
            pieces[: len(self._before)] = self._before
            pieces[length - len(self._rule.after) :] = self._rule.after
        return Tokens(pieces, [*self._before, *self._rule.after])

    # The tower

    def _tower_grids(self, length: int, batch: int) -> list[list[Grid]] | None:
        if self._kind == "cross":
            return self._rows_of_tiles(length, batch, in_tower=True)
        sizes = [math.prod(view.shape) for view in self._views]
        orders = [patch_order(self._rule.order, *view.shape, self._config) for view in self._views]
        if self._rule.packed:
            starts = [sum(sizes[:n]) for n in range(len(sizes))]
            both = zip(self._views, orders, starts, strict=True)
            fits = (batch, length) == (1, sum(sizes))
            return [[_grid(view, order + start, n) for n, (view, order, start) in enumerate(both)]] if fits else None
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
        """Yield the views that are tiles of an image: the number, the name and the part of the image."""
        if self._kind == "anyres":
            start = 0
            for image in self._anyres:
                yield from ((start + n, f"tile {n}", box) for n, box in enumerate(image.boxes, 1))
                start += image.views
        elif self._kind == "tiles":
            for tiles, _ in chain.from_iterable(map(self._arranged, self._views_of_texts)):
                views, boxes = [*chain(*tiles)], tile_boxes(len(tiles), len(tiles[0]))
                names = (f"tile {n}" for n in range(1, len(views) + 1))
                yield from zip(views, names, boxes, strict=True) if len(views) > 1 else ()

    # The language model

    @cached_property
    def _anyres(self) -> list[Anyres]:
        return anyres(self._model, self._inputs)

    @cached_property
    def _places(self) -> list[Int[Tensor, "tokens 2"]]:
        """The tokens of each view, or of each image: the numbers of the text and of the token."""
        config, ids = self._model.config, self._inputs.get("input_ids")
        token = config.video_token_id if self._video else _image_token(config)
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
        parts = list(torch.split(places, counts))
        if any(len(set(part[:, 0].tolist())) != 1 for part in parts):
            raise InputError("the patches of one image lie in two texts")
        return parts

    @cached_property
    def _views_of_texts(self) -> list[list[int]]:
        """The views of each text; all in one text where the tower runs by itself."""
        try:
            texts = [int(part[0, 0]) for part in self._places]
        except InputError:
            return [list(range(len(self._views)))]
        return [[n for n, text in enumerate(texts) if text == row] for row in range(len(self._inputs["input_ids"]))]

    @cached_property
    def _text_grids(self) -> list[list[Grid]]:
        """The images of each text."""
        if self._kind == "queries":
            raise InputError(
                "the language model sees no patches but learned queries, each of which has looked at the whole image: "
                'ask those, with kind = "cross" and the number of a query'
            )
        texts = self._anyres_grids() if self._kind == "anyres" else list(map(self._grids_of, self._views_of_texts))
        stated = [image[:2] for image in self._stated]
        for grids in texts if stated else ():
            shapes = [tuple(grid.tokens.shape) for grid in grids if grid.name != WHOLE]
            if stated != shapes:
                raise InputError(f"images = {stated} was said, but the model has {shapes}")
        return texts

    def _grids_of(self, views: Sequence[int]) -> list[Grid]:
        """Return the images of a text that has these views."""
        grids = {n: _merged(self._views[n], self._places[n][:, 1]) for n in views}
        images: list[Grid] = []
        for number, (tiles, whole) in enumerate(self._arranged(views)):
            name = "" if whole is None else "tiles"
            images.append(joined([[grids[n] for n in row] for row in tiles], image=number, name=name))
            images += [] if whole is None else [replace(grids[whole], image=number, name=WHOLE)]
        return images

    def _anyres_grids(self) -> list[list[Grid]]:
        texts: list[list[Grid]] = [[] for _ in self._inputs["input_ids"]]
        first = 0
        for image, part in zip(self._anyres, self._places, strict=True):
            view, text = self._views[first], texts[int(part[0, 0])]
            number = len({grid.image for grid in text})
            places = part[: math.prod(view.shape), 1].view(view.shape)
            whole = Grid(places, number, aspect=image.aspect, brightness=view.brightness.cpu())
            tiles = Grid(part[:, 1][image.tiles], number, "tiles", image.box, image.aspect)
            text += [tiles, replace(whole, name=WHOLE)] if image.tiles.numel() else [whole]
            first += image.views
        return texts

    # Tiles in a row, then the whole

    def _arranged(self, views: Sequence[int]) -> _Arranged:
        """Return the images of one text: its tiles in rows and columns, and the whole image that follows them.

        Tiles are as the user says; else they are recognised: put together and made smaller, they look like the view
        that follows them. A view that is no tile is an image by itself.
        """
        if self._kind != "tiles":
            return [([[n]], None) for n in views]
        if self._stated:
            rows, columns = _merged(self._views[0], self._places[0][:, 1]).tokens.shape
            return _as_stated(self._stated, views, (rows, columns))
        images: _Arranged = []
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

    def _rows_of_tiles(self, length: int, batch: int, in_tower: bool) -> list[list[Grid]] | None:
        """Return the images of each entry of a batch: one image in the tower, in a text one after the other."""
        most, ratios = self._config.max_num_tiles, self._inputs["aspect_ratio_ids"]
        step = math.prod(self._views[0].shape) + 1
        if in_tower:
            step, ratios = step + -step % 8, ratios.flatten()[:, None]
        images = ratios.shape[1]
        if (batch, length) != (len(ratios), images * most * step):
            return None
        return [
            [
                replace(self._tiled(text * images + n, ratio, step).shifted(n * most * step), image=n)
                for n, ratio in enumerate(row)
                if ratio  # 0 is no image
            ]
            for text, row in enumerate(ratios.tolist())
        ]

    def _tiled(self, image: int, ratio: int, step: int) -> Grid:
        """Return an image in tiles of this ratio, each of which has `step` tokens."""
        most = self._config.max_num_tiles
        shapes = [(high, wide) for high in range(1, most + 1) for wide in range(1, most + 1) if high * wide <= most]
        high, wide = shapes[ratio - 1]
        views = self._views[image * most : (image + 1) * most]
        patches = patch_order("rows", *views[0].shape, self._config) + 1
        tiles = [_grid(views[tile], patches + tile * step) for tile in range(high * wide)]
        return joined([tiles[start : start + wide] for start in range(0, high * wide, wide)])


Images = StatedImages | ReadImages | Latents


def _grid(view: View, tokens: Tensor, image: int = 0) -> Grid:
    return Grid(tokens, image, aspect=view.aspect, brightness=view.brightness.cpu())


def _cells(views: Sequence[View], tokens: int, special: int) -> list[int]:
    """Return how many of the `tokens` of the text each view has."""
    sizes = [math.prod(view.shape) for view in views]
    if tokens == sum(sizes) + special * len(views):
        return [size + special for size in sizes]
    side = math.isqrt(sum(sizes) // max(tokens, 1))
    if not side or any(number % side for view in views for number in view.shape):
        return sizes
    return [size // side**2 for size in sizes]


def _merged(view: View, tokens: Int[Tensor, " tokens"]) -> Grid:
    """Return the grid of a view whose patches were merged in square blocks, or have become a token each."""
    rows, columns = view.shape
    extra = len(tokens) - rows * columns
    if extra > 0:  # with the class token before them
        return Grid(tokens[extra:].view(rows, columns), aspect=view.aspect, brightness=view.brightness.cpu())
    side = math.isqrt(rows * columns // len(tokens))
    shape = rows // side, columns // side
    return Grid(tokens.view(shape), aspect=view.aspect, brightness=_smaller(view.brightness.cpu(), shape))


def _smaller(numbers: Float[Tensor, "rows columns"], shape: Sequence[int]) -> Float[Tensor, "high wide"]:
    return functional.adaptive_avg_pool2d(numbers[None, None], (shape[0], shape[1]))[0, 0]


def correlation(one: Tensor, other: Tensor) -> float:
    """Return how alike two grids of numbers are, from -1 to 1; 0 where one of them is the same everywhere."""
    a, b = (numbers.double() - numbers.double().mean() for numbers in (one, other))
    size = float(a.norm() * b.norm())
    flat = min(float(a.norm()), float(b.norm())) < 1e-6 * max(1.0, float(one.abs().max()), float(other.abs().max()))
    return 0.0 if flat or not size else float((a * b).sum()) / size


def _as_stated(stated: Stated, views: Sequence[int], cells: tuple[int, int]) -> _Arranged:
    """Return views in the tiles that the user gives; every image of tiles has its whole after it, or none has."""
    shapes = [(rows / cells[0], columns / cells[1]) for rows, columns, *_ in stated]
    whole_numbers = all(high == int(high) and wide == int(wide) for high, wide in shapes)
    tiles = [int(high * wide) for high, wide in shapes]
    with_whole = sum(tiles) + sum(count > 1 for count in tiles) == len(views)
    if not whole_numbers or not (with_whole or sum(tiles) == len(views)):
        raise InputError(
            f"images = {[image[:2] for image in stated]} was said, but the model has {len(views)} tiles of "
            f"{cells[0]} × {cells[1]} patches (a whole image after its tiles is one more)"
        )
    images: _Arranged = []
    rest: Iterator[int] = iter(views)
    for (high, wide), count in zip(shapes, tiles, strict=True):
        rows = [[next(rest) for _ in range(int(wide))] for _ in range(int(high))]
        images.append((rows, next(rest) if with_whole and count > 1 else None))
    return images
