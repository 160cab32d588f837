# %% [markdown]
# # A sequence in shards
#
# Where a sequence is too long for one GPU, its tokens lie on several *ranks* (processes, each with its own GPU): that
# is called context parallel. `regard.distributed` has an attention matrix of such a sequence. It gives what
# `regard.AttentionMatrix` gives, gradients included, and each rank needs memory for its own tokens only.
#
# ## A script for every rank
#
# All ranks run the same script, started by `torchrun`. `shard` takes this rank's share of a tensor. Then `A @ value` is
# attention over the whole sequence: keys and values go round the ranks, and while a rank computes with those that it
# has, the next ones are on their way. Here two processes on a CPU do it, and the first compares with a single process.

# %%
script = """
from datetime import timedelta

import torch
import torch.distributed as dist
import regard
from regard.distributed import ShardedMatrix, gather, shard

dist.init_process_group("gloo", timeout=timedelta(minutes=2))  # on GPUs "nccl", after torch.cuda.set_device(…)
rank, ranks = dist.get_rank(), dist.get_world_size()
mesh = dist.init_device_mesh("cpu", (ranks,))

torch.manual_seed(0)  # every rank makes the whole sequence, to compare; a real one would read its own tokens
query, key, value = torch.randn(1, 8, 2048, 64), torch.randn(1, 2, 2048, 64), torch.randn(1, 2, 2048, 64)
q, k, v = (shard(tensor, mesh).requires_grad_() for tensor in (query, key, value))

A = ShardedMatrix(q, k, mask=regard.causal(), mesh=mesh)
output = A @ v  # of this rank's queries
output.square().mean().backward()  # gradients of this rank's queries, keys and values
received = A.detach().received()  # by this rank's keys, from the queries of all ranks
top = A.detach().top(2)  # of this rank's queries; their keys are counted in the whole sequence
picture = A.detach().pool(4, 4)  # the same on all ranks
row = A[0, 3, 1500, :5]  # by index in the whole sequence, the same on all ranks
whole = gather(output, mesh)  # everything on every rank: for a comparison only

if rank == 0:
    print(A)
    alone = regard.AttentionMatrix(query, key, mask=regard.causal())
    print(f"output, farthest from one process: {(whole - alone @ value).abs().max():.0e}")
    print(f"a row, farthest from one process: {(row - alone[0, 3, 1500, :5]).abs().max():.0e}")
    print(f"here: gradients {tuple(k.grad.shape)}, received {tuple(received.shape)}, top {tuple(top.keys.shape)}")
    print("pooled, the mean of the heads, in percent:")
    for line in (100 * picture[0].mean(0)).tolist():
        print(*(f"{share:.2f}" for share in line))
dist.destroy_process_group()
"""

# %%
import subprocess
import sys
import tempfile
from pathlib import Path


