"""What it costs to run a model without some links, beside its plain forward: Llama shapes, random weights, no network.

python benchmarks/links.py            131,072 tokens on a GPU, 2,048 on a CPU
python benchmarks/links.py --report   and keep the table in benchmarks/reports/

Nothing is recorded: the model runs with SDPA, and then without the links of each line. On a small model in float32,
each line is also compared with eager attention whose mask is edited by hand.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import torch
import transformers
from atlas import llama
from measure import GPU, arguments, attempt, keep_report, taken, where
from torch import Tensor

import regard
from regard import Link

SMALL, SMALL_SPAN = 512, 32  # tokens, where each line is compared with eager attention
WITHIN = 1e-4  # and their largest difference, of outputs that are of the size of 1


def cases(tokens: int, span: int, layers: int, heads: int) -> dict[str, list[Link]]:
    """What is cut, in words and as links."""
    later, earlier = 3 * tokens // 4, tokens // 4
    source, target = range(later, later + span), range(earlier, earlier + span)
    some = {"layers": range(1, layers - 1), "heads": range(max(heads // 8, 1))}
    said = f"layers 1 to {layers - 2}, {len(some['heads'])} of {heads} heads"
    far = tokens // 32
    return {
        "a token from another": [Link(later, earlier)],
        f"{span} tokens from {span} others": [Link(source, target)],
        f"the same, {said}": [Link(source, target, **some)],
        f"{span} tokens from all after them": [Link(slice(target.stop, None), target)],
        f"the same, {said} ": [Link(slice(target.stop, None), target, **some)],
        "each token from the one before it": [Link(back=1)],
        f"what is {far:,} or more tokens back, {said}": [Link(back=slice(far, None), **some)],
        f"{span} tokens from 4 passages": [
            Link(source, range(start, start + span)) for start in range(0, tokens // 2, tokens // 8)
        ],
    }


# Eager attention, with a mask that is edited by hand


def places(link: Link, tokens: int, device: torch.device) -> Tensor:
    """Which weights a link is about: queries × keys."""
    row, column = torch.arange(tokens, device=device)[:, None], torch.arange(tokens, device=device)
    here = torch.ones(tokens, tokens, dtype=torch.bool, device=device)
    for place, position in ((link.start, row), (link.end, column)):
        if place is not None:
            run = range(place, place + 1) if isinstance(place, int) else place
            here &= (position >= run.start) & (position < run.stop)
    if link.back is not None:
        nearest, farthest = link.back
        here &= (row - column >= nearest) & (row - column <= farthest)
    return here


@contextlib.contextmanager
def edited(model: Any, links: Sequence[Link], tokens: int) -> Iterator[None]:
    """Inside, the model computes eager attention without these links."""
    heads, before, undo = model.config.num_attention_heads, model.config._attn_implementation, []

    def masked(mask: Tensor, _: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        return args, kwargs | {"attention_mask": mask}

    for number, layer in enumerate(model.layers):
        hidden = torch.ones(tokens, tokens, dtype=torch.bool, device=model.device).triu(1).repeat(heads, 1, 1)
        for link in links:
            if link.layers is None or number in link.layers:
                chosen = list(range(heads) if link.heads is None else link.heads)
                hidden[chosen] |= places(link, tokens, model.device)
        mask = torch.zeros(1, heads, tokens, tokens, device=model.device).masked_fill_(hidden, -math.inf)
        undo.append(layer.self_attn.register_forward_pre_hook(partial(masked, mask), with_kwargs=True))
    model.set_attn_implementation("eager")
    try:
        yield
    finally:
        model.set_attn_implementation(before)
        for hook in undo:
            hook.remove()


def errors(layers: int) -> dict[str, tuple[float, float]]:
    """For each line, how far it is from eager attention, and how far that is from the model with all links."""
    model = llama(512, layers).float()
    for parameter in model.parameters():
        parameter.data.mul_(4 if parameter.dim() > 1 else 1)  # so that heads have preferences
    ids = torch.randint(0, 32_000, (1, SMALL), device=model.device)
    found = {}
    for name, links in cases(SMALL, SMALL_SPAN, layers, model.config.num_attention_heads).items():
        plain = without(model, ids, ())
        with edited(model, links, SMALL):
            expected = without(model, ids, ())
        found[name] = tuple(float((other - expected).abs().max()) for other in (without(model, ids, links), plain))
    return found


def without(model: Any, ids: Tensor, links: Sequence[Link], keep: Any = ()) -> Tensor:
    """The last hidden states of the model without these links; with all of them it is not watched."""
    with torch.no_grad():
        if not links and keep == ():
            return model(ids, use_cache=False).last_hidden_state
        with regard.watch(model, keep=keep, without=links):
            return model(ids, use_cache=False).last_hidden_state


# The table


def rows(model: Any, options: Any) -> list[str]:
    """One line for each case."""
    tokens = options.tokens
    ids = torch.randint(0, 32_000, (1, tokens), device=model.device)
    known = attempt("the comparison with eager attention", lambda: errors(options.layers))
    own = cases(tokens, options.span, options.layers, model.config.num_attention_heads)
    small = list(known.values()) if isinstance(known, dict) else [None] * len(own)
    lines, base = [], (math.nan, math.nan)
    for name, links, error in [("plain (SDPA)", [], None), *zip(own, own.values(), small, strict=True)]:
        found = attempt(name, lambda links=links: taken(lambda _: without(model, ids, links), options.rounds))
        if isinstance(found, str):
            lines.append(f"| {name.strip()} | {found} | | | | |")
        else:
            base = found if not links else base
            (least, peak), (first, lowest) = found, base
            memory = f"{peak:,.2f} GiB | {peak / lowest:.2f} ×" if GPU else " | "
            equal = "" if error is None else f"{error[0]:.0e} ({error[1]:.2g})"
            if error is not None and not error[0] < WITHIN:
                equal += " **not equal**"
            lines.append(f"| {name.strip()} | {least:,.0f} ms | {least / first:.2f} × | {memory} | {equal} |")
        print(lines[-1], flush=True)
    return lines


def main() -> None:
    """Print the table, and keep it if asked."""
    parser = arguments(__doc__)
    parser.add_argument("--tokens", type=int, default=131_072 if GPU else 2048)
    parser.add_argument("--span", type=int, default=256 if GPU else 64)
    parser.add_argument("--width", type=int, default=4096 if GPU else 512)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    transformers.logging.set_verbosity_error()
    torch.manual_seed(0)
    model = llama(options.width, options.layers)
    lines = ["| cut | least | to plain | peak above the model | to plain | from eager (from the plain model) |"]
    lines.append("| --- " * 6 + "|")
    lines += rows(model, options)
    heads, key_heads = model.config.num_attention_heads, model.config.num_key_value_heads
    shape = f"{options.tokens:,} tokens, {options.layers} layers, width {options.width}, {heads}/{key_heads} heads"
    dtype = str(model.dtype).removeprefix("torch.")
    clock = "" if GPU else "Times are those of the processor. "
    compared = (
        f"The last column: the largest difference from eager attention with an edited mask, at {SMALL} tokens in "
        "float32, in brackets that of the model with all links. "
    )
    about = f"{where()}, transformers {transformers.__version__}. {shape}, {dtype}, random weights. {clock}{compared}"
    text = "\n".join(["# A model without some links", "", f"{about}{options.note}".strip(), "", *lines, ""])
    print(f"\n{text}")
    if options.report:
        keep_report(f"links-{'gpu' if GPU else 'cpu'}", text)


if __name__ == "__main__":
    main()
