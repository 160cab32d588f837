"""Several ranks on one machine: `python worlds.py JOB…` forks them for each job, all with gloo, and waits for them.

A job is `size:module:function:argument:…`; the function gets (rank, size, *arguments), the arguments as text. Forked from
a process that has imported everything, ranks start in a moment.
"""

import contextlib
import faulthandler
import importlib
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from datetime import timedelta
from pathlib import Path

HERE = Path(__file__).parent
PATIENCE = 120  # seconds that ranks wait for each other, unless a job says otherwise


def run(*jobs, seconds=600):
    """What the ranks of all worlds printed; fails with it where one of them failed."""
    command = [sys.executable, str(HERE / "worlds.py"), *jobs]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), timeout=seconds)
    assert done.returncode == 0, f"{done.stdout[-8000:]}\n{done.stderr[-8000:]}"
    return done.stdout


def environment():
    """That of a process which starts ranks."""
    paths = [str(HERE), str(HERE.parent), str(HERE.parents[1] / "src")]
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


def main(*jobs):
    for job in jobs:
        size, module, name, *arguments = job.split(":")
        function = getattr(importlib.import_module(module), name)
        children = start(int(size), function, *arguments, patience=getattr(function, "patience", PATIENCE))
        codes = ends(children, 500)
        if any(codes):
            sys.exit(f"{job}: ranks ended with {codes}")


if __name__ == "__main__":
    import checks

    checks.install(["regard.distributed"])
    main(*sys.argv[1:])