def torchrun(script):
    """What `torchrun --nproc-per-node=2 script.py` does."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "script.py"
        path.write_text(script)
        launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
        return subprocess.run([*launch, str(path)], capture_output=True, text=True, timeout=300)


done = torchrun(script)
assert done.returncode == 0, done.stderr
print(done.stdout)

# %% [markdown]
# ## Which tokens lie where
#
# A causal mask shows the last query everything and the first one a single key. So `shard` deals the tokens out in
# zig-zag: of twice as many pieces as there are ranks, the first rank gets the first and the last, the next one the
# second and the last but one, and so on. Every rank then has the same work. torch's own context parallel has the same
# order. What goes with the tokens is cut the same way: positions, labels, ids.

# %%
from regard.distributed.share import Layout, even_lengths

for rank, runs in enumerate(Layout.of(even_lengths(16, 4), zigzag=True).runs):
    print(f"rank {rank}:", *(n for run in runs for n in run.positions))

# %% [markdown]
# Shares may be of any length, also uneven or empty. For tokens that lie one after the other say `zigzag=False` wherever
# it can be said.
#
# | a mask | what each rank hands in |
# | --- | --- |
# | `causal`, `window`, `padding(lengths)`, `cut` of positions | the same on all ranks, as for the whole sequence |
# | `padding(bools)`, `documents(ids)`, `cut` of bools | those of its own tokens |
# | `bias(tensor)`, a bool tensor | its own queries × the keys of all ranks, in the order of the sequence |
#
# Blocks of which a mask shows nothing are not computed. What belongs to a query (`A @ value`, `entropy`, `top`,
# `logsumexp`) lies where the query is, what belongs to a key (`received`, `A.mT @ x`) where the key is; `pool`, slices
# and pictures are the same everywhere. A parameter that all ranks share, such as sinks, gets each rank's part of its
# gradient: add them up, as for every weight of a model that sees a part of the tokens. Dropout, index tensors in
# `A[…]`, `diagonal` and `where` are for matrices on one device only.
#
# If queries, keys and values are DTensors with `Shard` on the axis of tokens, leave out `mesh`: theirs is taken, and so
# is their order; results are DTensors too. Their heads or batches may lie on another dimension of the mesh.
#
# ## When a rank fails
#
# Each call begins with a short message from every rank to all. If one makes another call, hands in something that does
# not fit, or has an error, all of them get a `regard.RankError` that says so. Here each has a mask of its own:

# %%
done = torchrun(script.replace("regard.causal(), mesh", "regard.causal(offset=rank), mesh"))
print(next(line for line in done.stderr.splitlines() if "regard.errors.RankError" in line))

# %% [markdown]
# If a rank dies, `torchrun` ends the others. Started in another way, they get a `RankError` as soon as its connections
# close; and if they notice nothing of that, after the `timeout` of `init_process_group`. torch's own is half an hour
# for gloo, so choose one.
#
# ## On paper: ten million tokens on eight H200
#
# Nobody has run this here: there was one GPU. What follows is computed from times of one H200, which a report of the
# benchmarks has, and from assumptions, each with a number:

# %%
import re

report = Path("benchmarks/reports/attention-gpu.md").read_text()
case = re.escape("1 × 32/8 heads × 32,768 × 128 causal")
forward = float(re.search(rf"\| {case} \| ([\d.]+) ms", report)[1]) / 1000  # seconds
both, slower = re.search(rf"bfloat16, {case} \| ([\d.]+) ms [^|]+\| ([\d.]+) ×", report).groups()
training = float(both) / 1000 * float(slower)  # forward and backward, by our kernels

measured, tokens, ranks = 32_768, 10_000_000, 8
heads, key_heads, width, bytes_each = 32, 8, 128, 2
link = 450e9  # assumption 1: a ring in one node gets NVLink 4's 450 GB a second each way (900 both ways)
growth = (tokens / measured) ** 2  # assumption 2: time grows with the square of the tokens
# Assumption 3: in zig-zag order each rank computes an eighth. Assumption 4: transfers run beside the kernels, and
# neither slows the other. Assumption 5: merging blocks, and the messages before a call, take no time worth counting.

own = tokens / ranks
keys_and_values = own * key_heads * width * bytes_each * 2
gradients = own * key_heads * width * 4 * 2  # of both, in float32; they go all the way round, back to their rank
needed = {
    "forward": (forward, keys_and_values * (ranks - 1)),
    "forward and backward": (training, 2 * keys_and_values * (ranks - 1) + gradients * ranks),
}
for name, (seconds, sent) in needed.items():
    print(f"{name}, one layer: {seconds * growth / ranks:.0f} s of computing, {sent / link:.2f} s of sending beside it")

# %% [markdown]
# Sending hides behind computing by far, since computing grows with the square of the tokens and sending does not. On
# paper both take the same time, in the forward pass, at this length:

# %%
sending = needed["forward"][1] / link / tokens  # for each token of the sequence
print(f"{sending / (forward / measured**2 / ranks):,.0f} tokens")

# %% [markdown]
# How good is assumption 2? The report has one longer case, with fewer heads. Scaled from the shorter one, and measured:

# %%
longer, fewer = 2**20, 4
took = float(re.search(r"\| `A @ v` \| ([\d,]+) ms", report)[1].replace(",", "")) / 1000
scaled = forward * (longer / measured) ** 2 * fewer / heads
print(f"{longer:,} tokens, {fewer} heads: {scaled:.2f} s scaled, {took:.2f} s measured, {took / scaled:.2f} ×")

# %% [markdown]
# So the seconds above are too few rather than too many, by about as much. And the memory of one rank in the forward
# pass of one layer's attention:

# %%
parts = {
    "queries": own * heads * width * bytes_each,
    "keys and values": keys_and_values,
    "keys and values on their way, two at a time": 2 * keys_and_values,
    "the output": own * heads * width * bytes_each,
    "the output while it is added up, in float32": own * heads * width * 4,
    "the logsumexp, in float64": own * heads * 8,
}
for name, size in parts.items():
    print(f"{size / 2**30:6.1f} GiB  {name}")
print(f"{sum(parts.values()) / 2**30:6.1f} GiB  in all; torch finds about 139 GiB on an H200")

# %% [markdown]
# The weights of one head, if they were stored, would take this much:

# %%
print(f"{tokens**2 * bytes_each / 2**40:,.0f} TiB")

# %% [markdown]
# **Not shown**: NCCL, several GPUs, several nodes. The tests run two and four processes with gloo on a CPU, where every
# number and every gradient is that of a single process.
