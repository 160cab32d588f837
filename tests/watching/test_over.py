"""A word's attention over the picture: the right numbers, at the right place of the right picture, or an error."""

import numpy as np
import pytest
import torch
import transformers
from PIL import Image
from support.watching.image_models import SIDE, fed, made, pictures
from support.watching.sweep import verdict

import regard
from regard.drawing.terminal import percent
from regard.watching.images.overlays import _agreement, as_pixels, fitted
from regard.watching.record.tokens import Tokens


def _watched(name, model=None, shown=None, **options):
    model = model or made(name)
    shown = pictures(name) if shown is None else shown
    inputs = fed(name, model, shown)
    if "input_ids" in inputs:
        words = [f"w{n}" for n in range(inputs["input_ids"].shape[1])]
        options = {"tokens": [words] * len(inputs["input_ids"])} | options
    with torch.no_grad(), regard.watch(model, **options) as record:
        model(**inputs)
    return record, shown


def _numbers(picture):
    (numbers,) = picture.numbers.values()
    return torch.from_numpy(numbers)


@pytest.fixture(scope="module")
def llava():
    return _watched("llava")


@pytest.fixture(scope="module")
def text(llava):
    """The entries of its language model, and all their weights: (heads of all layers, queries, keys)."""
    entries = list(llava[0].at(kind="decoder").values())
    return entries, torch.cat([entry.to_dense()[0] for entry in entries])


def test_a_word_gives_to_patches_what_the_matrix_has(llava, text):
    record, shown = llava
    entries, dense = text
    tokens = entries[0].tokens[0].grids[1].tokens
    drawn = record.over("w38", shown[1], number=1)
    torch.testing.assert_close(_numbers(drawn), dense[:, 38][:, tokens].mean(0).double())
    assert record.over("w38", shown[1], number=1, layer=1, head=2).numbers.keys() == {"weights"}
    one = _numbers(record.over("w38", shown[1], number=1, layer=1, head=2))
    torch.testing.assert_close(one, entries[1].to_dense()[0, 2, 38][tokens].double())
    layers = record.over("w38", shown[1], number=1, each="layer").numbers
    assert list(layers) == ["layer 0", "layer 1"]
    torch.testing.assert_close(
        torch.from_numpy(layers["layer 1"]), entries[1].to_dense()[0, :, 38][:, tokens].mean(0).double()
    )
    heads = record.over("w38", shown[1], number=1, each="head").numbers
    assert list(heads) == [f"{layer} · {head}" for layer in (0, 1) for head in range(4)]
    total = sum(float(numbers.sum()) for numbers in heads.values()) / len(heads)
    other = dense[:, 38][:, entries[0].tokens[0].grids[0].tokens].mean(0).sum()
    assert f"{percent(total)} falls on the image, {percent(float(other))} on other images" in drawn.caption


def test_a_patch_is_a_place_in_every_question(llava, text):
    record, shown = llava
    entries, dense = text
    grids = entries[0].tokens[0].grids
    patch = regard.Patch(2, 1, image=1)
    token = int(grids[1].tokens[2, 1])
    seen = _numbers(record.over(patch, shown[0], kind="decoder"))
    torch.testing.assert_close(seen, dense[:, token][:, grids[0].tokens].mean(0).double())
    back = _numbers(record.over(patch, shown[1], number=1, kind="decoder", looked_at=True))
    torch.testing.assert_close(back, dense[:, :, token].mean(0)[grids[1].tokens].double(), atol=1e-7, rtol=1e-5)
    looks = record.looked_at(patch, kind="decoder", sinks=True)
    assert looks.word == "image 1 patch 2,1"
    assert looks.of("w38") == pytest.approx(float(dense[:, 38, token].mean()), abs=1e-6)
    assert record.looks("w38", kind="decoder", sinks=True).of("image 1 patch 2,1") == pytest.approx(
        looks.of("w38"), abs=1e-6
    )
    with pytest.raises(regard.InputError, match=r"image 1 has 4 × 4 patches, counted from 0. Got Patch"):
        record.looks(regard.Patch(4, 0, image=1), kind="decoder")
    with pytest.raises(regard.InputError, match=r"there are images 0, 1. Got Patch"):
        record.looks(regard.Patch(0, 0, image=2), kind="decoder")
    with pytest.raises(regard.InputError, match="kinds: choose kind = decoder or encoder"):
        record.over(patch._replace(image=0), shown[0])
    tower = record["model.vision_tower.encoder.layers.1.self_attn"]
    cls = _numbers(record.over("[CLS]", shown[1], sequence=1, layer=1))
    torch.testing.assert_close(cls, tower.to_dense()[1, :, 0, 1:].mean(0).view(4, 4).double())


