"""Models that read images: eager's numbers in every part, and patches where they lie.

Where a patch lies is asked of the model: a square of the picture is changed, its own processor prepares it, and the
keys that change must be those of the tokens at that place. Meanwhile no head of the vision tower may speak, so that a
patch reaches no token but its own.
"""

import numpy as np
import pytest
import torch
from support.watching.image_models import FAMILIES, fed, made, pictures
from support.watching.sweep import _forward, _generation

import regard
from regard.watching.images.families import WHOLE

SQUARE = 16  # pixels; patches have 8, and those that are merged make such squares


@pytest.mark.parametrize("name", FAMILIES)
def test_same_numbers_as_eager_in_tower_connector_and_language_model(name):
    plain, watched = made(name, "eager"), made(name)
    inputs = fed(name, plain, pictures(name))
    for held in (_forward, _generation) if plain.can_generate() else (_forward,):
        told, unseen, compared, ran = held(plain, watched, inputs)
        assert (told, unseen) == ("equal", ())
        assert compared == ran > 0


def _watched(model, inputs, silent=()):
    with torch.no_grad(), regard.watch(model, without={name: range(heads) for name, heads in silent}) as record:
        model(**inputs)
    return record


def _repainted(picture, top, left):
    changed = picture.copy()
    changed[top : top + SQUARE, left : left + SQUARE] = 255 - changed[top : top + SQUARE, left : left + SQUARE]
    return changed


def _under(grid, picture, top, left):
    """The tokens whose part of the picture the square touches."""
    rows, columns = grid.tokens.shape
    a, b, c, d = grid.box
    height, width = picture.shape[:2]
    ys = [(a + (c - a) * n / rows) * height for n in range(rows + 1)]
    xs = [(b + (d - b) * n / columns) * width for n in range(columns + 1)]
    return {
        int(grid.tokens[i, j])
        for i in range(rows)
        for j in range(columns)
        if ys[i] < top + SQUARE - 0.01 and ys[i + 1] > top + 0.01 and xs[j] < left + SQUARE - 0.01 and xs[j + 1] > left + 0.01
    }  # fmt: skip


def _owner(name, shown, batch_entry, grid):
    """Which picture a grid of the tower is of, where each view is an entry of the batch."""
    if not FAMILIES[name].resized:
        return batch_entry
    counts = [-(-picture.shape[0] // 32) * -(-picture.shape[1] // 32) + 1 for picture in shown]  # tiles and the whole
    return next(n for n in range(len(counts)) if batch_entry < sum(counts[: n + 1]))


@pytest.mark.parametrize("name", FAMILIES)
def test_patches_lie_where_the_model_has_them(name):
    model, shown = made(name), pictures(name)
    inputs = fed(name, model, shown)
    record = _watched(model, inputs)
    silent = [(n, entry.shape[1]) for n, entry in record.items() if "vision" in n or "visual" in n]
    silent = silent or [(n, entry.shape[1]) for n, entry in record.items()]  # a tower by itself
    before = _watched(model, inputs, silent)
    first = {}
    for entry in before.values():
        if entry.key_tokens is not None and any(own.grids for own in entry.key_tokens):
            first.setdefault((entry.kind, entry.shape[2:]), entry)
    towers = {n for n, _ in silent}
    assert any(entry.name in towers for entry in first.values())
    assert not FAMILIES[name].text or any(entry.name not in towers for entry in first.values())
    draw = np.random.default_rng(1)
    for number, picture in enumerate(shown):
        blocks = [
            (SQUARE * i, SQUARE * j)
            for i in range(picture.shape[0] // SQUARE)
            for j in range(picture.shape[1] // SQUARE)
        ]
        for place in draw.permutation(len(blocks))[:3]:
            top, left = blocks[place]
            other = list(shown)
            other[number] = _repainted(picture, top, left)
            after = _watched(model, fed(name, model, other), silent)
            for entry in first.values():
                keys = entry.call.key, after[entry.name].call.key
                moved = (keys[1] - keys[0]).norm(dim=-1).amax(1)  # (batch, tokens)
                packed = entry.shape[0] == 1 or entry.kind == "decoder"
                for b, own in enumerate(entry.key_tokens):
                    inexact, exact = set(), set()
                    for grid in own.grids:
                        owner = grid.image if packed else _owner(name, shown, b, grid)
                        expected = _under(grid, picture, top, left) if owner == number else set()
                        resized = grid.name == WHOLE or (FAMILIES[name].resized and not packed and not grid.name)
                        if not resized:
                            exact |= expected
                        elif expected:
                            inexact |= set(grid.tokens.flatten().tolist())
                            most = grid.tokens.flatten()[moved[b][grid.tokens.flatten()].argmax()]
                            assert int(most) in expected, (entry.name, grid)
                    found = set((moved[b] > 1e-5).nonzero().flatten().tolist()) - inexact
                    assert found == exact, (entry.name, b, top, left)
