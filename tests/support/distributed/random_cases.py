"""Random attention problems in shards: the whole problem, which every rank makes alike, and each rank's share of it."""

import random

import torch

import regard
from regard.distributed.share import Layout, share_of

TOLERANCE = {torch.float64: 1e-11, torch.float32: 3e-5, torch.bfloat16: 6e-4}
LOW = {torch.float64: 0.0, torch.float32: 0.0, torch.bfloat16: 2**-8}  # half a unit, as stored


class Case:
    """One problem, whole on every rank; `mine` has what a rank hands in."""

    def __init__(self, seed, size, dtype=torch.float64, most=13):
        self.seed, self.dtype, draw = seed, dtype, random.Random(seed)
        self.draw = draw
        generator = torch.Generator().manual_seed(seed)
        self.normal = lambda *shape: torch.randn(shape, generator=generator, dtype=torch.float64)
        self.uniform = lambda *shape: torch.rand(shape, generator=generator)
        self.zigzag = draw.random() < 0.7
        lengths = [[draw.randint(0, most) for _ in range(size)] for _ in range(2)]
        if draw.random() < 0.5:  # self-attention
            lengths[1] = lengths[0]
        self.queries, self.keys = (Layout.of(counts, self.zigzag) for counts in lengths)
        self.plain = draw.random() < 0.1
        self.batch = () if self.plain else draw.choice([(), (1,), (2,), (2, 2)])
        self.key_heads, self.group = (1, 1) if self.plain else draw.choice([(1, 1), (2, 1), (2, 2), (1, 3)])
        heads, (q, k) = self.key_heads * self.group, (self.queries.size, self.keys.size)
        width, self.width = draw.choice([1, 3, 8]), draw.choice([1, 4, 8])

        def tokens(heads, count, width):
            found = 1.5 * (self.normal(count, width) if self.plain else self.normal(*self.batch, heads, count, width))
            return found.to(dtype)

        self.query, self.key = tokens(heads, q, width), tokens(self.key_heads, k, width)
        self.value = tokens(self.key_heads, k, self.width)
        self.heads = heads
        self.options = {"scale": draw.choice([None, None, 0.3, -0.5]), "softcap": draw.choice([None, None, 2.0])}
        self.options["sinks"] = None
        if draw.random() < 0.3:
            self.options["sinks"] = self.normal(*(() if self.plain else (heads,)))
        kinds = ["causal", "causal per batch", "window", "lengths", "bools", "documents", "bias", "visible", "cut"]
        self.kinds = draw.sample(kinds, draw.choice([0, 1, 1, 1, 2, 2, 3]))
        self.atoms = [self._atom(kind) for kind in self.kinds]

    def __repr__(self):
        runs = [[[(run.start, run.length) for run in runs] for runs in each.runs] for each in (self.queries, self.keys)]
        shapes = tuple(self.query.shape), tuple(self.key.shape)
        return f"Case(seed={self.seed}, {self.dtype}, {shapes}, runs {runs}, {self.kinds}, {self.options})"

    def _atom(self, kind):
        """(whole mask, how to make a rank's own of it)."""
        draw, (q, k) = self.draw, (self.queries.size, self.keys.size)

        def per_batch(low, high):
            return (low + self.uniform(*self.batch) * (high - low + 1)).long()

        if kind in ("causal", "causal per batch", "window", "lengths"):
            offset = draw.choice([0, 0, k - q, draw.randint(-q - 2, k + 2)])
            mask = {
                "causal": lambda: regard.causal(offset),
                "causal per batch": lambda: regard.causal(per_batch(-q - 1, k + 1)),
                "window": lambda: regard.window(
                    draw.choice([None, *range(-2, 12)]), draw.choice([None, *range(-2, 12)]), offset
                ),
                "lengths": lambda: regard.padding(per_batch(0, k)),
            }[kind]()
            return mask, lambda rank: mask
        if kind == "bools":
            kept = self.uniform(*self.batch, k) < 0.7
            return regard.padding(kept), lambda rank: regard.padding(share_of(kept, self.keys, rank, -1))
        if kind == "documents":
            mine = (3 * self.uniform(*self.batch, q)).long().sort(-1).values
            theirs = (3 * self.uniform(*self.batch, k)).long().sort(-1).values
            return regard.documents(mine, theirs), lambda rank: regard.documents(
                share_of(mine, self.queries, rank, -1), share_of(theirs, self.keys, rank, -1)
            )
        if kind == "cut":
            return self._cut(q, k)
        shape = [*self.batch, self.heads, q, k]
        shape = shape[-2:] if self.plain else shape[-draw.randint(2, len(shape)) :]
        shape = [1 if n < len(shape) - 1 and draw.random() < 0.3 else size for n, size in enumerate(shape)]
        if kind == "visible":
            dense = self.uniform(*shape) < 0.6
            dense[..., k // 3 : 2 * k // 3] &= draw.random() < 0.5  # whole blocks hidden
        else:
            dense = self.normal(*shape).masked_fill(self.uniform(*shape) < 0.2, draw.choice([-torch.inf, -3.0, -6e29]))
        per_query = shape[-2] != 1 or q == 1
        self.dense = dense

        def own(rank):
            return regard.Mask() & (share_of(dense, self.queries, rank, -2) if per_query else dense)

        return regard.Mask() & dense, own

    def _cut(self, q, k):
        draw = self.draw

        def tokens(count):
            if draw.random() < 0.3:
                return self.uniform(*self.batch, count) < 0.4
            first = draw.randint(0, count)
            return draw.choice([None, slice(first, None), slice(first, first + draw.randint(0, 9)), first])

        queries, keys, heads = tokens(q), tokens(k), None
        if not self.plain and draw.random() < 0.4:
            heads = draw.choice([[0], self.uniform(*self.batch, self.heads) < 0.5])
        ends = (draw.choice([None, 2]), draw.choice([None, 1]), draw.randint(-3, 3))
        within = draw.choice([None, regard.window(*ends)])
        options = {"within": within, "heads": heads, "bias": draw.choice([-torch.inf, -torch.inf, -1.0, 2.0])}

        def own(rank):
            here, there = queries, keys
            if isinstance(queries, torch.Tensor):
                here = share_of(queries, self.queries, rank, -1)
            if isinstance(keys, torch.Tensor):
                there = share_of(keys, self.keys, rank, -1)
            return regard.cut(here, there, **options)

        return regard.cut(queries, keys, **options), own

    def mask(self, rank=None):
        """The whole mask, or what a rank hands in."""
        found = None
        for whole, own in self.atoms:
            atom = whole if rank is None else own(rank)
            found = atom if found is None else found & atom
        return found

    def of_queries(self, tensor, rank, axis=-2):
        return share_of(tensor, self.queries, rank, axis)

    def of_keys(self, tensor, rank, axis=-2):
        return share_of(tensor, self.keys, rank, axis)
