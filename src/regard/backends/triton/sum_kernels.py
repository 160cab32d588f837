"""The Triton kernel of everything that is a sum of weights: what keys receive, entropies and bins, in one walk.

A block of keys stays while all queries pass. What a key receives is added up element by element, so that no threads
have to exchange numbers until the walk ends; what belongs to a row goes to a line of memory that is one program's
alone: no atomics, the same bits every time.
"""

# mypy: ignore-errors
from __future__ import annotations

import triton
import triton.language as tl

from regard.backends.triton.kernels import _band, _flat, _greater, _load, _log, _norm, _place, _spans, _tile


@triton.jit
def _put(POOL, each, at, start, bins, HIGH: tl.constexpr, WIDE: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    """(rows, bins of keys, some) to bins: those of a tile, or what a bin of several tiles has so far."""
    many_rows, many_columns, share = bins
    parts: tl.constexpr = BM // HIGH if BM > HIGH else 1
    across: tl.constexpr = BN // WIDE if BN > WIDE else 1
    if parts == 1 and across == 1:  # one bin: a number, which one thread stores
        r, c = at // HIGH, start // WIDE
        small = tl.sum(tl.reshape(each, [BM * each.shape[2]]), 0) * share
    else:
        r, c = at // HIGH + tl.arange(0, parts)[:, None], start // WIDE + tl.arange(0, across)[None, :]
        small = tl.sum(each, 2)
        if parts == 1:
            small = tl.sum(small, 0)[None, :] * share
        else:
            small = tl.sum(tl.reshape(small, [parts, HIGH, across]), 1) * share
    spot = POOL + tl.cast(r, tl.int64) * many_columns + c
    inside = (r < many_rows) & (c < many_columns)
    if WIDE > BN:  # the blocks of keys before this one were there already
        small += tl.load(spot, mask=inside, other=0.0)
    tl.store(spot, small, mask=inside)


@triton.jit
def _fold(
    ROWS, POOL, first, end, start, bins,
    HIGH: tl.constexpr, WIDE: tl.constexpr, BN: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    """What the rows of a block of keys have, to bins."""
    for at in range(first // CHUNK * CHUNK, end, CHUNK):
        row = at + tl.arange(0, CHUNK)
        each = tl.load(ROWS + row, mask=(row >= first) & (row < end), other=0.0)
        _put(POOL, each[:, None, None], at, start, bins, HIGH, WIDE, CHUNK, BN)


@triton.jit
def _sums_step(
    state, at, end, start, Q, key, NORM, REST, LINE, ROWS, POOL, layout, ids, base, size, lo, hi, factor, cap, mask,
    bins,
    FLAGS: tl.constexpr, ENTROPY: tl.constexpr, TAKEN: tl.constexpr, POOLED: tl.constexpr, HIGH: tl.constexpr,
    WIDE: tl.constexpr, EXACT: tl.constexpr, MASKED: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    total, band = state
    batch, head = ids
    row, column = at + tl.arange(0, BM), start + tl.arange(0, BN)
    inside = row < size[0] if MASKED else row >= 0  # a tile that nothing cuts is asked nothing
    norm, rest = _norm(NORM, REST, base, row, size[0], FLAGS, MASKED)
    if ENTROPY:
        before = tl.load(LINE + row, mask=inside, other=0.0)
    dots = tl.dot(_load(Q, layout, batch, head, at, BM), key.T, input_precision=EXACT)
    logits = _tile(dots, row[:, None], column[None, :], batch, head, size, lo, hi, factor, cap, mask, FLAGS, MASKED)
    log = _log(logits, norm[:, None], rest[:, None], FLAGS)
    weights = tl.exp2(log)
    if TAKEN == 1:
        total += weights
    if TAKEN == 2:
        total = _greater(total, weights)
    if ENTROPY:
        tl.store(LINE + row, before - tl.sum(weights * log, 1), mask=inside)
    if POOLED == 1:
        side: tl.constexpr = WIDE if WIDE < BN else BN
        few: tl.constexpr = side if side < 8 else 8  # over all but these eight, no threads exchange numbers
        each = tl.sum(tl.reshape(weights, [BM, BN // side, side // few, few]), 2)
        if HIGH >= BM:
            band += each
            if ((at + BM) % HIGH == 0) | (at + BM >= end):
                _put(POOL, band, at, start, bins, HIGH, WIDE, BM, BN)
                band = tl.zeros_like(band)
        else:
            _put(POOL, each, at, start, bins, HIGH, WIDE, BM, BN)
    if POOLED == 2:
        tl.store(ROWS + row, tl.sum(weights, 1), mask=inside)
    return total, band


@triton.jit
def sums(
    Q, K, NORM, REST, TOTAL, LINE, ROWS, POOL, low, high, size, shape, layouts, factor, cap, mask, bins, turns,
    FLAGS: tl.constexpr, ENTROPY: tl.constexpr, TAKEN: tl.constexpr, POOLED: tl.constexpr, HIGH: tl.constexpr,
    WIDE: tl.constexpr, RAGGED: tl.constexpr, EDGES: tl.constexpr, EXACT: tl.constexpr, CHUNK: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """What each key receives (TAKEN: 1 as sum, 2 as maximum), the entropy of each row, and the matrix in bins.

    turns: how many blocks of keys are taken one after the other, and how often a program's turn comes. Every other
    time the programs take their turns from the last to the first, so that all have the same to do.
    POOLED: 1 adds up the rows of a bin as they come; 2, for one bin of keys, first puts by what every row has.
    """
    flat, program, programs = _flat(), tl.program_id(0), tl.num_programs(0)
    batch, head, key_head, _ = _place(shape, flat, 0, 0, False)
    lo, hi = _band(low, high, batch, FLAGS)
    together, often = turns
    base = flat * size[0]
    side: tl.constexpr = WIDE if WIDE < BN else BN
    few: tl.constexpr = side if side < 8 else 8
    mine = (flat * programs + program).to(tl.int64) * size[0]
    LINE += mine
    ROWS += mine
    POOL += flat.to(tl.int64) * bins[0] * bins[1]
    for turn in range(often * together):
        lap = turn // together
        place = tl.where(lap % 2 == 0, program, programs - 1 - program)
        start = ((lap * programs + place) * together + turn % together) * BN
        last = tl.minimum(start + BN, size[1]) - 1
        a, b, c, d = _spans(start - hi, last - hi, start - lo + 1, last - lo + 1, size[0], BM, FLAGS)
        d = tl.where(start < size[1], d, a)
        if RAGGED:  # keys of another head, or nobody's, are in every tile
            b = tl.where(start + BN > size[1], d, b)
        b, c = tl.minimum(b, d), tl.minimum(tl.maximum(b, c), d)
        key = _load(K, layouts[1], batch, key_head, start, BN)
        total = tl.zeros([BM, BN] if TAKEN else [1, 1], tl.float32)
        band = tl.zeros([BM, BN // side, few] if POOLED == 1 and HIGH >= BM else [1, 1, 1], tl.float32)
        state = (total, band)
        if EDGES & 1:
            for at in range(a, b, BM):
                state = _sums_step(state, at, d, start, Q, key, NORM, REST, LINE, ROWS, POOL, layouts[0],
                                   (batch, head), base, size, lo, hi, factor, cap, mask, bins, FLAGS, ENTROPY, TAKEN,
                                   POOLED, HIGH, WIDE, EXACT, True, BM, BN)  # fmt: skip
        for at in range(b, c, BM):
            state = _sums_step(state, at, d, start, Q, key, NORM, REST, LINE, ROWS, POOL, layouts[0], (batch, head),
                               base, size, lo, hi, factor, cap, mask, bins, FLAGS, ENTROPY, TAKEN, POOLED, HIGH, WIDE,
                               EXACT, False, BM, BN)  # fmt: skip
        if EDGES & 2:
            for at in range(c, d, BM):
                state = _sums_step(state, at, d, start, Q, key, NORM, REST, LINE, ROWS, POOL, layouts[0],
                                   (batch, head), base, size, lo, hi, factor, cap, mask, bins, FLAGS, ENTROPY, TAKEN,
                                   POOLED, HIGH, WIDE, EXACT, True, BM, BN)  # fmt: skip
        total, band = state
        if TAKEN:
            column = start + tl.arange(0, BN)
            each = tl.sum(total, 0) if TAKEN == 1 else tl.reduce(total, 0, _greater)
            tl.store(TOTAL + flat.to(tl.int64) * size[1] + column, each, mask=column < size[1])
        if ENTROPY or POOLED:
            tl.debug_barrier()  # lines are read by other threads than wrote them
        if POOLED == 2:
            _fold(ROWS, POOL, a, tl.minimum(d, size[0]), start, bins, HIGH, WIDE, BN, CHUNK)
            tl.debug_barrier()
