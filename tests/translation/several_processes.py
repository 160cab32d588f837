"""A training of several processes is the training of one: its losses, its files, its end and what it says."""

import math
from functools import partial
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support.translation import ranks, tiny_recipe

import regard
from regard.nn import model_folder
from regard.translation import Recipe, Translator, train
from regard.translation.training import checkpoint
from regard.translation.training import loop as training
from regard.translation.training.loop import Trainer
from regard.translation.training.processes import Loss, Processes, is_first, joined

pytestmark = pytest.mark.usefixtures("unchecked")  # shape checks take most of the time


def write_nothing(rank):
    """Let any process but the first fail if it writes, or takes the lock."""
    if rank == 0:
        return

    def refuse(*_, **__):
        raise AssertionError("only the first process writes")

    model_folder.write_file = training.write_bytes = training.make_folder = checkpoint.write = Translator.save = refuse
    checkpoint.lock = refuse
    known = Path.open
    Path.open = lambda self, mode="r", *args, **kwargs: (refuse if "a" in mode or "w" in mode else known)(
        self, mode, *args, **kwargs
    )


# The same training

UNEVEN = {"tokens": 32, "vocabulary": 25, "joined": 0.5}  # batches of one to four rows


@pytest.mark.slow
@pytest.mark.parametrize(
    ("world", "changes", "own"),
    [
        (2, {}, {}),
        (2, {}, {"shard": True}),
        (3, UNEVEN, {}),
        (3, UNEVEN, {"shard": True}),
        (2, {"steps": 64, "patience": 1}, {}),
        (2, {}, {"tokens": 64, "accumulate": 2}),
        (2, {"guide": [{"layer": 0, "head": 1}]}, {}),
        (3, UNEVEN | {"guide": [{"layer": 0, "head": 1}]}, {"shard": True}),
        (2, {}, {"tokens": 32, "accumulate": 4, "shard": True}),
    ],
    ids=str,
)
def test_several_processes_have_the_losses_of_one(whole, tmp_path, world, changes, own):
    path = ranks.recipe(tmp_path, **(changes | own))
    started = ranks.train(tmp_path / "run", world, [path, "-o", tmp_path / "out"], before=write_nothing)
    assert set(started.end().values()) == {0}, started.said()
    ranks.close(tmp_path / "out", whole(**changes))
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "checkpoint.previous.safetensors", "checkpoint.safetensors", "config.json", "curves.svg", "log.jsonl",
        "model.safetensors", "translation.json", "vocabulary.spm",
    ]  # fmt: skip
    assert started.lines() == []
    assert [(tmp_path / "run" / f"output.{rank}").read_text() for rank in range(1, world)] == [""] * (world - 1)
    assert f"{world} processes" in started.said()


def test_some_batches_have_fewer_rows_than_processes(tmp_path):
    """What the test above with three processes is about."""
    trainer = Trainer(Recipe.read(ranks.recipe(tmp_path, **UNEVEN)), tmp_path / "out", quiet())
    trainer.prepare()
    sizes = {len(rows) for rows in trainer.batches.plan(0)}
    assert sizes == {1, 2, 3, 4}


def quiet():
    from rich.console import Console

    return Console(quiet=True)


def test_accumulating_is_a_larger_batch(whole, tmp_path, monkeypatch):
    sizes, known = [], Loss.forward

    def seen(self, source, *rest):
        sizes.append(source.numel())
        return known(self, source, *rest)

    monkeypatch.setattr(Loss, "forward", seen)
    expected = whole()
    sizes.clear()
    train(Recipe.read(ranks.recipe(tmp_path, tokens=32, accumulate=4)), tmp_path / "out", quiet=True)
    ranks.close(tmp_path / "out", expected)
    assert len(sizes) > 3 * 24
    assert max(sizes) <= 40  # 32, and up to one row more


def test_the_gradient_is_a_mean_over_tokens_not_over_parts(tmp_path, monkeypatch):
    """By hand: the loss of a batch whose rows have different lengths, in parts of different sizes."""
    trainer = Trainer(Recipe.read(ranks.recipe(tmp_path, tokens=128, accumulate=3)), tmp_path / "out", quiet())
    trainer.prepare()
    rows = max(trainer.batches.plan(0), key=lambda rows: len({trainer.batches.labels([row]) for row in rows}))[:7]
    model, gradients = trainer.model, {}
    model.train()
    loss = model.loss(*trainer.batches.batch(rows), smoothing=trainer.recipe.smoothing)
    loss.backward()
    expected = {name: p.grad.clone() for name, p in model.named_parameters()}
    trainer.optimizer.zero_grad()
    monkeypatch.setattr(torch.nn.utils, "clip_grad_norm_", lambda *_, **__: None)
    monkeypatch.setattr(
        trainer.optimizer, "step", lambda: gradients.update({n: p.grad.clone() for n, p in model.named_parameters()})
    )
    assert float(trainer._step(rows, 0.0)) == pytest.approx(loss.item(), rel=1e-5)
    for name, gradient in expected.items():
        assert torch.allclose(gradients[name], gradient, atol=1e-6), name


