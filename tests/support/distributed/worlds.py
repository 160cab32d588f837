"""Several ranks on one machine: `run` forks them for each job, all with gloo, and waits for them.

The job of a `World` is a function of a module and gets (rank, size, *arguments). The ranks are forked from one process
(`python -m support.distributed.worlds`) that has imported everything: they start in a moment.
"""

import contextlib
import faulthandler
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

ROOT = Path(__file__).parents[3]
PATIENCE = 120  # seconds that ranks wait for each other, unless a job says otherwise


@dataclass(frozen=True)
class World:
    """A job and the number of its ranks."""

    size: int
    job: Callable
    arguments: tuple = ()


def run(*worlds, seconds=600):
    """Run the worlds one after another; return what their ranks printed, and fail with it where a rank failed."""
    command = [sys.executable, "-m", __name__]
    done = subprocess.run(
        command, input=pickle.dumps(worlds), capture_output=True, env=environment(), timeout=seconds, check=False
    )
    output, errors = done.stdout.decode(), done.stderr.decode()
    assert done.returncode == 0, f"{output[-8000:]}\n{errors[-8000:]}"
    return output


def environment():
    """The environment of a process that starts ranks."""
    paths = [str(ROOT / "tests"), str(ROOT / "src")]
    return os.environ | {"PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"}


def start(size, job, *arguments, patience=PATIENCE):
    """Fork the ranks of a world; their process ids."""
    folder = tempfile.mkdtemp()
    sys.stdout.flush()
    children = []
    for rank in range(size):
        child = os.fork()
        if child:
            children.append(child)
            continue
        code = 1
        try:
            faulthandler.register(signal.SIGUSR1)
            _join(rank, size, f"{folder}/store", patience)
            job(rank, size, *arguments)
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            with contextlib.suppress(BaseException):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(code)  # nothing of the parent's is to be cleaned up twice
    return children


def _join(rank, size, store, patience):
    import torch.distributed as dist

    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    dist.init_process_group(
        "gloo", init_method=f"file://{store}", rank=rank, world_size=size, timeout=timedelta(seconds=patience)
    )


def ends(children, seconds):
    """The exit status of each, in their order; None for those that had not ended in time, which are killed then."""
    codes, until = dict.fromkeys(children), time.monotonic() + seconds
    while None in codes.values() and time.monotonic() < until:
        for child in children:
            if codes[child] is None:
                done, status = os.waitpid(child, os.WNOHANG)
                codes[child] = os.waitstatus_to_exitcode(status) if done else None
        time.sleep(0.005)
    for child, code in codes.items():
        if code is None:
            os.kill(child, signal.SIGUSR1)  # say where it hangs
            time.sleep(0.5)
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    return list(codes.values())


def main(worlds):
    for world in worlds:
        children = start(world.size, world.job, *world.arguments, patience=getattr(world.job, "patience", PATIENCE))
        codes = ends(children, 500)
        if any(codes):
            sys.exit(f"{world}: ranks ended with {codes}")


if __name__ == "__main__":
    from support import checks

    checks.install(["regard.distributed"])
    main(pickle.load(sys.stdin.buffer))
