"""What watching costs beside SDPA: a model that reads a large image, and one that paints an image (random weights).

python benchmarks/images.py            16,384 image tokens of 65,536 patches on a GPU; 1,024 on a CPU
python benchmarks/images.py --only Joint   4,096 image tokens and 512 of text, as in Flux; 256 and 32 on a CPU
python benchmarks/images.py --report   and keep the table in benchmarks/reports/
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import transformers
from measure import GPU, arguments, build, run, table, ways
from torch.nn import functional

import regard

WORDS = 64  # after the image
IMAGE = 5  # the id of an image token


def qwen(width: int, layers: int, merge: int) -> Any:
    """A Qwen2-VL with random weights, as many layers in the tower as in the language model.

    `merge` × `merge` patches make a token of the language model.
    """
    heads = max(width // 128, 4)
    config = transformers.Qwen2VLConfig(
        vision_config={"depth": layers, "embed_dim": max(width // 3 // 64, 2) * 64, "hidden_size": width,
                       "num_heads": max(width // 3 // 64, 2), "mlp_ratio": 4, "patch_size": 14,
                       "spatial_merge_size": merge},
        text_config={"hidden_size": width, "intermediate_size": 4 * width, "num_hidden_layers": layers,
                     "num_attention_heads": heads, "num_key_value_heads": max(heads // 7, 1), "vocab_size": 1000,
                     "rope_parameters": {"rope_type": "default", "rope_theta": 1e6, "mrope_section": [16, 24, 24]},
                     "head_dim": 128, "max_position_embeddings": 2**17},
        image_token_id=IMAGE, vision_start_token_id=6, vision_end_token_id=7, video_token_id=8,
    )  # fmt: skip
    return build(lambda: transformers.Qwen2VLForConditionalGeneration(config).eval())


def held(record: regard.Record, cache: Any) -> float:
    """MiB that a record holds beside the keys of the cache, which it shares."""
    shared = {layer.keys.untyped_storage().data_ptr() for layer in cache.layers}
    found = {}
    for entry in record.values():
        tensors = [] if entry.call is None else [entry.call.query, entry.call.key]
        tensors += [kept for kept in (entry.reductions or {}).values() if isinstance(kept, torch.Tensor)]
        for tensor in tensors:
            storage = tensor.untyped_storage()
            found[storage.data_ptr()] = storage.nbytes()
    return sum(size for place, size in found.items() if place not in shared) / 2**20


def inputs_of(model: Any, side: int, merge: int) -> dict[str, Any]:
    """A picture of side × side image tokens, and some words after it."""
    count = side**2
    ids = torch.tensor([[9, 6, *[IMAGE] * count, 7, *range(20, 20 + WORDS)]], device=model.device)
    return {
        "input_ids": ids,
        "mm_token_type_ids": (ids == IMAGE).long(),
        "pixel_values": torch.randn(merge**2 * count, 3 * 2 * 14 * 14, device=model.device, dtype=model.dtype),
        "image_grid_thw": torch.tensor([[1, merge * side, merge * side]], device=model.device),
        "logits_to_keep": 1,
    }


def output(model: Any, inputs: dict[str, Any], keep: Any) -> Any:
    """The output of the model, and its record if it is watched."""
    with torch.no_grad():
        if keep is None:
            return model(**inputs), None
        with regard.watch(model, keep=keep) as record:
            return model(**inputs), record


SIDE, MERGE, WIDTH, LAYERS = (128, 2, 3584, 8) if GPU else (32, 1, 512, 2)  # image tokens on a side, patches of one
KEPT: dict[str, Any] = {f"watched, `keep={keep!r}`": keep for keep in ("matrix", WORDS, "received")}


def section() -> list[str]:
    model = qwen(WIDTH, LAYERS, MERGE)
    inputs = inputs_of(model, SIDE, MERGE)

    def looked_over() -> Any:
        _, record = output(model, inputs, WORDS)
        return record.over(SIDE**2 + 2 + WORDS, kind="decoder")

    calls: dict[str, Callable[[], Any]] = {"plain (SDPA)": partial(output, model, inputs, None)}
    calls |= {name: partial(output, model, inputs, keep) for name, keep in KEPT.items()}
    calls[f"watched, `keep={WORDS}`, then `record.over(word)`"] = looked_over
    rows = []
    for name, keep in KEPT.items():
        given, record = output(model, inputs, keep)
        rows.append([name, f"{held(record, given.past_key_values):,.1f} MiB"])
    return [*ways("forward", calls, 3), "", *table(["", "held by the record"], rows)]


# A denoiser: text and image in one sequence, read by several blocks in several steps


class Joint(torch.nn.Module):
    """Joint attention of text and image, as the blocks of Flux compute it; with `kept`, eager, and its weights stay."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads, self.inward, self.out = heads, torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        self.kept: list[torch.Tensor] | None = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        query, key, value = self.inward(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        if self.kept is None:
            mixed = functional.scaled_dot_product_attention(query, key, value)
        else:
            weights = torch.softmax(query @ key.mT / query.shape[-1] ** 0.5, -1)
            self.kept.append(weights)
            mixed = weights @ value
        return x + self.out(mixed.transpose(1, 2).flatten(2))


