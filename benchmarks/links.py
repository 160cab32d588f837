"""What it costs to run a model without some links, beside its plain forward: Llama shapes, random weights, no network.

python benchmarks/links.py            131,072 tokens on a GPU, 2,048 on a CPU
python benchmarks/links.py --report   and keep the table in benchmarks/reports/

Nothing is recorded: the model runs with SDPA, and then without the links of each line. On a small model in float32,
each line is also compared with eager attention whose mask is edited by hand.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import torch
from measure import GPU, arguments, eager, llama, run, table, ways
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
    heads, undo = model.config.num_attention_heads, []

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
    try:
        with eager(model):
            yield
    finally:
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


# The tables

TOKENS, SPAN, WIDTH, LAYERS = (131_072, 256, 4096, 4) if GPU else (2_048, 64, 512, 4)


def costs() -> list[str]:
    """The time and memory of each cut."""
    model = llama(WIDTH, LAYERS)
    ids = torch.randint(0, 32_000, (1, TOKENS), device=model.device)
    own = cases(TOKENS, SPAN, LAYERS, model.config.num_attention_heads)
    calls: dict[str, Callable[[], Any]] = {"plain (SDPA)": lambda: without(model, ids, ())}
    calls |= {name.strip(): partial(without, model, ids, links) for name, links in own.items()}
    return ways("cut", calls, 2)


def equal() -> list[str]:
    """How far each line is from eager attention, and from the model with all links."""
    rows = []
    for name, (wrong, size) in errors(LAYERS).items():
        rows.append([name.strip(), f"{wrong:.0e}{'' if wrong < WITHIN else ' **not equal**'}", f"{size:.2g}"])
    return table([f"cut ({SMALL} tokens, width 512, float32)", "from eager", "from the plain model"], rows)


def main() -> None:
    options = arguments(__doc__).parse_args()
    torch.manual_seed(0)
    how = f"{TOKENS:,} tokens, {LAYERS} layers, width {WIDTH}, {'bf16' if GPU else 'float32'}, random weights."
    sections = {"Time and memory": costs, "Equal to eager attention with an edited mask": equal}
    run("A model without some links", how, sections, "watching backends scores", options)


if __name__ == "__main__":
    main()
