"""Random problems against a float64 reference that is written here, in plain torch, and shares nothing with regard's own.

It runs for REGARD_FUZZ_SECONDS seconds (60 unless set) with a fresh seed, which it prints. A failure names the seed of its
case: REGARD_FUZZ_SEED=… runs that one case again.
"""

from __future__ import annotations

import contextlib
import os
import random
import time
from dataclasses import dataclass, field

import pytest
import torch
from cases import using
from torch import Tensor

import regard

HALVES = (torch.bfloat16, torch.float16)
UNIT = {torch.float64: 2.0**-53, torch.float32: 2.0**-24, torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11}


@dataclass
class Problem:
    """What regard is given, and the same in float64 with every mask spelt out."""

    seed: int
    backend: str | None
    small: bool
    query: Tensor
    key: Tensor
    value: Tensor
    mask: regard.Mask | Tensor | None
    visible: Tensor
    added: list[Tensor]
    scale: float | None
    softcap: float | None
    sinks: Tensor | float | None
    notes: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        shapes = ", ".join(str(tuple(t.shape)) for t in (self.query, self.key, self.value))
        sinks = tuple(self.sinks.shape) if isinstance(self.sinks, Tensor) else self.sinks
        return (
            f"REGARD_FUZZ_SEED={self.seed}: {self.backend}, small={self.small}, {shapes}, {self.query.dtype}, "
            f"mask={self.mask}, scale={self.scale}, softcap={self.softcap}, sinks={sinks}, {self.notes}"
        )


class Maker:
    """One random problem for each seed."""

    def __init__(self, seed: int):
        self.seed, self.random = seed, random.Random(seed)
        self.generator = torch.Generator().manual_seed(seed)

    def normal(self, *shape: int) -> Tensor:
        return torch.randn(shape, generator=self.generator, dtype=torch.float64)

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def whole(self, low: int, high: int, shape: tuple[int, ...]) -> Tensor:
        return torch.randint(low, high + 1, shape, generator=self.generator)

    def problem(self) -> Problem:
        pick = self.random.choice
        backend = "triton" if self.chance(0.02) else pick([None, None, "tiles", "torch_cpu"])
        dtype = pick([torch.float64, torch.float32, torch.bfloat16, torch.float16])
        if backend == "triton":
            dtype = pick([torch.float32, torch.float16])
        most = 24 if backend == "triton" or self.chance(0.7) else 40 if self.chance(0.8) else 300
        self.plain = self.chance(0.1)
        self.batch = () if self.plain or most == 300 else pick([(), (1,), (2,), (3,), (2, 2)])
        key_heads, group = (1, 1) if self.plain else pick([(1, 1), (2, 1), (2, 2), (1, 3)])
        self.heads = key_heads * group
        least = 0 if self.chance(0.05) else 1
        self.queries, self.keys = self.random.randint(least, most), self.random.randint(least, most)
        width, value_width = pick([1, 2, 3, 8, 16, 24, 64]), pick([1, 4, 8, 16, 17, 64])
        spread = pick([0.1, 1.0, 1.0, 2.0, 12.0])
        query = self.laid_out(self.normal(*self.batch, self.heads, self.queries, width) * spread, dtype)
        key = self.laid_out(self.normal(*self.batch, key_heads, self.keys, width), dtype)
        value = self.laid_out(self.normal(*self.batch, key_heads, self.keys, value_width), dtype)
        mask, visible, added = self.mask()
        sinks = self.sinks()
        made = Problem(
            self.seed, backend, self.chance(0.5), query, key, value, mask, visible, added,
            pick([None, None, None, 0.3, 1.0, -0.5, 0.0, 1e-3]), pick([None, None, 1.5, 20.0, 1e4]), sinks,
        )  # fmt: skip
        if self.plain:
            made.query, made.key, made.value = query[0], key[0], value[0]
        return made

    def laid_out(self, tensor: Tensor, dtype: torch.dtype) -> Tensor:
        """The same numbers with other strides."""
        tensor, kind = (
            tensor.to(dtype),
            self.random.choice(["plain"] * 3 + ["tokens first", "width first", "every other"]),
        )
        if kind == "tokens first":
            return tensor.transpose(-3, -2).contiguous().transpose(-3, -2)
        if kind == "width first":
            return tensor.mT.contiguous().mT
        if kind == "every other":
            return torch.stack([tensor, torch.full_like(tensor, 7)], -2).flatten(-3, -2)[..., ::2, :]
        return tensor

    def sinks(self) -> Tensor | float | None:
        if not self.chance(0.3):
            return None
        shape = () if self.plain else self.random.choice([(self.heads,), (*self.batch, self.heads), ()])
        if shape == () and self.chance(0.5):
            return self.random.uniform(-3, 3)
        sinks = self.normal(*shape).to(self.random.choice([torch.float32, torch.float64, torch.bfloat16]))
        return sinks.masked_fill(sinks > 1, -torch.inf) if self.chance(0.3) else sinks

    def mask(self) -> tuple[regard.Mask | Tensor | None, Tensor, list[Tensor]]:
        shape = (*self.batch, self.heads, self.queries, self.keys)
        visible, added, together = torch.ones(shape, dtype=torch.bool), [], None
        kinds = [self.causal, self.causal_each, self.window, self.lengths, self.kept, self.documents, self.bools]
        kinds += [self.bias, self.bias]
        for _ in range(self.random.choice([0, 0, 1, 1, 1, 2, 2, 3, 4])):
            atom, seen, more = self.random.choice(kinds)()
            visible = visible & seen
            added += [] if more is None else [more]
            together = atom if together is None else regard.Mask() & together & atom
        return together, visible, added

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
        return regard.causal(offset), self.apart() <= self.per_batch(offset), None

    def window(self):
        left, right = (self.random.choice([None, *range(-2, 9)]) for _ in range(2))
        offset = self.random.choice([0, 0, self.random.randint(-5, 5)])
        apart = self.apart() - offset
        seen = torch.ones_like(apart, dtype=torch.bool)
        seen = seen if left is None else seen & (apart >= -left)
        return regard.window(left, right, offset), seen if right is None else seen & (apart <= right), None

    def lengths(self):
        lengths = self.whole(0, self.keys + 1, self.batch)
        return regard.padding(lengths), torch.arange(self.keys) < self.per_batch(lengths), None

    def kept(self):
        kept = self.whole(0, 4, (*self.batch, self.keys)) > 0
        return regard.padding(kept), kept[..., None, None, :], None

    def documents(self):
        own, other = self.whole(0, 2, (*self.batch, self.queries)), self.whole(0, 2, (*self.batch, self.keys))
        own = own.sort(-1).values if self.chance(0.5) else own
        return regard.documents(own, other), own[..., None, :, None] == other[..., None, None, :], None

    def dense_shape(self) -> tuple[int, ...]:
        shape = (self.queries, self.keys) if self.plain else (*self.batch, self.heads, self.queries, self.keys)
        shape = shape[-self.random.randint(1, len(shape)) :]
        return tuple(1 if self.chance(0.2) else n for n in shape)

    def bools(self):
        seen = self.whole(0, 3, self.dense_shape()) > 0
        return seen, seen, None

    def bias(self):
        dtype = self.random.choice([torch.float64, torch.float32, torch.bfloat16, torch.float16])
        numbers = (self.normal(*self.dense_shape()) * self.random.choice([0.1, 3.0, 30.0])).to(dtype)
        hidden = self.whole(0, self.random.choice([1, 9, 99]), tuple(numbers.shape)) == 0
        if self.chance(0.5):
            hidden = torch.zeros_like(hidden)
        low = self.random.choice([-torch.inf, torch.finfo(dtype).min])
        mask = numbers.masked_fill(hidden, low)
        if self.chance(0.3):
            mask.requires_grad_()
        return regard.bias(mask), ~hidden, mask


