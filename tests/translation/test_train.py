"""Training: recipes, batches, and corpora that are broken."""

import json
import random
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from support.translation import mutations, tiny_recipe
from support.translation.tiny_recipe import losses

import regard
from regard.errors import FileError
from regard.translation import Recipe, read_pairs, train
from regard.translation.training.corpus import Batches, Corpus
from regard.translation.training.loop import Trainer


@pytest.fixture
def recipe(tmp_path):
    tiny_recipe.write_corpora(tmp_path)
    return partial(tiny_recipe.write, tmp_path)


@pytest.mark.parametrize(
    "path", sorted((Path(__file__).parents[2] / "recipes").glob("*.toml")), ids=lambda path: path.stem
)
def test_the_recipes_can_be_read(path):
    assert Recipe.read(path).config(8000).vocabulary == 8000


@pytest.mark.usefixtures("unchecked")  # shape checks take most of the time; the shorter trainings below have them
@pytest.mark.slow
def test_it_learns_and_what_it_leaves_opens(recipe, tmp_path):
    model = train(Recipe.read(recipe(steps=160, check=160)), tmp_path / "out", quiet=True)
    assert not model.training
    found = losses(tmp_path / "out")
    assert found[160] < 0.5 * found[10]
    assert {p.name for p in (tmp_path / "out").iterdir()} == {
        "checkpoint.safetensors", "config.json", "log.jsonl", "model.safetensors", "translation.json", "vocabulary.spm"
    }  # fmt: skip
    looks = [line for line in map(json.loads, (tmp_path / "out" / "log.jsonl").open()) if "chrf" in line]
    assert looks[-1]["chrf"] > 50
    assert isinstance(looks[-1]["sample"], str)


def test_it_can_begin_with_the_weights_of_another_training(recipe, tmp_path):
    train(Recipe.read(recipe(steps=60, check=60)), tmp_path / "first", quiet=True)
    vocabulary = {"vocabulary_from": "first", "weights_from": "first"}
    train(Recipe.read(recipe(steps=10, check=10, rate=1e-9, **vocabulary)), tmp_path / "second", quiet=True)
    before, after = losses(tmp_path / "first"), losses(tmp_path / "second")
    assert after[10] < before[10] - 0.5
    first, second = (regard.Transformer.load(tmp_path / name) for name in ("first", "second"))
    torch.testing.assert_close(second.state_dict(), first.state_dict(), atol=1e-4, rtol=0)
    other = Recipe.read(recipe(steps=1, **vocabulary))
    with pytest.raises(FileError, match=r"first is another model: hidden is \d+ there, 40 here"):
        train(replace(other, model=other.model | {"hidden": 40}), tmp_path / "third", quiet=True)


def test_its_heads_can_be_monitored(recipe, tmp_path):
    """Numbers of the heads join the log, their film the folder; what is learned stays the same bits."""
    plain, monitored = tmp_path / "plain", tmp_path / "monitored"
    train(Recipe.read(recipe()), plain, quiet=True)
    train(Recipe.read(recipe(monitor=6)), monitored, quiet=True)
    sampled = [line for line in tiny_recipe.log(monitored) if "attention/entropy" in line]
    assert [line["step"] for line in sampled] == [6, 12, 18, 24]
    assert sampled[0]["attention/heads"] == 6
    assert losses(monitored) == losses(plain)
    assert (monitored / "model.safetensors").read_bytes() == (plain / "model.safetensors").read_bytes()
    assert (monitored / "attention.html").read_text().count("data-frame=") == 4


def test_a_logged_loss_is_the_mean_since_the_last_one(recipe, tmp_path, monkeypatch):
    losses, step = [], Trainer._step

    def remembered(self, *args):
        losses.append(step(self, *args))
        return losses[-1]

    monkeypatch.setattr(Trainer, "_step", remembered)
    train(Recipe.read(recipe(steps=24)), tmp_path / "out", quiet=True)  # looks every 8 steps, a line every 10
    lines = [json.loads(line) for line in (tmp_path / "out" / "log.jsonl").read_text().splitlines()]
    logged = [(line["step"], line["loss"]) for line in lines if "loss" in line]
    assert [at for at, _ in logged] == [8, 10, 16, 20, 24]
    before = 0
    for at, loss in logged:
        assert loss == pytest.approx(float(torch.stack(losses[before:at]).mean()), rel=1e-5)
        before = at


def regard_console():
    from rich.console import Console

    return Console(quiet=True)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"one\tun\ntwo deux\n", "line 2: no tab"),
        (b"one\tun\nt\xe9l\tx\n", "line 2: not UTF-8"),
        (b"", "holds no pair"),
        (b"\t\n \t \n", "holds no pair"),
    ],
)
def test_a_broken_corpus_is_named_with_its_line(recipe, tmp_path, data, message):
    path = recipe()
    (tmp_path / "train.tsv").write_bytes(data)
    with pytest.raises(regard.RegardError, match=message):
        train(Recipe.read(path), tmp_path / "out", quiet=True)