@given(st.integers(0, 40), st.integers(1, 9), st.integers(1, 9))
def test_every_row_is_taken_once_and_all_take_as_many_passes(count, world, passes):
    rows = list(range(count))
    shares = [Processes(rank, world).share(rows, passes) for rank in range(world)]
    assert sorted(row for share in shares for part in share for row in part) == rows
    assert {len(share) for share in shares} == {min(passes, math.ceil(count / world))}
    sizes = [len(part) for share in shares for part in share]
    assert not sizes or max(sizes) - min(sizes) <= 1


def test_each_process_and_step_has_its_own_noise(tmp_path, monkeypatch):
    trainer = Trainer(Recipe.read(ranks.recipe(tmp_path)), tmp_path / "out", quiet())
    trainer.prepare()
    rows, seeds = next(trainer._stream()), []
    monkeypatch.setattr(torch, "manual_seed", seeds.append)
    for rank, step in ((0, 0), (0, 1), (0, 0)):
        trainer.state["step"] = step
        monkeypatch.setattr(trainer.processes, "rank", rank)
        trainer._step(rows, 0.0)
    trainer.state["step"] = 0
    monkeypatch.setattr(trainer.processes, "share", lambda rows, _: [rows])
    monkeypatch.setattr(trainer.processes, "rank", 1)
    trainer._step(rows, 0.0)
    assert seeds[0] == seeds[2]
    assert len(set(seeds)) == 3


@pytest.mark.slow
def test_every_process_gets_the_model(tmp_path):
    path = ranks.recipe(tmp_path, steps=8)

    def run(rank):
        model = train(Recipe.read(path), tmp_path / "out", quiet=True)
        saved = regard.Transformer.load(tmp_path / "out")
        same = all(torch.equal(tensor, saved.state_dict()[name]) for name, tensor in model.state_dict().items())
        return 0 if same and model.config == saved.config and not model.training else 3

    started = ranks.start(tmp_path / "run", 2, run)
    assert set(started.end().values()) == {0}, started.said()


@pytest.mark.slow
def test_sharded_a_process_keeps_its_part_alone(tmp_path):
    path = ranks.recipe(tmp_path, shard=True)

    def run(rank):
        with joined(lambda: "") as processes:
            trainer = Trainer(Recipe.read(path), tmp_path / "out", quiet(), processes)
            trainer.prepare()
            trainer._step(next(trainer._stream()), 1e-3)
            tensors = [*trainer.model.parameters(), *trainer.average.values()]
            tensors += [t for state in trainer.optimizer.state.values() for t in state.values() if t.dim()]
            print("kept", sum(t.to_local().numel() for t in tensors) / trainer.model.config.parameters)
        return 0

    started = ranks.start(tmp_path / "run", 2, run)
    assert set(started.end().values()) == {0}, started.said()
    kept = [float(line.split()[1]) for line in started.said().splitlines() if line.startswith("kept")]
    assert kept == pytest.approx([2.0, 2.0], abs=0.1)  # weights, average and two moments: 4 in all


def test_large_models_are_sharded_unless_the_recipe_says_otherwise(tmp_path):
    recipe = partial(Recipe, train=["a"], dev="b")
    base, big = (kind(37_000).parameters for kind in (regard.TransformerConfig.base, regard.TransformerConfig.big))
    assert (recipe().shards(base), recipe().shards(big)) == (False, True)
    assert (recipe(shard=True).shards(base), recipe(shard=False).shards(big)) == (True, False)


# Clock, Ctrl-C, resuming


@pytest.mark.slow
def test_the_clock_of_the_first_process_counts(whole, tmp_path):
    """With `minutes`, rate and end depend on the time; the others' clocks run five times as fast here."""
    path = ranks.recipe(tmp_path, steps=10**6, minutes=0.0075)  # 29 steps
    started = ranks.train(
        tmp_path / "run", 2, [path, "-o", tmp_path / "out"], before=lambda rank: ranks.count_ticks((1 + 4 * rank) / 64)
    )
    assert set(started.end().values()) == {0}, started.said()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checkpoint, "_now", checkpoint._now)
        ranks.count_ticks()
        train(Recipe.read(path), tmp_path / "one", quiet=True)
    ranks.close(tmp_path / "out", tmp_path / "one")
    assert (tmp_path / "out" / "clock.f64").read_bytes() == (tmp_path / "one" / "clock.f64").read_bytes()


@pytest.mark.slow
def test_ctrl_c_in_any_process_ends_all_and_any_number_goes_on(whole, tmp_path):
    out = tmp_path / "out"

    def train_until(step, world, *options, shard=False):
        """Ctrl-C reaches the last process at this step."""
        return ranks.train(
            tmp_path / "run", world, [ranks.recipe(tmp_path, shard=shard), "-o", out, *options],
            before=lambda rank: ranks.call_at(step, ranks.interrupt) if rank == world - 1 else None,
        )  # fmt: skip

    started = train_until(5, 2)
    assert set(started.end().values()) == {130}, started.said()
    assert started.lines() == [f"regard: stopped after step 6; go on with --resume ({out})."]
    started = train_until(11, 3, "--resume", shard=True)
    assert set(started.end().values()) == {130}, started.said()
    assert "stopped after step 12" in started.said()
    assert "going on at step 6" in started.said()
    started = train_until(15, 1, "--resume")  # just before a look at the dev corpus
    assert set(started.end().values()) == {130}, started.said()
    assert "stopped after step 16" in started.said()
    started = train_until(99, 2, "--resume", shard=True)
    assert set(started.end().values()) == {0}, started.said()
    ranks.close(out, whole())


