# %% [markdown]
# # Watch a head appear
#
# A small GPT learns to go on with letters that repeat, and a head appears that nobody built: it looks back at what came
# after the same letter before, and writes that. It is called an *induction head* ([Olsson and
# others](https://arxiv.org/abs/2209.11895)). This page trains the model and shows the head as a film.
#
# Each text is a few random letters, over and over. How many they are differs from text to text, so that no fixed
# distance helps: the model must find the letter it has just read, and look at the one after it.

# %%
import torch
from torch import nn
from torch.nn import functional

import regard
from regard.drawing import curves, film, matrix

torch.set_num_threads(1)
torch.manual_seed(0)
LETTERS, TOKENS, WIDTH = 26, 28, 64


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.letters, self.places = nn.Embedding(LETTERS, WIDTH), nn.Embedding(TOKENS, WIDTH)
        self.decoder = regard.Decoder(2, WIDTH, 2, 2 * WIDTH, cross=False, norm_first=True, final_norm=True)
        self.out = nn.Linear(WIDTH, LETTERS)

    def forward(self, ids):
        return self.out(self.decoder(self.letters(ids) + self.places.weight[: ids.shape[1]]))


def batch():
    periods = torch.randint(5, 14, (32, 1))
    ids = torch.randint(LETTERS, (32, TOKENS)).gather(1, torch.arange(TOKENS) % periods)
    return ids, torch.arange(TOKENS - 1) >= periods - 1  # from here on the next letter can be known


word = "regard"  # a text that it will never read: each letter occurs more than once
text = [letter for n in range(TOKENS) for letter in word[n % len(word)]]
probe = torch.tensor([[ord(letter) - ord("a") for letter in text]])

# %% [markdown]
# ## The training
#
# Every tenth step, `regard.watch` looks at the probe, and `regard.monitor` samples every head. What a head gives to the
# letter after each earlier copy of its own is its *induction*: the sum of the weights that lie there.

# %%
copies = torch.tensor([[a == b for b in text] for a in text]).tril(-1)
after = copies.roll(1, 1)  # a copy at j: the letter after it is at j + 1
after[:, 0] = False
rows = range(2 * len(word), TOKENS)  # from the third time on

model = GPT()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, betas=(0.9, 0.98))
monitor = regard.monitor(model, every=10)
steps, losses, induction, frames = [], [], [], {}
for step in range(241):
    ids, known = batch()
    loss = functional.cross_entropy(model(ids)[:, :-1][known], ids[:, 1:][known])
    if monitor.step(probe):
        with torch.no_grad(), regard.watch(model) as record:
            model(probe)
        heads = torch.cat([entry.to_dense()[0] for entry in record.values()])  # all heads of both layers
        steps.append(step)
        losses.append(float(loss.detach()))
        induction.append((heads * after)[:, rows].sum(-1).mean(-1))
        frames[f"step {step}"] = heads
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

layer, head = divmod(int(induction[-1].argmax()), 2)
best = torch.stack(induction)[:, 2 * layer + head]
print(f"layer {layer}, head {head}: induction {best[0]:.0%} at first, {best[-1]:.0%} at the end")
n = int(best.diff().argmax())
print(f"it grew most from step {steps[n]} to step {steps[n + 1]}: from {best[n]:.0%} to {best[n + 1]:.0%}")

# %% [markdown]
# ## The film
#
# Saved as .html, a slider goes through the training; here is the last frame. Each row is a letter of the probe. In the
# end its weight lies on the letters that came after the same letter before.

# %%
pictures = {name: matrix(heads[2 * layer + head].numpy(), text) for name, heads in frames.items()}
film(pictures, title=f"Layer {layer}, head {head}: an induction head")

# %% [markdown]
# ## What had to be there first
#
# An induction head needs help. A letter must know which letter came before it, and that is the work of a head in the
# layer below which looks at the token before. The monitor has measured it all along, under `previous`.

# %%
before = torch.tensor([sample.layers["layer00"]["previous"] for sample in monitor.samples])
helper = int(before[-1].argmax())
x = torch.tensor(steps).numpy()
curves({
    "loss": (x, torch.tensor(losses).numpy()),
    f"layer 0, head {helper}: share of the token before": (x, before[:, helper].numpy()),
    f"layer {layer}, head {head}: induction": (x, best.numpy()),
}, title="The loss and the two heads")  # fmt: skip

# %% [markdown]
# Is it the cause? Without the helper, the model must do worse.

# %%
ids, known = batch()


@torch.no_grad()
def loss_without(name, number):
    with regard.watch(model, keep=(), without={name: [number]}):
        return float(functional.cross_entropy(model(ids)[:, :-1][known], ids[:, 1:][known]))


with torch.no_grad():
    print(f"as it is: loss {float(functional.cross_entropy(model(ids)[:, :-1][known], ids[:, 1:][known])):.2f}")
for n, name in enumerate(record):
    for number in range(2):
        role = (
            ", the helper"
            if (n, number) == (0, helper)
            else ", the induction head"
            if (n, number) == (layer, head)
            else ""
        )
        print(f"without layer {n}, head {number}{role}: loss {loss_without(name, number):.2f}")
