"""What an atlas of all heads costs beside the forward, in time and memory: Llama shapes, random weights, no network.

python benchmarks/atlas.py            131,072 tokens on a GPU, 2,048 on a CPU, with 512 tokens that count as written
python benchmarks/atlas.py --report   and keep the table in benchmarks/reports/
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
import transformers
from measure import GPU, arguments, attempt, build, keep_report, taken, where

import regard


def llama(width: int, layers: int) -> Any:
    """A Llama with random weights, of heads as wide as 128, four of them for each head of keys."""
    heads = max(width // 128, 4)
    config = transformers.LlamaConfig(
        hidden_size=width, intermediate_size=int(3.5 * width), num_hidden_layers=layers, num_attention_heads=heads,
        num_key_value_heads=max(heads // 4, 1), vocab_size=32_000, max_position_embeddings=2**18, rope_theta=500_000.0,
    )  # fmt: skip
    return build(lambda: transformers.LlamaModel(config).eval())


def watched(model: Any, ids: torch.Tensor, keep: Any) -> regard.Record:
    with torch.no_grad(), regard.watch(model, keep=keep) as record:
        model(ids, use_cache=False)
    return record


def rows(model: Any, tokens: int, rounds: int) -> list[str]:
    """The lines of one length."""
    ids = torch.randint(0, 32_000, (1, tokens), device=model.device)
    written = min(512, tokens // 4)
    context = tokens - written

    def plain(_: Any) -> Any:
        with torch.no_grad():
            return model(ids, use_cache=False)

    def atlas(record: regard.Record) -> Any:
        return record.atlas(context=context, needle=range(context // 2, context // 2 + 64))

    everything, last = (partial(watched, model, ids, keep) for keep in ("matrix", written + 1))
    calls = {
        "forward": lambda: taken(plain, rounds),
        "watched, and the whole atlas": lambda: taken(lambda _: atlas(everything()), rounds),
        "of that, the atlas": lambda: taken(atlas, rounds, everything),
        f"watched, `keep={written + 1}`; retrieval and lookback": lambda: taken(lambda _: atlas(last()), rounds),
        "of that, retrieval and lookback": lambda: taken(atlas, rounds, last),
    }
    heads, layers = model.config.num_attention_heads, model.config.num_hidden_layers
    dense = f"{layers * heads * tokens**2 * model.dtype.itemsize / 2**30:,.1f} GiB"
    lines, base = [], float("nan")
    for name, call in calls.items():
        found = attempt(f"{tokens:,} tokens, {name}", call)
        if isinstance(found, str):
            lines.append(f"| {tokens:,} | {name} | {found} | | | |")
        else:
            least, peak = found
            base = least if name == "forward" else base
            memory = f"{peak:,.2f} GiB" if GPU else ""  # a process keeps what earlier rounds have left
            lines.append(f"| {tokens:,} | {name} | {least:,.0f} ms | {least / base:.2f} × | {memory} | {dense} |")
        print(lines[-1], flush=True)
    return lines


def main() -> None:
    """Print the table, and keep it if asked."""
    parser = arguments(__doc__)
    parser.add_argument("--tokens", type=int, nargs="+", default=[8192, 131_072] if GPU else [512, 2048])
    parser.add_argument("--width", type=int, default=4096 if GPU else 512)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=2 if GPU else 3)
    options = parser.parse_args()
    transformers.logging.set_verbosity_error()
    torch.manual_seed(0)
    model = llama(options.width, options.layers)
    lines = ["| tokens | | least | to the forward | peak above what was there | tokens² weights of all heads |"]
    lines.append("| --- " * 6 + "|")
    for tokens in options.tokens:
        lines += rows(model, tokens, options.rounds)
    heads, key_heads = model.config.num_attention_heads, model.config.num_key_value_heads
    shape = f"{options.layers} layers, width {options.width}, {heads}/{key_heads} heads"
    dtype = str(model.dtype).removeprefix("torch.")
    clock = "" if GPU else "Times are those of the processor. "
    about = f"{where()}, transformers {transformers.__version__}. {shape}, {dtype}, random weights. {clock}"
    text = "\n".join(["# An atlas of heads", "", f"{about}{options.note}".strip(), "", *lines, ""])
    print(f"\n{text}")
    if options.report:
        keep_report(f"atlas-{'gpu' if GPU else 'cpu'}", text)


if __name__ == "__main__":
    main()
