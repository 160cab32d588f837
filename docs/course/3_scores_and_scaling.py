# %% [markdown]
# # 3. Scores and scaling
#
# Steps 1 and 2: each query meets each key, and the result is divided by √d. Why by √d is measured here.
#
# [Chapter 2](2_queries_keys_values.py) gave each word a query q and a key k of d numbers. How well do they fit?
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
# The dot product of the query of one word and the key of another is their **score**. How well does "am" answer what "I"
# asks in "I am hungry"? Take the query of "I" and the key of "am":
#
# $$
# s_{\text{I},\text{am}} = \mathbf{q}_{\text{I}} \cdot \mathbf{k}_{\text{am}}
# $$
#
# Here it is term by term:

# %%
hungry = regard.steps(*textbook.i_am_hungry())
drawing.dot(hungry.queries[0], hungry.keys[1], ("I", "am"))

# %% [markdown]
# ## Step 1: all scores at once
#
# Every query with every key is one matrix product, $QK^{\mathsf{T}}$. The row is the word that asks, the column the
# word that answers. The first row has the scores of "I":

# %%
good = regard.steps(*textbook.i_am_good())
n, d = good.queries.shape
assert np.allclose(good.queries @ good.keys.T, good.scores)
q = drawing.Table(good.queries, "Q", shape=f"{n}×{d}", rows=good.words)
k = drawing.Table(good.keys.T, "Kᵀ", shape=f"{d}×{n}", columns=good.words)
scores = drawing.Table(good.scores, "QKᵀ", shape=f"{n}×{n}", rows=good.words, columns=good.words)
drawing.tables([q, k, scores], signs=("·", "="), row=0)

# %% [markdown]
# "I" fits best with itself. The second row has the scores of "am": its query with the same three keys.

# %%
drawing.tables([q, k, scores], signs=("·", "="), row=1)

# %% [markdown]
# And the third row has those of "good":

# %%
drawing.tables([q, k, scores], signs=("·", "="), row=2)

# %%
for word, row in zip(good.words, good.scores, strict=True):
    best, *others = sorted(zip(row, good.words, strict=True), reverse=True)
    after = ", ".join(f"{name} {score:.1f}" for score, name in others)
    print(f"{word:5} fits best with {best[1]}, {best[0]:.1f}; then {after}")

# %% [markdown]
# In this sentence each word fits best with itself. In the sentence about sushi, "it" finds another word:

# %%
sushi = regard.steps(*textbook.sushi())
row = sushi.scores[sushi.words.index("it")]
print("  ".join(f"{word} {score:.1f}" for word, score in zip(sushi.words, row, strict=True)))

# %% [markdown]
# ## Step 2: divide by √d
#
# A dot product is a sum of d terms. The more terms, the larger it gets, whether two words fit or not. How much larger?
# Draw queries and keys at random, each number with a standard deviation of 1 (its *spread*), and measure the spread of
# their dot products.

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
# differences make it all or nothing. Among 16 keys, how much does the best one get?

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
# Without √d almost everything goes to one key. These queries and keys are random, so chance has decided which, before
# anything was learned. And then it is hard to learn anything. Training needs the **gradient**: how much does a result
# change when a number changes a little? A weight w changes with its own score by w (1 − w), the slope of the softmax.
# Where w is nearly 0 or nearly 1, the slope is nearly 0. One says that the softmax is *saturated*.

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


# %% Send 8 sentences through 12 layers, and measure the gradient at the first, with √d and without
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
# This is not the usual explanation. The slope of a typical row vanishes, and yet the gradient through the stack does
# not vanish: it explodes.
#
# ## Vanish or explode? Both
#
# To see how, measure one layer, row by row, in two places. First the gradient of the output by the *scores*: it comes
# through the softmax alone. Then the gradient by the *query*: it is the first one multiplied by the keys, and a key of
# d random numbers has a length of about √d. A *typical row* is the median of all rows; the **RMS** is the root of the
# mean square over all rows, in which large ones count most.


