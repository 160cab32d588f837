"""`Latents`: the image that a model of diffusers paints, among the tokens of its attention, in one step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import torch

from regard.watching.images.families import Grid, in_order
from regard.watching.record.tokens import Tokens

# What each class of denoiser puts first in its joint sequence of text and image ("" where the image looks at the text
# by cross-attention), and the argument that tells the shape of the image: latents (…, height, width), the place of each
# token, or (frames, rows, columns) of each image.
DENOISERS: dict[str, tuple[str, str]] = {
    "UNet2DConditionModel": ("", "sample"),  # of Stable Diffusion 1.5, 2 and XL
    "PixArtTransformer2DModel": ("", "hidden_states"),
    "SanaTransformer2DModel": ("", "hidden_states"),
    "SD3Transformer2DModel": ("image", "hidden_states"),
    "CogView4Transformer2DModel": ("text", "hidden_states"),
    "FluxTransformer2DModel": ("text", "img_ids"),
    "Flux2Transformer2DModel": ("text", "img_ids"),
    "ChromaTransformer2DModel": ("text", "img_ids"),
    "QwenImageTransformer2DModel": ("text", "img_shapes"),
}


class Latents:
    """Which tokens of a module are text, and which are patches of the image.

    Args:
        first: "text" or "image": what comes first in a joint sequence; "" where there is none.
        text: the number of tokens of the text.
        shapes: (rows, columns) of each image; of latents, which blocks see at several scales, (height, width).
        scaled: whether blocks see the image at several scales.
    """

    def __init__(self, first: str, text: int, shapes: Sequence[tuple[int, int]], scaled: bool):
        self._first, self._text, self._shapes, self._scaled = first, text, tuple(shapes), scaled

    def sees(self, name: str) -> bool:
        """Whether a module has tokens that are not words: all have."""
        return True

    def words(self, length: int, cross: bool) -> int:
        """Return how many of these tokens of a module (of its keys, if `cross`) are text."""
        if cross or not self._first:
            return length * cross
        return self._text if self._grids(length - self._text, 0) else 0

    def place(
        self, name: str, cross: bool, length: int, batch: int, tokens: list[Tokens] | None, has_words: bool
    ) -> list[Tokens] | None:
        """Return the tokens of the text, if they are known, with the patches after or before them."""
        if cross:
            return tokens
        words = self.words(length, cross)
        grids = self._grids(length - words, words if self._first == "text" else 0)
        why = "" if grids else f"{length} tokens are not {self._text} of text and an image of {self._shapes}"
        before = (length - words) * (self._first == "image")
        texts = [Tokens.numbered(length)] * batch
        if tokens is not None:
            texts = [text.after(before, length - words - before) for text in tokens]
        return [each.with_images(grids, why) for each in texts]

    def _grids(self, count: int, start: int) -> tuple[Grid, ...]:
        """Return the images whose patches are `count` tokens from `start` on; none where the numbers do not fit."""
        shapes = self._shapes
        if self._scaled:
            ((height, width),) = shapes
            scales = ((-(-height // side), -(-width // side)) for side in range(1, max(height, width) + 1))
            shapes = tuple(shape for shape in scales if shape[0] * shape[1] == count)[:1]
        return _patches(shapes, start) if count and sum(h * w for h, w in shapes) == count else ()


@lru_cache(maxsize=8)  # the blocks and steps of a model have the same
def _patches(shapes: tuple[tuple[int, int], ...], start: int) -> tuple[Grid, ...]:
    return in_order(shapes, torch.arange(start, start + sum(rows * columns for rows, columns in shapes)), painted=True)


def read_latents(model: Any, inputs: Mapping[str, Any]) -> Latents | None:
    """Return the latents that a model is given; None for a model that paints no image, or an unknown one."""
    names = (kind.__name__ for kind in type(model).__mro__)
    known = next((DENOISERS[name] for name in names if name in DENOISERS), None)
    if known is None:
        return None
    (first, argument), text = known, inputs["encoder_hidden_states"].shape[1]
    shape = inputs[argument]
    if argument == "img_shapes":
        shapes = [(rows, columns) for _, rows, columns in (shape[0] if isinstance(shape[0], list) else shape[:1])]
    elif argument == "img_ids":  # (image, row, column) of each token
        places = shape.reshape(-1, shape.shape[-1])[: inputs["hidden_states"].shape[1]]
        each = [places[places[:, 0] == n] for n in places[:, 0].unique()]
        shapes = [(len(p[:, 1].unique()), len(p[:, 2].unique())) for p in each]
    else:
        shapes = [tuple(shape.shape[-2:])]
    return Latents(first, text, shapes, scaled=not argument.startswith("img_"))
