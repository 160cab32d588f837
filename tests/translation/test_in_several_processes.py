"""Trainings in several processes are forked from one that has no threads: where a lock is held, a fork waits for ever."""

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
@pytest.mark.parametrize("name", ["several_processes.py", "killed_processes.py"])
def test_in_a_process_of_their_own(name):
    own = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")} | {"OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(Path(__file__).parent / name)]
    done = subprocess.run(command, capture_output=True, text=True, env=own, timeout=400, check=False)
    assert done.returncode == 0, done.stdout[-5000:]
    assert " passed" in done.stdout