def test_registers_are_named_and_their_share_is_said():
    record, shown = _watched("dinov2_with_registers")
    words = [word.text for word in record["encoder.layer.0.attention"].tokens[0].words]
    assert words[:7] == ["[CLS]", "[REG0]", "[REG1]", "[REG2]", "[REG3]", "patch 0,0", "patch 0,1"]
    share = record["encoder.layer.0.attention"].to_dense()[0, :, 3, 5:].mean(0).sum()
    assert f"{percent(float(share))} falls on the image" in record.over("[REG2]", shown[0], layer=0).caption


# Which picture, and which part of it


def _gradient(height, width, seed=5):
    """A picture that looks the same when it is made smaller, and nowhere like elsewhere."""
    draw = np.random.default_rng(seed)
    coarse = Image.fromarray(draw.integers(0, 255, (5, 7, 3), dtype=np.uint8))
    return np.asarray(coarse.resize((width, height), Image.Resampling.BICUBIC))


def _box(name, picture, processor, **inputs):
    """Where the patches are drawn, of a picture that a processor prepared: as the panel has it, in shares."""
    model = made(name)
    given = processor(Image.fromarray(picture), return_tensors="pt")
    with torch.no_grad(), regard.watch(model) as record:
        model(
            **{
                key: given[key]
                for key in ("pixel_values", "image_sizes", "aspect_ratio_ids", "aspect_ratio_mask")
                if key in given
            },
            **inputs,
        )
    entry = [entry for entry in record.values() if entry.key_tokens and entry.key_tokens[0].grids][-1]
    record.over(0, picture, kind=entry.kind, layer=entry.layer)  # it can be drawn
    return np.array(fitted(picture, entry.key_tokens[0].grids[0], None)[0])


def test_how_a_picture_was_fitted_is_found_out():
    wide, size = _gradient(60, 100), {"height": SIDE, "width": SIDE}
    squashed = transformers.SiglipImageProcessorPil(size=size)
    assert _box("siglip", wide, squashed, input_ids=torch.arange(50, 57)[None]) == pytest.approx([0, 0, 1, 1])
    middle = transformers.CLIPImageProcessorPil(size={"shortest_edge": SIDE}, crop_size=size)
    assert _box("dinov2", wide, middle) == pytest.approx([0, 0.2, 1, 0.8])
    enlarged = transformers.CLIPImageProcessorPil(size={"shortest_edge": round(SIDE / 0.875)}, crop_size=size)
    assert _box("dinov2", wide, enlarged) == pytest.approx([0.0625, 0.2375, 0.9375, 0.7625], abs=0.01)
    below = transformers.MllamaImageProcessorPil(size=size)  # in 2 × 2 tiles, of whose height it has 60 %
    assert _box("mllama", wide, below, input_ids=torch.arange(50, 57)[None]) == pytest.approx([0, 0, 1 / 0.6, 1])


def test_another_picture_is_refused(llava):
    record, shown = llava
    for other in (shown[0], shown[1][::-1], 255 - shown[1], np.rot90(shown[1]), _gradient(32, 32)):
        with pytest.raises(regard.InputError, match="not what the model saw as image 1: its patches agree by"):
            record.over("w38", other, number=1)
    brighter = np.clip(shown[1].astype(float) * 0.8 + 20, 0, 255).astype(np.uint8)
    assert "up to" in str(record.over("w38", brighter, number=1))
    with pytest.raises(regard.InputError, match=r"there are images 0, 1 here. Got number = 2"):
        record.over("w38", shown[1], number=2)


