# %% [markdown]
# # 3. Scores and scaling
#
# Steps 1 and 2: each query meets each key, and the result is divided by √d. Why by √d is measured here.
#
# [Chapter 2](2_queries_keys_values.md) gave each word a query q and a key k of d numbers. How well do they fit?
#
# ## The dot product says how alike two vectors are
#
# Multiply two vectors number by number and add up: that is their **dot product**. It is large if they point the same
# way, 0 if they have nothing to do with each other, and negative if they point away from each other.

# %%
import numpy as np
import torch
from torch.nn import functional

import regard
from regard import drawing, textbook

question = np.array([1.0, 0.5, 0.0])
for name, key in {"alike": [2, 1, 0], "unrelated": [0, 0, 3], "opposite": [-2, -1, 0]}.items():
    print(f"{name:9} {question @ np.array(key):5.1f}")

# %% [markdown]
# The dot product of the query of one word and the key of another is their **score**. Here is one, term by term: how
# well does "am" answer what "I" asks in "I am hungry"? It takes the query of "I" and the key of "am".

# %%
hungry = regard.steps(*textbook.i_am_hungry())
drawing.dot(hungry.queries[0], hungry.keys[1], ("I", "am"))

# %% [markdown]
# ## Step 1: all scores at once
#
# Every query with every key is one matrix product: **QKᵀ**. The row is who asks, the column is who answers.

# %%
good = regard.steps(*textbook.i_am_good())
n, d = good.queries.shape
assert np.allclose(good.queries @ good.keys.T, good.scores)
q = drawing.Table(good.queries, "Q", shape=f"{n}×{d}", rows=good.words)
k = drawing.Table(good.keys.T, "Kᵀ", shape=f"{d}×{n}", columns=good.words)
scores = drawing.Table(good.scores, "QKᵀ", shape=f"{n}×{n}", rows=good.words, columns=good.words)
drawing.tables([q, k, scores], signs=("·", "="), row=0)

# %% [markdown]
# In its first row, "I" fits best with itself. Each other row is read the same way.
#
# ## Step 2: divide by √d
#
# A dot product is a sum of d terms. The more terms, the larger it gets, whether two words fit or not. How much larger?
# Draw queries and keys at random, each number with a spread (standard deviation) of 1, and measure the spread of their
# dot products.

# %%
torch.manual_seed(0)
widths = [4, 16, 64, 256, 512]


def random_scores(d):
    """For 2,000 queries the scores with 16 keys each."""
    return (torch.randn(2000, 16, d) @ torch.randn(2000, d, 1)).squeeze(-1)


drawn = {d: random_scores(d) for d in widths}
for d in widths:
    spread, root = drawn[d].std(), d**0.5
    print(f"d = {d:3}: spread of the scores {spread:5.2f}, √d = {root:5.2f}, divided {spread / root:.2f}")

# %% [markdown]
# The spread is √d, so dividing by √d makes it 1, whatever d is. For "I am good" d is 64:

# %%
d = good.queries.shape[1]
print(f"√{d} = {d**0.5:.0f}")
words = good.words
before = drawing.Table(good.scores, "QKᵀ", rows=words, columns=words)
after = drawing.Table(good.scaled, "", f"QKᵀ / √{d}", rows=words, columns=words)
drawing.tables([before, after], signs=(f"÷ {d**0.5:.0f} =",))

# %% [markdown]
# ## What if we do not divide?
#
# The next step, the **softmax**, makes shares out of a row of scores: positive numbers that add up to 1, the greater
# the score the greater the share. (Chapter 4 does it by hand.) It works on *differences* of scores, and large
# differences make it all or none. Among 16 keys, how much does the best one get?

# %%
best = {name: [] for name in ("without √d", "with √d")}
slope = {name: [] for name in best}
for d in widths:
    for name, scores in (("without √d", drawn[d]), ("with √d", drawn[d] / d**0.5)):
        weights = scores.softmax(-1)
        best[name].append(weights.amax(-1).median().item())
        slope[name].append((weights * (1 - weights)).amax(-1).median().item())
for d, without, with_it in zip(widths, *best.values(), strict=True):
    print(f"d = {d:3}: the best of 16 keys gets {without:6.1%} without √d, {with_it:.1%} with it")

# %%
x, note = np.array(widths), "Over d. Both panels have the same scale."
drawing.curves(
    {f"share of the best key, {name}": (x, np.array(y)) for name, y in best.items()}, same_scale=True, caption=note
)

# %% [markdown]
# Without √d almost all goes to one key, and these queries and keys are random: it is decided by chance, before anything
# was learned. And it is hard to learn anything after. Training needs the **gradient**: how much does a result change
# when a number changes a little? A weight w changes with its own score by w (1 − w), the slope of the softmax. Where w
# is nearly 0 or nearly 1, that is nearly nothing.

# %%
for d, without, with_it in zip(widths, *slope.values(), strict=True):
    print(f"d = {d:3}: greatest slope in a row {without:.5f} without √d, {with_it:.3f} with it")
drawing.curves(
    {f"slope of the softmax, {name}": (x, np.array(y)) for name, y in slope.items()}, same_scale=True, caption=note
)

# %% [markdown]
# ## A stack of 12 layers
#
# Real models put layers on top of each other: the outputs of one are the inputs of the next. Here are 12 self-attention
# layers with random matrices. (Each adds its output to its input and keeps the spread of its input at 1; chapter 6
# explains why.) We ask how strongly the end of the stack depends on its beginning: the size of the gradient there.