class Reference:
    """The whole matrix in float64, differentiable."""

    def __init__(self, problem: Problem):
        p = problem
        self.leaves = [t.detach().double().clone().requires_grad_() for t in (p.query, p.key, p.value)]
        self.added = [t.detach().double().clone().requires_grad_() for t in p.added]
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
            scores = scores + shown
            largest = largest + torch.where(self.visible, shown.detach().abs(), 0.0)
        self.size = float(largest.max()) if largest.numel() else 0.0  # how large the terms of a visible score are
        scores = scores.masked_fill(~self.visible, -torch.inf)
        self.sinks = None
        columns = [scores]
        if p.sinks is not None:
            sinks = (
                p.sinks.detach().double() if isinstance(p.sinks, Tensor) else torch.tensor(p.sinks, dtype=torch.float64)
            )
            self.sinks = sinks.clone().requires_grad_()
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


class Check:
    """Compares numbers, relative to the size of what went into them."""

    def __init__(self, problem: Problem, reference: Reference):
        self.dtype = problem.query.dtype
        working = torch.float64 if self.dtype == torch.float64 else torch.float32
        # A score of that size is rounded a few times on its way, and a weight is its exponential.
        self.working = 30 * UNIT[working] * (1 + reference.size)
        self.stored = self.working + 2 * UNIT[self.dtype]

    def __call__(self, name: str, found: Tensor, expected: Tensor, limit: float, size: float = 1.0) -> None:
        expected = expected.detach()
        assert found.shape == expected.shape, f"{name}: shape {tuple(found.shape)}, not {tuple(expected.shape)}"
        found = found.detach().cpu().double()
        largest = torch.where(expected.isfinite(), expected.abs(), 0.0)
        allowed = limit * max(size, float(largest.max()) if largest.numel() else 0.0)
        same = (found == expected) | ((found - expected).abs() <= allowed)
        assert same.all(), (
            f"{name}: {float((found - expected).abs().nan_to_num(torch.inf).max()):.3g} apart, {allowed:.3g} allowed"
        )


