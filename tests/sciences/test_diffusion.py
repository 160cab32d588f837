"""Diffusion: every block and step is seen, text and image are told apart, and `over` is the mean of eager attention."""

import math

import numpy as np
import pytest
import torch
from support.sciences.denoisers import COLUMNS, JOINT, NAMES, ROWS, WORDS, made
from torch.nn import functional

import regard

diffusers = pytest.importorskip("diffusers", reason="diffusers is not installed: make test-sciences")
STEPS = 3


def _sampled(name, monkeypatch):
    """A record of some steps, and the weights that eager attention has in them: by step, in the order of the calls."""
    model, inputs = made(name)
    dense, steps = [], [{**inputs, "timestep": inputs["timestep"] * (n + 1) / STEPS} for n in range(STEPS)]

    def eager(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
        assert attn_mask is None or attn_mask.dtype == torch.bool or not attn_mask.any()
        assert not is_causal
        weights = torch.softmax(query.double() @ key.double().mT * (scale or 1 / math.sqrt(query.shape[-1])), -1)
        dense[-1].append(weights[0])
        return (weights @ value.double()).to(value.dtype)

    with torch.no_grad():
        with monkeypatch.context() as patch:
            patch.setattr(functional, "scaled_dot_product_attention", eager)
            for step in steps:
                dense.append([])
                expected = model(**step).sample
        with regard.watch(model, tokens=WORDS) as record:
            for step in steps:
                output = model(**step).sample
    torch.testing.assert_close(output, expected, atol=1e-4, rtol=1e-3)
    return record, dense, model, inputs


@pytest.mark.parametrize("name", NAMES)
def test_every_block_and_step_is_seen_and_its_mean_is_that_of_eager_attention(name, monkeypatch):
    record, dense, _, _ = _sampled(name, monkeypatch)
    assert record.unseen == ()
    assert [len(step) for step in dense] == [len(each) for each in record.passes]
    joint, tokens = name in JOINT, len(WORDS) + ROWS * COLUMNS
    expected = []
    for each, weights in zip(record.passes, dense, strict=True):
        by_entry = dict(zip(each, weights, strict=True))  # entries come in the order of their calls
        for key, entry in each.items():
            torch.testing.assert_close(entry.to_dense()[0].double(), by_entry[key], atol=1e-5, rtol=1e-3)
        for of_heads in weights:
            if of_heads.shape[-1] != (tokens if joint else len(WORDS)):
                continue
            image = slice(0, -len(WORDS)) if name == "sd3" else slice(len(WORDS), None)
            at = 2 - len(WORDS) if name == "sd3" else 2
            column = of_heads[:, image, at] if joint else of_heads[:, :, 2]
            side = round(math.sqrt(column.shape[1] / 6))
            expected.append(column.view(-1, side * 2, side * 3))
    size = max(each.shape[1:] for each in expected)
    expected = [functional.interpolate(each[None], size, mode="nearest-exact")[0] for each in expected]
    drawn = record.over("dog", looked_at=True)
    ours = torch.from_numpy(drawn.numbers["weights"])
    torch.testing.assert_close(ours, torch.cat(expected).mean(0), atol=1e-6, rtol=1e-3)
    assert f"{STEPS} steps" in drawn.caption
    each = len(expected) // STEPS
    last = torch.from_numpy(record.over("dog", looked_at=True, steps=slice(-1, None)).numbers["weights"])
    torch.testing.assert_close(last, torch.cat(expected[-each:]).mean(0), atol=1e-6, rtol=1e-3)
    steps = record.over("dog", looked_at=True, each="step").numbers
    assert list(steps) == ["step 0", "step 1", "step 2"]
    np.testing.assert_allclose(steps["step 2"], last)
    if not joint:  # only the image looks at the text
        np.testing.assert_allclose(record.over("dog").numbers["weights"], drawn.numbers["weights"])
        return
    rows = [w[:, at][:, image] for step in dense for w in step if w.shape[-1] == tokens]
    rows = torch.cat(rows).mean(0).view(ROWS, COLUMNS)  # what the word looks at in the image
    torch.testing.assert_close(torch.from_numpy(record.over("dog").numbers["weights"]), rows, atol=1e-6, rtol=1e-3)


@pytest.mark.parametrize("name", NAMES)
def test_words_and_patches_are_where_the_record_says(name, monkeypatch):
    """Change a word, or a place of the image: the keys there change most (a UNet's convolutions spread it)."""
    model, inputs = made(name)

    def keys(**changed):
        with torch.no_grad(), regard.watch(model, tokens=WORDS) as record:
            model(**inputs | changed)
        return record

    before = keys()
    joint = next(e for e in before.values() if e.key_tokens[0].named and e.key_tokens[0].has("blue"))
    text = inputs["encoder_hidden_states"].clone()
    text[0, 5] += 1
    moved = (keys(encoder_hidden_states=text)[joint.name].call.key - joint.call.key)[0].abs().sum((0, 2))
    assert moved.argmax() == joint.key_tokens[0].find("blue").start
    if name in JOINT:
        assert int((moved > 1e-5).sum()) == 1
    row, column = 5, 7
    pixels = "sample" if "sample" in inputs else "hidden_states"
    image = inputs[pixels].clone()
    if image.dim() == 4:
        image[:, :, 2 * row : 2 * row + 2, 2 * column : 2 * column + 2] += 3
    else:
        image[0, row * COLUMNS + column] += 3
    entry = next(e for e in before.values() if e.tokens[0].grids and e.shape[2] % (ROWS * COLUMNS) in (0, len(WORDS)))
    grid, after = entry.tokens[0].grids[0], keys(**{pixels: image})[entry.name]
    moved = (after.call.query - entry.call.query)[0].abs().sum((0, 2))[grid.tokens]
    scale = grid.tokens.shape[0] // ROWS
    assert divmod(int(moved.argmax()), grid.tokens.shape[1]) in [
        (row * scale + a, column * scale + b) for a in range(scale) for b in range(scale)
    ]


def test_a_picture_and_a_prompt_for_each_text_of_a_batch(monkeypatch):
    model, inputs = made("sd15")
    batch = {**inputs, "sample": inputs["sample"].repeat(2, 1, 1, 1)}
    batch["encoder_hidden_states"] = torch.cat([torch.randn(1, 7, 32), inputs["encoder_hidden_states"]])
    other = ["blurry", *[""] * 6]
    with torch.no_grad(), regard.watch(model, tokens=[other, [f"{word}</w>" for word in WORDS]]) as record:
        model(**batch)
    with torch.no_grad(), regard.watch(model, tokens=WORDS) as alone:
        model(**inputs)
    picture = np.random.default_rng(0).integers(0, 255, (64, 96, 3), dtype=np.uint8)
    ours = record.over("dog", picture, sequence=1).numbers["weights"]
    np.testing.assert_allclose(ours, alone.over("dog").numbers["weights"], atol=1e-5)
    with pytest.raises(regard.InputError, match='"dog"'):
        record.over("dog", picture)
    cross = record.at(kind="cross").over("dog", sequence=1, each="layer").numbers
    assert [name for name in cross if name.startswith("up_blocks.1.attentions.1")]


def test_a_long_sampling_can_be_summed_up_step_by_step():
    model, inputs = made("flux")
    total = 0
    with torch.no_grad(), regard.watch(model, tokens=WORDS) as record:
        for n in range(STEPS):
            model(**{**inputs, "timestep": torch.tensor([n / STEPS])})
            total = total + record.over("dog", looked_at=True).numbers["weights"] / STEPS
            record.forget()
            assert len(record.passes) == 0
    with torch.no_grad(), regard.watch(model, tokens=WORDS) as record:
        for n in range(STEPS):
            model(**{**inputs, "timestep": torch.tensor([n / STEPS])})
    np.testing.assert_allclose(total, record.over("dog", looked_at=True).numbers["weights"], rtol=1e-5)


def test_blocks_that_no_backend_routes_are_named():
    from diffusers.models.attention_processor import AttnProcessor

    model, inputs = made("sd15")
    model.mid_block.attentions[0].transformer_blocks[0].attn2.set_processor(AttnProcessor())
    with (
        torch.no_grad(),
        pytest.warns(regard.UnseenWarning, match="attn2"),
        regard.watch(model, tokens=WORDS) as record,
    ):
        model(**inputs)
    assert record.unseen == ("mid_block.attentions.0.transformer_blocks.0.attn2",)
    assert "Not seen: mid_block" in repr(record)
    assert record.over("dog").numbers["weights"].shape == (16, 24)


def test_another_backend_of_diffusers_is_seen_too():
    model, inputs = made("qwen")
    with torch.no_grad(), regard.watch(model, tokens=WORDS) as plain:
        model(**inputs)
    model.set_attention_backend("_native_math")
    with torch.no_grad(), regard.watch(model, tokens=WORDS) as record:
        model(**inputs)
    assert record.unseen == ()
    np.testing.assert_allclose(record.over("dog").numbers["weights"], plain.over("dog").numbers["weights"], atol=1e-6)


def test_several_images_of_one_step_are_told_apart():
    model, inputs = made("qwen")
    shapes = [[(1, ROWS, COLUMNS), (1, 4, 6)]]  # the painted image, and an image that is edited
    inputs |= {"hidden_states": torch.randn(1, ROWS * COLUMNS + 24, 4), "img_shapes": shapes}
    with torch.no_grad(), regard.watch(model, tokens=WORDS) as record:
        model(**inputs)
    grids = next(iter(record.values())).tokens[0].grids
    assert [(tuple(grid.tokens.shape), int(grid.tokens[0, 0])) for grid in grids] == [((8, 12), 7), ((4, 6), 103)]
    assert record.over("dog", number=1).numbers["weights"].shape == (4, 6)