# %%
def stack(x, matrices, scale):
    """Self-attention, as often as there are matrices."""
    for w_q, w_k, w_v in matrices:
        even = functional.layer_norm(x, x.shape[-1:])
        x = x + regard.attention(*(even @ w for w in (w_q, w_k, w_v)), scale=scale)
    return x


def gradient(d, scale, layers=12):
    """How much the sum of the outputs, in a random direction, changes with the inputs."""
    torch.manual_seed(1)
    matrices = torch.randn(layers, 3, d, d) / d**0.5
    x = torch.randn(8, 1, 16, d, requires_grad=True)  # 8 sentences of 16 words
    (stack(x, matrices, scale) * torch.randn(d)).sum().backward()
    return (x.grad.norm() / x.grad.numel() ** 0.5).item()


reaches = {"without √d": [gradient(d, 1.0) for d in widths], "with √d": [gradient(d, d**-0.5) for d in widths]}
for d, without, with_it in zip(widths, *reaches.values(), strict=True):
    print(f"d = {d:3}: gradient at the first layer {without:8.1f} without √d, {with_it:.1f} with it")
drawing.curves(
    {f"log₁₀ of that gradient, {name}": (x, np.log10(y)) for name, y in reaches.items()}, same_scale=True, caption=note
)

# %% [markdown]
# Look closely, for this is not what one is usually told. The slope of a *typical* row vanishes, and yet the gradient
# through the stack does not vanish: it explodes. How can that be? Look at one layer, row by row: how much does the
# output of each query change with that query?


# %%
def row_gradients(d, scale):
    """For each of 2,000 queries the size of its own gradient, of an output in a random direction."""
    torch.manual_seed(2)
    query, key, value = torch.randn(2000, 1, d, requires_grad=True), torch.randn(2000, 16, d), torch.randn(2000, 16, 1)
    ((query @ key.mT * scale).softmax(-1) @ value).sum().backward()
    return query.grad.norm(dim=-1).flatten()


for name, scale in (("without √d", 1.0), ("with √d", 512**-0.5)):
    sizes = row_gradients(512, scale)
    print(f"d = 512, {name:10}: a typical row {sizes.median():.4f}, the greatest {sizes.max():7.2f}")

# %% [markdown]
# Without √d a typical row gets almost no gradient, and a few get very much: those where two keys are nearly tied, so
# that an all-or-none softmax flips from one to the other. And layer upon layer it grows:

# %%
for layers in (1, 4, 8, 12):
    without, with_it = gradient(256, 1.0, layers), gradient(256, 256**-0.5, layers)
    print(f"{layers:2} layers, d = 256: gradient at the first layer {without:8.1f} without √d, {with_it:5.1f} with it")

# %% [markdown]
# Nothing in most places, far too much in some: that is no guide. With √d the rows are much more alike, and the gradient
# of the stack stays moderate, for every d and through all layers. That is what is meant by *stable gradients*.
#
# ## Does it matter? Train both
#
# A task that needs looking: four tokens each have a name and a content; one more token has only a name, and the stack
# shall say the content of that name. Two stacks of 12 layers, the same in everything but √d.


# %%
def learn(scale, d=64, layers=12, kinds=8, updates=40):
    """The loss after each update: how far the answers are from right (0 is right)."""
    torch.manual_seed(0)
    matrices = [torch.nn.Parameter(torch.randn(3, d, d) / d**0.5) for _ in range(layers)]
    names, contents = (torch.nn.Parameter(torch.randn(kinds, d)) for _ in range(2))
    answer = torch.nn.Linear(d, kinds)
    optimizer = torch.optim.Adam([*matrices, names, contents, *answer.parameters()], lr=0.003)
    losses = []
    for _ in range(updates):
        who, what = torch.rand(64, kinds).argsort(-1)[:, :4], torch.randint(kinds, (64, 4))
        asked = torch.randint(4, (64, 1))
        x = torch.cat([names[who.gather(1, asked)], names[who] + contents[what]], 1)
        seen = stack(x[:, None], matrices, scale)[:, 0, 0]  # what has become of the first token
        loss = functional.cross_entropy(answer(functional.layer_norm(seen, (d,))), what.gather(1, asked)[:, 0])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return np.array(losses)


losses = {"loss without √d": learn(1.0), "loss with √d": learn(64**-0.5)}
for name, loss in losses.items():
    print(f"{name:15} first ten {loss[:10].mean():.2f}, last ten {loss[-10:].mean():.2f} (guessing: {np.log(8):.2f})")
drawing.curves({name: (np.arange(40), loss) for name, loss in losses.items()}, same_scale=True)

# %% [markdown]
# With √d the stack learns to look up the answer; without it, it is hardly better than guessing.
#
# Why √d and not d? Dividing by d would make the scores of random vectors too small, the more so the larger d is, and
# all weights alike:

# %%
for d in widths:
    shares = (drawn[d] / d).softmax(-1).amax(-1).median()
    print(f"d = {d:3}: divided by d, the best of 16 keys gets {shares:.1%} (an equal share is {1 / 16:.1%})")

# %% [markdown]
# ## What we have
#
# - The score of two words is the dot product of one's query and the other's key; all of them are QKᵀ.
# - Scores spread like √d. Divided by √d they spread like 1, for every d.
# - Without it the softmax is all or none by chance, gradients are nothing or far too much, and a stack of 12 layers
#   does not learn.
#
# Next, shares out of scores: [weights](4_weights.md).