def poison(maker: Maker, p: Problem, reference: Reference) -> None:
    """NaN or inf where nobody may see it."""
    visible = reference.visible
    if not maker.chance(0.3) or 0 in visible.shape:
        return
    bad = maker.random.choice([torch.nan, torch.inf, -torch.inf])
    unseen, blind = ~visible.any(-2), ~visible.any(-1)
    if p.query.dim() > 2:
        unseen = unseen.unflatten(-2, (p.key.shape[-3], -1)).all(-2)
    p.query, p.key, p.value = (
        t.masked_fill(hidden[..., None], bad) for t, hidden in ((p.query, blind), (p.key, unseen), (p.value, unseen))
    )
    p.notes.append(f"{bad} in {int(unseen.sum())} keys and {int(blind.sum())} queries")


def compare(maker: Maker, p: Problem) -> None:
    reference = Reference(p)
    check, r = Check(p, reference), maker.random
    poison(maker, p, reference)
    leaves = [t.detach().clone(memory_format=torch.preserve_format) for t in (p.query, p.key, p.value)]
    query, key, value = (t.requires_grad_() if maker.chance(0.5) else t for t in leaves)
    sinks = p.sinks
    if isinstance(sinks, Tensor) and maker.chance(0.5):
        sinks = sinks.clone().requires_grad_()
    A = regard.AttentionMatrix(query, key, mask=p.mask, scale=p.scale, softcap=p.softcap, sinks=sinks)
    weights, many = reference.weights, max(1.0, p.query.shape[-2] ** 0.5)
    queries, keys = weights.shape[-2:]
    size = max(1.0, float(reference.value.detach().abs().max())) if reference.value.numel() else 1.0
    losses: list[tuple[Tensor, Tensor]] = []
    found_grads = p.query.dtype not in HALVES

    def same(name: str, found: Tensor, expected: Tensor, limit: float, size: float = 1.0) -> None:
        check(name, found, expected, limit, size)
        if found.requires_grad and found_grads and maker.chance(0.7) and found.isfinite().all():
            by = maker.normal(*found.shape)
            losses.append(((found * by.to(found.dtype)).sum(), (expected * by).sum()))

    def product() -> None:
        same("A @ value", A @ value, weights @ reference.value, 4 * check.stored, size)

    def attention() -> None:
        output = regard.attention(query, key, value, mask=p.mask, scale=p.scale, softcap=p.softcap, sinks=sinks)
        same("attention", output, weights @ reference.value, 4 * check.stored, size)

    def dense() -> None:
        same("to_dense", A.to_dense(), weights, check.stored)

    def rows() -> None:
        if queries and keys:
            i, j = r.randrange(queries), r.randrange(keys)
            same("a row", A[..., i, :], weights[..., i, :], check.stored)
            same("a column", A[..., j], weights[..., j], check.stored)
            index = maker.whole(0, queries - 1, (3,))
            same("some rows", A[..., index, :], weights[..., index, :], check.stored)
            same("some points", A[..., index, j], weights[..., index, j], check.stored)

    def parts() -> None:
        a, b = sorted((r.randint(0, queries), r.randint(0, queries)))
        c, d = sorted((r.randint(0, keys), r.randint(0, keys)))
        step = r.choice([1, 1, 2])
        part, expected = A.part[..., a:b, c:d:step], weights[..., a:b, c:d:step]
        same("part", part.to_dense(), expected, check.stored)
        same("received of a part", part.received(), expected.sum(-2), many * check.working)
        x = maker.normal(*expected.shape[:-2], expected.shape[-1], 2).to(p.query.dtype)
        same("part @ x", part @ x, expected @ x.double(), 4 * check.stored, 4.0)

    def received() -> None:
        same("received", A.received(), weights.sum(-2), many * check.working)
        same("mean received", A.received("mean"), weights.sum(-2) / max(queries, 1), check.working)
        check("max received", A.received("max"), weights.amax(-2) if queries else weights.sum(-2), check.working)

    def entropy() -> None:
        same("entropy", A.entropy(), reference.entropy, 8 * check.working, 2.0)

    def logsumexp() -> None:
        same("logsumexp", A.logsumexp, reference.logsumexp, check.working)
        check("sink_share", A.sink_share, reference.sink_share, check.working)

    def top() -> None:
        if keys:
            k = r.randint(1, min(keys, 9))
            best(A.top(k), k)

    def best(found: regard.Top, k: int) -> None:
        check("top", found.weights, weights.topk(k).values, check.working)
        real = found.keys >= 0
        there = torch.where(real, weights.gather(-1, found.keys.clamp_min(0)), 0.0)
        check("the keys of top", found.weights, there, check.working)
        assert torch.equal(real.sum(-1), reference.visible.sum(-1).clamp_max(k)), "top: as many keys as are visible"
        seen = reference.visible.gather(-1, found.keys.clamp_min(0)) | ~real
        assert seen.all(), "top: only visible keys"
        ranked = torch.where(real, found.keys, -1 - torch.arange(k)).sort(-1).values
        assert (ranked.diff(dim=-1) != 0).all(), "top: no key twice"

    def pool() -> None:
        if queries and keys:
            sides = r.randint(1, 9), r.randint(1, 9)
            same("pool", A.pool(*sides), reference.pool(*sides, False), check.working)
            check("max pool", A.pool(*sides, "max"), reference.pool(*sides, True), check.working)

    def summary() -> None:
        if queries and keys:
            k, sides = r.randint(1, min(keys, 5)), (r.randint(1, 9), r.randint(1, 9))
            seen = A.summary(top=k, pool=sides)
            check("summary.received", seen.received, weights.sum(-2), many * check.working)
            check("summary.entropy", seen.entropy, reference.entropy, 8 * check.working, 2.0)
            check("summary.logsumexp", seen.logsumexp, reference.logsumexp, check.working)
            check("summary.pool", seen.pool, reference.pool(*sides, False), check.working)
            best(seen.top, k)

    def transposed() -> None:
        x = maker.normal(*weights.shape[:-1], 3).to(p.query.dtype)
        same("A.mT @ x", A.mT @ x, weights.mT @ x.double(), 4 * many * check.stored, 4.0)

    def diagonal() -> None:
        offset = r.randint(-3, 3)
        same("diagonal", A.diagonal(offset), weights.diagonal(offset, -2, -1), check.stored)

    looks = [
        product,
        attention,
        dense,
        rows,
        parts,
        received,
        entropy,
        logsumexp,
        top,
        pool,
        summary,
        transposed,
        diagonal,
    ]
    small_sizes = using(p.backend, p.small) if p.backend else contextlib.nullcontext()
    with small_sizes:
        for look in r.sample(looks, 6):  # in any order: what is kept of one must not change another
            look()
        gradients(check, reference, (query, key, value, sinks, *p.added), losses)


