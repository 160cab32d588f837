"""`Grid`: which tokens are the patches of an image, and where they lie in it; `Patch`, a place in one."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from regard.errors import InputError
from regard.support import Float, Int

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
    box: Box = _ALL  # the part that the grid covers of the image that the model was shown
    aspect: float = 1.0  # the width of that image divided by its height
    brightness: Float[Tensor, "rows columns"] | None = None  # of each patch, in the units that the model read
    painted: bool = False  # by the model itself, in many steps
    frames: int = 1  # of a video, side by side

    def __repr__(self) -> str:
        rows, columns = self.tokens.shape
        patches = self.tokens[self.tokens >= 0]
        which = f"tokens {int(patches.min())} to {int(patches.max())}" if patches.numel() else "no tokens"
        part = f" ({self.name})" if self.name else ""
        return f"Grid({rows} × {columns} patches of image {self.image}{part}: {which})"

    def shifted(self, by: int) -> Grid:
        """Return the grid for a text in which `by` more tokens come first."""
        return replace(self, tokens=torch.where(self.tokens < 0, -1, self.tokens + by))


def side_by_side(parts: Sequence[Sequence[Tensor]]) -> Tensor:
    """Join equal grids of numbers in rows and columns.

    >>> side_by_side([[torch.zeros(1, 2), torch.ones(1, 2)]])
    tensor([[0., 0., 1., 1.]])
    """
    return torch.cat([torch.cat(list(row), -1) for row in parts], -2)


def joined(parts: Sequence[Sequence[Grid]], **facts: Any) -> Grid:
    """Join equal grids in rows and columns: the tiles of an image, the frames of a video.

    >>> joined([[Grid(torch.arange(4).view(2, 2)), Grid(torch.arange(4, 8).view(2, 2))]], name="2 frames")
    Grid(2 × 4 patches of image 0 (2 frames): tokens 0 to 7)
    """
    tokens = side_by_side([[grid.tokens for grid in row] for row in parts])
    shown = [[grid.brightness for grid in row if grid.brightness is not None] for row in parts]
    aspect = parts[0][0].aspect * len(parts[0]) / len(parts)
    return Grid(tokens, aspect=aspect, brightness=side_by_side(shown) if all(shown) else None, **facts)


def in_order(
    shapes: Sequence[Sequence[int]], tokens: Int[Tensor, " tokens"], painted: bool = False
) -> tuple[Grid, ...]:
    """Return images of these shapes, whose patches are the tokens, image by image and row by row."""
    parts = torch.split(tokens, [rows * columns for rows, columns in shapes])
    each = enumerate(zip(parts, shapes, strict=True))
    return tuple(Grid(part.view(h, w), n, aspect=w / h, painted=painted) for n, (part, (h, w)) in each)


def inside(region: Box, box: Box) -> Box:
    """Return the box of a part of a region."""
    top, left, bottom, right = region
    high, wide = bottom - top, right - left
    return top + box[0] * high, left + box[1] * wide, top + box[2] * high, left + box[3] * wide


def tile_boxes(high: int, wide: int, region: Box = _ALL) -> tuple[Box, ...]:
    """Return the boxes of equal tiles of a region, row by row."""
    places = [(i, j) for i in range(high) for j in range(wide)]
    return tuple(inside(region, (i / high, j / wide, (i + 1) / high, (j + 1) / wide)) for i, j in places)


def find_patch(grids: Sequence[Grid], patch: Patch) -> int:
    """Return the token of a patch."""
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
    """Yield each token that is a patch, and its name.

    >>> list(patch_names([Grid(torch.tensor([[4, 5]]))]))
    [(4, 'patch 0,0'), (5, 'patch 0,1')]
    """
    several = len({grid.image for grid in grids}) > 1
    for grid in grids:
        before = f"image {grid.image} " if several else ""
        before += f"{grid.name} " if grid.name and len(grids) > 1 else ""
        for row, tokens in enumerate(grid.tokens.tolist()):
            yield from ((token, f"{before}patch {row},{n}") for n, token in enumerate(tokens) if token >= 0)


@dataclass(frozen=True)
class Tower:
    """The tokens of a vision tower."""

    order: str = "rows"  # of the patches: row by row; "blocks" that are merged later; "windows" of such blocks
    packed: bool = False  # all images in one row of tokens; else each image is an entry of the batch
    before: tuple[str, ...] = ()  # tokens before the patches; "[REG]" stands for all registers
    after: tuple[str, ...] = ()


_CLS = Tower(before=("[CLS]",))
_REGISTERS = Tower(before=("[CLS]", "[REG]"))
_BLOCKS = Tower("blocks", packed=True)

TOWERS: dict[str, Tower] = {  # by the model type of the vision config
    "beit": _CLS, "blip_2_vision_model": _CLS, "clip_vision_model": _CLS, "deit": Tower(before=("[CLS]", "[DIST]")),
    "dinov2": _CLS, "dinov2_with_registers": _REGISTERS, "dinov3_vit": _REGISTERS, "glm4v_vision": _BLOCKS,
    "glm4v_moe_vision": _BLOCKS, "idefics3_vision": Tower(), "instructblip_vision_model": _CLS,
    "internvl_vision": _CLS, "llama4_vision_model": Tower(after=("[CLS]",)), "mllama_vision_model": _CLS,
    "pixtral": Tower(packed=True), "qwen2_vl_vision": _BLOCKS, "qwen2_5_vl_vision": Tower("windows", packed=True),
    "qwen3_vl_vision": _BLOCKS, "qwen3_vl_moe_vision": _BLOCKS, "siglip_vision_model": Tower(),
    "siglip2_vision_model": Tower(), "smolvlm_vision": Tower(), "vit": _CLS,
}  # fmt: skip

# What the language model has of an image, by the model type of the whole.
FAMILIES: dict[str, str] = {
    # as many tokens as patches, or as square blocks of them, row by row
    "gemma3": "cells", "glm4v": "cells", "glm4v_moe": "cells", "llava": "cells", "mistral3": "cells",
    "paligemma": "cells", "qwen2_vl": "cells", "qwen2_5_vl": "cells", "qwen3_vl": "cells", "qwen3_vl_moe": "cells",
    # the same of each tile, then of the whole image
    "aya_vision": "tiles", "idefics3": "tiles", "internvl": "tiles", "llama4": "tiles", "smolvlm": "tiles",
    # the whole image, then all tiles as one, without their padding, with a token at the end of each row
    "llava_next": "anyres", "llava_onevision": "anyres",
    "mllama": "cross",  # cross-attention to the tokens of the tower, tile by tile
    "blip-2": "queries", "instructblip": "queries",  # learned queries, which look at the tokens of the tower
}  # fmt: skip


def tower_of(model: Any) -> tuple[str, Any] | None:
    """Return the name of the vision tower inside a model, "" where the model is a tower itself, and its config."""
    config = getattr(model, "config", None)
    if getattr(config, "model_type", "") in TOWERS and not hasattr(config, "vision_config"):
        return "", config
    vision = getattr(config, "vision_config", None)
    kind = getattr(vision, "model_type", "")
    if kind not in TOWERS:
        return None
    for name, part in model.named_modules():
        if getattr(vars(part).get("config"), "model_type", "") == kind:
            return name, vision
    return None


# What the tower reads


@dataclass(frozen=True, eq=False)
class View:
    """What a tower reads as one image: a whole image, or a tile of one."""

    brightness: Float[Tensor, "rows columns"]  # of each patch, the mean over its pixels and colours
    aspect: float  # width divided by height

    @property
    def shape(self) -> tuple[int, int]:
        """The rows and columns of patches."""
        rows, columns = self.brightness.shape
        return rows, columns


def is_video(inputs: Mapping[str, Any]) -> bool:
    """Whether a model is shown the frames of videos, and no image."""
    return inputs.get("pixel_values_videos") is not None and inputs.get("pixel_values") is None


def read_views(model: Any, config: Any, inputs: Mapping[str, Any]) -> list[View] | None:
    """Return what a tower of this config reads, in its own order; None where the inputs have no image."""
    kind = "video" if is_video(inputs) else "image"
    pixels = inputs.get("pixel_values_videos" if kind == "video" else "pixel_values")
    grids = inputs.get(f"{kind}_grid_thw")
    if pixels is None and "grid_thw" in inputs:  # a tower of Qwen's, called by itself
        pixels, grids = inputs.get("hidden_states"), inputs["grid_thw"]
    if not isinstance(pixels, Tensor) or not pixels.numel():
        return None
    pixels = pixels.detach()
    if isinstance(grids, Tensor):  # patches in one row, in blocks of patches that are merged later
        means, views, start = pixels.flatten(1).mean(-1).float(), [], 0
        for frames, rows, columns in grids.tolist():
            order = patch_order("blocks", rows, columns, config).to(means.device)
            for _ in range(frames):
                views.append(View(means[start : start + rows * columns][order], columns / rows))
                start += rows * columns
        return views
    if isinstance(inputs.get("spatial_shapes"), Tensor):
        shapes, means = inputs["spatial_shapes"].tolist(), pixels.float().mean(-1)
        return [View(one[: h * w].view(h, w), w / h) for one, (h, w) in zip(means, shapes, strict=True)]
    kind = getattr(model.config, "model_type", "")
    if FAMILIES.get(kind) == "anyres":
        pixels = torch.cat([one[:n] for one, n in zip(pixels, _tile_counts(model, inputs), strict=True)])
    elif kind in ("idefics3", "smolvlm"):
        pixels = pixels.flatten(0, 1)
        pixels = pixels[pixels.flatten(1).any(-1)]  # images of zeros fill up the batch
    pixels = pixels.flatten(0, -4) if pixels.dim() > 4 else pixels
    size = config.patch_size
    patch = (size, size) if isinstance(size, int) else (int(size[0]), int(size[1]))
    # In the dtype of the images, a patch at a time: a copy of a large batch in float32 would count.
    cells = functional.avg_pool2d(pixels.mean(-3, keepdim=True), patch).float()[:, 0]
    images = list(cells)
    if config.model_type == "pixtral" and (sizes := inputs.get("image_sizes")) is not None:  # padded to the largest
        images = [one[: int(h) // patch[0], : int(w) // patch[1]] for one, (h, w) in zip(cells, sizes, strict=True)]
    return [View(one, one.shape[1] * patch[1] / (one.shape[0] * patch[0])) for one in images]


def patch_order(order: str, rows: int, columns: int, config: Any) -> Int[Tensor, "rows columns"]:
    """Return which token of an image each patch is."""
    if order == "rows":
        return torch.arange(rows * columns).view(rows, columns)
    side: int = config.spatial_merge_size
    high, wide = rows // side, columns // side
    blocks = torch.arange(high * wide).view(high, wide)
    if order == "windows":  # of several blocks on a side, one window after the other
        window: int = config.window_size // side // config.patch_size
        i, j = torch.arange(high)[:, None], torch.arange(wide)
        place = (i // window * -(-wide // window) + j // window) * window**2 + i % window * window + j % window
        blocks = place.flatten().argsort().argsort().view(high, wide)
    inside = torch.arange(side**2).view(1, side, 1, side)
    return (blocks.view(high, 1, wide, 1) * side**2 + inside).reshape(rows, columns)


# Tiles of any resolution, as in LLaVA-NeXT and LLaVA-OneVision: their own functions tell what goes where


@dataclass(frozen=True, eq=False)
class Anyres:
    """One image: the whole, then its tiles, packed for the language model."""

    views: int  # of the tower: the whole and all tiles
    length: int  # tokens of the language model
    tiles: Int[Tensor, "rows columns"]  # which of these tokens are the patches of all tiles; 0 × 0 where there are none
    box: Box  # the part of the image that these patches cover
    boxes: tuple[Box, ...]  # the part that each tile covers
    aspect: float


def _tile_counts(model: Any, inputs: Mapping[str, Any]) -> list[int]:
    """Return how many views of the tower each image has."""
    sizes = inputs["image_sizes"]
    numbers = inputs.get("batch_num_images")
    cut = [True] * len(sizes) if numbers is None else [int(n) == 1 for n in numbers for _ in range(int(n))]
    count = sys.modules[type(model).__module__].image_size_to_num_patches
    pinpoints, side = model.config.image_grid_pinpoints, model.config.vision_config.image_size
    return [count(size, pinpoints, side) if is_cut else 1 for size, is_cut in zip(sizes, cut, strict=True)]


def anyres(model: Any, inputs: Mapping[str, Any]) -> list[Anyres]:
    """Return the images of a batch: numbers instead of features are sent through the model's own packing."""
    config = model.config
    side = config.vision_config.image_size // config.vision_config.patch_size
    (*_, inner) = (part for part in model.modules() if hasattr(part, "pack_image_features"))
    pack: Any = inner.pack_image_features
    known = {"vision_aspect_ratio": inputs.get("vision_aspect_ratio") or getattr(config, "vision_aspect_ratio", None)}
    known["vision_feature_select_strategy"] = "default"
    options = {name: value for name, value in known.items() if name in inspect.signature(pack).parameters}
    images = []
    for size, count in zip(inputs["image_sizes"], _tile_counts(model, inputs), strict=True):
        height, width = (int(n) for n in size)
        ends = torch.full((1,), torch.nan)  # of a row of patches
        features = torch.zeros(count, side * side, 1)
        (tokens,), _ = pack([features], size[None], image_newline=ends, **options)
        at_ends = tokens[:, 0].isnan()
        at_ends[: side * side] = False
        tiles, box = torch.zeros(0, 0, dtype=torch.long), _ALL
        boxes: tuple[Box, ...] = ()
        if count > 1:
            rows = int(at_ends.sum())
            tiles = torch.arange(side * side, len(tokens)).view(rows, -1)[:, :-1]
            box, boxes = _tile_boxes(model, size, height, width, side)
        images.append(Anyres(count, len(tokens), tiles, box, boxes, width / height))
    return images