# %%
def row_gradients(d, scale):
    """The sizes of the gradients of an output by its scores and by its query, for each of 2,000 random queries."""
    torch.manual_seed(2)
    query, key, value = torch.randn(2000, 1, d, requires_grad=True), torch.randn(2000, 16, d), torch.randn(2000, 16, 1)
    scores = query @ key.mT * scale
    output = (scores.softmax(-1) @ value).sum()
    return [gradient.norm(dim=-1).flatten() for gradient in torch.autograd.grad(output, (scores, query))]


print("                    by the scores         by the query")
print("              d       typical row     typical row    all rows, RMS    greatest row")
for name, power in (("without √d", 0), ("with √d", -0.5)):
    for d in widths:
        by_scores, by_query = row_gradients(d, float(d) ** power)
        mean = by_query.square().mean().sqrt()
        print(
            f"{name:10} {d:4}  {by_scores.median():15.4f} {by_query.median():15.4f} {mean:16.2f} {by_query.max():15.2f}"
        )

# %% [markdown]
# Without √d, as d grows:
#
# - **The gradient of a typical row vanishes.** Its weights are nearly 0 and 1, the softmax is saturated, and nothing
#   passes through it: neither to the scores nor to the query.
# - **The gradient of a few rows explodes.** They are the rows in which two keys are nearly tied, so that a small change
#   flips the weights from one key to the other. There the softmax has a slope, and the long keys multiply it. These
#   rows make up nearly all of the RMS.
#
# With √d neither happens: the typical row and the RMS hardly change with d. Which rows are these?

# %%
_, by_query = row_gradients(512, 1.0)
torch.manual_seed(2)
query, key = torch.randn(2000, 1, 512), torch.randn(2000, 16, 512)  # the same as above
first, second = (query @ key.mT).flatten(1).topk(2).values.T
steep = by_query.argsort(descending=True)[:200]
part = by_query[steep].square().sum() / by_query.square().sum()
print(f"the 200 rows with the largest gradients have {part:.1%} of the sum of squares")
gap = first - second
print(f"the two best scores are {gap[steep].median():.1f} apart in these rows, {gap.median():.1f} in a typical row")

# %% [markdown]
# In a stack, the gradient of these rows is multiplied layer by layer:

# %%
for layers in (1, 4, 8, 12):
    without, with_it = gradient(256, 1.0, layers), gradient(256, 256**-0.5, layers)
    print(f"{layers:2} layers, d = 256: gradient at the first layer {without:8.1f} without √d, {with_it:5.1f} with it")

# %% [markdown]
# Training cannot use a gradient that is almost zero for most words and far too large for a few. With √d the rows are
# much more alike, and the gradient of the stack stays moderate, for every d and through all layers. That is what is
# meant by *stable gradients*.
#
# ## Does it matter? Train both
#
# A task that needs attention: four tokens each have a name and a content; one more token has only a name, and the stack
# has to output the content that belongs to it. We train two stacks of 12 layers that differ only in √d. The loss is
# −log of the share that the stack gives to the right content: 0 is right, log 8 is a guess among eight.


# %% Train a stack of 12 layers for 40 updates, with √d and without
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
# With √d the stack learns to look up the answer; without √d it is hardly better than guessing.
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
# - The score of two words is the dot product of the query of one and the key of the other. All scores together are
#   $QK^{\mathsf{T}}$.
# - The spread of the scores is √d. Divided by √d it is 1, for every d. Dot products that are scaled: this is why the
#   whole computation is called **scaled dot-product attention**.
# - Without √d the softmax is saturated. The gradient of a typical row vanishes, that of a few rows explodes, and a
#   stack of 12 layers does not learn.
#
# Next, scores become shares: [weights](4_weights.py).

# %% [markdown]
# ## Write it yourself
#
# Write this function, and run the cell: `check` compares it with ours on random inputs, and says what differs. In the
# terminal, `regard quiz --code 3` does the same with a file.

# %%
from regard.learn import check


def scaled_scores(queries, keys):
    """QKᵀ / √d: a row for each query, a column for each key.

    queries: (words, d).
    keys: (words of a second sentence, d).
    """
    raise NotImplementedError("write it here")


check(3, scaled_scores)
