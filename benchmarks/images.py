"""What watching a model that reads a large image costs beside SDPA: a Qwen2-VL shape, random weights.

python benchmarks/images.py            16,384 image tokens of 65,536 patches on a GPU; 1,024 on a CPU
python benchmarks/images.py --report   and keep the table in benchmarks/reports/
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import transformers
from measure import GPU, arguments, build, run, table, ways

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


def main() -> None:
    options = arguments(__doc__).parse_args()
    transformers.logging.set_verbosity_error()
    torch.manual_seed(0)
    how = (
        f"{SIDE**2:,} image tokens of {MERGE**2 * SIDE**2:,} patches and {WORDS} words; a Qwen2-VL shape of "
        f"{LAYERS} + {LAYERS} layers, width {WIDTH}, {'bf16' if GPU else 'float32'}, random weights. "
        "What a record holds is counted beside the keys of the cache, which it shares."
    )
    run("Watching a model that reads an image", how, {"Forward": section}, "watching matrix backends", options)


if __name__ == "__main__":
    main()
