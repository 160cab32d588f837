"""Whatever ends one process of a training, the others end too, one says how to go on, and going on is exact."""

import os
import random
import signal
import threading
import time
from functools import partial

import pytest
from support.translation import ranks

from regard.translation import Recipe, Translator, train
from regard.translation.training import checkpoint, processes

pytestmark = [pytest.mark.usefixtures("unchecked"), pytest.mark.slow]


def check(folder, started, *, agent=False):
    """One message that says what to do, and nothing half-written."""
    line, *more = started.lines()
    # Without an agent the store ends with the first process, and the second may say the same.
    assert not more or (not agent and more == [line]), started.said()
    saved = checkpoint.exists(folder)
    advice = "go on with --resume" if saved or not folder.exists() else "nothing was saved yet: start again"
    assert advice in line, started.said()
    assert "Traceback" not in started.said("[0-9]")
    if (folder / "config.json").exists():
        Translator.load(folder)  # at every moment a whole model


@pytest.mark.parametrize("agent", [False, True], ids=["plain", "agent"])
def test_killed_at_any_moment_all_end_and_go_on(whole, tmp_path, agent):
    """Five times each, ten in all; with REGARD_KILLS=200, the large version."""
    count, seed = int(os.environ.get("REGARD_KILLS", "5")), random.randrange(2**32)
    print(f"{seed=}")
    choose = random.Random(seed)
    expected, path = whole(steps=64), ranks.recipe(tmp_path, steps=64)
    stops = ended = 0
    folder = tmp_path / "cut-0"
    while stops < count or checkpoint.exists(folder):
        folder = tmp_path / f"cut-{ended}"
        done = checkpoint.read(folder)[0].state["step"] if checkpoint.exists(folder) else 0
        world = choose.choice([2, 2, 3])
        who = choose.randrange(world) if stops < count and done < 48 else None
        moment = choose.uniform(0.0, 0.3)  # after it began, or after the beginning of a step
        step = choose.randrange(min(done, 63), 64) if choose.random() < 0.7 else None
        started = ranks.train(
            tmp_path / "run", world, [path, "-o", folder, *(["--resume"] if done else [])],
            before=partial(die, who, step, moment), agent=agent,
        )  # fmt: skip
        codes = set(started.end().values())
        print(f"{codes}, {who} of {world}, {moment:.2f} s after {step}: {started.lines()}")
        if codes == {0}:
            ranks.close(folder, expected)
            ended += 1
            folder = tmp_path / f"cut-{ended}"
        elif 0 in codes or has_ended(folder):  # killed after its last step: the others may have nothing to say
            assert "Traceback" not in started.said("[0-9]")
            stops, ended = stops + 1, ended + 1
            folder = tmp_path / f"cut-{ended}"
        else:
            check(folder, started, agent=agent)
            stops += 1


def has_ended(folder):
    """Whether a training had no step left: an agent shows its own code only, not that of the others."""
    return checkpoint.exists(folder) and checkpoint.read(folder)[0].state["ended"]


def die(who, step, moment, rank):
    """Let one process be killed, while the others have little patience."""
    ranks.hurry()
    timer = threading.Timer(moment, os.kill, (os.getpid(), signal.SIGKILL))
    timer.daemon = True
    if rank == who and step is None:
        timer.start()
    elif rank == who:
        ranks.call_at(step, timer.start)


def test_ctrl_c_goes_through_the_agent(whole, tmp_path):
    """torchrun hands the signal on, and waits."""
    folder, path, started = signalled(signal.SIGINT, tmp_path)
    (line,) = started.lines()
    assert "stopped after step " in line
    assert "go on with --resume" in line
    train(Recipe.read(path), folder, resume=True, quiet=True)
    ranks.close(folder, whole())


def signalled(number, tmp_path):
    """A training of two processes whose agent got a signal after its eighth step, and that has ended since."""
    folder, path = tmp_path / "out", ranks.recipe(tmp_path)
    started = ranks.train(tmp_path / "run", 2, [path, "-o", folder], before=slow, agent=True)
    until(folder, 8)
    os.kill(started.children["agent"], number)
    started.end()
    return folder, path, started


def slow(_):
    """Steps that take a while, so that a signal arrives between them."""
    for step in range(99):
        ranks.call_at(step, lambda: time.sleep(0.05))


def until(folder, step):
    """Wait until a step is in the log."""
    end = time.monotonic() + ranks.PATIENCE
    while not (folder / "log.jsonl").exists() or f'"step": {step},' not in (folder / "log.jsonl").read_text():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_without_its_agent_a_training_ends_with_a_checkpoint(whole, tmp_path):
    """Nobody could end it by Ctrl-C, nor see it."""
    folder, path, started = signalled(signal.SIGKILL, tmp_path)
    state = checkpoint.read(folder)[0].state
    assert 8 <= state["step"] < 24
    assert started.lines() == [f"regard: stopped after step {state['step']}; go on with --resume ({folder})."]
    train(Recipe.read(path), folder, resume=True, quiet=True)
    ranks.close(folder, whole())


def test_an_agent_that_starts_them_again_goes_on(whole, tmp_path):
    """torchrun --max-restarts=1."""
    folder, path = tmp_path / "out", ranks.recipe(tmp_path)

    def before(rank):
        if rank == 1 and not processes.restarted():
            ranks.call_at(13, lambda: os.kill(os.getpid(), signal.SIGKILL))

    started = ranks.train(tmp_path / "run", 2, [path, "-o", folder], before=before, agent=True, RESTARTS=1)
    assert set(started.end().values()) == {0}, started.said()
    assert "going on at step 8" in started.said()
    ranks.close(folder, whole())


@pytest.mark.parametrize("told", [True, False], ids=["SIGTERM", "patience"])
def test_a_process_that_waits_for_one_that_sleeps_ends(tmp_path, told):
    """It is inside gloo then, where Python hears no signal."""
    folder, path = tmp_path / "out", ranks.recipe(tmp_path)

    def before(rank):
        ranks.hurry(60 if told else 2)
        if rank == 1:
            ranks.call_at(9, lambda: os.kill(os.getpid(), signal.SIGSTOP))

    started = ranks.train(tmp_path / "run", 2, [path, "-o", folder], before=before)
    until(folder, 8)
    time.sleep(1)  # until the first process waits
    if told:
        started.kill(0, signal.SIGTERM)
    os.waitid(os.P_PID, started.children[0], os.WEXITED | os.WNOWAIT)
    started.kill(1)
    assert started.end() == {0: 143 if told else 2, 1: -signal.SIGKILL}
    check(folder, started)
    assert ("ended by SIGTERM" if told else "does not answer") in started.lines()[0]
