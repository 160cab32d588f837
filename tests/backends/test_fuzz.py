"""Random problems against a float64 reference that is written in plain torch, and shares nothing with regard's own.

It runs for REGARD_FUZZ_SECONDS seconds (60 unless set) with a fresh seed, which it prints. A failure names the seed of its
case: REGARD_FUZZ_SEED=… runs that one case again.
"""

import contextlib
import os
import time

import pytest
from support.attention.cases import using
from support.attention.looks import LOOKS, compare
from support.attention.problems import Maker, Problem


def run_one(seed: int) -> Problem:
    maker = Maker(seed)
    problem = maker.problem()
    try:
        with using(problem.backend, problem.small) if problem.backend else contextlib.nullcontext():
            compare(maker, problem, maker.random.sample(LOOKS, 6))
    except Exception as error:
        raise AssertionError(f"REGARD_FUZZ_SEED={seed}: {problem}\n{type(error).__name__}: {error}") from error
    return problem


@pytest.mark.slow
@pytest.mark.usefixtures("unchecked")
def test_random_problems_agree_with_a_reference_of_our_own():
    if "REGARD_FUZZ_SEED" in os.environ:
        run_one(int(os.environ["REGARD_FUZZ_SEED"]))
        return
    first, end, count = time.time_ns() % 2**40, time.monotonic() + float(os.environ.get("REGARD_FUZZ_SECONDS", "60")), 0
    print(f"first REGARD_FUZZ_SEED={first}")
    while time.monotonic() < end:
        run_one(first + count)
        count += 1
    print(f"{count} problems")
    assert count > 0
