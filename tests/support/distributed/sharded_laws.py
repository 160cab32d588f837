"""The laws of a matrix in shards, as jobs for `worlds`: every number against the float64 definition on one process."""

import random

import numpy as np
import torch

import regard
from regard.backends.reference import Reference
from regard.distributed import ShardedMatrix
from regard.distributed.share import share_of
from support.distributed.random_cases import LOW, TOLERANCE, Case


def close(found, expected, tolerance, what):
    expected = torch.as_tensor(np.asarray(expected))
    found = found.detach().double()
    assert found.shape == expected.shape, f"{what}: {tuple(found.shape)} is not {tuple(expected.shape)}"
    assert torch.equal(torch.isneginf(found), torch.isneginf(expected)), f"{what}: -inf in other places"
    apart = (found.nan_to_num(torch.nan, 0.0, 0.0) - expected.nan_to_num(torch.nan, 0.0, 0.0)).abs()
    largest = max(expected[expected.isfinite()].abs().flatten().tolist(), default=0.0)
    limit = tolerance * max(1.0, largest)
    assert not apart.isnan().any(), f"{what}: NaN"
    assert not apart.numel() or apart.max() <= limit, f"{what}: {apart.max()} apart, {limit} allowed"


def matrix(case, rank, query=None, key=None, options=None, mask=None):
    query = case.of_queries(case.query, rank) if query is None else query
    key = case.of_keys(case.key, rank) if key is None else key
    mask = case.mask(rank) if mask is None else mask
    return ShardedMatrix(query, key, mask=mask, zigzag=case.zigzag, **(case.options if options is None else options))


def numbers(rank, size, first, count):
    """Every number of random problems."""
    for seed in range(first, first + count):
        dtype = [torch.float64, torch.float64, torch.float32, torch.bfloat16][seed % 4]
        case = Case(seed, size, dtype)
        try:
            _numbers(case, rank)
        except BaseException as error:
            raise AssertionError(f"{error}\n{case!r}") from error
    if rank == 0:
        print(f"{count} cases from {first}")


def _numbers(case, rank):
    R = Reference(case.query, case.key, mask=case.mask(), **case.options)
    A, limit = matrix(case, rank), TOLERANCE[case.dtype]
    stored = limit + LOW[case.dtype]
    weights, q, k = torch.from_numpy(R.weights), case.queries, case.keys

    def rows(array, axis=-1):
        return share_of(torch.from_numpy(np.asarray(array)), q, rank, axis)

    def columns(array, axis=-1):
        return share_of(torch.from_numpy(np.asarray(array)), k, rank, axis)

    assert tuple(A.shape) == R.weights.shape
    value = case.of_keys(case.value, rank)
    if case.draw.random() < 0.5:  # the normaliser comes from the kernel then
        close(A @ value, rows(R.output(case.value), -2), 4 * stored, "A @ value")
    close(A.logsumexp, rows(R.logsumexp), limit, "logsumexp")
    close(A.sink_share, rows(R.sink_share), limit, "sink_share")
    close(A @ value, rows(R.output(case.value), -2), 4 * stored, "A @ value")
    for reduce in ("sum", "mean", "max"):
        close(A.received(reduce), columns(R.received(reduce)), limit, f"received {reduce}")
    close(A.entropy(), rows(R.entropy()), 4 * limit, "entropy")
    close(A.max_score(), rows(R.max_score()), limit, "max_score")
    close(-A.min_score(), -rows(R.min_score()), limit, "min_score")
    x = case.normal(*A.shape[:-1], 3).to(case.dtype)
    close(A.mT @ share_of(x, q, rank, -2), columns(R.reverse(x), -2), 4 * stored, "A.mT @ x")
    bins = case.draw.choice([(4, 5), (1, 1), (100, 100)])
    if 0 not in A.shape:
        for reduce in ("mean", "max"):
            close(A.pool(*bins, reduce), R.pool(*bins, reduce), limit, f"pool {reduce}")
        _top(A, R, rows, min(case.draw.randint(1, 9), A.shape[-1]), limit)
        seen = matrix(case, rank).summary(top=1, pool=bins)
        close(seen.received, columns(R.received()), limit, "summary received")
        close(seen.entropy, rows(R.entropy()), 4 * limit, "summary entropy")
        close(seen.logsumexp, rows(R.logsumexp), limit, "summary logsumexp")
        close(seen.top.weights, rows(R.top(1), -2), limit, "summary top")
        close(seen.max_score, rows(R.max_score()), limit, "summary max_score")
        close(seen.pool, R.pool(*bins), limit, "summary pool")
    for stage in ("scores", "scaled", "capped", "masked"):
        close(getattr(A, stage)[...], getattr(R, stage), stored, stage)
    close(A.to_dense(), R.weights, stored, "to_dense")
    _parts(A, weights, case, rank, limit, stored)
    if case.group > 1:
        v = case.normal(*A.shape[:-2], A.shape[-1], 2).to(case.dtype)  # with the heads of the queries
        close(A @ share_of(v, k, rank, -2), rows(weights @ v.double(), -2), 4 * stored, "values per query head")


