"""Random attention problems, and a float64 reference in plain torch that shares nothing with regard's own.

looks.py compares the two; backends/test_fuzz.py and gpu/fuzz.py, which runs without pytest and hypothesis, use both.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

import regard

HALVES = (torch.bfloat16, torch.float16)
UNIT = {torch.float64: 2.0**-53, torch.float32: 2.0**-24, torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11}
LAYOUTS = ("plain", "plain", "tokens first", "width first", "every other", "slice", "packed", "size-1 strides")
PARTS = ("causal", "causal_each", "window", "lengths", "kept", "documents", "bools", "bias", "cut")  # of a mask


@dataclass
class Problem:
    """What regard is given, and the same in float64 with every mask spelt out."""

    seed: int | str
    backend: str | None
    small: bool
    query: Tensor
    key: Tensor
    value: Tensor
    clean: tuple[Tensor, Tensor, Tensor]  # the same without NaN and inf where nobody may see them
    mask: regard.Mask | Tensor | None
    visible: Tensor
    added: list[Tensor]
    scale: float | None
    softcap: float | None
    sinks: Tensor | float | None
    notes: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        shapes = ", ".join(str(tuple(t.shape)) for t in (self.query, self.key, self.value))
        mask, sinks = (f"{t.dtype} {tuple(t.shape)}" if isinstance(t, Tensor) else t for t in (self.mask, self.sinks))
        return (
            f"{self.backend}, small={self.small}, {shapes}, {self.query.dtype}, mask={mask}, scale={self.scale}, "
            f"softcap={self.softcap}, sinks={sinks}, {self.notes}"
        )


class Maker:
    """One random problem for each seed.

    `kind`: what kernels are compiled for (dtype, widths, parts of the mask, results) is drawn from a seed of its own,
    so that problems of one kind share their kernels.
    """

    def __init__(self, seed: int | str, kind: int | str | None = None, device: str = "cpu"):
        self.seed, self.device, self.random = seed, device, random.Random(seed)
        self.kind = self.random if kind is None else random.Random(kind)
        self.generator = torch.Generator().manual_seed(random.Random(seed).getrandbits(62))
        self.notes: list[str] = []  # what else there is to know about the problem

    def normal(self, *shape: int) -> Tensor:
        return torch.randn(shape, generator=self.generator, dtype=torch.float64)

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def whole(self, low: int, high: int, shape: tuple[int, ...]) -> Tensor:
        return torch.randint(low, high + 1, shape, generator=self.generator)

    def backend(self) -> tuple[str | None, torch.dtype]:
        """(the backend, None for the usual choice; the dtype)."""
        pick = self.kind.choice
        backend = "triton" if self.kind.random() < 0.02 else pick([None, None, "tiles", "torch_cpu"])
        every = [torch.float64, torch.float32, torch.bfloat16, torch.float16]
        return backend, pick([torch.float32, torch.float16] if backend == "triton" else every)

    def lengths_of_both(self, backend: str | None) -> tuple[int, int]:
        most = 24 if backend == "triton" or self.chance(0.7) else 40 if self.chance(0.8) else 300
        if most == 300:
            self.batch = ()
        least = 0 if self.chance(0.05) else 1
        return self.random.randint(least, most), self.random.randint(least, most)

    def widths(self) -> tuple[int, int]:
        return self.kind.choice([1, 2, 3, 8, 16, 24, 64]), self.kind.choice([1, 4, 8, 16, 17, 64])

    def problem(self) -> Problem:
        pick = self.random.choice
        backend, dtype = self.backend()
        self.plain = self.kind.random() < 0.1
        self.batch = () if self.plain else pick([(), (1,), (2,), (3,), (2, 2)])
        key_heads, group = (1, 1) if self.plain else self.kind.choice([(1, 1), (2, 1), (2, 2), (1, 3)])
        self.heads = key_heads * group
        self.queries, self.keys = self.lengths_of_both(backend)
        (width, value_width), spread = self.widths(), pick([0.1, 1.0, 1.0, 2.0, 12.0])
        mask, visible, added = self.mask()
        shapes = [(self.heads, self.queries, width), (key_heads, self.keys, width), (key_heads, self.keys, value_width)]
        clean = [(self.normal(*self.batch, *s) * by).to(dtype) for s, by in zip(shapes, (spread, 1, 1), strict=True)]
        if self.batch and self.chance(0.1):
            clean = [t[:1].expand_as(t) for t in clean]
            given = [t.to(self.device)[:1].expand_as(t) for t in clean]
            self.notes.append("shared over the batch")
        else:
            given = [self.laid_out(t) for t in self.poisoned(clean, visible)]
        if self.plain:
            given, clean = [t[0] for t in given], [t[0] for t in clean]
        scale = pick([None, None, None, 0.3, 1.0, -0.5, 0.0, 1e-3])
        softcap = pick([1.5, 20.0, 120.0, 1e4]) if self.kind.random() < 0.4 else None
        sinks = self.sinks()
        return Problem(
            self.seed, backend, self.chance(0.5), *given, tuple(clean), mask, visible, added, scale, softcap, sinks,
            self.notes,
        )  # fmt: skip

    def poisoned(self, clean: Sequence[Tensor], visible: Tensor) -> Sequence[Tensor]:
        """NaN or inf where nobody may see it."""
        if not self.chance(0.3) or 0 in visible.shape:
            return clean
        bad = self.random.choice([torch.nan, torch.inf, -torch.inf])
        unseen, blind = ~visible.any(-2), ~visible.any(-1)
        unseen = unseen.unflatten(-2, (clean[1].shape[-3], -1)).all(-2)
        self.notes.append(f"{bad} in {int(unseen.sum())} keys and {int(blind.sum())} queries")
        return [t.masked_fill(hidden[..., None], bad) for t, hidden in zip(clean, (blind, unseen, unseen), strict=True)]

    def laid_out(self, tensor: Tensor, layouts: Sequence[str] = LAYOUTS) -> Tensor:
        """The same numbers on the device, with other strides, and between other numbers."""
        tensor, kind, n = tensor.to(self.device), self.random.choice(layouts), tensor.dim()
        other = True if tensor.dtype == torch.bool else torch.nan if tensor.is_floating_point() else 7
        if kind == "size-1 strides":
            wrong = self.random.choice([0, 1, 3, 10**6 + 1])
            strides = [wrong if size == 1 else s for size, s in zip(tensor.shape, tensor.stride(), strict=True)]
            return tensor.as_strided(tensor.shape, strides)
        if kind == "packed" and n:
            wide = tensor.new_full((*tensor.shape[:-1], 3 * tensor.shape[-1] + 1), other)
            wide[..., 1 : tensor.shape[-1] + 1] = tensor
            return wide[..., 1 : tensor.shape[-1] + 1]
        if kind == "plain" or n < 2:
            return tensor
        if kind == "width first":
            return tensor.mT.contiguous().mT
        if kind == "every other":
            return torch.stack([tensor, torch.full_like(tensor, other)], -2).flatten(-3, -2)[..., ::2, :]
        if kind == "tokens first" and n > 2:
            return tensor.transpose(-3, -2).contiguous().transpose(-3, -2)
        if kind == "slice":
            cache = tensor.new_full((*tensor.shape[:-2], tensor.shape[-2] + 5, tensor.shape[-1]), other)
            cache[..., 2:-3, :] = tensor
            return cache[..., 2:-3, :]
        return tensor

    def sinks(self) -> Tensor | float | None:
        if self.kind.random() >= 0.3:
            return None
        shape = () if self.plain else self.random.choice([(self.heads,), (*self.batch, self.heads), ()])
        if shape == () and self.chance(0.5):
            return self.random.uniform(-3, 3)
        sinks = self.normal(*shape).to(self.random.choice([torch.float32, torch.float64, torch.bfloat16]))
        return self.laid_out(sinks.masked_fill(sinks > 1, -torch.inf) if self.chance(0.3) else sinks)

    def mask(self) -> tuple[regard.Mask | Tensor | None, Tensor, list[Tensor]]:
        shape = (*self.batch, self.heads, self.queries, self.keys)
        visible, added, together = torch.ones(shape, dtype=torch.bool), [], None
        self.parts = self.mask_parts(self.kind.choice([0, 0, 1, 1, 1, 2, 2, 3, 4]))
        for part in self.parts:
            atom, seen, more = getattr(self, part)()
            visible = visible & seen
            added += [] if more is None else [more]
            together = atom if together is None else regard.Mask() & together & atom
        return together, visible, added

    def mask_parts(self, count: int) -> list[str]:
        return self.kind.choices([*PARTS, "bias"], k=count)

    # Each of these: the mask as a user writes it, what it shows, and the numbers it adds.

    def apart(self) -> Tensor:
        return torch.arange(self.keys) - torch.arange(self.queries)[:, None]

    def per_batch(self, tensor: Tensor) -> Tensor:
        """(*batch) as (*batch, 1, 1, 1)."""
        return tensor[..., None, None, None]

    def causal(self):
        offset = self.random.choice([0, 0, self.keys - self.queries, self.random.randint(-9, 9)])
        return regard.causal(offset), self.apart() <= offset, None

    def causal_each(self):
        offset = self.whole(-9, 9, self.batch)
        return regard.causal(self.laid_out(offset)), self.apart() <= self.per_batch(offset), None

    def window(self):
        left, right = (None if self.kind.random() < 0.1 else self.random.randint(-2, 8) for _ in range(2))
        offset = self.random.choice([0, 0, self.random.randint(-5, 5)])
        apart = self.apart() - offset
        seen = torch.ones_like(apart, dtype=torch.bool)
        seen = seen if left is None else seen & (apart >= -left)
        return regard.window(left, right, offset), seen if right is None else seen & (apart <= right), None

    def lengths(self):
        lengths = self.whole(0, self.keys + 1, self.batch)
        return regard.padding(self.laid_out(lengths)), torch.arange(self.keys) < self.per_batch(lengths), None

    def kept(self):
        kept = self.whole(0, 4, (*self.batch, self.keys)) > 0
        return regard.padding(self.laid_out(kept)), kept[..., None, None, :], None

    def documents(self):
        own, other = self.whole(0, 2, (*self.batch, self.queries)), self.whole(0, 2, (*self.batch, self.keys))
        own = own.sort(-1).values if self.chance(0.5) else own
        mask = regard.documents(self.laid_out(own), self.laid_out(other))
        return mask, own[..., None, :, None] == other[..., None, None, :], None

    def dense_shape(self) -> tuple[int, ...]:
        shape = (self.queries, self.keys) if self.plain else (*self.batch, self.heads, self.queries, self.keys)
        shape = shape[-self.random.randint(1, len(shape)) :]
        return tuple(1 if self.chance(0.2) else n for n in shape)

    def bools(self):
        seen = self.whole(0, 3, self.dense_shape()) > 0
        return self.laid_out(seen), seen, None

    def bias(self):
        dtype = self.kind.choice([torch.float64, torch.float32, torch.bfloat16, torch.float16])
        numbers = (self.normal(*self.dense_shape()) * self.random.choice([0.1, 3.0, 30.0])).to(dtype)
        hidden = self.whole(0, self.random.choice([1, 9, 99]), tuple(numbers.shape)) == 0
        if self.chance(0.5):
            hidden = torch.zeros_like(hidden)
        low = self.random.choice([-torch.inf, torch.finfo(dtype).min])
        mask = self.laid_out(numbers.masked_fill(hidden, low))
        if self.chance(0.3):
            mask = mask.detach().requires_grad_()
        return regard.bias(mask), ~hidden, mask

    def cut(self):
        def some(length: int):
            """(tokens as a user writes them, the same as bools)."""
            place, (start, stop) = torch.arange(length), sorted(self.random.randint(0, length) for _ in range(2))
            kept = self.whole(0, 2, (*self.batch, length)) > 0
            kinds = [(None, place >= 0), (slice(start, stop), (place >= start) & (place < stop))]
            kinds += [(self.laid_out(kept), kept), (start, place == start) if start < length else (None, place >= 0)]
            return self.random.choice(kinds)

        (queries, rows), (keys, columns) = some(self.queries), some(self.keys)
        within, near, _ = self.random.choice([self.window, self.causal])() if self.chance(0.5) else (None, True, None)
        head, chosen = self.random.randrange(self.heads), self.whole(0, 1, (*self.batch, self.heads)) > 0
        options = [(None, torch.tensor(True)), ([head], torch.arange(self.heads) == head)]
        options += [(self.laid_out(chosen), chosen)]
        heads, concerned = options[0] if self.plain else self.random.choice(options)
        here = rows[..., None, :, None] & columns[..., None, None, :] & concerned[..., None, None] & near
        if self.kind.random() < 0.7:
            return regard.cut(queries, keys, within=within, heads=heads), ~here, None
        bias = self.random.choice([-2.0, 1.5])
        mask = regard.cut(queries, keys, within=within, heads=heads, bias=bias)
        return mask, torch.ones_like(here), torch.where(here, bias, 0.0).double()


class Reference:
    """The whole matrix in float64, differentiable; or in plain torch's own way in another dtype."""

    def __init__(self, problem: Problem, dtype: torch.dtype = torch.float64):
        p = problem
        self.leaves = [t.detach().to(dtype).clone().requires_grad_() for t in p.clean]
        self.added = [t.detach().cpu().to(dtype).clone().requires_grad_() for t in p.added]
        query, key, value = self.leaves
        if query.dim() > 2:
            key, value = (t.repeat_interleave(query.shape[-3] // t.shape[-3], -3) for t in (key, value))
        self.value = value
        scale = query.shape[-1] ** -0.5 if p.scale is None else p.scale
        scores = query @ key.mT * scale
        if p.softcap is not None:
            scores = p.softcap * torch.tanh(scores / p.softcap)
        self.visible = p.visible.reshape(scores.shape)
        largest = torch.where(self.visible, (query.abs() @ key.abs().mT).detach() * abs(scale), 0.0)
        for bias in self.added:
            shown = torch.where(bias.detach() <= -60000, 0.0, bias)
            shown = shown[0] if shown.dim() > scores.dim() else shown  # of a problem without heads
            scores = scores + shown
            largest = largest + torch.where(self.visible, shown.detach().abs(), 0.0)
        self.size = float(largest.max()) if largest.numel() else 0.0  # how large the terms of a visible score are
        scores = scores.masked_fill(~self.visible, -torch.inf)
        self.sinks = None
        columns = [scores]
        if p.sinks is not None:
            sinks = (
                p.sinks.detach().cpu() if isinstance(p.sinks, Tensor) else torch.tensor(p.sinks, dtype=torch.float64)
            )
            self.sinks = sinks.to(dtype).clone().requires_grad_()
            columns.append(self.sinks.expand(scores.shape[:-2])[..., None, None].expand(*scores.shape[:-1], 1))
        widened = torch.cat(columns, -1)
        nothing = (widened == -torch.inf).all(-1, keepdim=True)
        widened = widened.masked_fill(nothing, 0.0)
        self.logsumexp = torch.logsumexp(widened, -1).masked_fill(nothing[..., 0], -torch.inf)
        weights = torch.softmax(widened, -1).masked_fill(nothing, 0.0)
        self.weights = weights[..., : scores.shape[-1]]
        self.sink_share = weights[..., scores.shape[-1] :].sum(-1)
        safe = torch.where(self.weights > 0, self.weights, 1.0)
        self.entropy = -(self.weights * safe.log()).sum(-1)

    def pool(self, rows: int, columns: int, maximum: bool) -> Tensor:
        queries, keys = self.weights.shape[-2:]
        rows, columns = min(rows, queries), min(columns, keys)
        found = [
            [self.weights[..., r * queries // rows : (r + 1) * queries // rows, c * keys // columns : (c + 1) * keys // columns]
             for c in range(columns)]
            for r in range(rows)
        ]  # fmt: skip
        bins = [torch.stack([b.amax((-1, -2)) if maximum else b.mean((-1, -2)) for b in line], -1) for line in found]
        return torch.stack(bins, -2)