def test_a_picture_of_one_colour_must_have_the_shape_or_a_fit():
    flat = [np.full((SIDE, SIDE, 3), 99, np.uint8)] * 2
    record, _ = _watched("llava", shown=flat)
    assert "up to" in str(record.over("w37", flat[0]))
    wide = np.full((20, 60, 3), 99, np.uint8)
    with pytest.raises(regard.InputError, match="60 × 20, but the patches make one of 1 : 1"):
        record.over("w37", wide)
    assert "was shown its middle" in record.over("w37", wide, fit="middle").caption
    assert "was shown as you say" in record.over("w37", wide, fit=(0.0, 0.1, 1.0, 0.4)).caption
    with pytest.raises(regard.InputError, match="fit must be 'whole', 'middle'"):
        record.over("w37", wide, fit="squashed")


def test_pictures_in_many_forms(tmp_path, llava):
    record, shown = llava
    Image.fromarray(shown[0]).save(tmp_path / "picture.png")
    want = str(record.over("w38", shown[0]))
    tensor = torch.from_numpy(shown[0]).permute(2, 0, 1)
    for form in (
        tmp_path / "picture.png",
        str(tmp_path / "picture.png"),
        Image.fromarray(shown[0]),
        shown[0] / 255,
        tensor,
        tensor / 255,
    ):
        assert str(record.over("w38", form)) == want
    assert as_pixels(np.zeros((2, 3, 4), np.uint8)).shape == (2, 3, 3)
    (tmp_path / "text.png").write_text("no picture")
    with pytest.raises(regard.InputError, match="cannot be read as a picture"):
        record.over("w38", tmp_path / "text.png")
    with pytest.raises(regard.InputError, match=r"numbers from 0 to 1. Is it normalised"):
        record.over("w38", shown[0] / 100 - 1)
    with pytest.raises(regard.InputError, match=r"Got ndarray of int64 \(3,\)"):
        record.over("w38", np.array([1, 2, 3]))
    assert "no picture was given" in record.over("w38").caption


# What is not known is said


def test_images_that_do_not_fit_are_not_placed(llava):
    model = made("llava")
    record, _ = _watched("llava", model, images=[(4, 4), (2, 8)])
    with pytest.raises(
        regard.InputError, match=r"images = \[\(4, 4\), \(2, 8\)\] was said, but the model has \[\(4, 4\), \(4, 4\)\]"
    ):
        record.over("w38", kind="decoder")
    inputs = fed("llava", model, pictures("llava"))
    model.config.image_token_id = 77  # as if another token stood for images: none is in the text
    with pytest.raises(Exception, match="do not match"), regard.watch(model):
        model(**inputs)


def test_tiles_of_one_colour_are_known_if_the_user_says_so():
    flat = [np.full((64, 96, 3), 99, np.uint8)]
    record, _ = _watched("internvl", shown=flat)
    grids = record.at(kind="decoder")["model.language_model.layers.0.self_attn"].tokens[0].grids
    assert [tuple(grid.tokens.shape) for grid in grids] == [(2, 2)] * 7  # nobody can tell
    record, _ = _watched("internvl", shown=flat, images=[(4, 6)])
    grids = record.at(kind="decoder")["model.language_model.layers.0.self_attn"].tokens[0].grids
    assert [(grid.name, tuple(grid.tokens.shape)) for grid in grids] == [("tiles", (4, 6)), ("whole", (2, 2))]
    assert grids[0].tokens[0].tolist() == [3, 4, 8, 9, 13, 14]  # two of each tile, with a word after each
    assert len(record.over("w40", flat[0]).numbers) == 2
    whole = record.over(regard.Patch(1, 0, whole=True), flat[0], kind="decoder", looked_at=True)
    assert whole.caption.startswith("decoder")
    record, _ = _watched("internvl", shown=flat, images=[(4, 4)])
    with pytest.raises(regard.InputError, match=r"but the model has 7 tiles of 2 × 2 patches"):
        record.over("w40", kind="decoder")


