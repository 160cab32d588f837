"""A sequence in shards: the laws of the attention matrix hold over several ranks, and no rank is left waiting."""

import json
import random
import subprocess
import sys

import pytest
from support.distributed import failing_ranks, sharded_laws, worlds
from support.distributed import sharded_behaviour as behaviour
from support.distributed.worlds import World

pytestmark = pytest.mark.slow


def _seed():
    return random.SystemRandom().randrange(10**6)  # a failure prints the case, and with it the seed


def test_every_number_is_the_definitions():
    """With 1, 2 and 4 ranks, whose shares are uneven or empty, over all masks and dtypes."""
    worlds.run(*(World(size, sharded_laws.numbers, (_seed(), cases)) for size, cases in ((1, 30), (2, 30), (4, 8))))


def test_gradients_are_those_of_the_dense_form():
    worlds.run(*(World(size, sharded_laws.gradients, (_seed(), cases)) for size, cases in ((2, 12), (4, 4))))


def test_how_it_behaves():
    jobs = [behaviour.balance, behaviour.overlap, behaviour.meshes, behaviour.dtensors]
    on_two_ranks = [*jobs, behaviour.halves, behaviour.large, behaviour.nan, behaviour.pictures]
    worlds.run(*(World(2, job) for job in on_two_ranks), *(World(4, job) for job in jobs))


def test_the_memory_of_a_rank_falls_as_there_are_more():
    """No tensor is larger than twice a rank's share of the queries, and all that live at one time fall with it."""
    said = worlds.run(*(World(size, behaviour.memory, (1024,)) for size in (1, 2, 4)))
    found = dict(zip((1, 2, 4), map(json.loads, said.splitlines()), strict=True))
    shares = {size: sizes.pop("share") for size, sizes in found.items()}
    for size, sizes in found.items():
        assert shares[size] == shares[1] // size
        for name, (peak, largest) in sizes.items():
            assert largest <= shares[size], f"{name} on {size} ranks: {largest} bytes, a share has {shares[size]}"
            assert peak <= 17 * shares[size], f"{name} on {size} ranks: {peak} bytes, a share has {shares[size]}"
    for name in found[1]:
        assert found[4][name][0] < 0.5 * found[1][name][0], name


def test_ranks_that_differ_or_do_not_come_leave_nobody_waiting():
    said = worlds.run(World(2, failing_ranks.differences), World(3, failing_ranks.absence))
    assert (said.count("can go on"), said.count("was told")) == (2, 2)


def test_killing_a_rank_at_any_moment_leaves_none_that_hangs():
    done = subprocess.run(
        [sys.executable, "-m", "support.distributed.failing_ranks", "10", str(_seed())],
        capture_output=True, text=True, env=worlds.environment(), timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-6000:]
    assert done.stdout.count("killed: the others ended") == 10
