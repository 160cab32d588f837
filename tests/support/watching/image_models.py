"""Tiny models with random weights of every family that reads images, and pictures as their own processors prepare them.

The processors of transformers decide which patch comes where; where one needs torchvision, `_tiled` does what it does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import transformers
from torch import Tensor, nn

from support.watching.architectures import build

SIDE, PATCH = 32, 8  # of the tiny models, in pixels
_SQUARE = {"height": SIDE, "width": SIDE}
_PINPOINTS = [[32, 64], [64, 32], [64, 64], [64, 96]]
Processor = Callable[[list[np.ndarray]], dict[str, Tensor]]


@dataclass(frozen=True)
class Family:
    """How a family is shown pictures (height, width), which its processor leaves as large as they are."""

    processor: Processor
    pictures: tuple[tuple[int, int], ...] = ((SIDE, SIDE), (SIDE, SIDE))
    text: bool = True  # whether it has a language model with patches among its tokens
    resized: bool = False  # also shown as a whole, made smaller
    config: tuple[tuple[str, Any], ...] = ()


def _of(name: str, **options: Any) -> Processor:
    def process(pictures: list[np.ndarray]) -> dict[str, Tensor]:
        kind = getattr(transformers, f"{name}Pil")
        images = [[picture] for picture in pictures] if "Mllama" in name else list(pictures)
        images = [list(pictures)] if name.startswith(("Idefics3", "SmolVLM")) else images
        given = dict(kind(**options)(images, return_tensors="pt", input_data_format="channels_last"))
        return {
            key: value
            for key, value in given.items()
            if isinstance(value, Tensor) and key not in ("num_patches", "num_tiles", "num_crops")
        }

    return process


def _tiled(pictures: list[np.ndarray]) -> dict[str, Tensor]:
    """Tiles row by row, then the whole picture."""
    views = []
    for picture in pictures:
        pixels = torch.from_numpy(picture).permute(2, 0, 1)[None].float() / 255
        rows = pixels.split(SIDE, 2)
        tiles = [tile for row in rows for tile in row.split(SIDE, 3)]
        views += tiles if len(tiles) == 1 else [*tiles, nn.functional.interpolate(pixels, (SIDE, SIDE), mode="area")]
    return {"pixel_values": torch.cat(views)}


_PLAIN = _of("SiglipImageProcessor", size=_SQUARE)
_CLIP = _of("CLIPImageProcessor", size={"shortest_edge": SIDE}, crop_size=_SQUARE)
_QWEN = _of("Qwen2VLImageProcessor", patch_size=PATCH, merge_size=2, size={"shortest_edge": 256, "longest_edge": 65536})
_TILES = _of("GotOcr2ImageProcessor", size=_SQUARE, crop_to_patches=True, min_patches=1, max_patches=8)
_IDEFICS = {"size": {"longest_edge": 96}, "max_image_size": {"longest_edge": SIDE}}
_ANYRES = {"size": _SQUARE, "image_grid_pinpoints": _PINPOINTS}
_QWEN_PICTURES = ((32, 48), (64, 32))
_TILED_PICTURES = ((64, 96), (96, 32))

FAMILIES: dict[str, Family] = {
    "qwen2_vl": Family(_QWEN, _QWEN_PICTURES),
    "qwen2_5_vl": Family(_QWEN, ((80, 48), (64, 96))),  # windows of 2 × 2 merged patches, some of them not whole
    "qwen3_vl": Family(_QWEN, _QWEN_PICTURES),
    "qwen3_vl_moe": Family(_QWEN, _QWEN_PICTURES),
    "glm4v": Family(_QWEN, _QWEN_PICTURES),
    "glm4v_moe": Family(_QWEN, _QWEN_PICTURES),
    "llava": Family(_CLIP),
    "paligemma": Family(_PLAIN),
    "gemma3": Family(_PLAIN),
    "mistral3": Family(_of("PixtralImageProcessor", size={"longest_edge": 96}, patch_size=2 * PATCH), ((32, 48), (48, 32))),
    "internvl": Family(_TILES, _TILED_PICTURES, resized=True),
    "aya_vision": Family(_TILES, _TILED_PICTURES, resized=True),
    "llama4": Family(_tiled, _TILED_PICTURES, resized=True),
    "idefics3": Family(_of("Idefics3ImageProcessor", **_IDEFICS), _TILED_PICTURES, resized=True),
    "smolvlm": Family(_of("SmolVLMImageProcessor", **_IDEFICS), _TILED_PICTURES, resized=True),
    "llava_next": Family(_of("LlavaNextImageProcessor", crop_size=_SQUARE, **_ANYRES), ((48, 96), (64, 32)), resized=True, config=(("image_grid_pinpoints", _PINPOINTS),)),
    "llava_onevision": Family(_of("LlavaOnevisionImageProcessor", **_ANYRES), ((64, 96), (64, 32)), resized=True, config=(("image_grid_pinpoints", _PINPOINTS),)),
    "mllama": Family(_of("MllamaImageProcessor", size=_SQUARE), ((32, 96), (64, 64)), text=False),
    "blip-2": Family(_of("BlipImageProcessor", size=_SQUARE), text=False, config=(("image_token_id", 3),)),
    "instructblip": Family(_of("BlipImageProcessor", size=_SQUARE), text=False, config=(("image_token_id", 3),)),
    "vit": Family(_PLAIN, text=False),
    "deit": Family(_PLAIN, text=False),
    "beit": Family(_PLAIN, text=False),
    "clip": Family(_CLIP, text=False),
    "siglip": Family(_PLAIN, text=False),
    "siglip2": Family(_of("Siglip2ImageProcessor", patch_size=PATCH, max_num_patches=24), ((32, 48), (48, 32)), text=False),
    "dinov2": Family(_CLIP, text=False),
    "dinov2_with_registers": Family(_CLIP, text=False),
    "dinov3_vit": Family(_PLAIN, text=False),
    "pixtral": Family(_of("PixtralImageProcessor", size={"longest_edge": 96}, patch_size=PATCH), ((32, 48), (48, 32)), text=False),
}  # fmt: skip


def made(name: str, attention: str | None = None) -> nn.Module:
    """The model."""
    model = build(name, attention)
    for key, value in FAMILIES[name].config:
        setattr(model.config, key, value)
    return model


def pictures(name: str, seed: int = 0) -> list[np.ndarray]:
    """A picture of each size that the family is shown, smooth enough to be recognised when made smaller."""
    draw = np.random.default_rng(seed)
    found = []
    for height, width in FAMILIES[name].pictures:
        coarse = draw.uniform(40, 215, (height // PATCH, width // PATCH, 3))
        found.append(np.kron(coarse, np.ones((PATCH, PATCH, 1))).astype(np.uint8))
    return found


def fed(name: str, model: Any, shown: Sequence[np.ndarray]) -> dict[str, Any]:
    """Inputs that show these pictures, in one text where the model reads several: words, images, and words."""
    inputs: dict[str, Any] = FAMILIES[name].processor(list(shown))
    each = len(shown)
    if name in ("blip-2", "instructblip"):
        ids = torch.tensor([[50, 51, 52, *[3] * model.config.num_query_tokens, 53, 54, 55, 56]] * each)
        more = {"qformer_input_ids": ids[:, :3]} if name == "instructblip" else {}
        return inputs | more | {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    if model.main_input_name == "pixel_values":
        return inputs
    if not FAMILIES[name].text:
        return inputs | {"input_ids": torch.arange(50, 57).repeat(each, 1)}
    with torch.no_grad():
        features = model.get_image_features(**inputs)
    features = features.last_hidden_state if features.pooler_output is None else features.pooler_output
    counts = [part.numel() // part.shape[-1] for part in features]
    token = model.config.image_token_id
    images = [piece for count in counts for piece in (*[token] * count, 60)]  # a word after each
    ids = torch.tensor([[50, 51, 52, *images, 53, 54, 55, 56]])
    inputs |= {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    return inputs | ({"mm_token_type_ids": (ids == token).long()} if "image_grid_thw" in inputs else {})