class _Own(torch.nn.Module):
    """A model of the user's: all tokens look at each other, as they look like each other."""

    heads, kind, attend = 2, "encoder", staticmethod(regard.attention)

    def forward(self, x):
        return self.attend(x, x, x)


def test_a_model_of_the_users_has_the_images_that_the_user_says(unchecked):
    x = torch.randn(1, 2, 9, 8)
    for images, tokens in (([(2, 3, 3)], range(3, 9)), ([(1, 2, 0), (2, 3, 3)], (0, 1))):
        with regard.watch(_Own(), images=images) as record:
            record.model(x)
        drawn = record.over(8)
        assert "Drawn without a picture: none was given." in drawn.caption
        torch.testing.assert_close(
            _numbers(drawn).flatten(), record[""].to_dense()[0, :, 8, list(tokens)].mean(0).double()
        )
    for place, said in ((2, "token 2"), (regard.Patch(1, 2, 1), "image 1 patch 1,2")):  # no words are known
        assert f"Of what {said} gives" in record.over(place).caption
        assert f"the share that it gives to {said}." in record.over(place, looked_at=True).caption
    with regard.watch(_Own(), images=[(3, 3)]) as record:
        record.model(x)
    assert _numbers(record.over(8)).shape == (3, 3)  # as many patches as tokens: no first one is needed
    with regard.watch(_Own(), images=[(2, 4)]) as record:
        record.model(x)
    with pytest.raises(regard.InputError, match=r"are 8 tokens, but there are 9 here. Say which token"):
        record.over(8)
    with regard.watch(_Own()) as record:
        record.model(x)
    with pytest.raises(regard.InputError, match="no token of this record is known to be a patch"):
        record.over(8)
    for wrong in ([(3,)], [(0, 3)], [3, 3], "33"):
        with pytest.raises(regard.InputError, match="images are one"):
            regard.watch(_Own(), images=wrong)


def test_words_are_not_given_to_patches():
    """A text as long as the row of patches: only the language model reads words."""
    model = made("llava")
    shown = pictures("llava")[:1]
    inputs = fed("llava", model, shown)
    words = [f"w{n}" for n in range(17)]
    inputs["input_ids"] = torch.cat([inputs["input_ids"][:, 3:19], torch.tensor([[60]])], 1)
    inputs["attention_mask"] = torch.ones(1, 17)
    with torch.no_grad(), regard.watch(model, tokenizer=_Numbers()) as record:
        model(**inputs)
    assert record["model.vision_tower.encoder.layers.0.self_attn"].ids is None
    assert [word.text for word in record["model.vision_tower.encoder.layers.0.self_attn"].tokens[0].words[:2]] == [
        "[CLS]",
        "patch 0,0",
    ]
    assert record["model.language_model.layers.0.self_attn"].tokens[0].words[-1].text == "t60"
    assert len(words) == record["model.language_model.layers.0.self_attn"].shape[2]


class _Numbers:
    """A tokenizer that calls tokens by their ids; also a processor, whose tokenizer it is."""

    all_special_tokens = ()

    @property
    def tokenizer(self):
        return self

    def convert_ids_to_tokens(self, ids):
        return [f"t{n}" for n in ids]

    def convert_tokens_to_string(self, tokens):
        return "".join(tokens)


def test_what_is_written_looks_at_the_image_too():
    model, shown = made("qwen2_vl"), pictures("qwen2_vl")
    inputs = fed("qwen2_vl", model, shown)
    with torch.no_grad(), regard.watch(model, tokenizer=_Numbers()) as record:
        ids = model.generate(**inputs, max_new_tokens=3, min_new_tokens=3, do_sample=False)
    last = ids.shape[1] - 2  # the last token is written, and not read
    entries = list(record.at(kind="decoder").values())
    want = torch.cat([entry.to_dense()[0, :, last] for entry in entries]).mean(0)[entries[0].tokens[0].grids[1].tokens]
    torch.testing.assert_close(_numbers(record.over(last, shown[1], number=1, kind="decoder")), want.double())


