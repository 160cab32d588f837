"""What watching a model that reads a large image costs beside SDPA: a Qwen2-VL shape, random weights.

python benchmarks/images.py            16,384 image tokens: on a GPU of 65,536 patches, on a CPU of as many patches
python benchmarks/images.py --report   and keep the table in benchmarks/reports/

On a CPU every peak is that of a process of its own, which has run the model on a small image before.
"""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import torch
import transformers
from measure import GPU, arguments, attempt, build, keep_report, peak_extra, taken, where

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


def run(model: Any, inputs: dict[str, Any], keep: Any) -> Any:
    """The output of the model, and its record if it is watched."""
    with torch.no_grad():
        if keep is None:
            return model(**inputs), None
        with regard.watch(model, keep=keep) as record:
            return model(**inputs), record


KEPT: dict[str, Any] = {"plain (SDPA)": None} | {
    f"watched, `keep={keep!r}`": keep for keep in ("matrix", WORDS, "received")
}


def main() -> None:
    """Print the table, and keep it if asked."""
    parser = arguments(__doc__)
    parser.add_argument("--side", type=int, default=128, help="image tokens on a side")
    parser.add_argument("--merge", type=int, default=2 if GPU else 1, help="patches on a side of an image token")
    parser.add_argument("--width", type=int, default=3584 if GPU else 512)
    parser.add_argument("--layers", type=int, default=8 if GPU else 2)
    parser.add_argument("--rounds", type=int, default=2 if GPU else 3)
    parser.add_argument("--peak-of", choices=KEPT, help="print the peak of this one in GiB, and nothing else")
    options = parser.parse_args()
    transformers.logging.set_verbosity_error()
    torch.manual_seed(0)
    model = qwen(options.width, options.layers, options.merge)
    inputs, count = inputs_of(model, options.side, options.merge), options.side**2
    if options.peak_of:
        keep = KEPT[options.peak_of]
        run(model, inputs_of(model, 8, options.merge), keep)
        print(peak_extra(lambda: run(model, inputs, keep)) * 1e6 / 2**30)
        return

    def measured(name: str) -> tuple[float, float, float]:
        least, peak = taken(lambda _: run(model, inputs, KEPT[name]), options.rounds)
        output, record = run(model, inputs, KEPT[name])
        own = 0.0 if record is None else held(record, output.past_key_values)
        return least, peak if GPU else _peak_of_its_own(name), own

    lines = ["| | least | to plain | peak above the model | to plain | held by the record |", "| --- " * 6 + "|"]
    base = (float("nan"), float("nan"))
    for name, keep in KEPT.items():
        found = attempt(name, lambda name=name: measured(name))
        if isinstance(found, str):
            lines.append(f"| {name} | {found} | | | | |")
        else:
            ms, peak, own = found
            base = (ms, peak) if keep is None else base
            memory = f"{peak:,.2f} GiB | {peak / base[1]:.2f} × | {own:,.1f} MiB"
            lines.append(f"| {name} | {ms:,.0f} ms | {ms / base[0]:.2f} × | {memory} |")
        print(lines[-1], flush=True)

    def drawn(record: regard.Record) -> Any:
        return record.over(count + 2 + WORDS, kind="decoder")

    name = "`record.over(word)` afterwards"
    found = attempt(name, lambda: taken(drawn, options.rounds, lambda: run(model, inputs, WORDS)[1]))
    times = found if isinstance(found, str) else f"{found[0]:,.0f} ms | {found[0] / base[0]:.2f} ×"
    lines.append(f"| {name} | {times} |" + " |" * (4 if isinstance(found, str) else 3))
    shape = f"{options.layers} + {options.layers} layers, width {options.width}"
    about = f"{where()}, transformers {transformers.__version__}. {count:,} image tokens of "
    about += f"{options.merge**2 * count:,} patches; {shape}, {str(model.dtype).removeprefix('torch.')}, random weights"
    clock = "" if GPU else "Times are those of the processor, each peak is that of a process of its own. "
    about = f"{about}. {clock}{options.note}".strip()
    text = "\n".join(["# Watching a model that reads an image", "", about, "", *lines, ""])
    print(f"\n{text}")
    if options.report:
        keep_report(f"images-{'gpu' if GPU else 'cpu'}", text)


def _peak_of_its_own(name: str) -> float:
    """The peak of a run in a process of its own: this one holds on to memory that earlier runs have left."""
    command = [sys.executable, *sys.argv, "--peak-of", name]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[-1])


if __name__ == "__main__":
    main()
