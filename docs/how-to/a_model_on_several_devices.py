# %% [markdown]
# # A model on several devices
#
# `regard.watch` works as on one device where a model is spread: layers on several devices or on a disk (`device_map`),
# texts on several ranks (DDP), weights on several ranks (FSDP2), heads on several ranks (tensor parallel). The names in
# the record are those of the model itself, without what its wrappers add. Each rank records what it computes.
#
# ## Layers elsewhere: `device_map`
#
# transformers and accelerate load what a device has no room for when it is needed. Here, without a GPU, every other
# layer of a small Llama with random weights lies on the disk.

# %%
import logging
import tempfile
from pathlib import Path

import torch
import transformers

import regard

transformers.logging.disable_progress_bar()
logging.getLogger("accelerate").setLevel(logging.ERROR)  # it would warn that some weights lie elsewhere
sizes = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 4, "num_attention_heads": 4}
config = transformers.LlamaConfig(vocab_size=100, num_key_value_heads=2, **sizes)
torch.manual_seed(0)
plain = transformers.LlamaForCausalLM(config).eval()
ids = torch.randint(5, 100, (1, 12))

with tempfile.TemporaryDirectory() as folder:
    plain.save_pretrained(f"{folder}/model")
    places = {f"model.layers.{n}": "disk" if n % 2 else "cpu" for n in range(4)}
    places |= dict.fromkeys(["model.embed_tokens", "model.rotary_emb", "model.norm", "lm_head"], "cpu")
    spread = transformers.AutoModelForCausalLM.from_pretrained(
        f"{folder}/model", device_map=places, offload_folder=f"{folder}/weights"
    )
    with torch.no_grad(), regard.watch(spread) as record, regard.watch(plain) as expected:
        spread(ids), plain(ids)

print(record)
same = all(torch.allclose(record[name].to_dense(), expected[name].to_dense()) for name in expected)
print("the same as of the plain model:", same)

# %% [markdown]
# ## On several ranks
#
# The script below runs twice, as `torchrun` would start it. With DDP and FSDP2 each rank has its own texts, and records
# those. In tensor parallel each rank has some heads of each layer, and records those, by their numbers in the whole
# model, which `at(head=…)` and `without=…` take too. `record.gather()`, called on every rank, gives the first rank the
# record of all heads, and the others `None`.

# %%
script = """
import sys
import torch
import torch.distributed as dist
import transformers
import regard
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

transformers.logging.disable_progress_bar()
dist.init_process_group("gloo")
rank = dist.get_rank()
ids = torch.arange(24).view(2, 12) + 5

def load(**options):
    return transformers.AutoModelForCausalLM.from_pretrained(sys.argv[1], **options)

def show(name, model, ids):
    with torch.no_grad(), regard.watch(model) as record:
        model(input_ids=ids)
    entry = record["model.layers.0.self_attn"]
    for turn in range(dist.get_world_size()):
        dist.barrier()
        if turn == rank:
            print(f"{name}, rank {rank}: {tuple(entry.shape)}, heads {list(entry.heads)}", flush=True)
    return record

show("DDP", DistributedDataParallel(load()), ids[rank : rank + 1])
model = load()
for layer in model.model.layers:
    fully_shard(layer)
show("FSDP2", fully_shard(model), ids[rank : rank + 1])
record = show("tensor parallel", load(tp_plan="auto"), ids)
whole = record.gather()
if whole is not None:
    print(f"gathered, rank {rank}: heads {list(whole['model.layers.0.self_attn'].heads)}", flush=True)
dist.destroy_process_group()
"""

# %%
import subprocess
import sys

with tempfile.TemporaryDirectory() as folder:
    plain.save_pretrained(f"{folder}/model")
    (Path(folder) / "script.py").write_text(script)
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    done = subprocess.run(
        [*launch, f"{folder}/script.py", f"{folder}/model"], capture_output=True, text=True, timeout=300
    )
assert done.returncode == 0, done.stderr
print(done.stdout)

# %% [markdown]
# ## What is not seen
#
# Until it is gathered, a record knows nothing of other ranks: a question is answered from what this rank computed, and
# printed, the record says which heads these are. Queries that arrive as DTensors are refused, with what to do. Where
# the sequence itself lies on several ranks (context parallel), ask a [`ShardedMatrix`](a_sequence_in_shards.py)
# instead. **Not shown**: several GPUs. The tests run two processes with gloo on a CPU, where every weight is that of
# the plain model.