def test_texts_of_a_batch_have_their_own_images():
    """One image in the first text, two in the second, and padding before the shorter one."""
    for name in ("qwen2_vl", "llava", "gemma3"):
        model, shown = made(name), pictures(name, 1)[:1] + pictures(name)
        inputs = fed(name, model, shown)
        row = inputs["input_ids"][0]
        after = (row == 60).nonzero()[0]  # the word after the first image
        first = torch.cat([row[: after + 1], row[-4:]])
        second = torch.cat([row[:3], row[after + 1 :]])
        padded = torch.cat([torch.zeros(len(second) - len(first), dtype=torch.long), first])
        ids = torch.stack([padded, second])
        inputs |= {"input_ids": ids, "attention_mask": (ids != 0).long()}
        token = model.config.image_token_id
        inputs |= {"mm_token_type_ids": (ids == token).long()} if "mm_token_type_ids" in inputs else {}
        with torch.no_grad(), regard.watch(model) as record:
            model(**inputs)
        entry = next(iter(record.at(kind="decoder").values()))
        assert [len(text.grids) for text in entry.tokens] == [1, 2]
        last = ids.shape[1] - 1
        for sequence, number, picture in ((0, 0, shown[0]), (1, 0, shown[1]), (1, 1, shown[2])):
            grid = entry.tokens[sequence].grids[number]
            assert set(ids[sequence][grid.tokens.flatten()].tolist()) == {token}
            drawn = record.over(-1, picture, sequence=sequence, number=number, kind="decoder", layer=0)
            want = entry.to_dense()[sequence, :, last].mean(0)[grid.tokens]
            torch.testing.assert_close(_numbers(drawn), want.double())
        with pytest.raises(regard.InputError, match="not what the model saw"):
            record.over(last, shown[0], sequence=1, kind="decoder", layer=0)


def test_words_that_are_asked_of_patches_look_at_no_image():
    """In cross-attention the words look, and nothing looks at them."""
    record, shown = _watched("mllama")
    assert record.over("w6", shown[0]).numbers["weights"].shape == (4, 12)
    with pytest.raises(regard.InputError, match='"w6" is not in the text'):
        record.over("w6", shown[0], looked_at=True)


def test_a_link_to_a_patch_can_be_cut():
    """The knock-out beside the picture: the word no longer looks at the patch, and only there anything changes."""
    for name in ("llava", "qwen2_5_vl", "internvl"):
        model, shown = made(name), pictures(name)
        inputs = fed(name, model, shown)
        words = [f"w{n}" for n in range(inputs["input_ids"].shape[1])]
        last, patch = len(words) - 1, regard.Patch(1, 1)
        link = regard.Link(f"w{last}", patch)
        with torch.no_grad(), regard.watch(model, tokens=words, without=link) as record:
            output = model(**inputs)
        entry = list(record.at(kind="decoder").values())[-1]
        token = entry.tokens[0].find(patch).start
        assert not entry.to_dense()[0, :, last, token].any()
        assert entry.to_dense()[0, :, last - 1, token].all()
        by_number = regard.effect(model, inputs, without=regard.Link(last, token, kind="decoder"))
        torch.testing.assert_close(by_number.after, output.logits)
        assert str(link) == f"w{last} → patch 1,1"
        assert f"Changed: w{last} → patch 1,1 is cut" in record.over(last, shown[0], kind="decoder").caption


# What is marked


def _sink(place):
    """Nine patches after a word; one of them has a key that every query likes best."""
    x = torch.zeros(1, 2, 40, 8)
    x[..., 0] = 1
    x[..., 1] = torch.randn(40) / 10
    x[..., 4 + place, 0] = 12
    return x


