"""What ranks say to each other: messages of any length, in threads that stand for ranks."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch.distributed as dist

from regard.distributed.ring import Ring
from regard.errors import RankError


@pytest.fixture
def together(monkeypatch):
    """Runs a function of (ring, rank) on three ranks; also gives how many bytes each frame had."""
    size, frames, lock, sizes = 3, {}, threading.Barrier(3, timeout=5), []

    def all_gather(found, mine, group):
        frames[group] = mine.clone()
        lock.wait()
        for rank, tensor in enumerate(found):
            tensor.copy_(frames[rank])  # refused where frames differ in length
        sizes.append(len(mine))
        assert len(sizes) <= 9, "the ranks never agree on a length"
        lock.wait()

    monkeypatch.setattr(dist, "all_gather", all_gather)
    monkeypatch.setattr(dist, "get_backend_config", lambda group: "cpu:gloo")
    monkeypatch.setattr(dist, "get_rank", lambda group: group)
    monkeypatch.setattr(dist, "get_world_size", lambda group: size)

    def run(function):
        with ThreadPoolExecutor(size) as pool:
            return list(pool.map(lambda rank: function(Ring(rank), rank), range(size))), sizes

    return run


@pytest.mark.parametrize("length", [9, 1019, 1020, 1021, 1023, 1024, 1025, 2041, 70_000])
@pytest.mark.parametrize("longest", [0, 2])
def test_messages_of_any_length_arrive(length, longest, together):
    """A frame has 1,024 bytes with the 4 of the length; if one message is longer, all are sent again in frames for it."""

    def said(rank):
        return {"": "x" * ((length if rank == longest else 30 * rank + 10) - len('{"": ""}'))}

    everyone, sizes = together(lambda ring, rank: ring._exchange(said(rank)))
    assert everyone == [[said(rank) for rank in range(3)]] * 3
    assert set(sizes) == ({1024} if length <= 1020 else {1024, length + 4})
    assert len(sizes) == 3 * len(set(sizes))


def test_an_error_of_several_lines_and_signs_arrives_whole(together):
    reason = "é\n" * 700

    def call(ring, rank):
        def prepare():
            if rank == 1:
                raise ValueError(reason)
            return None, {}

        with pytest.raises(ValueError if rank == 1 else RankError) as error:
            ring.agree("A @ value", prepare)
        return str(error.value)

    told, _ = together(call)
    assert told == [f"rank 1 could not take part in A @ value. ValueError: {reason}", reason, told[0]]