def _top(A, R, rows, k, limit):
    top = A.top(k)
    close(top.weights, rows(R.top(k), -2), limit, "top")
    found = torch.where(top.keys >= 0, rows(R.weights, -2).gather(-1, top.keys.clamp_min(0)), 0.0)
    close(top.weights, found, limit, "the keys of top")
    visible = rows(~np.isneginf(R.masked), -2).sum(-1, keepdim=True).clamp_max(k)
    assert ((top.keys >= 0).sum(-1, keepdim=True) == visible).all(), "keys that are seen"
    same = (top.keys.unsqueeze(-1) == top.keys.unsqueeze(-2)) & (top.keys >= 0).unsqueeze(-1)
    assert same.sum() == visible.sum(), "each key once"


def _parts(A, weights, case, rank, limit, stored):
    draw = case.draw

    def some(size, ints):
        if ints and size and draw.random() < 0.4:
            return draw.randrange(-size, size)
        ends = [draw.choice([None, draw.randint(-size, size)]) for _ in range(2)]
        return slice(*ends, draw.choice([None, 1, 2, 3]))

    *leading, queries, keys = A.shape
    index = (*(some(n, True) for n in leading), some(queries, True), some(keys, True))
    close(A[index], weights[index], stored, f"A[{index}]")
    index = (*(some(n, True) for n in leading), some(queries, False), some(keys, False))
    part, expected = A.part[index], weights[index]
    assert part.shape == expected.shape
    rows, columns = (getattr(part._core.share, name) for name in ("queries", "keys"))

    def own(array, layout, axis):
        pieces = [array.narrow(axis, run.index, len(run.picked)) for run in layout.runs[rank]]
        return torch.cat(pieces, axis) if pieces else array.narrow(axis, 0, 0)

    if draw.random() < 0.5:
        A.logsumexp  # noqa: B018  a part made before and after the normaliser is known
        part = A.part[index]
    close(part.to_dense(), expected, stored, f"part {index}")
    close(part.received(), own(expected.sum(-2), columns, -1), limit, "received of a part")
    close(part.entropy(), own(torch.special.entr(expected).sum(-1), rows, -1), 4 * limit, "entropy of a part")
    ambiguous = len(part.shape) > 2 and part.shape[-3] in part._key_heads_before
    if not ambiguous:
        v = case.normal(*part.shape[:-2], part.shape[-1], 2).to(case.dtype)
        close(part @ own(v, columns, -2), own(expected @ v.double(), rows, -2), 4 * stored, "part @ v")
    if 0 not in part.shape:
        close(part.pool(2, 3, "max").amax((-1, -2)), expected.amax((-1, -2)), limit, "pool of a part")
        top = part.top(1)
        close(top.weights, own(expected.topk(1).values, rows, -2), limit, "top of a part")
        again = part.part[..., 1:, ::2]
        close(again.to_dense(), expected[..., 1:, ::2], stored, "a part of a part")


def gradients(rank, size, first, count):
    """Gradients of everything that has one, in float64, twice."""
    for seed in range(first, first + count):
        case = Case(seed, size, torch.float64)
        try:
            _gradients(case, rank)
        except BaseException as error:
            raise AssertionError(f"{error}\n{case!r}") from error
    if rank == 0:
        print(f"{count} cases from {first}")


def _loss(case, A, pieces, of_queries, of_keys):
    """One number from every differentiable result, with weights of its own for each of them."""
    *leading, queries, keys = A.shape
    shapes = {"output": (*leading, queries, case.width), "back": (*leading, keys, 2), "received": (*leading, keys)}
    shapes |= {"entropy": (*leading, queries), "logsumexp": (*leading, queries)}
    generator = torch.Generator().manual_seed(case.seed)
    total = 0.0
    for name, shape in shapes.items():
        factor = torch.randn(shape, generator=generator, dtype=torch.float64)
        axis = -2 if name in ("output", "back") else -1
        own = (of_keys if name in ("back", "received") else of_queries)(factor, axis)
        found = pieces[name]
        total = total + (torch.where(found.isneginf(), 0.0, found) * own).sum()
    return total


