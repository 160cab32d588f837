"""A stopped training goes on as if nothing had happened, whatever stopped it; what cannot go on is refused."""

import errno
import itertools
import os
import random
import signal
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path
from shutil import copytree

import pytest
import torch
from jaxtyping import config
from rich.console import Console
from support.translation import mutations, tiny_recipe
from support.translation.tiny_recipe import losses

import regard
from regard import cli
from regard.io import write_file
from regard.translation import Recipe, Translator, train
from regard.translation.training import checkpoint
from regard.translation.training.loop import Trainer
from regard.translation.training.vocabulary import Vocabulary

pytestmark = pytest.mark.usefixtures("unchecked")  # shape checks take most of the time


@pytest.fixture
def recipe(tmp_path):
    tiny_recipe.write_corpora(tmp_path)
    return partial(tiny_recipe.write, tmp_path)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The same training three times: to its end, stopped after 9 steps (one checkpoint), and after 18 (two)."""
    home = tmp_path_factory.mktemp("trained")
    tiny_recipe.write_corpora(home)
    path = tiny_recipe.write(home)
    config.update("jaxtyping_disable", True)
    train(Recipe.read(path), home / "whole", quiet=True)
    for steps in (9, 18):
        stopped(path, home / f"stopped-{steps}", steps)
    config.update("jaxtyping_disable", False)
    return home


class Stop(Exception):
    pass


def stop_after(monkeypatch, steps):
    """Let the step after so many fail."""
    step, left = Trainer._step, itertools.count(steps, -1)

    def stopping(self, *args):
        if next(left) == 0:
            raise Stop
        return step(self, *args)

    monkeypatch.setattr(Trainer, "_step", stopping)


def stopped(path, folder, steps):
    with pytest.MonkeyPatch.context() as patch:
        stop_after(patch, steps)
        with pytest.raises(Stop):
            train(Recipe.read(path), folder, quiet=True)


def flip(path, place=-9):
    data = bytearray(path.read_bytes())
    data[place] ^= 4
    path.write_bytes(data)


@pytest.mark.slow
def test_killed_interrupted_or_without_space_it_ends_the_same(tmp_path):
    """All options on; with REGARD_KILLS=200, the large version."""
    count, seed = os.environ.get("REGARD_KILLS", "5"), random.randrange(2**32)
    paths = [str(Path(regard.__file__).parents[1]), *sys.path]
    done = subprocess.run(
        [sys.executable, "-m", "support.translation.kills", str(tmp_path), count, str(seed)],
        capture_output=True, text=True, env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)}, check=False,
    )  # fmt: skip
    print(f"{seed=}\n{done.stdout}")
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.parametrize("options", [{}, {"sampling": 0.2}, {"minutes": 0.0125, "sampling": 0.1}], ids=str)
def test_it_has_the_losses_of_the_uninterrupted_run(recipe, tmp_path, monkeypatch, options):
    ticks = itertools.count()
    monkeypatch.setattr(checkpoint, "_now", lambda: next(ticks) / 64)  # `minutes` ends it after 48 steps
    path = recipe(steps=24, **options)
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    train(Recipe.read(path), whole, quiet=True)
    stopped(path, cut, 11)
    assert max(losses(cut)) == 10
    for _ in range(1000):  # time goes by before it is resumed
        next(ticks)
    train(Recipe.read(path), cut, resume=True, quiet=True)
    assert tiny_recipe.log(cut) == tiny_recipe.log(whole)
    ours, theirs = (regard.Transformer.load(folder).state_dict() for folder in (cut, whole))
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


def test_sampled_segmentations_depend_on_the_seed_alone():
    words = Vocabulary.train([source for source, _ in tiny_recipe.pairs(300)], size=40)
    texts = ["one two three", "six five", "zero?", "four  seven 你好 one"] * 5
    some = words.encode_many(texts, sampling=0.1, seed=1)
    assert some == words.encode_many(texts, sampling=0.1, seed=1)
    assert some != words.encode_many(texts, sampling=0.1, seed=2)
    assert len({tuple(ids) for ids in some[::4]}) > 1
    for seed in (2**32 - 1, 2**53):  # SentencePiece ignores the first, and refuses the other
        first = words.encode_many(texts, sampling=0.1, seed=seed)
        words.encode_many(texts, sampling=0.1, seed=1)
        assert first == words.encode_many(texts, sampling=0.1, seed=seed)
    assert words.encode_many(texts, sampling=1e4, seed=1) == words.encode_many(texts)  # hardly random: the best one


def test_sampled_segmentations_have_sentencepieces_distribution():
    words = Vocabulary.train([source for source, _ in tiny_recipe.pairs(300)], size=40)
    text, alpha, count = "three five", 0.05, 4000
    ours = [tuple(ids) for ids in words.encode_many([text] * count, sampling=alpha, seed=0)]
    theirs = [tuple(words._pieces.Encode(text, enable_sampling=True, alpha=alpha, nbest_size=-1)) for _ in range(count)]
    common = {ids for ids in theirs if theirs.count(ids) > 30}
    assert len(common) >= 3
    for ids in common:
        assert ours.count(ids) / count == pytest.approx(theirs.count(ids) / count, abs=0.04)


# Checkpoints


def test_a_checkpoint_is_never_half_written(trained, recipe, tmp_path, monkeypatch):
    copytree(trained / "stopped-9", tmp_path / "new")
    before = (tmp_path / "new" / checkpoint.FILE).read_bytes()
    trainer = Trainer(Recipe.read(recipe()), tmp_path / "new", Console(quiet=True))
    trainer.prepare(resume=True)
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        trainer._save()
    assert (tmp_path / "new" / checkpoint.FILE).read_bytes() == before
    assert not list((tmp_path / "new").glob(".*"))


def test_a_damaged_checkpoint_is_noticed_and_the_one_before_is_used(trained, recipe, tmp_path, capsys):
    path, out = recipe(), copytree(trained / "stopped-18", tmp_path / "out")
    flip(out / checkpoint.FILE)
    train(Recipe.read(path), out, resume=True)
    said = " ".join(capsys.readouterr().err.split())
    assert "is damaged: its content has another sha256" in said
    assert "Going on from the checkpoint before it" in said
    assert "going on at step 8" in said
    assert losses(out) == losses(trained / "whole")


def test_the_checkpoint_before_a_damaged_one_outlives_the_next_one(tmp_path):
    def write(step):
        checkpoint.write(tmp_path, {"weight": torch.ones(2)}, {"step": step}, origin={}, files={})

    write(1)
    write(2)
    for damaged in (2, 3):  # step 3 must replace the damaged step 2, not step 1
        flip(tmp_path / checkpoint.FILE)
        found, wrong = checkpoint.read(tmp_path)
        assert (found.state["step"], len(wrong)) == (1, 1)
        assert checkpoint.read(tmp_path)[1] == []
        write(damaged + 1)
    steps = [checkpoint._read(tmp_path / name).state["step"] for name in (checkpoint.FILE, checkpoint.PREVIOUS)]
    assert steps == [4, 1]


def test_a_file_is_on_the_disk_before_it_has_its_name_and_is_as_new_files_are(tmp_path, monkeypatch):
    done = []

    def noting(name, call):
        monkeypatch.setattr(
            f"os.{name}",
            lambda *args: done.append((name, os.fstat(args[0]).st_ino if name == "fsync" else None)) or call(*args),
        )

    for name in ("fsync", "replace"):
        noting(name, getattr(os, name))
    before = os.umask(0o027)
    try:
        write_file(tmp_path / "file", lambda draft: (draft.unlink(), os.close(os.open(draft, os.O_CREAT, 0o600))))
    finally:
        os.umask(before)
    inodes = [(tmp_path / name).stat().st_ino for name in ("file", ".")]
    assert done == [("fsync", inodes[0]), ("replace", None), ("fsync", inodes[1])]
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o640  # not 0o600, as libraries make their files


def test_with_two_damaged_checkpoints_it_says_so(trained, recipe, tmp_path):
    path = recipe()
    copytree(trained / "stopped-18", tmp_path / "out")
    for name in (checkpoint.FILE, checkpoint.PREVIOUS):
        flip(tmp_path / "out" / name)
    with pytest.raises(regard.FileError, match=r"neither checkpoint can be used: .*damaged.*damaged"):
        train(Recipe.read(path), tmp_path / "out", resume=True, quiet=True)


def test_a_checkpoint_with_any_damage_is_refused_or_the_same(trained, recipe, tmp_path):
    folder, choose = copytree(trained / "stopped-9", tmp_path / "out"), random.Random(0)
    data = (folder / checkpoint.FILE).read_bytes()
    whole, _ = checkpoint.read(folder)
    refused = 0
    for _ in range(mutations.COUNT):
        (folder / checkpoint.FILE).write_bytes(mutations.mutated(data, choose))
        try:
            found, _ = checkpoint.read(folder)
        except regard.FileError:
            refused += 1
            continue
        assert found[1:] == whole[1:]
        assert found.tensors.keys() == whole.tensors.keys()
        assert all(torch.equal(found.tensors[name], tensor) for name, tensor in whole.tensors.items())
    assert refused > 0.8 * mutations.COUNT


def test_a_lost_vocabulary_log_or_model_is_restored(trained, recipe, tmp_path):
    path = recipe()
    copytree(trained / "stopped-9", tmp_path / "out")
    (tmp_path / "out" / "vocabulary.spm").unlink()
    (tmp_path / "out" / "log.jsonl").write_text('{"st')
    flip(tmp_path / "out" / "model.safetensors")
    (tmp_path / "out" / ".model.safetensors.abcdefgh.draft").write_bytes(b"of a killed run")
    train(Recipe.read(path), tmp_path / "out", resume=True, quiet=True)
    assert losses(tmp_path / "out") == losses(trained / "whole")
    assert Translator.load(tmp_path / "out").words.model == Translator.load(trained / "whole").words.model
    assert not list((tmp_path / "out").glob(".*"))


# What is refused


def test_resuming_needs_a_checkpoint(trained, recipe, tmp_path):
    copytree(trained / "stopped-9", tmp_path / "out")
    with pytest.raises(regard.FileError, match="holds a training already"):
        train(Recipe.read(recipe()), tmp_path / "out", quiet=True)
    (tmp_path / "out" / checkpoint.FILE).write_bytes((tmp_path / "out" / checkpoint.FILE).read_bytes()[:-7])
    with pytest.raises(regard.FileError, match="is damaged"):
        train(Recipe.read(recipe()), tmp_path / "out", resume=True, quiet=True)
    (tmp_path / "out" / checkpoint.FILE).unlink()
    with pytest.raises(regard.FileError, match="nothing to resume"):
        train(Recipe.read(recipe()), tmp_path / "out", resume=True, quiet=True)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seed": 1}, "seed was 0, is 1"),
        ({"rate": 1e-3, "tokens": 64}, r"tokens was 128, is 64; rate was 0.005, is 0.001"),
        ({"corpus": "train.tsv"}, r"train.tsv has changed"),
        ({"corpus": "dev.tsv"}, r"dev.tsv has changed"),
        ({"width": 16}, r"model was .*'width': 32.*, is .*'width': 16"),
    ],
    ids=str,
)
def test_another_recipe_or_corpus_is_refused_by_what_changed(trained, recipe, tmp_path, changes, message):
    copytree(trained / "stopped-9", tmp_path / "out")
    path = recipe(**{name: value for name, value in changes.items() if name not in ("corpus", "width")})
    if "corpus" in changes:
        with (tmp_path / changes["corpus"]).open("a") as file:
            file.write("one\tun\n")
    if "width" in changes:
        path.write_text(path.read_text().replace("width = 32", "width = 16"))
    with pytest.raises(regard.FileError, match=message):
        train(Recipe.read(path), tmp_path / "out", resume=True, quiet=True)


def test_a_finished_training_has_nothing_left_to_do(trained, recipe, tmp_path, capsys):
    path = recipe()
    copytree(trained / "whole", tmp_path / "out")
    before = {file.name: file.read_bytes() for file in (tmp_path / "out").iterdir()}
    train(Recipe.read(path), tmp_path / "out", resume=True)
    assert "this training ended at step 24: nothing is left to do" in capsys.readouterr().err
    assert {file.name: file.read_bytes() for file in (tmp_path / "out").iterdir()} == before


def test_a_second_training_in_the_same_folder_is_refused(recipe, tmp_path):
    path = recipe(steps=8)
    (tmp_path / "out").mkdir()
    with checkpoint.lock(tmp_path / "out"), pytest.raises(regard.FileError, match="in use by another training"):
        train(Recipe.read(path), tmp_path / "out", quiet=True)
    train(Recipe.read(path), tmp_path / "out", quiet=True)


def test_what_it_needs_is_asked_for_before_training(recipe, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "sacrebleu", None)
    with pytest.raises(regard.MissingDependencyError, match=r"sacrebleu .*pip install 'regard\[train\]'"):
        train(Recipe.read(recipe(steps=8)), tmp_path / "out", quiet=True)
    assert not (tmp_path / "out").exists()
    with pytest.raises(regard.MissingDependencyError, match="sacrebleu"):
        regard.translation.score(["a"], ["a"])


# What goes wrong on the way


@pytest.mark.parametrize(
    ("where", "code"),
    [
        ("pathlib.Path.touch", errno.EROFS),
        ("pathlib.Path.touch", errno.EACCES),
        ("os.fsync", errno.ENOSPC),
        ("os.replace", errno.ENOSPC),
        ("pathlib.Path.open", errno.ENOSPC),
    ],
)
def test_a_disk_that_refuses_is_one_line(trained, recipe, tmp_path, monkeypatch, capsys, code, where):
    path, out = recipe(), copytree(trained / "stopped-9", tmp_path / "out")
    known = Path.open

    def fails(*args, **_):
        if where == "pathlib.Path.open" and "a" not in "".join(map(str, args[1:])):  # only appending to the log
            return known(*args, **_)
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as patch:
        patch.setattr(where, fails)
        assert cli.main(["train", str(path), "-o", str(out), "--resume"]) == 2
    said = capsys.readouterr().err
    assert os.strerror(code) in said
    assert "Traceback" not in said
    found, wrong = checkpoint.read(out)
    assert not wrong
    assert found.state["step"] >= 8  # nothing is lost


@pytest.mark.parametrize("name", ["train.tsv", "train.tsv/below"])
def test_a_folder_that_cannot_be_made_is_one_line(recipe, tmp_path, capsys, name):
    assert cli.main(["train", str(recipe(steps=8)), "-o", str(tmp_path / name)]) == 2
    assert "cannot be made" in capsys.readouterr().err


def test_ctrl_c_writes_a_checkpoint_and_says_how_to_go_on(trained, recipe, tmp_path, monkeypatch, capsys):
    path = recipe()
    step, left = Trainer._step, itertools.count(11, -1)

    def interrupted(self, *args):
        if next(left) == 0:
            signal.raise_signal(signal.SIGINT)
        return step(self, *args)

    monkeypatch.setattr(Trainer, "_step", interrupted)
    with pytest.raises(SystemExit) as stop:
        cli.main(["train", str(path), "-o", str(tmp_path / "out")])
    assert stop.value.code == 130
    assert "regard: stopped after step 12; go on with --resume" in capsys.readouterr().err
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    train(Recipe.read(path), tmp_path / "out", resume=True, quiet=True)
    assert losses(tmp_path / "out") == losses(trained / "whole")


def test_ctrl_c_before_the_first_step(recipe, tmp_path, monkeypatch, capsys):
    origin = Trainer._origin
    monkeypatch.setattr(Trainer, "_origin", lambda self: signal.raise_signal(signal.SIGINT) or origin(self))
    with pytest.raises(SystemExit) as stop:
        cli.main(["train", str(recipe(steps=8)), "-o", str(tmp_path / "out")])
    assert stop.value.code == 130
    assert "nothing was saved yet" in capsys.readouterr().err


def test_a_training_beside_the_main_thread(recipe, tmp_path):
    """Where no signal can be caught."""
    found = []
    thread = threading.Thread(
        target=lambda: found.append(train(Recipe.read(recipe(steps=8)), tmp_path / "out", quiet=True))
    )
    thread.start()
    thread.join()
    assert found
