"""Training: recipes, batches, corpora that are broken, and that a killed training goes on as if nothing had happened."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

import regard
from regard.translation import Recipe, checkpoint, read_pairs, train
from regard.translation.corpus import Batches, Corpus
from regard.translation.training import Trainer

NUMBERS = [("one", "un"), ("two", "deux"), ("three", "trois"), ("four", "quatre"), ("five", "cinq"), ("six", "six")]
RECIPE = """\
train = ["train.tsv"]
dev = "dev.tsv"
vocabulary = 60
steps = {steps}
check = 8
tokens = 128
warmup = 10
rate = 5e-3
average = 0.9
patience = 100
sample = "two six"
[model]
width = 32
heads = 2
hidden = 32
encoder_layers = 1
decoder_layers = 1
dropout = 0.1
positions = 64
"""


def pairs(count, seed=0):
    random = np.random.default_rng(seed)
    for _ in range(count):
        some = [NUMBERS[n] for n in random.integers(0, 6, random.integers(1, 4))]
        yield " ".join(e for e, _ in some), " ".join(f for _, f in some)


@pytest.fixture
def recipe(tmp_path):
    for name, count in (("train", 200), ("dev", 10)):
        lines = [f"{a}\t{b}\n" for a, b in dict.fromkeys(pairs(count))]
        (tmp_path / f"{name}.tsv").write_text("".join(lines), encoding="utf-8")

    def made(steps=24, **changes):
        path = tmp_path / "recipe.toml"
        text = RECIPE.format(steps=steps)
        for name, value in changes.items():
            text = f"{name} = {json.dumps(value)}\n" + "\n".join(
                line for line in text.splitlines() if not line.startswith(f"{name} =")
            )
        path.write_text(text, encoding="utf-8")
        return path

    return made


def losses(folder):
    lines = (folder / "log.jsonl").read_text().splitlines()
    return {line["step"]: line["loss"] for line in map(json.loads, lines) if "loss" in line}


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
        "checkpoint.safetensors", "config.json", "log.jsonl", "model.safetensors", "vocabulary.spm"
    }  # fmt: skip
    looks = [line for line in map(json.loads, (tmp_path / "out" / "log.jsonl").open()) if "chrf" in line]
    assert looks[-1]["chrf"] > 50
    assert isinstance(looks[-1]["sample"], str)


RUN = """
import sys
from regard.translation import Recipe, train
import torch
torch.set_num_threads(1)
train(Recipe.read(sys.argv[1]), sys.argv[2], quiet=True)
"""


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


@pytest.mark.usefixtures("unchecked")
@pytest.mark.slow
def test_killed_and_resumed_it_has_the_losses_of_the_uninterrupted_run(recipe, tmp_path):
    path = recipe(steps=48)
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    train(Recipe.read(path), whole, quiet=True)
    process = subprocess.Popen([sys.executable, "-c", RUN, str(path), str(cut)])
    deadline = time.monotonic() + 120
    while not (cut / checkpoint.FILE).exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.2)  # somewhere between two checkpoints
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert 0 < len(losses(cut)) < len(losses(whole))
    train(Recipe.read(path), cut, resume=True, quiet=True)
    assert losses(cut) == losses(whole)
    ours, theirs = (regard.Transformer.load(folder).state_dict() for folder in (cut, whole))
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


def test_a_checkpoint_is_never_half_written(recipe, tmp_path, monkeypatch):
    train(Recipe.read(recipe(steps=8)), tmp_path / "out", quiet=True)
    before = (tmp_path / "out" / checkpoint.FILE).read_bytes()
    trainer = Trainer(Recipe.read(recipe(steps=16)), tmp_path / "out", regard_console())
    trainer.prepare(resume=True)
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        checkpoint.write(tmp_path / "out", trainer.model, trainer.average, trainer.optimizer, trainer.state)
    assert (tmp_path / "out" / checkpoint.FILE).read_bytes() == before


def regard_console():
    from rich.console import Console

    return Console(quiet=True)


def test_resuming_needs_something_whole_of_this_recipe(recipe, tmp_path):
    out = tmp_path / "out"
    (out).mkdir()
    train(Recipe.read(recipe(steps=8)), out / "a", quiet=True)
    with pytest.raises(regard.FileError, match="holds a training already"):
        train(Recipe.read(recipe(steps=8)), out / "a", quiet=True)
    file = out / "a" / checkpoint.FILE
    whole = file.read_bytes()
    file.write_bytes(whole[:-7])
    with pytest.raises(regard.FileError, match="is damaged"):
        train(Recipe.read(recipe(steps=8)), out / "a", resume=True, quiet=True)
    file.write_bytes(whole)
    other = recipe(steps=8)
    other.write_text(other.read_text().replace("width = 32", "width = 16"))
    with pytest.raises(regard.FileError, match="not a checkpoint of this recipe's model"):
        train(Recipe.read(other), out / "a", resume=True, quiet=True)
    file.unlink()
    with pytest.raises(regard.FileError, match="nothing to resume"):
        train(Recipe.read(recipe(steps=8)), out / "a", resume=True, quiet=True)


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
    ],
)
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
    for rows, (source, target) in zip(plan, batches.epoch(0), strict=True):
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
