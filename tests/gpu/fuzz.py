"""Random problems on a GPU against float64, in one process for each core: most of a case's time goes into compiling.

    PYTHONPATH=src:tests python tests/gpu/fuzz.py --cases 1500 --processes 16 --seconds 480 --seed 0 --out ledger.txt
    PYTHONPATH=src:tests python tests/gpu/fuzz.py --seed 0 --only 321                        one of these cases again

Cases come in kinds of six that share what kernels are compiled for: the dtype, the widths, the parts of the mask and the
results. Lengths, offsets, strides and numbers differ. Every result is computed twice and must be the same bits; so must
the gradients of which that is promised. On a CPU (`--device cpu`) it rehearses: the CPU's backends, or with
TRITON_INTERPRET=1 the kernels in Triton's interpreter. It needs torch, NumPy and, for the kernels, Triton.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import os
import queue
import sys
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # without it, torch's deterministic algorithms refuse

import torch
from support.attention import interpreter
from support.attention.looks import LOOKS, compare
from support.attention.problems import PARTS, Maker

import regard

EACH = 6  # cases of a kind
RESULTS = 5  # kinds of results that a case asks for
GRACE = 60  # seconds that the last cases may take after the time is up
# Queries and keys, at most; shorter ones are drawn down to two thirds of it
SIZES = [(40, 40), (90, 150), (150, 90), (300, 300), (300, 300), (12, 300), (60, 2500), (14, 9000)]
INTERPRETED = [(9, 20), (20, 33)]


class Kinds(Maker):
    """Problems of one kind for a GPU: more widths and sizes than on a CPU, mostly odd."""

    def __init__(self, seed: int, case: int, device: str):
        super().__init__(f"{seed} case {case}", f"{seed} kind {case // EACH}", device)
        self.interpreted = device == "cpu" and os.environ.get("TRITON_INTERPRET") == "1"
        self.deterministic = self.kind.random() < 0.25

    def backend(self) -> tuple[str | None, torch.dtype]:
        halves = [torch.float16] if self.interpreted else [torch.float16, torch.bfloat16]
        dtypes = halves if self.kind.random() < 0.6 else [torch.float32]
        dtypes = [torch.float64] if self.kind.random() < 0.08 and not self.interpreted else dtypes
        self.sizes, self.alignment = self.kind.choice(INTERPRETED if self.interpreted else SIZES), self.kind.random()
        return "triton" if self.interpreted else None, self.kind.choice(dtypes)

    def lengths_of_both(self, backend: str | None) -> tuple[int, int]:
        if max(self.sizes) > 1000 or self.interpreted:  # the reference stores all weights
            self.batch = self.batch[:1] if self.batch in ((), (1,), (2,)) else ()
        return self.length(self.sizes[0]), self.length(self.sizes[1])

    def length(self, most: int) -> int:
        least = most * 2 // 3
        if self.alignment < 0.1:
            return self.random.choice([0, 1, self.random.randint(0, most)])
        if self.alignment < 0.3:  # blocks that are full: kernels ask less there
            unit = 64 if least >= 64 else 16
            return max(self.random.randint(least, most) // unit, 1) * unit
        return self.random.choice([n for n in range(least, most + 1) if n % 16])

    def mask_parts(self, count: int) -> list[str]:
        return self.kind.sample(PARTS, count)  # none twice: plain torch computes what has two biases

    def widths(self) -> tuple[int, int]:
        widths = [16, 32, 64, 64, 64, 80, 96, 128, 128, 3, 17, 256]
        width = self.kind.choice(widths[:2] if self.interpreted else widths)
        return width, width if self.kind.random() < 0.6 else self.kind.choice([1, 17, 20, 64, 128])


class Outcome(NamedTuple):
    """What became of a case."""

    process: int
    case: int
    text: str
    tags: tuple[str, ...] = ()  # what it had
    seconds: float = 0.0
    failure: str | None = None


def run(process: int, seed: int, case: int, device: str) -> Outcome:
    """One case."""
    text, tags, failure, start = f"kind {case // EACH}", [], None, time.time()
    try:
        maker = Kinds(seed, case, device)
        torch.use_deterministic_algorithms(maker.deterministic)
        problem, results = maker.problem(), maker.kind.sample(LOOKS, RESULTS)
        text = f"{text}, deterministic={maker.deterministic}, {problem}, {', '.join(results)}"
        tags = [str(problem.query.dtype).removeprefix("torch."), *(f"mask {part}" for part in maker.parts or ("none",))]
        tags += [*results, *(name for name in ("sinks", "softcap", "scale") if getattr(problem, name) is not None)]
        tags += ["deterministic"] * maker.deterministic
        with regard.backends.use(problem.backend) if problem.backend else contextlib.nullcontext():
            compare(maker, problem, results, twice=True)
    except AssertionError as error:
        failure = str(error)
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        failure = f"{type(error).__name__} at {Path(where.filename).name}:{where.lineno}: {str(error)[:500]}"
    return Outcome(process, case, text, tuple(tags), time.time() - start, failure)


def work(number: int, options: argparse.Namespace, kinds: Any, end: float, said: Any) -> None:
    """One process: takes a kind after the other until there is none left, or no time. It says what it begins and ends."""
    torch.set_num_threads(1)
    if os.environ.get("TRITON_INTERPRET") == "1":
        for owner, name, value in interpreter.shortcuts():
            setattr(owner, name, value)
    warnings.simplefilter("ignore")
    while True:
        with kinds.get_lock():
            kind, kinds.value = kinds.value, kinds.value + 1
        for case in range(kind * EACH, (kind + 1) * EACH):
            if time.time() >= end or case >= options.cases:
                return
            said.put((number, case))
            said.put(outcome := run(number, options.seed, case, options.device))
            try:
                if outcome.failure and options.device == "cuda":
                    torch.cuda.synchronize()
            except RuntimeError:  # after an illegal access nothing works in this process any more
                said.close()
                said.join_thread()
                os._exit(3)


def run_all(options: argparse.Namespace) -> list[Outcome]:
    """All cases, as far as there is time."""
    context = multiprocessing.get_context("spawn")
    kinds, said, begun = context.Value("i", 0), context.Queue(), time.time()
    end, shown = begun + options.seconds, begun
    found: list[Outcome] = []
    busy: dict[int, int] = {}  # the case of each process

    def start(number: int) -> Any:
        process = context.Process(target=work, args=(number, options, kinds, end, said), daemon=True)
        process.start()
        return process

    workers = {number: start(number) for number in range(options.processes)}
    while workers:
        ended = [number for number, process in workers.items() if not process.is_alive()]  # all they said is there
        try:
            while True:
                message = said.get(timeout=0.5)
                busy.pop(message[0], None)
                if isinstance(message, Outcome):
                    found.append(message)
                    if message.failure:
                        print(f"case {message.case} failed: {message.failure[:300]}", flush=True)
                else:
                    busy[message[0]] = message[1]
        except queue.Empty:
            pass
        if time.time() - shown > 10:
            shown, failed = time.time(), sum(outcome.failure is not None for outcome in found)
            print(f"{shown - begun:5.0f} s: {len(found)} of {options.cases} cases, {failed} failed", flush=True)
        late = time.time() > end + GRACE
        for number in workers if late else ended:
            process = workers[number]
            process.kill()
            process.join()
            if number in busy:
                why = "it took too long" if late else f"its process ended with exit code {process.exitcode}"
                found.append(Outcome(number, busy.pop(number), "nothing is known of it", failure=why))
        workers = {} if late else {n: process for n, process in workers.items() if n not in ended or process.exitcode}
        for number in ended:
            if number in workers:
                workers[number] = start(number)
    return found


def ledger(options: argparse.Namespace, found: list[Outcome], seconds: float) -> str:
    """Everything to keep."""
    failed = sorted((outcome for outcome in found if outcome.failure is not None), key=lambda outcome: outcome.case)
    counts = Counter(tag for outcome in found for tag in set(outcome.tags))
    again = f"python tests/gpu/fuzz.py --seed {options.seed} --device {options.device} --only"
    lines = [
        f"seed {options.seed}: {len(found)} cases in {seconds:.0f} s, {len(failed)} failed",
        f"{torch.cuda.get_device_name() if options.device == 'cuda' else 'CPU'}, torch {torch.__version__}, "
        f"regard {regard.__version__}",
        "cases with: " + ", ".join(f"{tag} {count}" for tag, count in sorted(counts.items())),
    ]
    for number in range(options.processes):
        own = [outcome for outcome in found if outcome.process == number]
        wrong = sum(outcome.failure is not None for outcome in own)
        lines.append(f"process {number}: {len(own)} cases, {wrong} failed, {sum(o.seconds for o in own):.0f} s")
    for outcome in failed:
        lines += ["", f"case {outcome.case} ({outcome.seconds:.1f} s): {outcome.failure}", f"    {outcome.text}"]
        lines += [f"    {again} {outcome.case}"]
    return "\n".join(lines)


def main() -> int:
    """Run the cases, print the ledger and keep it; 1 if one failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seconds", type=float, default=480.0, help="after that long no case is begun")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu", choices=("cuda", "cpu"))
    parser.add_argument("--only", type=int, help="run this one case")
    parser.add_argument("--out", type=Path, help="where to keep the ledger")
    options = parser.parse_args()
    if options.only is not None:
        outcome = run(0, options.seed, options.only, options.device)
        print(f"case {outcome.case}: {outcome.text}\n{outcome.failure or 'right'}")
        return int(outcome.failure is not None)
    start = time.time()
    found = run_all(options)
    text = ledger(options, found, time.time() - start)
    print(text)
    if options.out is not None:
        options.out.write_text(text + "\n", encoding="utf-8")
    return int(not found or any(outcome.failure is not None for outcome in found))


if __name__ == "__main__":
    sys.exit(main())
