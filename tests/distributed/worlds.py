"""Several ranks on one machine: `python worlds.py SIZE JOB ARGUMENT…` forks them, all with gloo, and waits for them.

A job is a function `module:name` that gets (rank, size, *arguments). Forked from a process that has imported everything,
ranks start in a moment.
"""

import contextlib
import importlib
import os
import subprocess
import sys
import tempfile
import time
import traceback
from datetime import timedelta
from pathlib import Path

HERE = Path(__file__).parent
PATIENCE = 60  # seconds that ranks wait for each other, unless a job says otherwise


def run(size, job, *arguments, seconds=300):
    """What the ranks of a world printed; fails with it where one of them failed."""
    command = [sys.executable, str(HERE / "worlds.py"), str(size), job, *map(str, arguments)]
    paths = [str(HERE), str(HERE.parent), str(HERE.parents[1] / "src")]
    env = os.environ | {"PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=seconds)
    assert done.returncode == 0, f"{done.stdout[-8000:]}\n{done.stderr[-8000:]}"
    return done.stdout


def start(size, job, *arguments, patience=PATIENCE, quiet=False):
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
            if quiet:
                os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
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
            os.kill(child, 9)
            os.waitpid(child, 0)
    return list(codes.values())


def main(size, job, *arguments):
    module, name = job.split(":")
    children = start(int(size), getattr(importlib.import_module(module), name), *arguments)
    codes = ends(children, 280)
    if any(codes):
        sys.exit(f"ranks ended with {codes}")


if __name__ == "__main__":
    import checks

    checks.install(["regard.distributed"])
    main(*sys.argv[1:])