def _gradients(case, rank):
    inputs = {"query": case.query, "key": case.key, "value": case.value, "x": case.normal(*case.query.shape[:-1], 2)}
    if case.options["sinks"] is not None:
        inputs["sinks"] = case.options["sinks"]
    has_bias = "bias" in case.kinds
    if has_bias:
        inputs["bias"] = case.dense if "visible" not in case.kinds else None
    inputs = {name: tensor for name, tensor in inputs.items() if tensor is not None}
    whole = {name: tensor.clone().requires_grad_() for name, tensor in inputs.items()}
    per_query_bias = "bias" in whole and (whole["bias"].shape[-2] != 1 or case.queries.size == 1)

    def mask(named, rank=None):
        found = None
        for kind, (all_of_it, own) in zip(case.kinds, case.atoms, strict=True):
            atom = all_of_it if rank is None else own(rank)
            if kind == "bias" and "bias" in named:
                atom = regard.bias(named["bias"])
            found = atom if found is None else found & atom
        return found

    D = regard.AttentionMatrix(whole["query"], whole["key"], mask=mask(whole), **(case.options | _sinks(whole)))
    W = D.to_dense()
    value = whole["value"]
    expanded = value if case.plain else value.repeat_interleave(case.group, -3)
    masked = D.masked[...]
    if case.options["sinks"] is not None:
        sink = whole["sinks"][..., None, None].expand(*masked.shape[:-1], 1)
        masked = torch.cat([masked, sink], -1)
    lse = (
        torch.where(
            (masked == -torch.inf).all(-1),
            -torch.inf,
            masked.masked_fill((masked == -torch.inf).all(-1, keepdim=True), 0.0).logsumexp(-1),
        )
        if masked.shape[-1]
        else masked.new_full(masked.shape[:-1], -torch.inf)
    )
    entropy = -(W * torch.where(W > 0, W, 1.0).log()).sum(-1)
    pieces = {
        "output": W @ expanded,
        "back": W.mT @ whole["x"],
        "received": W.sum(-2),
        "entropy": entropy,
        "logsumexp": lse,
    }
    expected = torch.autograd.grad(
        _loss(case, D, pieces, lambda t, axis: t, lambda t, axis: t), list(whole.values()), allow_unused=True
    )
    expected = dict(zip(whole, expected, strict=True))

    own = {}
    for name, tensor in inputs.items():
        if name in ("query", "x") or (name == "bias" and per_query_bias):
            own[name] = case.of_queries(tensor, rank)
        else:
            own[name] = case.of_keys(tensor, rank) if name in ("key", "value") else tensor
    own = {name: tensor.clone().requires_grad_() for name, tensor in own.items()}
    A = matrix(case, rank, own["query"], own["key"], case.options | _sinks(own), mask(own, rank))

    def results(A):
        return {
            "output": A @ own["value"], "back": A.mT @ own["x"], "received": A.received(), "entropy": A.entropy(),
            "logsumexp": A.logsumexp,
        }  # fmt: skip

    for again in range(2):
        loss = _loss(
            case,
            A,
            results(A),
            lambda t, axis: case.of_queries(t, rank, axis),
            lambda t, axis: case.of_keys(t, rank, axis),
        )
        found = dict(zip(own, torch.autograd.grad(loss, list(own.values()), allow_unused=True), strict=True))
        for name, grad in found.items():
            want = torch.zeros_like(whole[name]) if expected[name] is None else expected[name]
            grad = torch.zeros_like(own[name]) if grad is None else grad
            if name in ("query", "x") or (name == "bias" and per_query_bias):
                want = case.of_queries(want, rank)
            elif name in ("key", "value"):
                want = case.of_keys(want, rank)
            else:  # each rank has a part of the sum
                torch.distributed.all_reduce(grad)
            close(grad, want, 1e-9, f"the gradient of {name}, time {again}")
    v = random.Random(case.seed)
    if 0 not in A.shape and not case.plain:
        _part_gradients(case, rank, A, W.detach(), own, whole, D, v)


def _part_gradients(case, rank, A, W, own, whole, D, draw):
    """Through a part that leaves out keys, whose rows keep the normaliser of all keys."""
    q, k = A.shape[-2:]
    index = (..., slice(draw.randint(0, q), None), slice(None, draw.randint(0, k), draw.choice([1, 2])))
    x = torch.randn(A.shape[-1], 2, generator=torch.Generator().manual_seed(case.seed), dtype=torch.float64)
    part = A.part[index]
    picked = x[index[-1]]
    pieces = [picked[run.index : run.index + len(run.picked)] for run in part._core.share.keys.runs[rank]]
    mine = torch.cat(pieces) if pieces else picked[:0]
    loss = (part @ mine).square().sum()
    found = torch.autograd.grad(loss, [own["query"], own["key"]], allow_unused=True)
    dense = D.to_dense()[index] @ picked
    expected = torch.autograd.grad(dense.square().sum(), [whole["query"], whole["key"]], allow_unused=True)
    for name, grad, want in zip(("query", "key"), found, expected, strict=True):
        grad = torch.zeros_like(own[name]) if grad is None else grad
        want = torch.zeros_like(whole[name]) if want is None else want
        want = case.of_queries(want, rank) if name == "query" else case.of_keys(want, rank)
        close(grad, want, 1e-9, f"the gradient of {name} through a part")


def _sinks(named):
    return {"sinks": named["sinks"]} if "sinks" in named else {}
