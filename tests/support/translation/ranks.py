"""Trainings of several processes, forked from one that has imported everything: they start in milliseconds.

`start` forks them itself, as a launcher without an agent would; with `agent`, torchrun's elastic agent does.
"""

import ctypes
import faulthandler
import itertools
import os
import signal
import socket
import sys
import time
import traceback
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest
import torch

from regard.cli import main
from regard.translation.training import checkpoint, processes
from regard.translation.training.loop import Trainer
from support.translation import tiny_recipe

PATIENCE = 120  # seconds until a process that has not ended counts as hung


class Started:
    """Processes that run; their output lies in files of the folder `home`."""

    def __init__(self, home, children):
        self.home, self.children = home, children  # children: name → process id

    def rank(self, number):
        """The id of a process of the training, once it has begun."""
        path = self.home / f"pid.{number}"
        for _ in range(100 * PATIENCE):
            if path.exists() and (text := path.read_text()):
                return int(text)
            time.sleep(0.01)
        raise AssertionError(f"process {number} never began: {self.said()}")

    def kill(self, number, how=signal.SIGKILL):
        with suppress(ProcessLookupError):  # it has ended already
            os.kill(self.rank(number), how)

    def end(self):
        """The exit codes of the children; none may hang."""
        codes, until = {}, time.monotonic() + PATIENCE
        while len(codes) < len(self.children):
            for name, child in self.children.items():
                if name not in codes and (found := os.waitpid(child, os.WNOHANG))[0]:
                    codes[name] = os.waitstatus_to_exitcode(found[1])
            if time.monotonic() > until:
                self._give_up(f"hung: {set(self.children) - set(codes)}")
            time.sleep(0.01)
        for path in self.home.glob("pid.*"):  # those of an agent are not our children
            number = int(path.read_text())
            while _runs(number):
                if time.monotonic() > until:
                    self._give_up(f"{path.name} is left over")
                time.sleep(0.01)
        return codes

    def _give_up(self, why):
        for how in (signal.SIGUSR1, signal.SIGKILL):  # the first lets them say where they are
            for path in self.home.glob("pid.*"):
                with suppress(ProcessLookupError):
                    os.kill(int(path.read_text()), how)
            time.sleep(1)
        raise AssertionError(f"{why}; {self.said()}")

    def said(self, who="*"):
        """All that was written to standard output and error, by any process."""
        return "".join(path.read_text(errors="replace") for path in sorted(self.home.glob(f"output.{who}")))

    def lines(self):
        """The messages of regard: one ends a training, however many processes it has."""
        return [line for line in self.said().splitlines() if line.startswith("regard: ")]


def _runs(number):
    try:
        state = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def train(home, world, arguments, *, before=lambda rank: None, **options):
    """`regard train` in `world` processes; `before` is called in each, with its rank, before it begins."""
    return start(home, world, lambda rank: before(rank) or main(["train", *map(str, arguments)]), **options)


def start(home, world, run, *, agent=False, **environment):
    """`run` in `world` processes, with the rank of each."""
    home.mkdir(exist_ok=True)
    for path in (*home.glob("pid.*"), *home.glob("output.*")):
        path.unlink()

    def train():
        rank = int(os.environ.get("RANK", "0"))
        _redirect(home / f"output.{rank}")
        torch.cuda.is_available, torch.cuda.device_count = lambda: False, lambda: 0
        torch.set_num_threads(1)
        faulthandler.register(signal.SIGUSR1, file=2)
        (home / f"pid.{rank}").write_text(str(os.getpid()))
        return run(rank)

    if agent:
        return Started(home, {"agent": _fork(lambda: _launch(home, world, train, environment), {})})
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        shared = {"WORLD_SIZE": world, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free.getsockname()[1]}
    children = {}
    for rank in range(world):
        own = {"RANK": rank, "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": world}
        children[rank] = _fork(train, shared | own | environment if world > 1 else environment)
    return Started(home, children)


def _launch(home, world, train, environment):
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    _redirect(home / "output.agent")
    os.environ.update({name: str(value) for name, value in environment.items()})
    restarts = int(os.environ.pop("RESTARTS", "0"))
    config = LaunchConfig(
        min_nodes=1, max_nodes=1, nproc_per_node=world, start_method="fork", rdzv_backend="c10d",
        rdzv_endpoint="localhost:0", run_id=f"{os.getpid()}", max_restarts=restarts, monitor_interval=0.1,
    )  # fmt: skip

    def entry():
        ctypes.CDLL(None).prctl(1, 0)  # torch lets processes that it forks die with the agent; torchrun's do not
        code = 70
        try:
            code = train()
        except SystemExit as stop:
            code = stop.code
        finally:
            _flush()
            if code:  # else it must return, for the agent waits for a value
                os._exit(code)

    elastic_launch(config, entry)()
    return 0


def _redirect(path):
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(handle, 1)
    os.dup2(handle, 2)
    sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)  # noqa: SIM115


def _flush():
    with suppress(BaseException):
        sys.stdout.flush()
        sys.stderr.flush()


def _fork(run, environment):
    child = os.fork()
    if child:
        return child
    code = 70
    try:
        os.environ.update({name: str(value) for name, value in environment.items()})
        code = run()
    except SystemExit as stop:
        code = stop.code
    except BaseException:
        traceback.print_exc()
    finally:
        _flush()
        os._exit(code or 0)


def recipe(home, **changes):
    """A recipe in a folder with its corpora, without dropout unless asked for."""
    tiny_recipe.write_corpora(home)
    dropout = changes.pop("dropout", 0.0)
    path = tiny_recipe.write(home, **changes)
    path.write_text(path.read_text().replace("dropout = 0.1", f"dropout = {dropout}"))
    return path


def close(folder, expected):
    """The same training but for rounding: what is logged, and when."""
    ours, theirs = tiny_recipe.log(folder), tiny_recipe.log(expected)
    rounded = {"loss": 0, "chrf": 0, "sample": "", "seconds": 0}
    assert [line | rounded for line in ours] == [line | rounded for line in theirs]
    losses = tiny_recipe.losses(expected)
    assert tiny_recipe.losses(folder) == pytest.approx(losses, rel=1e-4)
    assert len(losses) >= 3


def count_ticks(seconds=1 / 64):
    """Let every look at the clock take so long."""
    ticks = itertools.count()
    checkpoint._now = lambda: next(ticks) * seconds


def hurry(seconds=5.0):
    """Let processes wait for each other for seconds, not minutes."""
    processes._PATIENCE, processes._GRACE = timedelta(seconds=seconds), 0.2


def call_at(step, function):
    """Call a function at the beginning of a step."""
    known = Trainer._step

    def calling(self, *args):
        if self.state["step"] == step:
            function()
        return known(self, *args)

    Trainer._step = calling


def interrupt():
    """Ctrl-C, for this process alone."""
    os.kill(os.getpid(), signal.SIGINT)