@pytest.mark.slow
@pytest.mark.parametrize("world", [2, 3])
def test_with_as_many_processes_it_goes_on_exactly(tmp_path, world):
    """Dropout has separate noise in each process, and the checkpoint after step 13 holds the losses of three steps."""
    path = ranks.recipe(tmp_path, dropout=0.1)
    arguments = [path, "-o", tmp_path / "out"]
    assert set(ranks.train(tmp_path / "run", world, [path, "-o", tmp_path / "whole"]).end().values()) == {0}
    started = ranks.train(
        tmp_path / "run",
        world,
        arguments,
        before=lambda rank: ranks.call_at(12, ranks.interrupt) if rank == 0 else None,
    )
    assert set(started.end().values()) == {130}, started.said()
    started = ranks.train(tmp_path / "run", world, [*arguments, "--resume"])
    assert set(started.end().values()) == {0}, started.said()
    without = [[{**line, "seconds": 0} for line in tiny_recipe.log(tmp_path / name)] for name in ("out", "whole")]
    assert without[0] == without[1]
    ours, theirs = (regard.Transformer.load(tmp_path / name).state_dict() for name in ("out", "whole"))
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


# Errors


def fail(rank, wrong, error):
    if rank == wrong:
        Trainer._corpus = lambda *_: (_ for _ in ()).throw(error)


def full_disk(rank):
    def fails(*_, **__):
        raise OSError(28, "No space left on device")

    ranks.call_at(7, lambda: setattr(checkpoint, "write", fails))


def other_corpus(rank):
    if rank == 1:
        training.sha256 = lambda path: "0"


def not_a_number(rank):
    known = Loss.forward
    Loss.forward = lambda self, *args: tuple(loss * math.nan for loss in known(self, *args))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("before", "message"),
    [
        (partial(fail, wrong=0, error=regard.FileError("a is missing.")), "regard: a is missing."),
        (partial(fail, wrong=1, error=regard.FileError("a is missing.")), "regard: process 2 of 2: a is missing."),
        (full_disk, "No space left on device"),
        (other_corpus, "process 2 of 2: not the recipe or corpus of the first process: train.tsv has changed"),
        (not_a_number, "the loss is nan at step 8: lower the rate"),
    ],
    ids=["corpus of the first", "corpus of the second", "disk", "another corpus", "not a number"],
)
def test_an_error_of_one_or_all_is_said_once(tmp_path, before, message):
    arguments = [ranks.recipe(tmp_path), "-o", tmp_path / "out"]
    started = ranks.train(tmp_path / "run", 2, arguments, before=before, agent=True)
    assert set(started.end().values()) != {0}, started.said()
    assert len(started.lines()) == 1, started.said()
    assert message in started.lines()[0]
    assert "Traceback" not in started.said("[0-9]")  # the agent has one of its own


@pytest.mark.slow
def test_without_an_agent_others_may_add_that_one_has_ended(tmp_path):
    """The first process then takes the store along, in which they would see that all has been said."""
    before = partial(fail, wrong=0, error=regard.FileError("a is missing."))
    started = ranks.train(tmp_path / "run", 3, [ranks.recipe(tmp_path), "-o", tmp_path / "out"], before=before)
    assert set(started.end().values()) == {2}, started.said()
    assert "regard: a is missing." in started.lines()
    assert set(started.lines()[1:]) <= {
        "regard: another process of this training has ended or does not answer; nothing was saved yet: start again."
    }
    assert len(started.lines()) <= 2


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"WORLD_SIZE": "2"}, "WORLD_SIZE is 2, but RANK is not set. Start the processes with torchrun"),
        ({"WORLD_SIZE": "2", "RANK": "0", "MASTER_ADDR": "localhost"}, "MASTER_PORT is not set"),
        ({"WORLD_SIZE": "two"}, "WORLD_SIZE must be a whole number .* Got 'two'"),
    ],
)
def test_half_an_environment_is_refused(tmp_path, monkeypatch, environment, message):
    for name in ("WORLD_SIZE", "RANK", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(regard.InputError, match=message):
        train(Recipe.read(ranks.recipe(tmp_path)), tmp_path / "out", quiet=True)


def test_one_process_of_torchrun_is_one_process(tmp_path, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "1")
    monkeypatch.setenv("RANK", "0")
    assert is_first()
    with joined(lambda: "") as processes:
        assert (processes.world, processes.first) == (1, True)
        assert not torch.distributed.is_initialized()
