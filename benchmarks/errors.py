"""How far results on a CUDA device are from float64, as multiples of plain PyTorch's errors in the same dtype.

Where those are below the dtype's own rounding (one key takes everything: plain PyTorch is then exact), of that.

python benchmarks/errors.py            print the table (on a GPU)
python benchmarks/errors.py --report   and keep it in benchmarks/reports/

Most of the time goes into compiling kernels, so the cases are shared among as many processes as there are cores.
"""

from __future__ import annotations

import itertools
import math
import multiprocessing
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import torch
from measure import GPU, arguments, run, table
from torch import Tensor

import regard

DTYPES, WIDTHS = ("bfloat16", "float16", "float32"), (48, 128)
KINDS = (
    "no mask", "causal", "causal, logits of order 1e4", "one key takes everything",
    "one key takes everything, logits of order 1e4", "window", "padding", "padding with NaN in it",
    "window, bias, softcap, sinks",
)  # fmt: skip
RESULTS = ("output", "received", "entropy", "top 1", "top 5", "gradients")
QUERIES, KEYS, HEADS, SHORTER = 1000, 1029, 4, 70


def worst() -> list[str]:
    """Each dtype and case a line, with the greatest error of all widths."""
    cases = list(itertools.product(DTYPES, KINDS, WIDTHS))
    with ProcessPoolExecutor(min(len(cases), os.cpu_count() or 1), multiprocessing.get_context("spawn")) as pool:
        found = dict(zip(cases, pool.map(errors, cases), strict=True))
    rows = []
    for dtype, kind in itertools.product(DTYPES, KINDS):
        cells = map(max, zip(*(found[dtype, kind, width] for width in WIDTHS), strict=True))
        rows.append([f"{dtype}, {kind}", *(f"{cell:.2f}" for cell in cells)])
    beyond = [case for case, cells in found.items() if case[0] != "float32" and max(cells) > 2]
    about = (
        f"In half precision {len(beyond)} of {sum(case[0] != 'float32' for case in cases)} cases have an error above 2."
    )
    return [about, "", *table(["dtype, case", *RESULTS], rows)]


def errors(case: tuple[str, str, int]) -> list[float]:
    """Our greatest errors over plain PyTorch's, in the order of RESULTS."""
    torch.manual_seed(0)
    name, kind, width = case
    dtype = getattr(torch, name)
    tensors = [
        torch.randn(2, heads, tokens, width, device="cuda").to(dtype)
        for heads, tokens in ((HEADS, QUERIES), (2, KEYS), (2, KEYS))
    ]
    size = 50.0 if kind == "causal, logits of order 1e4" else 1.0
    tensors[0], tensors[1] = tensors[0] * size, tensors[1] * size
    if "one key" in kind:  # all queries point the same way, and so does the fourth key
        tensors[0][..., 0] = tensors[1][..., 3, 0] = ((1e4 if "1e4" in kind else 1e2) * width**0.5) ** 0.5
    options, visible, bias = asked(kind, dtype)
    leaves = [t.clone() for t in tensors]
    if "NaN" in kind:  # for us alone: plain PyTorch would make everything NaN
        leaves[1][1, :, SHORTER:] = leaves[2][1, :, SHORTER:] = math.nan
    for leaf in leaves:
        leaf.requires_grad_()
    A = regard.AttentionMatrix(*leaves[:2], **options)
    output = A @ leaves[2]
    pull = torch.randn_like(output)
    output.backward(pull)
    ours = [output, A.received(), A.entropy(), A.top(1).weights, A.top(5).weights]
    capped = options.get("softcap")
    (true, *slopes), (plain, *theirs) = (
        _plain(tensors, pull, visible, bias, capped, options.get("sinks"), other) for other in (torch.float64, dtype)
    )
    rounding = max(torch.finfo(dtype).eps / 2, 2**-22)  # float32: what adding up a few numbers costs
    cells = [ratio(*three, 1.0, rounding) for three in zip(ours, plain, true, strict=True)]
    largest = max(float(slope.abs().max()) for slope in slopes)
    grads = [leaf.grad for leaf in leaves]
    return [*cells, max(ratio(*three, largest, rounding) for three in zip(grads, theirs, slopes, strict=True))]