def gradients(check: Check, reference: Reference, inputs: tuple[Tensor | float | None, ...], losses: list) -> None:
    """Of all results together: those of a sum are sums."""
    ours = [t for t in inputs if isinstance(t, Tensor) and t.requires_grad]
    theirs = [*reference.leaves, reference.sinks, *reference.added]
    theirs = [t for t, mine in zip(theirs, inputs, strict=True) if isinstance(mine, Tensor) and mine.requires_grad]
    if not losses or not ours:
        return
    found = torch.autograd.grad(sum(a for a, _ in losses), ours, allow_unused=True)
    expected = torch.autograd.grad(sum(b for _, b in losses), theirs, allow_unused=True)
    for n, (mine, other, leaf) in enumerate(zip(found, expected, theirs, strict=True)):
        mine = torch.zeros_like(leaf) if mine is None else mine
        other = torch.zeros_like(leaf) if other is None else other
        rounded = 4 * UNIT[mine.dtype]  # torch sums the gradient of an expanded tensor in its own dtype
        check(f"gradient {n}", mine, other, 50 * check.working * (1 + reference.size) + rounded, 3.0 * len(losses))


def run_one(seed: int) -> Problem:
    maker = Maker(seed)
    problem = maker.problem()
    try:
        compare(maker, problem)
    except Exception as error:
        raise AssertionError(f"{problem}\n{type(error).__name__}: {error}") from error
    return problem


@pytest.mark.slow
@pytest.mark.usefixtures("unchecked")
def test_random_problems_agree_with_a_reference_of_our_own():
    if "REGARD_FUZZ_SEED" in os.environ:
        run_one(int(os.environ["REGARD_FUZZ_SEED"]))
        return
    first, end, count = time.time_ns() % 2**40, time.monotonic() + float(os.environ.get("REGARD_FUZZ_SECONDS", "60")), 0
    print(f"first REGARD_FUZZ_SEED={first}")
    while time.monotonic() < end:
        run_one(first + count)
        count += 1
    print(f"{count} problems")
    assert count > 0
