"""Triton kernels of the beam search on a GPU, where plain torch would read memory several times: see `StaticSearch`."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator, import-untyped"
from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from regard.backends.triton.kernels import LOG2E

__all__ = ["attend_own", "normaliser_and_maxima"]

_HELD = 4096  # numbers of keys that a warp holds: more would not fit into its registers
_CHUNK = 4096  # logits that a program holds


def attend_own(query: Tensor, key: Tensor, value: Tensor, slots: Tensor, step: Tensor) -> Tensor:
    """Attention of the targets of each sentence, each to its own past: from (sentences, beam, width) to the same.

    Keys and values are (sentences, positions, beam, key heads, width of a head), and `slots` (sentences, beam,
    positions) says in which slots of the beam the keys of a target lie. Targets share most of their past, so the cache
    holds what another target has read.
    """
    assert query.stride(2) == 1
    assert all(tensor.is_contiguous() for tensor in (key, value, slots))
    sentences, beam, width = query.shape
    positions, key_heads, size = key.shape[1], key.shape[3], key.shape[4]
    heads, targets, columns = width // size, triton.next_power_of_2(beam), triton.next_power_of_2(size)
    out = query.new_empty(query.shape)
    _attend_own[(sentences, heads)](
        query, key, value, slots, step, out, query.stride(0), query.stride(1), positions, size**-0.5,
        BEAM=beam, KEY_HEADS=key_heads, GROUP=heads // key_heads, WIDTH=size, BEAM_ROOM=targets, WIDTH_ROOM=columns,
        BLOCK=min(max(_HELD // (targets * columns), 1), 16), num_warps=1,
    )  # fmt: skip
    return out


@triton.jit
def _attend_own(
    query, key, value, slots, step, out, sentence_stride, target_stride, positions, scale, BEAM: tl.constexpr,
    KEY_HEADS: tl.constexpr, GROUP: tl.constexpr, WIDTH: tl.constexpr, BEAM_ROOM: tl.constexpr,
    WIDTH_ROOM: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """One head of one sentence: all its targets, over blocks of positions."""
    sentence, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    target, column = tl.arange(0, BEAM_ROOM), tl.arange(0, WIDTH_ROOM)
    real = (target < BEAM)[:, None] & (column < WIDTH)[None, :]
    place = target[:, None] * target_stride + head * WIDTH + column[None, :]
    q = tl.load(query + sentence * sentence_stride + place, mask=real, other=0.0).to(tl.float32) * (scale * LOG2E)
    first = sentence * positions * (BEAM * KEY_HEADS * WIDTH) + head // GROUP * WIDTH
    line = slots + (sentence * BEAM + target)[:, None] * positions
    tokens = tl.load(step) + 1
    top = tl.full((BEAM_ROOM,), -float("inf"), tl.float32)
    total = tl.zeros((BEAM_ROOM,), tl.float32)
    mixed = tl.zeros((BEAM_ROOM, WIDTH_ROOM), tl.float32)
    for start in range(0, tokens, BLOCK):
        position = (start + tl.arange(0, BLOCK)).to(tl.int64)
        inside = (target < BEAM)[:, None] & (position < tokens)[None, :]
        slot = tl.load(line + position[None, :], mask=inside, other=-1).to(tl.int64)
        seen = slot >= 0
        at = first + ((position[None, :] * BEAM + slot) * (KEY_HEADS * WIDTH))[:, :, None] + column[None, None, :]
        there = seen[:, :, None] & (column < WIDTH)[None, None, :]
        k = tl.load(key + at, mask=there, other=0.0).to(tl.float32)
        scores = tl.where(seen, tl.sum(q[:, None, :] * k, 2), -float("inf"))
        highest = tl.maximum(top, tl.max(scores, 1))
        base = tl.where(highest > -float("inf"), highest, 0.0)  # a target that is only room sees nothing
        weights = tl.exp2(scores - base[:, None])
        kept = tl.exp2(top - base)
        v = tl.load(value + at, mask=there, other=0.0).to(tl.float32)
        mixed = mixed * kept[:, None] + tl.sum(weights[:, :, None] * v, 1)
        total = total * kept + tl.sum(weights, 1)
        top = highest
    mixed = mixed / tl.where(total == 0.0, 1.0, total)[:, None]
    row = (sentence * BEAM + target)[:, None] * (KEY_HEADS * GROUP * WIDTH)
    tl.store(out + row + head * WIDTH + column[None, :], mixed.to(out.dtype.element_ty), mask=real)


def normaliser_and_maxima(logits: Tensor, forbidden: Tensor, block: int) -> tuple[Tensor, Tensor]:
    """The logsumexp of each row, and the largest of each block of it that is not forbidden, in one pass.

    `forbidden` (rows, some) holds tokens, or -1; they count in the sum.
    """
    assert logits.is_contiguous()
    assert forbidden.is_contiguous()
    rows, size = logits.shape
    blocks = size // block  # the rest after the last whole block is left out
    normaliser, maxima = logits.new_empty(rows), logits.new_empty(rows, blocks)
    chunk = max(min(_CHUNK, triton.next_power_of_2(size)), block)
    _normaliser_and_maxima[(rows,)](
        logits, forbidden, normaliser, maxima, size, blocks, FORBIDDEN=forbidden.shape[1], CHUNK=chunk, BLOCK=block,
        num_warps=8,
    )  # fmt: skip
    return normaliser, maxima


@triton.jit
def _normaliser_and_maxima(
    logits, forbidden, normaliser, maxima, size, blocks, FORBIDDEN: tl.constexpr, CHUNK: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """One row."""
    row = tl.program_id(0).to(tl.int64)
    most = tl.max(tl.load(forbidden + row * FORBIDDEN + tl.arange(0, FORBIDDEN)), 0)  # -1 in nearly all rows
    top, total = -float("inf"), 0.0
    for start in range(0, size, CHUNK):
        token = start + tl.arange(0, CHUNK)
        x = tl.load(logits + row * size + token, mask=token < size, other=-float("inf"))
        highest = tl.maximum(top, tl.max(x, 0))
        base = tl.where(highest > -float("inf"), highest, 0.0)
        total = total * tl.exp2((top - base) * LOG2E) + tl.sum(tl.exp2((x - base) * LOG2E), 0)
        top = highest
        if most >= 0:
            for n in tl.static_range(FORBIDDEN):
                x = tl.where(token == tl.load(forbidden + row * FORBIDDEN + n), -float("inf"), x)
        block = start // BLOCK + tl.arange(0, CHUNK // BLOCK)
        tl.store(maxima + row * blocks + block, tl.max(tl.reshape(x, (CHUNK // BLOCK, BLOCK)), 1), mask=block < blocks)
    tl.store(normaliser + row, top + tl.log(total))