def asked(kind: str, dtype: torch.dtype) -> tuple[dict[str, Any], Tensor | None, Tensor | None]:
    """What the matrix is given, what that lets queries see, and what it adds to scores."""
    ones = torch.ones(QUERIES, KEYS, device="cuda")
    if kind.startswith("causal") or "one key" in kind:
        return {"mask": regard.causal(29)}, ones.tril(29).bool(), None
    if kind.startswith("padding"):
        lengths = torch.tensor([KEYS, SHORTER], device="cuda")
        return {"mask": regard.padding(lengths)}, torch.arange(KEYS, device="cuda") < lengths[:, None, None, None], None
    if kind.startswith("window"):
        mask, visible = regard.window(100, 0, offset=29), ones.tril(29).triu(-71).bool()
        if "bias" not in kind:
            return {"mask": mask}, visible, None
        bias = torch.randn(HEADS, QUERIES, KEYS, device="cuda").to(dtype)
        sinks = torch.randn(HEADS, device="cuda").to(dtype)
        return {"mask": mask & regard.bias(bias), "softcap": 5.0, "sinks": sinks}, visible, bias
    return {}, None, None


def _plain(
    tensors: list[Tensor], pull: Tensor, visible: Tensor | None, bias: Tensor | None, softcap: float | None,
    sinks: Tensor | None, dtype: torch.dtype,
) -> tuple[Any, ...]:  # fmt: skip
    """The computation with stored weights in one dtype: its results, and its gradients for query, key and value."""
    leaves = [t.detach().to(dtype).requires_grad_() for t in tensors]
    query, key, value = leaves
    group = query.shape[1] // key.shape[1]
    scores = query * query.shape[-1] ** -0.5 @ key.repeat_interleave(group, 1).mT  # so that float16 has room for them
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    if bias is not None:
        scores = scores + bias.to(dtype)
    if visible is not None:
        scores = scores.masked_fill(~visible, -math.inf)
    if sinks is not None:  # a column beside the keys, dropped after the softmax
        column = sinks.to(dtype)[:, None, None].expand(*scores.shape[:-1], 1)
        scores = torch.cat([scores, column], -1)
    weights = torch.softmax(scores, -1).nan_to_num(0.0)[..., :KEYS]
    output = weights @ value.repeat_interleave(group, 1)
    output.backward(pull.to(dtype))
    entropy = torch.special.entr(weights if dtype == torch.float64 else weights.float()).sum(-1)
    results = [output, weights.sum(-2), entropy, weights.topk(1).values, weights.topk(5).values]
    return [result.detach() for result in results], *(leaf.grad for leaf in leaves)


def ratio(ours: Tensor, plain: Tensor, true: Tensor, unit: float, rounding: float) -> float:
    """Our greatest error over theirs, or over the dtype's own rounding where theirs is below it.

    Where nothing but 0 is right, rounding is that of the `unit`.
    """
    size = float(true.abs().max())
    error, theirs = (float((found.detach().double() - true.double()).abs().max()) for found in (ours, plain))
    if not math.isfinite(theirs):
        raise ValueError(f"Plain PyTorch's error is {theirs}: there is nothing to compare with.")
    return math.inf if math.isnan(error) else error / max(theirs, rounding * (size if size > 1e-20 else unit))


def main() -> None:
    options = arguments(__doc__).parse_args()
    if not GPU:
        sys.exit("This needs a CUDA device; there is none here.")
    how = (
        "The greatest errors, both against float64, as multiples of plain PyTorch's in the same dtype, or of its "
        f"rounding where they are below it; the greater of widths {' and '.join(map(str, WIDTHS))}."
    )
    run("Errors on a GPU", how, {"Errors": worst}, "matrix scores backends", options)


if __name__ == "__main__":
    main()
