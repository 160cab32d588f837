# %% [markdown]
# # Train on several GPUs or machines
#
# `torchrun` starts `regard train` once for each GPU, on one machine or on many, and the processes train one model. The
# recipe stays the same, and so does what is learned.
#
#     $ torchrun --standalone --nproc-per-node=8 -m regard train recipe.toml -o my-model
#
# `torchrun` comes with PyTorch. Without a GPU the processes compute on the CPU, as on this page. On several machines,
# the same line runs on each of them, with the address of one where all others can reach it:
#
#     $ torchrun --nnodes=2 --nproc-per-node=8 --rdzv-backend=c10d --rdzv-endpoint=first-machine \
#           -m regard train recipe.toml -o my-model
#
# The recipe and the corpora must lie on every machine; they are compared. Only the first process reads and writes the
# folder, and only it prints.
#
# ## What each process does
#
# `tokens` in the recipe is the size of a batch, whoever computes it. Which sentences a batch holds depends on the seed
# and the epoch alone. Each of N processes takes every N-th sentence of it, and the gradient is the mean over the target
# tokens of the whole batch, not over processes. So N processes take the steps that one would take, each of them on an
# N-th of the work, and differ by rounding only. (Dropout is the exception: each process draws its own noise, so another
# N means other noise, as another seed would.) With more GPUs you will want larger batches: raise `tokens`.
#
# To show this, a recipe in very small: no dropout, and a few steps. First one process, here.

# %%
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch

import regard
from regard.translation import Recipe, train
from regard.translation.training.recipe import LARGE

torch.set_num_threads(1)
work = tempfile.TemporaryDirectory()
home = Path(work.name)
lines = Path("recipes/small/dev.tsv").read_text().splitlines(keepends=True)
(home / "train.tsv").write_text("".join(lines[8:]))
(home / "dev.tsv").write_text("".join(lines[:8]))
recipe = home / "recipe.toml"
recipe.write_text("""
train = ["train.tsv"]
dev = "dev.tsv"
vocabulary = 300
tokens = 512
steps = 60
check = 20
warmup = 20

[model]
width = 32
heads = 2
hidden = 64
encoder_layers = 1
decoder_layers = 1
positions = 128
dropout = 0.0
""")


def losses(folder):
    """The losses in a training's log, by step."""
    path = folder / "log.jsonl"
    entries = map(json.loads, path.read_text().splitlines() if path.exists() else [])
    return {entry["step"]: entry["loss"] for entry in entries if "loss" in entry}


train(Recipe.read(recipe), home / "one", quiet=True)
print(losses(home / "one"))

# %% [markdown]
# Then two processes. After a while Ctrl-C ends them, which for a program is the signal SIGINT. They finish their step,
# and the first process writes a checkpoint and says how to go on.

# %%
command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]  # this is torchrun
command += ["-m", "regard", "train", str(recipe), "-o", str(home / "two")]
environment = os.environ | {"CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}  # on the CPU, one core for each
with (home / "output.txt").open("w") as output:
    running = subprocess.Popen(command, env=environment, stdout=output, stderr=subprocess.STDOUT)
    while running.poll() is None and 20 not in losses(home / "two"):
        time.sleep(0.1)
    running.send_signal(signal.SIGINT)
    running.wait()
said = (home / "output.txt").read_text()
print(*[line.replace(str(home), "…") for line in said.splitlines() if line.startswith("regard:")])

# %% [markdown]
# Any number of processes can go on from a checkpoint, one too. At the end the losses are those of the training that was
# never stopped.

# %%
train(Recipe.read(recipe), home / "two", resume=True, quiet=True)
one, two = losses(home / "one"), losses(home / "two")
for step in one:
    print(f"step {step:>2}: one process {one[step]:.6f}, two and then one {two[step]:.6f}")
assert all(abs(one[step] - two[step]) < 1e-4 for step in one)

# %% [markdown]
# ## Batches that do not fit
#
# With `accumulate = 4` in the recipe a step takes a batch of four times `tokens`, in four passes one after the other,
# whose gradients are added up. It is the step of a recipe with four times the `tokens`, in a quarter of the memory and
# in more time.

# %%
small = home / "small.toml"
small.write_text(recipe.read_text().replace("tokens = 512", "tokens = 128\naccumulate = 4"))
train(Recipe.read(small), home / "four", quiet=True)
four = losses(home / "four")
print(f"the largest difference of a loss: {max(abs(one[step] - four[step]) for step in one):.0e}")
assert all(abs(one[step] - four[step]) < 1e-4 for step in one)

# %% [markdown]
# ## Models that do not fit
#
# By default each process holds the whole model, and the processes average their gradients (DistributedDataParallel).
# With `shard = true` each keeps an N-th of the weights, of their average and of the optimizer's moments, and gets the
# rest of a layer when it needs it (FSDP2). Without the field, models from 150 million parameters on are sharded, as the
# paper's big one is. A checkpoint is the same file either way. While it looks at the dev corpus, each process holds one
# whole copy of the averaged weights; and each builds the whole model once, at the start.

# %%
for name in ("base", "big"):
    config = getattr(regard.TransformerConfig, name)()
    sharded = Recipe(train=["a.tsv"], dev="b.tsv").shards(config.parameters)
    print(f"{name}: {config.parameters / 1e6:.0f} million parameters,", "sharded" if sharded else "whole in each")
print(f"sharded from {LARGE / 1e6:.0f} million on")
work.cleanup()

# %% [markdown]
# ## When a process dies
#
# If one process ends, by an error, for want of memory or because its machine is gone, all others end, and one of them
# says how to go on: with `--resume`, from the last checkpoint, which is written at each look at the dev corpus (`check`
# in the recipe). No file is left half-written. With `torchrun --max-restarts=3` they start again by themselves, and
# resume.
#
# - After Ctrl-C, torchrun gives its processes `30` seconds for the step and the checkpoint; `--shutdown-timeout=300` is
#   for larger models. A traceback of torchrun's own follows the message.
# - If torchrun itself is killed, its processes end after the step, with a checkpoint.
# - A process that does not answer for `10` minutes counts as dead.
# - With `minutes` in the recipe, the clock of the first process counts.
# - Other launchers work too if they set `RANK`, `WORLD_SIZE`, `LOCAL_RANK`, `MASTER_ADDR` and `MASTER_PORT`.
#
# ## What it costs
#
# On one H200, where the wrapper has nothing to average:
#
# <!-- report train-processes-gpu -->
#
# Not shown here, for it takes more than a CPU: several GPUs (NCCL instead of gloo) and several machines.
