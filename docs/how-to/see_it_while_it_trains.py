# %% [markdown]
# # See it while it trains
#
# `regard.monitor` samples a model while it trains: logits, entropy, sinks and outputs of every head, for any logger, as
# a table and as a film. In between samples nothing is wrapped, and the losses are the same bits as without it.
#
# The model is a small one in plain PyTorch. It reads letters that repeat with a period it does not know.

# %%
import tempfile
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional

import regard
from regard.drawing import curves

torch.set_num_threads(1)
LETTERS, TOKENS, WIDTH, HEADS = 32, 32, 64, 4


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.project, self.output = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2))
        self.feed = nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH))

    def forward(self, x):
        q, k, v = self.project(self.norms[0](x)).unflatten(-1, (3, HEADS, -1)).movedim(-3, 0).transpose(2, 3).unbind(0)
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.output(mixed.transpose(1, 2).flatten(2))
        return x + self.feed(self.norms[1](x))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.letters, self.places = nn.Embedding(LETTERS, WIDTH), nn.Embedding(TOKENS, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(2))
        self.out = nn.Linear(WIDTH, LETTERS)

    def forward(self, ids):
        x = self.letters(ids) + self.places.weight[: ids.shape[1]]
        for layer in self.layers:
            x = layer(x)
        return self.out(x)


def batch():
    periods = torch.randint(6, 16, (32, 1))
    ids = torch.randint(LETTERS, (32, TOKENS)).gather(1, torch.arange(TOKENS) % periods)
    return ids, torch.arange(TOKENS - 1) >= periods  # and what can be known


def cross_entropy(logits, ids, known):
    return functional.cross_entropy(logits[:, :-1][known], ids[:, 1:][known])


# %% [markdown]
# ## Four lines in a loop
#
# One to make it, one to call it in each step with what the model takes, and two to look. `step` returns the numbers at
# every twentieth step, the first included, and an empty dict otherwise.

# %%
torch.manual_seed(0)
model = GPT()
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-2)
monitor = regard.monitor(model, every=20)
for _ in range(121):
    ids, known = batch()
    loss = cross_entropy(model(ids), ids, known)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if numbers := monitor.step(ids):
        highest = numbers["attention/max_logit"]
        print(f"step {monitor.steps - 1:3}  loss {float(loss.detach()):.2f}  logits up to {highest:.0f}")
print(f"\n{monitor}")

# %% [markdown]
# A line that begins with an exclamation mark is an alarm, with its reason and its source: logits that grow, an entropy
# that collapses, a dead head, a sink that appears. `monitor.alarms` has each at the step where it began.
#
# Every number has a name of its own: some over the whole model, the others of one head. `Monitor.samples` keeps all.

# %%
for name in list(numbers)[:13]:
    print(f"{name:<40} {numbers[name]:.3f}")
print(f"… {len(numbers)} numbers, such as attention/layer01/head03/entropy")

# %% [markdown]
# `monitor.report("run.html")` saves a film of them. Its slider goes through the samples; here is its last frame.

# %%
with tempfile.TemporaryDirectory() as folder:  # yours would be the folder of the run
    print(monitor.report(Path(folder) / "run.html").name)
monitor.picture()