@pytest.mark.parametrize(("place", "border"), [(14, False), (0, True)])
def test_patches_that_everything_looks_at_are_marked_and_do_not_set_the_scale(place, border):
    with regard.watch(_Own(), tokens=[f"w{n}" for n in range(40)], images=[(6, 6, 4)]) as record:
        record.model(_sink(place))
    drawn = record.over("w2")
    assert str(drawn).split("\n")[1 + place // 6][2 * (place % 6) : 2 * (place % 6) + 2] == "[]"
    assert "Dashed: patches that most tokens look at, whatever they are; they do not set the scale." in drawn.caption
    assert ("Marked patches on the border: 1 of 1." in drawn.caption) == border
    assert "On average, a patch on the border" not in drawn.caption  # the others there are like all others
    assert drawn.to_svg().count("stroke-dasharray") == 1
    assert "█" in str(drawn)  # another patch is drawn darkest


def test_a_border_that_is_given_more_is_spoken_of():
    x = torch.zeros(1, 2, 40, 8)
    x[..., 0] = 1
    frame = torch.ones(6, 6)
    frame[1:-1, 1:-1] = 0
    x[..., 4:, 0] += 3 * frame.flatten()
    with regard.watch(_Own(), images=[(6, 6, 4)]) as record:
        record.model(x)
    given = record[""].to_dense()[0].mean((0, 1))[4:].view(6, 6)
    times = float(given[frame.bool()].mean() / given[~frame.bool()].mean())
    assert f"a patch on the border is given {times:.1f} times as much as an inner one" in record.over(0).caption


def test_where_nothing_stands_out_nothing_is_marked(llava):
    record, shown = llava
    drawn = record.over("w38", shown[0])
    assert "[]" not in str(drawn)
    assert "Dashed" not in drawn.caption


# To a file and back; and all the parts of a row


def test_images_are_saved_with_the_record(tmp_path):
    for name in ("llava", "internvl", "mllama"):
        record, shown = _watched(name)
        record.save(tmp_path / "record")
        again = regard.Record.open(tmp_path / "record")
        last = record[next(reversed(list(record)))].shape[2] - 1
        kind = "cross" if name == "mllama" else "decoder"
        assert str(again.over(last, shown[0], kind=kind)) == str(record.over(last, shown[0], kind=kind))
        assert repr(list(again.values())[-1].key_tokens[0].grids) == repr(list(record.values())[-1].key_tokens[0].grids)


def test_a_row_of_parts_is_one_matrix():
    """Qwen's tower calls attention once for each image or window: the record has all of them as one matrix."""
    record, _ = _watched("qwen2_5_vl")
    towers = [entry for name, entry in record.items() if "visual" in name]
    assert [entry.layer for entry in towers] == list(range(len(towers)))
    for entry in towers:
        assert entry.shape == (1, 4, 156, 156)
        dense = entry.to_dense()
        torch.testing.assert_close(dense.sum(-1), torch.ones(1, 4, 156))
        assert not dense[..., :60, 60:].any()  # one image does not see the other
    assert "equal" in verdict("qwen2_5_vl").forward


def test_tokens_without_images_find_no_patch():
    with pytest.raises(regard.InputError, match="no image is known here"):
        Tokens(["a", "b"]).find(regard.Patch(0, 0))


def test_a_grid_without_patches_looks_like_nothing():
    assert _agreement(np.zeros((4, 4, 3), np.uint8), (0.0, 0.0, 1.0, 1.0), torch.zeros(0, 3)) is None


# Through all layers, and over the frames of a video


@pytest.mark.parametrize("name", ["vit", "dinov2_with_registers", "clip"])
def test_a_rollout_of_the_class_token_is_that_of_eager_attention(name):
    record, shown = _watched(name)
    tower = "vision_model" if name == "clip" else None
    dense = [entry.to_dense()[0].double().mean(0) for entry in record.at(module=tower).values()]
    flow = torch.eye(len(dense[0]), dtype=torch.float64)
    for mean in dense:
        flow = (flow + mean @ flow) / 2
    entry = next(iter(record.at(module=tower).values()))
    drawn = record.over("[CLS]", shown[0], rollout=True, module=tower)
    torch.testing.assert_close(_numbers(drawn), flow[0][entry.tokens[0].grids[0].tokens], atol=1e-6, rtol=1e-4)
    assert "rollout through 2 layers" in drawn.caption
    share = float(flow[0][entry.tokens[0].grids[0].tokens].sum())
    assert f'Of what makes "[CLS]", {percent(share)} falls on the image' in drawn.caption
    assert not np.allclose(drawn.numbers["weights"], record.over("[CLS]", shown[0], module=tower).numbers["weights"])


def _video(name):
    """Two frames of patches, each of two pictures, and the inputs that show them."""
    model, (frames, high, wide) = made(name), (2, 4, 6)
    shown = np.random.default_rng(0).integers(0, 255, (2 * frames, high * 8, wide * 8, 3), dtype=np.uint8) // 40 * 40
    shown = np.kron(shown[:, ::8, ::8], np.ones((1, 8, 8, 1))).astype(np.uint8)
    pixels = torch.from_numpy(shown).permute(0, 3, 1, 2).float() / 255
    blocks = pixels.view(frames, 2, 3, high // 2, 2, 8, wide // 2, 2, 8)  # pairs of frames; blocks of 2 × 2 patches
    patches = blocks.permute(0, 3, 6, 4, 7, 2, 1, 5, 8).reshape(frames * high * wide, -1)
    count = high * wide // 4
    token = model.config.video_token_id
    ids = [50, 57, *[token] * count, *([58, 51, 57] if name == "qwen3_vl" else []), *[token] * count, 58, 52, 53]
    ids = torch.tensor([ids])
    inputs = {
        "input_ids": ids,
        "mm_token_type_ids": 2 * (ids == token).long(),
        "pixel_values_videos": patches,
        "video_grid_thw": torch.tensor([[frames, high, wide]]),
    }
    return model, shown, inputs, (ids[0] == token).nonzero().flatten().view(frames, high // 2, wide // 2)


@pytest.mark.parametrize("name", ["qwen2_5_vl", "qwen3_vl"])
def test_the_frames_of_a_video_are_a_strip(name):
    model, shown, inputs, places = _video(name)
    words = [f"w{n}" for n in range(inputs["input_ids"].shape[1])]
    with torch.no_grad(), regard.watch(model, tokens=words) as record:
        model(**inputs)
    entry = list(record.at(kind="decoder").values())[-1]
    (grid,) = entry.key_tokens[0].grids
    assert repr(grid).startswith("Grid(2 × 6 patches of image 0 (2 frames)")
    assert torch.equal(grid.tokens, torch.cat(list(places), 1))
    last = len(words) - 1
    drawn = record.over(f"w{last}", shown, layer=entry.layer)
    expected = entry.to_dense()[0, :, last][:, torch.cat(list(places), 1)].mean(0)
    torch.testing.assert_close(_numbers(drawn).float(), expected, atol=1e-6, rtol=1e-4)
    together = np.concatenate(list(shown.reshape(2, 2, *shown.shape[1:]).mean(1)), 1)
    np.testing.assert_allclose(as_pixels(shown, 2), together, atol=0.6)
    assert fitted(as_pixels(shown, 2), grid, None)[1] == "all of it"
    with pytest.raises(regard.InputError, match="not what the model saw"):
        record.over(f"w{last}", shown[::-1].copy(), layer=entry.layer)
    tower = next(e for e in record.values() if "visual" in e.name and e.kind == "encoder")
    (frames,) = tower.tokens[0].grids
    assert frames.tokens.shape == (4, 12)
    changed = inputs["pixel_values_videos"].clone()
    changed[int(frames.tokens[2, 7])] += 3 if name != "qwen2_5_vl" else 0
    with torch.no_grad(), regard.watch(model, tokens=words) as after:
        model(**inputs | {"pixel_values_videos": changed})
    moved = (after[tower.name].call.key - tower.call.key)[0].abs().sum((0, 2))
    if name != "qwen2_5_vl":  # whose tower puts patches in windows first
        assert int(moved.argmax()) == int(frames.tokens[2, 7])