def _tile_boxes(model: Any, size: Tensor, height: int, width: int, side: int) -> tuple[Box, tuple[Box, ...]]:
    """Return the part of the image under the patches that are left of all tiles, and under each tile.

    The image was enlarged to fit the tiles, and padded on both sides of the shorter axis.
    """
    functions, config = sys.modules[type(model).__module__], model.config
    pixels = config.vision_config.image_size
    high, wide = functions.get_anyres_image_grid_shape(size, config.image_grid_pinpoints, pixels)
    scale = min(high * pixels / height, wide * pixels / width)
    tall, broad = (min(-(-length * scale // 1), n * pixels) for length, n in ((height, high), (width, wide)))
    above, before = (high * pixels - tall) // 2, (wide * pixels - broad) // 2
    tiles = -above / tall, -before / broad, (high * pixels - above) / tall, (wide * pixels - before) / broad
    places = torch.meshgrid(torch.arange(high * side), torch.arange(wide * side), indexing="ij")
    rows, columns = functions.unpad_image(torch.stack(places), size)
    ends = rows.min() / high, columns.min() / wide, (rows.max() + 1) / high, (columns.max() + 1) / wide
    top, left, bottom, right = (float(end) / side for end in ends)
    return inside(tiles, (top, left, bottom, right)), tile_boxes(high, wide, tiles)
