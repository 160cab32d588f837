"""Asks matrices for results and for their gradients, and compares both with the reference of problems.py."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

import regard
from regard.backends.triton import launch
from support.attention.problems import HALVES, UNIT, Maker, Problem, Reference

# Results whose gradients are promised to be the same bits every time; of products, with deterministic algorithms only.
SAME_BITS = ("received", "mean received", "entropy", "logsumexp", "pool", "A.mT @ x")


class Check:
    """Compares numbers, relative to the size of what went into them, and lists what is too far apart."""

    def __init__(self, problem: Problem, reference: Reference):
        self.dtype = problem.query.dtype
        working = torch.float64 if self.dtype == torch.float64 else torch.float32
        # A score of that size is rounded a few times on its way, and a weight is its exponential.
        self.working = 30 * UNIT[working] * (1 + reference.size)
        if (
            problem.softcap and working == torch.float32
        ):  # the kernels' tanh errs by 2⁻²⁴, in a score and its normaliser
            self.working += 2 * 2**-24 * min(problem.softcap, launch._MAX_SOFTCAP)
        self.stored = self.working + 2 * UNIT[self.dtype]
        self.failures: list[str] = []

    def __call__(
        self, name: str, found: Tensor, expected: Tensor, limit: float, size: float = 1.0, more: float = 0.0
    ) -> None:
        expected, found = expected.detach(), found.detach().cpu().double()
        if found.shape != expected.shape:
            self.failures.append(f"{name}: shape {tuple(found.shape)}, not {tuple(expected.shape)}")
            return
        largest = torch.where(expected.isfinite(), expected.abs(), 0.0)
        allowed = limit * max(size, float(largest.max()) if largest.numel() else 0.0) + more
        same = (found == expected) | ((found - expected).abs() <= allowed)
        if not same.all():
            apart = float((found - expected).abs().nan_to_num(torch.inf).max())
            self.failures.append(f"{name}: {apart:.3g} apart, {allowed:.3g} allowed, {int((~same).sum())} numbers")

    def that(self, holds: bool, message: str) -> None:
        if not holds:
            self.failures.append(message)


class Looks:
    """Asks one matrix for results and compares them, and their gradients, with the reference's."""

    def __init__(self, maker: Maker, problem: Problem, reference: Reference, check: Check):
        self.maker, self.p, self.reference, self.check = maker, problem, reference, check
        self.random = maker.random
        self.query, self.key, self.value = (
            t.detach().requires_grad_(maker.chance(0.5)) for t in (problem.query, problem.key, problem.value)
        )
        self.sinks = problem.sinks
        if isinstance(self.sinks, Tensor) and maker.chance(0.5):
            self.sinks = self.sinks.detach().requires_grad_()
        self.options = {"mask": problem.mask, "scale": problem.scale, "softcap": problem.softcap, "sinks": self.sinks}
        self.A = regard.AttentionMatrix(self.query, self.key, **self.options)
        self.weights, self.many = reference.weights, max(1.0, problem.query.shape[-2] ** 0.5)
        self.queries, self.keys = self.weights.shape[-2:]
        value = reference.value.detach()
        self.size = max(1.0, float(value.abs().max())) if value.numel() else 1.0
        self.plain: Reference | None = None
        self.k, self.summary_k = maker.kind.choice([1, 2, 3, 5, 8, 9]), maker.kind.randint(1, 5)
        self.sides = maker.kind.choice([(4, 4), (8, 2), (maker.kind.randint(1, 9), maker.kind.randint(1, 9))])
        self.x_width = maker.kind.choice([3, 16])
        self.results: list[tuple[str, Tensor]] = []  # that are promised to be the same bits every time

    def same(
        self, name: str, found: Tensor, expected: Callable[[Reference], Tensor], limit: float, size: float = 1.0
    ) -> None:
        """The result, and its gradient if it has one."""
        self.only(name, found, expected(self.reference), limit, size)
        if found.requires_grad and self.maker.chance(0.7) and found.isfinite().all():
            self.gradients(name, found, expected)

    def only(self, name: str, found: Tensor, expected: Tensor, limit: float, size: float = 1.0) -> None:
        self.check(name, found, expected, limit, size)
        self.results.append((name, found.detach()))

    def gradients(self, name: str, found: Tensor, expected: Callable[[Reference], Tensor]) -> None:
        inputs = (self.query, self.key, self.value, self.sinks, *self.p.added)
        wanted = [n for n, t in enumerate(inputs) if isinstance(t, Tensor) and t.requires_grad]
        ours = [inputs[n] for n in wanted]
        pull = self.maker.normal(*found.shape).to(found.dtype)
        by = self.maker.laid_out(pull)
        mine = torch.autograd.grad(found, ours, by, allow_unused=True)

        def of(reference: Reference) -> list[Tensor]:
            every = (*reference.leaves, reference.sinks, *reference.added)
            leaves, right = [every[n] for n in wanted], expected(reference)
            back = torch.autograd.grad(right, leaves, pull.to(right.dtype), allow_unused=True, retain_graph=True)
            back = [torch.zeros_like(t) if grad is None else grad for grad, t in zip(back, leaves, strict=True)]
            return [grad.double() for grad in back]

        exact, plain = of(self.reference), None
        if self.check.dtype in HALVES:  # twice the error of plain torch in that dtype, and its own rounding
            self.plain = self.plain or Reference(self.p, self.check.dtype)
            plain = of(self.plain)
        names = ["query", "key", "value", "sinks", *(f"bias {n}" for n in range(len(self.p.added)))]
        limit = 50 * self.check.working * (1 + self.reference.size)
        for n, (grad, right, leaf) in enumerate(zip(mine, exact, ours, strict=True)):
            grad = torch.zeros_like(leaf) if grad is None else grad
            # torch sums the gradient of an expanded tensor in its own dtype: as many roundings as there are summands
            summands = max(1.0, self.weights.numel() / max(leaf.numel(), 1)) if wanted[n] > 3 else 1.0
            rounded, more = 4 * UNIT[leaf.dtype] * summands**0.5, 0.0
            if plain is not None:
                rounded = max(rounded, 4 * UNIT[self.check.dtype])
                more = 2 * float((plain[n] - right).abs().nan_to_num(torch.inf).max()) if right.numel() else 0.0
            self.check(f"gradient of {name}, {names[wanted[n]]}", grad, right, limit + rounded, 3.0, more)
            products = name in ("A @ value", "attention") and torch.are_deterministic_algorithms_enabled()
            if name in SAME_BITS or products:
                self.results.append((f"gradient of {name}, {names[wanted[n]]}", grad))

    # One method for each kind of result

    def product(self) -> None:
        expected, limit = lambda r: r.weights @ r.value, 4 * self.check.stored
        self.same("A @ value", self.A @ self.value, expected, limit, self.size)

    def attention(self) -> None:
        output = regard.attention(self.query, self.key, self.value, **self.options)
        self.same("attention", output, lambda r: r.weights @ r.value, 4 * self.check.stored, self.size)

    def dense(self) -> None:
        self.same("to_dense", self.A.to_dense(), lambda r: r.weights, self.check.stored)

    def rows(self) -> None:
        if not (self.queries and self.keys):
            return
        i, j = self.random.randrange(self.queries), self.random.randrange(self.keys)
        index = self.maker.whole(0, self.queries - 1, (3,))
        there, stored, A = index.to(self.A.device), self.check.stored, self.A
        self.same("a row", A[..., i, :], lambda r: r.weights[..., i, :], stored)
        self.same("a column", A[..., j], lambda r: r.weights[..., j], stored)
        self.same("some rows", A[..., there, :], lambda r: r.weights[..., index, :], stored)
        self.same("some points", A[..., there, j], lambda r: r.weights[..., index, j], stored)

    def parts(self) -> None:
        a, b = sorted((self.random.randint(0, self.queries), self.random.randint(0, self.queries)))
        c, d = sorted((self.random.randint(0, self.keys), self.random.randint(0, self.keys)))
        index = (..., slice(a, b), slice(c, d, self.random.choice([1, 1, 2])))
        part = self.A.part[index]
        self.same("part", part.to_dense(), lambda r: r.weights[index], self.check.stored)
        self.same("received of a part", part.received(), lambda r: r.weights[index].sum(-2), self.many * self.check.working)  # fmt: skip
        x = self.maker.normal(*part.shape[:-2], part.shape[-1], 2).to(self.check.dtype)
        found = part @ self.maker.laid_out(x)
        self.same("part @ x", found, lambda r: r.weights[index] @ x.to(r.weights.dtype), 4 * self.check.stored, 4.0)

    def received(self) -> None:
        A, working = self.A, self.check.working
        self.same("received", A.received(), lambda r: r.weights.sum(-2), self.many * working)
        self.same("mean received", A.received("mean"), lambda r: r.weights.sum(-2) / max(self.queries, 1), working)
        most = self.weights.amax(-2) if self.queries else self.weights.sum(-2)
        self.only("max received", A.received("max"), most, working)

    def entropy(self) -> None:
        self.same("entropy", self.A.entropy(), lambda r: r.entropy, 8 * self.check.working, 2.0)

    def logsumexp(self) -> None:
        self.same("logsumexp", self.A.logsumexp, lambda r: r.logsumexp, self.check.working)
        self.only("sink_share", self.A.sink_share, self.reference.sink_share, self.check.working)

    def top(self) -> None:
        if self.keys:
            k = min(self.k, self.keys)
            self.best(self.A.top(k), k)

    def best(self, found: regard.Top, k: int) -> None:
        self.only("top", found.weights, self.weights.topk(k).values, self.check.working)
        self.results.append(("the keys of top", found.keys))
        keys = found.keys.cpu()
        real = keys >= 0
        there = torch.where(real, self.weights.gather(-1, keys.clamp_min(0)), 0.0)
        self.check("the keys of top", found.weights, there, self.check.working)
        visible, that = self.reference.visible, self.check.that
        that(torch.equal(real.sum(-1), visible.sum(-1).clamp_max(k)), "top: not as many keys as are visible")
        that(bool((visible.gather(-1, keys.clamp_min(0)) | ~real).all()), "top: a key that is hidden")
        ranked = torch.where(real, keys, -1 - torch.arange(k)).sort(-1).values
        that(bool((ranked.diff(dim=-1) != 0).all()), "top: a key twice")

    def pool(self) -> None:
        if self.queries and self.keys:
            sides = self.sides
            self.same("pool", self.A.pool(*sides), lambda r: r.pool(*sides, False), self.check.working)
            self.only("max pool", self.A.pool(*sides, "max"), self.reference.pool(*sides, True), self.check.working)

    def summary(self) -> None:
        if not (self.queries and self.keys):
            return
        k, sides = min(self.summary_k, self.keys), self.sides
        seen, working = self.A.summary(top=k, pool=sides), self.check.working
        self.only("summary.received", seen.received, self.weights.sum(-2), self.many * working)
        self.only("summary.entropy", seen.entropy, self.reference.entropy, 8 * working, 2.0)
        self.only("summary.logsumexp", seen.logsumexp, self.reference.logsumexp, working)
        self.only("summary.pool", seen.pool, self.reference.pool(*sides, False), working)
        self.best(seen.top, k)

    def transposed(self) -> None:
        x = self.maker.normal(*self.weights.shape[:-1], self.x_width).to(self.check.dtype)
        found, limit = self.A.mT @ self.maker.laid_out(x), 4 * self.many * self.check.stored
        self.same("A.mT @ x", found, lambda r: r.weights.mT @ x.to(r.weights.dtype), limit, 4.0)

    def diagonal(self) -> None:
        offset = self.random.randint(-3, 3)
        expected = lambda r: r.weights.diagonal(offset, -2, -1)  # noqa: E731
        self.same("diagonal", self.A.diagonal(offset), expected, self.check.stored)


LOOKS = (
    "product", "attention", "dense", "rows", "parts", "received", "entropy", "logsumexp", "top", "pool", "summary",
    "transposed", "diagonal",
)  # fmt: skip


def compare(maker: Maker, problem: Problem, chosen: Sequence[str], twice: bool = False) -> None:
    """These results of a problem, and their gradients, against the reference; `twice`: the same bits again."""
    reference, chosen = Reference(problem), list(chosen)
    check = Check(problem, reference)
    maker.random.shuffle(chosen)  # in any order: what is kept of one must not change another
    before = maker.random.getstate(), maker.kind.getstate(), maker.generator.get_state()
    found = []
    for _ in range(2 if twice else 1):
        maker.random.setstate(before[0])
        maker.kind.setstate(before[1])
        maker.generator.set_state(before[2])
        looks = Looks(maker, problem, reference, check)
        for look in chosen:
            getattr(looks, look)()
        found.append(looks.results)
    if twice:
        for (name, one), (_, other) in zip(*found, strict=True):
            check.that(torch.equal(one, other), f"{name}: other bits the second time")
    if check.failures:
        raise AssertionError("; ".join(dict.fromkeys(check.failures)))
