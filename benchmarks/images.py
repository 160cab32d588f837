"""What watching a model that reads a large image costs beside SDPA: a Qwen2-VL shape, random weights.

python benchmarks/images.py            16,384 image tokens (65,536 patches) on a GPU, 1,024 on a CPU
python benchmarks/images.py --report   and keep the table in benchmarks/reports/
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import torch
import transformers
from atlas import taken
from measure import gpu, machine

import regard

GPU = torch.cuda.is_available()
WORDS = 64  # after the image
IMAGE = 5  # the id of an image token


def qwen(width: int, layers: int) -> Any:
    """A Qwen2-VL with random weights, as many layers in the tower as in the language model."""
    heads = max(width // 128, 4)
    config = transformers.Qwen2VLConfig(
        vision_config={"depth": layers, "embed_dim": max(width // 3 // 64, 2) * 64, "hidden_size": width,
                       "num_heads": max(width // 3 // 64, 2), "mlp_ratio": 4, "patch_size": 14},
        text_config={"hidden_size": width, "intermediate_size": 4 * width, "num_hidden_layers": layers,
                     "num_attention_heads": heads, "num_key_value_heads": max(heads // 7, 1), "vocab_size": 1000,
                     "rope_parameters": {"rope_type": "default", "rope_theta": 1e6, "mrope_section": [16, 24, 24]},
                     "head_dim": 128, "max_position_embeddings": 2**17},
        image_token_id=IMAGE, vision_start_token_id=6, vision_end_token_id=7, video_token_id=8,
    )  # fmt: skip
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16 if GPU else torch.float32)
    try:
        with torch.device("cuda" if GPU else "cpu"):
            return transformers.Qwen2VLForConditionalGeneration(config).eval()
    finally:
        torch.set_default_dtype(before)


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--report", action="store_true", help="write benchmarks/reports/DATE-images.md")
    parser.add_argument("--side", type=int, default=128 if GPU else 32, help="image tokens on a side")
    parser.add_argument("--width", type=int, default=3584 if GPU else 512)
    parser.add_argument("--layers", type=int, default=28 if GPU else 2)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    transformers.logging.set_verbosity_error()
    torch.manual_seed(0)
    model = qwen(options.width, options.layers)
    side, count = options.side, options.side**2
    pixels = torch.randn(4 * count, 3 * 2 * 14 * 14, device=model.device, dtype=model.dtype)
    ids = torch.tensor([[9, 6, *[IMAGE] * count, 7, *range(20, 20 + WORDS)]], device=model.device)
    grid = torch.tensor([[1, 2 * side, 2 * side]], device=model.device)
    inputs = {"input_ids": ids, "pixel_values": pixels, "image_grid_thw": grid, "logits_to_keep": 1}
    inputs["mm_token_type_ids"] = (ids == IMAGE).long()

    def plain(_: Any) -> Any:
        with torch.no_grad():
            return model(**inputs)

    def watched(keep: Any) -> Callable[[Any], Any]:
        def run(_: Any) -> Any:
            with torch.no_grad(), regard.watch(model, keep=keep) as record:
                return model(**inputs), record

        return run

    def drawn(record: regard.Record) -> Any:
        return record.over(count + 2 + WORDS, kind="decoder")

    def kept() -> regard.Record:
        with torch.no_grad(), regard.watch(model, keep=WORDS) as record:
            model(**inputs)
        return record

    calls = {"plain (SDPA)": (plain, lambda: None)}
    calls |= {f"watched, `keep={keep!r}`": (watched(keep), lambda: None) for keep in ("matrix", WORDS, "received")}
    calls["`record.over(word)` afterwards"] = (drawn, kept)
    own = {}
    for keep in ("matrix", WORDS, "received"):
        output, record = watched(keep)(None)
        own[f"watched, `keep={keep!r}`"] = held(record, output.past_key_values)
    times = {name: taken(call, options.rounds, before) for name, (call, before) in calls.items()}
    base = times["plain (SDPA)"]
    lines = ["| | least | to plain | peak above the model | to plain | held by the record |", "| --- " * 6 + "|"]
    for name, (least, peak) in times.items():
        memory = f"{peak:,.2f} GiB | {peak / base[1]:.2f} ×" if GPU else " | "  # a CPU's peak says little
        holds = f"{own[name]:,.1f} MiB" if name in own else ""
        lines.append(f"| {name} | {least:,.0f} ms | {least / base[0]:.2f} × | {memory} | {holds} |")
    shape = f"{options.layers} + {options.layers} layers, width {options.width}"
    about = f"{gpu() if GPU else machine()}. {count:,} image tokens of {4 * count:,} patches; {shape}, random weights."
    text = "\n".join(["# Watching a model that reads an image", "", about, "", *lines, ""])
    print(text)
    if options.report:
        path = Path(__file__).parent / "reports" / f"{date.today()}-images-{'gpu' if GPU else 'cpu'}.md"
        path.write_text(text + "\nMade by `python benchmarks/images.py --report`.\n")


if __name__ == "__main__":
    main()