# %% [markdown]
# ## For a logger
#
# `log` is called with the numbers and their step. On a GPU a sample need not wait: its numbers arrive while the next
# steps run, and `log` is called in the first `step` after that, with the step of the sample. TensorBoard's writer takes
# numbers of an earlier step, one at a time. wandb drops a step that is below its last, so its numbers get an axis of
# their own. Neither is needed by regard.
#
# ```python
# run = wandb.init()
# run.define_metric("attention/*", step_metric="attention/step")
# monitor = regard.monitor(model, every=50, log=lambda numbers, step: run.log(numbers | {"attention/step": step}))
#
# from torch.utils.tensorboard import SummaryWriter
#
# writer = SummaryWriter("runs/first")
# monitor = regard.monitor(
#     model, every=50, log=lambda numbers, step: [writer.add_scalar(name, n, step) for name, n in numbers.items()]
# )
# ```
#
# ## In a Trainer
#
# The callback of transformers takes the first micro-batch of each sampled step; a compiled model is sampled on a batch
# that you give it. The callback of Lightning calls the module on what `inputs` takes from a batch, and gives the
# numbers over the whole model to the loggers of its Trainer. Both count steps of the optimizer, however many
# micro-batches these have, and log each sample with its own step, a step or two later on a GPU. `regard train` samples
# where its recipe says `monitor = 50`.
#
# ```python
# trainer = transformers.Trainer(model, arguments, callbacks=[monitor.trainer_callback()])
# trainer = lightning.Trainer(callbacks=[monitor.lightning_callback(inputs=lambda batch: (batch["ids"],))])
# ```
#
# On several processes (DDP, FSDP2, tensor parallel) each calls `step` with its own batch, and the first has the numbers
# of all.
#
# ## What it measures, and when
#
# At a sampled step the plain model runs once more on the batch, without gradients and without dropout. A compiled model
# keeps its compiled code. Under autocast, call `step` inside the same block as the model. The matrices are never
# stored: each number is a sum or a maximum of streamed rows. A few texts of a large batch will do, and cost less:
# `monitor.step(ids[:2])`.
#
# Call `step` at the end of a training step, as above: while the GPU works through that step, Python prepares the
# sample. What `step` returns is a mapping that waits for the GPU when a number of it is asked for (`dict(…)` of it is a
# plain dict, as `json.dumps` needs); `monitor.samples`,
# `monitor.alarms`, `print(monitor)` and `monitor.report(…)` wait for all samples. Alarms of a sample come with its
# numbers. Other dtypes than bfloat16, and masks that hide padding, make a sample wait for the GPU.
#
# A layer keeps the label that it got in the first sample in which it ran.
#
# ## Keep the logits small: three ways
#
# `regard.watch(model, keep="graph")` has the matrices of a training step with gradients. A term in the loss is then one
# line: the *z-loss* punishes large normalisers, an *entropy floor* punishes rows that rest on too few keys.
# QK-clip (Kimi K2) needs no gradient: after a step, it shrinks the projections of each head whose largest logit is
# beyond a limit. To teach a head *where* to look there is `regard.guide`: see
# [Teach a head where to look](teach_a_head_where_to_look.py).

# %%
LIMIT, FLOOR = 15.0, 1.0


def z_loss(record):
    return 1e-2 * sum(entry.matrix.logsumexp.square().mean() for entry in record.values())


def entropy_floor(record):
    return sum(functional.relu(FLOOR - entry.entropy().mean((0, 2))).mean() for entry in record.values())


@torch.no_grad()
def clip(model, record):
    for layer, entry in zip(model.layers, record.values(), strict=True):
        highest = entry.matrix.max_score().amax((0, 2))  # of each head
        factor = (LIMIT / highest).clamp(0, 1).sqrt().view(1, HEADS, 1)
        layer.project.weight.view(3, HEADS, -1, WIDTH)[:2] *= factor[..., None]  # queries and keys
        layer.project.bias.view(3, HEADS, -1)[:2] *= factor


def train(term=None, after=None, steps=120):
    torch.manual_seed(0)
    model = GPT()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-2)
    highest = []
    for _ in range(steps):
        ids, known = batch()
        with regard.watch(model, keep="graph") as record:
            logits = model(ids)
        highest.append(max(float(entry.matrix.max_score().max()) for entry in record.values()))
        loss = cross_entropy(logits, ids, known)
        optimizer.zero_grad()
        (loss if term is None else loss + term(record)).backward()
        optimizer.step()
        if after is not None:
            after(model, record)
    numbers = regard.monitor(model).step(batch()[0])
    return float(loss.detach()), numbers["attention/max_logit"], numbers["attention/entropy"], highest


largest = {}
for name, options in {
    "as it is": {}, "z-loss": {"term": z_loss}, "entropy floor": {"term": entropy_floor}, "QK-clip": {"after": clip},
}.items():  # fmt: skip
    loss, logit, entropy, highest = train(**options)
    largest[name] = torch.arange(len(highest)).numpy(), torch.tensor(highest).numpy()
    print(f"{name:<14} loss {loss:.2f}   logits up to {logit:5.1f}   entropy {entropy:.2f}")

# %% [markdown]
# Each of the three keeps the logits below those of the training as it is, at a loss as low, and leaves the rows more
# entropy; the floor, which asks for it, leaves most. Here is the largest logit of each step.

# %%
curves(largest, same_scale=True, title="The largest logit of a step")
