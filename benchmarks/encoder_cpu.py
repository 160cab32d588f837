"""A forward of the paper's base encoder on a CPU, as a ratio to nn.TransformerEncoder with its fast path.

python benchmarks/encoder_cpu.py            print the table
python benchmarks/encoder_cpu.py --report   and keep it in benchmarks/reports/
"""

from __future__ import annotations

import torch
from measure import arguments, finish, machine, rounds
from torch import nn

import regard

SHAPES = [(8, 128), (1, 128), (32, 32), (1, 1024)]


def row(batch: int, tokens: int) -> str:
    theirs = nn.TransformerEncoder(nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True), 6).eval()
    ours = regard.from_torch(theirs)
    x = torch.randn(batch, tokens, 512)
    lengths = torch.linspace(tokens // 2, tokens, batch).long()
    pad = torch.arange(tokens) >= lengths[:, None]
    mask = regard.padding(lengths)
    calls = {
        "theirs": lambda: theirs(x),
        "ours": lambda: ours(x),
        "theirs, padded": lambda: theirs(x, src_key_padding_mask=pad),
        "ours, padded": lambda: ours(x, mask),
    }
    with torch.inference_mode():
        torch.testing.assert_close(ours(x), theirs(x), atol=1e-4, rtol=1e-4)
        taken = rounds(calls, 15)
    cells = [f"{batch} × {tokens}"]
    for kind in ("", ", padded"):
        base, own = taken["theirs" + kind], taken["ours" + kind]
        cells += [f"{base.least * 1e3:.0f} ms", f"{own.least / base.least:.2f} × ({own.median / base.median:.2f})"]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Print the table, and keep it if asked."""
    parser = arguments(__doc__)
    options = parser.parse_args()
    torch.manual_seed(0)
    lines = [
        "| batch × tokens | `nn.TransformerEncoder` | ours | the same, padded | ours |",
        "| --- | --- | --- | --- | --- |",
        *(row(*shape) for shape in SHAPES),
    ]
    how = "float32, eval mode. The least of 15 rounds, calls taken in turn, with the ratio of the medians in brackets."
    text = f"# The base encoder on a CPU\n\n{machine()}. {how}\n\n" + "\n".join(lines) + "\n"
    finish(options, "encoder-cpu", text)


if __name__ == "__main__":
    main()