def test_a_byte_order_mark_is_not_learned(recipe, tmp_path):
    path = recipe(vocabulary=60)
    for name in ("train.tsv", "dev.tsv", "recipe.toml"):
        (tmp_path / name).write_bytes(b"\xef\xbb\xbf" + (tmp_path / name).read_bytes())
    assert next(read_pairs(tmp_path / "train.tsv"))[0][0] != "\ufeff"
    trainer = Trainer(Recipe.read(path), tmp_path / "out", regard_console())
    trainer.prepare()
    assert not trainer.words.knows("\ufeff")


@pytest.mark.parametrize("changes", [{"longest": 2}, {"longest": 96, "positions": 7}])
def test_pairs_that_are_all_too_long_are_refused(recipe, tmp_path, changes):
    """Without a batch there is no step: it would wait for ever."""
    path = recipe(longest=changes["longest"], vocabulary=25)
    (tmp_path / "train.tsv").write_text("one two three\tun deux trois\nfour five six\tquatre cinq six\n" * 3)
    if "positions" in changes:
        path.write_text(path.read_text().replace("positions = 64", "positions = 7"))
    with pytest.raises(regard.InputError, match=r"no training pair has fewer than .* raise longest"):
        train(Recipe.read(path), tmp_path / "out", quiet=True)


def test_a_model_beyond_the_memory_is_refused_before_it_is_built(recipe, tmp_path):
    path = recipe()
    path.write_text(path.read_text().replace("hidden = 32", "hidden = 16777216").replace("width = 32", "width = 65536"))
    with pytest.raises(regard.TooLargeError, match="GiB are free"):
        train(Recipe.read(path), tmp_path / "out", quiet=True)


@pytest.mark.usefixtures("unchecked")
def test_a_recipe_with_any_damage_is_read_or_refused(recipe, tmp_path):
    """What is read trains, for one step."""
    choose = random.Random(0)
    whole = recipe(sampling=0.1, minutes=1.0).read_bytes()
    read = refused = 0
    for number in range(mutations.COUNT):
        path = tmp_path / "recipe.toml"
        path.write_bytes(mutations.mutated(whole, choose))
        out = tmp_path / f"out-{number}"
        try:
            found = Recipe.read(path)
            if found.config(60).parameters > 10**6:
                continue
            trainer = Trainer(found, out, regard_console())
            trainer.prepare()
            loss = trainer._step(next(trainer._stream()), trainer._rate())
            assert loss.isfinite()
            read += 1
        except regard.RegardError:
            refused += 1
    assert read
    assert refused


def test_unequal_halves_are_refused(tmp_path):
    (tmp_path / "a.en").write_text("one\ntwo\n")
    (tmp_path / "a.fr").write_text("un\n")
    with pytest.raises(regard.FileError, match=r"a.en has 2 lines, .*a.fr has 1"):
        list(read_pairs(tmp_path / "a.en", tmp_path / "a.fr"))
    (tmp_path / "a.fr").write_text("un\r\ndeux")
    assert list(read_pairs(tmp_path / "a.en", tmp_path / "a.fr")) == [("one", "un"), ("two", "deux")]


