"""What an atlas of all heads costs beside the forward, in time and memory: a Llama shape with random weights.

python benchmarks/atlas.py            131,072 tokens on a GPU, 2,048 on a CPU, with 512 tokens that count as written
python benchmarks/atlas.py --report   and keep the table in benchmarks/reports/
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from measure import GPU, arguments, llama, run, ways

import regard

TOKENS = (8_192, 131_072) if GPU else (512, 2_048)
WIDTH, LAYERS = (4096 if GPU else 512), 4


def watched(model: Any, ids: torch.Tensor, keep: Any) -> regard.Record:
    with torch.no_grad(), regard.watch(model, keep=keep) as record:
        model(ids, use_cache=False)
    return record


def section(tokens: int) -> list[str]:
    model = llama(WIDTH, LAYERS)
    ids = torch.randint(0, 32_000, (1, tokens), device=model.device)
    written = min(512, tokens // 4)
    context = tokens - written

    def plain() -> Any:
        with torch.no_grad():
            return model(ids, use_cache=False)

    def atlas(record: regard.Record) -> Any:
        return record.atlas(context=context, needle=range(context // 2, context // 2 + 64))

    read = partial(watched, model, ids)
    calls: dict[str, Callable[[], Any]] = {
        "forward (SDPA)": plain,
        "watched": lambda: read("matrix"),
        "watched, and the whole atlas": lambda: atlas(read("matrix")),
        f"watched, `keep={written + 1}`": lambda: read(written + 1),
        f"watched, `keep={written + 1}`; retrieval and lookback": lambda: atlas(read(written + 1)),
    }
    heads = model.config.num_attention_heads
    weights = LAYERS * heads * tokens**2 * model.dtype.itemsize / 2**30
    return [f"The weights of all heads would take {weights:,.1f} GiB.", "", *ways("", calls, 2 if GPU else 3)]


def main() -> None:
    options = arguments(__doc__).parse_args()
    torch.manual_seed(0)
    how = f"{LAYERS} layers, width {WIDTH}, random weights; 512 of the tokens, or a quarter, count as written."
    sections = {f"{tokens:,} tokens": partial(section, tokens) for tokens in TOKENS}
    run("An atlas of heads", how, sections, "watching matrix backends", options)


if __name__ == "__main__":
    main()
