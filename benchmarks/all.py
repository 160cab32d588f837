"""Measure again: run every benchmark of this machine one after the other, write the reports, and fill in the pages.

python benchmarks/all.py                              the CPU's reports, on an idle machine (`make reports`)
python benchmarks/all.py --device gpu --part 1        a third of the GPU's reports, within ten minutes; then 2 and 3
python benchmarks/all.py --out FOLDER                 write the reports there; the pages stay as they are
python benchmarks/all.py --commit                     print REGARD_COMMIT for a copy of this tree without git
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from measure import REPORTS, ROOT, commit

# Minutes that each script takes, estimated; one that takes twice as long and a minute is ended, and the rest goes on.
CPU = {
    "attention": 6, "translate": 4.5, "watching": 3, "serve": 3, "train_processes": 2, "layers": 0.5, "pictures": 0.5,
    "sinks": 0.5, "translation_quality": 5, "monitor": 2,
}  # fmt: skip
GPU = [  # the least certain ones last
    {"attention": 3.5, "errors": 1.1, "translate": 2.7},
    {"watching": 1.5, "links": 1, "atlas": 1, "images": 1, "train_processes": 0.6, "cache": 2},
    {"layers": 3, "estimates": 1.5, "monitor": 2.2},
]
LIMIT = 9.4  # minutes that one part may take on a GPU


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "gpu"), default="cpu")
    parser.add_argument("--part", type=int, choices=(1, 2, 3), help="of the GPU's reports; all without it")
    parser.add_argument("--out", type=Path, default=REPORTS, help="the folder of the reports")
    parser.add_argument("--commit", action="store_true", help="print REGARD_COMMIT, and end")
    options = parser.parse_args()
    if options.commit:
        print(commit(["benchmarks/*.py", "src"]))
        return
    chosen: dict[str, float] = {**CPU}
    if options.device == "gpu":
        chosen = {name: m for n, part in enumerate(GPU, 1) if options.part in (None, n) for name, m in part.items()}
    there = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])}
    there |= {"PYTHONUNBUFFERED": "1"} | ({"CUDA_VISIBLE_DEVICES": ""} if options.device == "cpu" else {})
    print(f"about {sum(chosen.values()):.0f} minutes", flush=True)
    began, outcome = time.monotonic(), {}
    for number, (name, minutes) in enumerate(chosen.items(), 1):
        start = time.monotonic()
        print(
            f"\n[{number} of {len(chosen)}] {name}, about {minutes} min, {(start - began) / 60:.1f} so far", flush=True
        )
        limit = 60 * (2 * minutes + 1)
        if options.device == "gpu" and options.part:
            limit = max(min(limit, 60 * LIMIT - (start - began)), 1)
        command = [sys.executable, f"benchmarks/{name}.py", "--report", str(options.out.absolute())]
        child = subprocess.Popen(command, cwd=ROOT, env=there, start_new_session=True)
        try:
            code = child.wait(limit)
            outcome[name] = "done" if code == 0 else f"ended with {code}"
        except subprocess.TimeoutExpired:
            outcome[name] = f"stopped after {limit / 60:.1f} min; its report has the sections that were done"
        finally:
            if child.poll() is None:  # with the processes that it started
                os.killpg(child.pid, signal.SIGKILL)
                child.wait()
        outcome[name] += f" ({(time.monotonic() - start) / 60:.1f} min)"
    print("\n" + "\n".join(f"{name}: {how}" for name, how in outcome.items()), flush=True)
    if options.out == REPORTS:
        subprocess.run([sys.executable, "docs/tools/figures.py"], cwd=ROOT, env=there, check=True)
    sys.exit(not all(how.startswith("done") for how in outcome.values()))


if __name__ == "__main__":
    main()