def test_what_is_dropped_is_counted():
    corpus = Corpus(longest=20)
    corpus.add([("a b", "c d"), ("a  b", "c d"), ("", "x"), ("y" * 30, "z"), ("a", "b c d e f g h i j")])
    assert corpus.pairs == [("a b", "c d")]
    assert sum(corpus.dropped.values()) == 4
    assert "1 of 5 pairs kept" in corpus.report()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("train = 1 2", "is not TOML"),
        ('train = ["a"]', "dev is missing"),
        ('train = ["a"]\ndev = "b"\nstep = 3', "unknown field 'step'"),
        ('train = ["a"]\ndev = "b"\n[model]\nwidht = 3', "widht"),
        ('train = ["a"]\ndev = "b"\n[model]\nwidth = 3', "width must be even"),
        ('train = "a"\ndev = "b"', "train must be a list of corpora"),
        ('train = [["a", "b", "c"]]\ndev = "b"', "train must be a list of corpora"),
        ('train = []\ndev = "b"', "train must be a list of corpora"),
        ('train = ["a"]\ndev = 3', "dev must be a corpus"),
        ('train = ["a"]\ndev = "b"\nfar_from = "c"', "far_from must be a list"),
        ('train = ["a"]\ndev = "b"\nvocabulary_from = 1', "vocabulary_from must be a folder"),
        ('train = ["a"]\ndev = "b"\nmodel = 1', "model must be a table"),
        ('train = ["a"]\ndev = "b"\nreverse = 1', "reverse must be true or false"),
        ('train = ["a"]\ndev = "b"\nsteps = 0', "steps must be a whole number from 1 .* Got 0"),
        ('train = ["a"]\ndev = "b"\nsteps = "9"', "steps must be a whole number from 1 .* Got '9'"),
        ('train = ["a"]\ndev = "b"\nsteps = true', "steps must be a whole number"),
        ('train = ["a"]\ndev = "b"\ncheck = 0', "check must be a whole number"),
        ('train = ["a"]\ndev = "b"\nlongest = 1', "longest must be a whole number from 2"),
        ('train = ["a"]\ndev = "b"\nrate = nan', "rate must be a number"),
        ('train = ["a"]\ndev = "b"\nrate = [1]', "rate must be a number"),
        ('train = ["a"]\ndev = "b"\nminutes = inf', "minutes must be a number"),
        ('train = ["a"]\ndev = "b"\nseed = -1', "seed must be a whole number"),
        ('train = ["a"]\ndev = "b"\nsample = 1', "sample must be a text"),
        ('train = ["a"]\ndev = "b"\n[model]\nheads = "8"', "heads must be a whole number"),
        ('train = ["a"]\ndev = "b"\n[model]\nheads = 3', "heads must divide width"),
        ('train = ["a"]\ndev = "b"\n[model]\nactivation = "tanh"', "activation must be one of"),
        ('train = ["a"]\ndev = "b"\n[model]\nactivation = [1]', "activation must be a name"),
        ('train = ["a"]\ndev = "b"\n[model]\ndropout = "x"', "dropout must be at least 0"),
        ('train = ["a"]\ndev = "b"\n[model]\nbias = 7', "bias must be true or false"),
        ('train = ["a"]\ndev = "b"\n[model]\npad = 7', "pad cannot be set"),
        ('train = ["a"]\ndev = "b"\n[model]\npositions = 5000000', "positions × width must be at most"),
        ("train = " + "[" * 5000, "nested too deeply|is not TOML"),
        ("steps = " + "9" * 5000, "is not TOML"),
        ("#" * 100_001, "more than 100,000 bytes"),
    ],
    ids=lambda text: text[-24:],
)
@pytest.mark.usefixtures("unchecked")
def test_a_wrong_recipe_is_named(tmp_path, text, message):
    (tmp_path / "r.toml").write_text(text)
    with pytest.raises(regard.FileError, match=message):
        Recipe.read(tmp_path / "r.toml")


def test_lines_near_to_others_are_left_out(recipe, tmp_path):
    (tmp_path / "far.txt").write_text("# what the model will be asked\none two three\n")
    (tmp_path / "train.tsv").write_text("one two three\tun deux trois\nfour five\tquatre cinq\n" * 3)
    path = recipe(steps=8, far_from=["far.txt"], vocabulary=25)
    trainer = Trainer(Recipe.read(path), tmp_path / "out", regard_console())
    trainer.prepare()
    assert len(trainer.batches) == 1


@pytest.mark.parametrize("joined", [0.0, 0.5])
def test_an_epoch_holds_every_pair_once_and_no_batch_is_too_large(joined):
    random = np.random.default_rng(0)
    data = [
        (
            random.integers(2, 50, random.integers(1, 30)).tolist(),
            random.integers(2, 50, random.integers(1, 30)).tolist(),
        )
        for _ in range(300)
    ]
    batches = Batches(data, end=0, pad=60, tokens=512, longest=40, joined=joined)
    plan = batches.plan(0)
    assert sorted(row[0] for rows in plan for row in rows if len(row) == 1) == list(range(300))
    assert any(len(row) == 2 for rows in plan for row in rows) == (joined > 0)
    assert plan == batches.plan(0) != batches.plan(1)
    lengths = [len(data[rows[0][0]][1]) for rows in plan]
    assert lengths != sorted(lengths)  # batches of all lengths, mixed
    seen = set()
    for rows in plan:
        source, target = batches.batch(rows)
        assert batches.labels(rows) == int((target[:, 1:] != 60).sum())
        assert len(source) == len(target) == len(rows)
        assert len(rows) * max(source.shape[1], target.shape[1] - 1) <= 512 or len(rows) == 1
        assert source.shape[1] % 8 == 0
        assert target.shape[1] % 8 == 1
        for s, t in zip(source.tolist(), target.tolist(), strict=True):
            assert t[0] == 60
            s, t = [x for x in s if x != 60], [x for x in t[1:] if x != 60]
            assert s.pop() == t.pop() == 0
            seen.add((tuple(s), tuple(t)))
    assert {(tuple(s), tuple(t)) for s, t in data} <= seen
