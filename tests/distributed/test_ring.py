"""What ranks say to each other, in threads that stand for ranks."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch.distributed as dist

from regard.distributed.ring import Ring
from regard.errors import RankError


def test_an_error_of_several_lines_and_signs_arrives_whole(monkeypatch):
    size, said, lock = 3, {}, threading.Barrier(3, timeout=5)

    def all_gather_object(found, mine, group):
        said[group] = mine
        lock.wait()
        found[:] = [said[rank] for rank in range(size)]

    monkeypatch.setattr(dist, "all_gather_object", all_gather_object)
    monkeypatch.setattr(dist, "get_rank", lambda group: group)
    monkeypatch.setattr(dist, "get_world_size", lambda group: size)
    reason = "é\n" * 700

    def call(rank):
        def prepare():
            if rank == 1:
                raise ValueError(reason)
            return None, {}

        with pytest.raises(ValueError if rank == 1 else RankError) as error:
            Ring(rank).agree("A @ value", prepare)
        return str(error.value)

    with ThreadPoolExecutor(size) as pool:
        told = list(pool.map(call, range(size)))
    assert told == [f"rank 1 could not take part in A @ value. ValueError: {reason}", reason, told[0]]
