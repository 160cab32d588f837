"""Training by one process and by several, in tokens a second: what torchrun's processes and DDP's wrapper cost.

python benchmarks/train_processes.py            print the table
python benchmarks/train_processes.py --report   and keep it in benchmarks/reports/

One step of `regard train` (batch, forward, backward, clipping, AdamW, average, and the question whether to stop) on
the corpus of recipes/small.toml. On a CPU: the model of that recipe, float32, batches of 2,048 tokens; one process
with all cores, two with half of them each. On GPUs: the paper's base model, bf16 autocast, batches of 24,576 tokens;
then as many processes as there are GPUs. Tokens are those of source and target, padding included.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import chain, islice
from pathlib import Path

import torch
from measure import GPU, ROOT, arguments, attempt, run, table
from rich.console import Console
from torch import distributed
from torch.nn.parallel import DistributedDataParallel

from regard.translation import Recipe
from regard.translation.training.loop import Trainer
from regard.translation.training.processes import Loss, Processes, joined

PROCESSES = torch.cuda.device_count() if GPU else 2
STEPS, ROUNDS = (30, 4) if GPU else (4, 5)


def recipe(shard: bool = False) -> Recipe:
    found = Recipe.read(ROOT / "recipes" / "small.toml")
    if GPU:
        found = dataclasses.replace(found, tokens=24_576, model={"positions": 128})
    return dataclasses.replace(found, shard=shard)


def trainer_of(processes: Processes, folder: str, shard: bool = False) -> Trainer:
    made = Trainer(recipe(shard), Path(folder), Console(quiet=True), processes)
    made.prepare()
    return made


def rounds(trainers: dict[str, Trainer]) -> dict[str, list[float]]:
    """Tokens a second of each, in several rounds, the trainers taken in turn; the first round is not counted."""
    found: dict[str, list[float]] = {name: [] for name in trainers}
    for number in range(ROUNDS + 1):
        for name, trainer in trainers.items():
            epochs = (trainer.batches.plan(number * STEPS + more) for more in range(STEPS))  # a small corpus has few
            batches = list(islice(chain.from_iterable(epochs), STEPS))
            trainer.processes.any(False)  # they begin together
            trainer.tokens, start = 0, time.perf_counter()
            for rows in batches:
                trainer.total += trainer._step(rows, 1e-4)
                trainer.processes.any(False)
            tokens = int(trainer.processes.sum(torch.tensor(trainer.tokens)))
            trainer.total.item()  # a GPU has done it all then
            trainer.processes.any(False)
            found[name].append(tokens / (time.perf_counter() - start))
    return {name: rates[1:] for name, rates in found.items()}


def alone() -> dict[str, list[float] | str]:
    """One process, without and with DDP's wrapper in a group of one."""
    name = "one process, in DistributedDataParallel"
    failures: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        plain = trainer_of(Processes(), f"{folder}/plain")
        for backend in ("nccl", "gloo") if GPU else ("gloo",):
            found = attempt(f"{name} ({backend})", lambda b=backend: beside_wrapped(plain, b, f"{folder}/{b}"))
            if not isinstance(found, str):
                return dict(zip(("one process", f"{name} ({backend})"), found.values(), strict=True)) | failures
            failures[f"{name} ({backend})"] = found
        return rounds({"one process": plain}) | failures


def beside_wrapped(plain: Trainer, backend: str, folder: str) -> dict[str, list[float]]:
    """A trainer as it is, and another one in the wrapper, taken in turn."""
    with group_of_one(backend):
        wrapped = trainer_of(Processes(), folder)
        wrapped.loss = DistributedDataParallel(Loss(wrapped.model), gradient_as_bucket_view=True)
        wrapped.loss.broadcast_buffers = False
        try:
            return rounds({"plain": plain, "wrapped": wrapped})
        finally:
            wrapped.loss = None  # it must not outlive the group


@contextlib.contextmanager
def group_of_one(backend: str) -> Iterator[None]:
    """A process group that needs neither files nor the network to meet."""
    distributed.init_process_group(backend, store=distributed.HashStore(), rank=0, world_size=1)
    try:
        yield
    finally:
        distributed.destroy_process_group()


def worker(output: Path, shard: bool) -> None:
    """One of several processes, started by torchrun."""
    with joined(lambda: "start again") as processes:
        torch.set_num_threads(max((os.cpu_count() or 1) // processes.world, 1))
        trainer = trainer_of(processes, f"{output}.model", shard)
        found = rounds({"": trainer})[""]
        trainer.loss = None
    if processes.first:
        output.write_text(json.dumps(found))


def several(shard: bool) -> list[float]:
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "rates.json"
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={PROCESSES}"]
        command += [__file__, "--worker", str(output), *(["--shard"] if shard else [])]
        subprocess.run(command, check=True)
        found: list[float] = json.loads(output.read_text())
        return found


def rates() -> list[str]:
    torch.set_num_threads(os.cpu_count() or 1)
    cases: dict[str, Callable[[], list[float]]] = {}
    if PROCESSES > 1:
        cases[f"{PROCESSES} processes, DistributedDataParallel"] = lambda: several(shard=False)
        cases[f"{PROCESSES} processes, sharded (FSDP2)"] = lambda: several(shard=True)
    found = alone() | {name: attempt(name, call) for name, call in cases.items()}
    known = found.get("one process")
    base = statistics.median(known) if isinstance(known, list) else float("nan")
    rows = []
    for name, speeds in found.items():
        if isinstance(speeds, str):
            rows.append([name, speeds])
        else:
            median = statistics.median(speeds)
            rows.append([name, f"{median:,.0f} ({max(speeds):,.0f})", f"{median / base:.2f} ×"])
    return table(["", "tokens/s, median (greatest)", "of one process"], rows)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--shard", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker is not None:
        worker(options.worker, options.shard)
    else:
        about = (__doc__ or "").split("\n\n")[-1].strip().replace("\n", " ")
        run("Training by one process and by several", about, {"Speed": rates}, "translation nn", options)


if __name__ == "__main__":
    main()