TEXT, PATCHES, HEADS, HEAD, BLOCKS, STEPS = (512, 64, 24, 128, 4, 4) if GPU else (32, 16, 4, 32, 2, 2)
PLACE = 7  # of the word that is asked about


def exact(record: regard.Record) -> Any:
    """The map in float64: the definition, some rows at once."""
    total = torch.zeros(PATCHES**2, dtype=torch.float64)
    calls = [entry.call for step in record.passes for entry in step.values()]
    for query, key in ((call.query[0], call.key[0].double()) for call in calls):
        rows = torch.cat([
            torch.softmax(part.double() @ key.mT / HEAD**0.5, -1)[..., PLACE] for part in query[:, TEXT:].split(256, 1)
        ], -1)  # fmt: skip
        total += rows.mean(0).cpu() / len(calls)
    return total.view(PATCHES, PATCHES).numpy()


def denoised() -> list[str]:
    model = build(lambda: torch.nn.Sequential(*(Joint(HEADS * HEAD, HEADS) for _ in range(BLOCKS))).eval())
    weight = next(model.parameters())
    tokens = torch.randn(1, TEXT + PATCHES**2, HEADS * HEAD, device=weight.device, dtype=weight.dtype)
    with torch.no_grad():
        for block in model:
            block.inward.weight.mul_(3)  # so that heads have preferences

    @torch.no_grad()
    def sampled() -> None:
        for _ in range(STEPS):
            model(tokens)

    def watched() -> regard.Record:
        with regard.watch(model, images=[(PATCHES, PATCHES, TEXT)]) as record:
            sampled()
        return record

    def looked_at(record: regard.Record, **options: Any) -> Any:
        return record.over(PLACE, looked_at=True, steps=slice(None), **options).numbers["weights"]

    def forgotten() -> Any:
        total = 0.0
        with regard.watch(model, images=[(PATCHES, PATCHES, TEXT)]) as record, torch.no_grad():
            for _ in range(STEPS):
                model(tokens)
                total = total + looked_at(record) / STEPS
                record.forget()
        return total

    def eager() -> Any:
        for block in model:
            block.kept = []
        try:
            sampled()
            maps = [kept[0, :, TEXT:, PLACE].float().mean(0) for block in model for kept in block.kept]
        finally:
            for block in model:
                block.kept = None
        return torch.stack(maps).mean(0).view(PATCHES, PATCHES).cpu().numpy()

    calls: dict[str, Callable[[], Any]] = {
        "plain (SDPA)": sampled,
        'watched, `keep="matrix"`': watched,
        "watched, then `record.over(word)` over all steps, blocks and heads": lambda: looked_at(watched()),
        "watched, `record.over(word)` and `record.forget()` after each step": forgotten,
        "eager, all weights kept, then the same mean": eager,
    }
    lines = ways(f"{STEPS} steps of {BLOCKS} blocks", calls, 3)
    record = watched()
    errors = [f"{abs(shown - exact(record)).max() / exact(record).max():.1e}" for shown in (looked_at(record), eager())]
    size = (TEXT + PATCHES**2) ** 2 * HEADS * BLOCKS * STEPS * weight.dtype.itemsize / 2**30
    return [
        f"{PATCHES**2:,} image tokens and {TEXT:,} of text, {HEADS} heads of {HEAD}; the weights alone are "
        f"{size:,.2f} GiB. From the map in float64, of the same queries and keys, that of `record.over` differs by "
        f"{errors[0]} of its largest number at most, that of eager by {errors[1]}.",
        "",
        *lines,
    ]


def main() -> None:
    options = arguments(__doc__).parse_args()
    transformers.logging.set_verbosity_error()
    torch.manual_seed(0)
    how = (
        f"Forward: {SIDE**2:,} image tokens of {MERGE**2 * SIDE**2:,} patches and {WORDS} words; a Qwen2-VL shape of "
        f"{LAYERS} + {LAYERS} layers, width {WIDTH}, {'bf16' if GPU else 'float32'}, random weights. "
        "What a record holds is counted beside the keys of the cache, which it shares."
    )
    run(
        "Watching a model that reads or paints an image",
        how,
        {"Joint attention": denoised, "Forward": section},
        "watching matrix backends",
        options,
    )


if __name__ == "__main__":
    main()
