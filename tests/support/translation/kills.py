"""A tiny training with every option, stopped at random moments and resumed: `python -m support.translation.kills FOLDER COUNT SEED`.

Half of the stops are SIGKILL, a quarter SIGINT, a quarter a file-size limit at which writes fail, as on a full disk;
each must stop a training that runs: its moment is drawn within the time that the training still takes. Whenever a training ends, it must have left the very files of one that was never stopped. Children are forked from this
process, which has imported everything; their clock is counted, not measured, so that `minutes` can be compared.
"""

import contextlib
import io
import itertools
import os
import random
import resource
import signal
import sys
import time
from pathlib import Path

import torch

from regard.cli import main
from regard.translation import Translator
from regard.translation.training import checkpoint
from support.translation import tiny_recipe

OPTIONS = {
    "minutes": 0.0125, "sampling": 0.2, "joined": 0.5, "far_from": ["far.txt"], "reverse": True, "smoothing": 0.05,
    "longest": 40, "check": 8, "average": 0.9, "seed": 3, "clip": 0.5,
}  # fmt: skip
FILES = [
    "checkpoint.previous.safetensors", "checkpoint.safetensors", "clock.f64", "config.json", "curves.svg", "log.jsonl",
    "model.safetensors", "translation.json", "vocabulary.spm",
]  # fmt: skip


def count_ticks():
    """Let every look at the clock take 1/64 s."""
    ticks = itertools.count()
    checkpoint._now = lambda: next(ticks) / 64


def start(recipe, folder, limit=None):
    """Fork a process that trains; returns its id and a pipe with its output, to which no file-size limit applies."""
    resume = any((folder / name).exists() for name in FILES[:2])
    output, handle = os.pipe()
    child = os.fork()
    if child:
        os.close(handle)
        return child, output
    code = 70
    try:
        os.dup2(handle, 1)
        os.dup2(handle, 2)
        sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)  # noqa: SIM115
        if limit is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        count_ticks()
        code = main(["train", str(recipe), "-o", str(folder), *(["--resume"] if resume else [])])
    except SystemExit as stop:
        code = stop.code
    except KeyboardInterrupt:  # before or after the training
        code = 130
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        with contextlib.suppress(BaseException):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def end(child, output):
    """The exit status of a process, and what it said."""
    with open(output, "rb") as pipe:
        said = pipe.read().decode(errors="replace")
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), said


def check_stopped(folder, code, said):
    assert "Traceback" not in said, said
    assert code in (0, 2, 130, -signal.SIGKILL), (code, said)
    if code == 2:
        assert "regard: " in said, said
        assert "cannot be written" in said or "File too large" in said, said
    if code == 130 and "step" in said:
        assert "--resume" in said or "nothing was saved" in said or "regard: stopped" in said, said
    if (folder / "config.json").exists():
        Translator.load(folder)  # at every moment a whole model
    return code


def same(folder, whole):
    names = sorted(path.name for path in folder.iterdir())
    assert names == FILES, names
    assert tiny_recipe.log(folder) == tiny_recipe.log(whole)
    for name in ("config.json", "model.safetensors", "vocabulary.spm", "clock.f64"):
        assert (folder / name).read_bytes() == (whole / name).read_bytes(), name


def done(folder, whole):
    """The share of the steps that have begun: the clock keeps a number for each."""
    clock, full = folder / "clock.f64", whole / "clock.f64"
    return clock.stat().st_size / full.stat().st_size if clock.exists() else 0.0


def run(home, count, seed):
    choose = random.Random(seed)
    tiny_recipe.write_corpora(home)
    (home / "far.txt").write_text("six six one\n")
    recipe = tiny_recipe.write(home, steps=10**6, **OPTIONS)
    whole = home / "whole"
    count_ticks()
    with contextlib.redirect_stdout(io.StringIO()):  # in this process, so that all is imported before the first fork
        assert main(["train", str(recipe), "-o", str(whole)]) == 0
    began = time.monotonic()
    code, said = end(*start(recipe, home / "again"))
    assert code == 0, said
    same(home / "again", whole)
    takes = time.monotonic() - began
    sizes = [(whole / name).stat().st_size for name in FILES]
    stops, late, ended, code, codes = 0, 0, 0, None, {}
    while stops < count or code != 0:
        folder = home / f"cut-{ended}"
        folder.mkdir(exist_ok=True)
        left = 1 - done(folder, whole)
        how = choose.choice(["kill", "kill", "interrupt", "full"]) if stops < count and left > 0.3 else "none"
        limit = (
            choose.choice([0, 100, max(choose.randrange(size) for size in sizes), *sizes]) if how == "full" else None
        )
        child, output = start(recipe, folder, limit)
        if how in ("kill", "interrupt"):
            time.sleep(choose.uniform(0.0, left * takes))
            os.kill(child, signal.SIGKILL if how == "kill" else signal.SIGINT)
        code = check_stopped(folder, *end(child, output))
        codes[how, code] = codes.get((how, code), 0) + 1
        stops += code != 0
        late += how in ("kill", "interrupt") and code == 0
        print(f"{stops} of {count}: {how} {code}", file=sys.stderr, flush=True)
        if code == 0:
            same(folder, whole)
            ended += 1
    print(f"{stops} stops of {ended} trainings, each the same as without; {late} came too late: {codes}")


if __name__ == "__main__":
    torch.set_num_threads(1)
    run(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
