# %% [markdown]
# # 5. The weighted sum, and all of it as matrices
#
# Step 4: values mixed in the shares of the weights. Then all four steps in six lines, what they cost, and how to avoid
# storing the matrix.
#
# From [chapter 4](4_weights.py) each word has a row of weights. Its output z is the sum of all values, each multiplied
# by its weight. (Names differ between texts: the blog post that this course grew from writes **h** for our **z**, and
# the notes call the matrix Z of all outputs the "attention matrix".) For "I" in "I am good":
#
# $$
# \mathbf{z}_{\text{I}} = a_{\text{I},\text{I}}\,\mathbf{v}_{\text{I}} + a_{\text{I},\text{am}}\,\mathbf{v}_{\text{am}}
# + a_{\text{I},\text{good}}\,\mathbf{v}_{\text{good}}
# $$

# %%
import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import regard
from regard import drawing, textbook

good = regard.steps(*textbook.i_am_good())
z = 0.90 * good.values[0] + 0.07 * good.values[1] + 0.03 * good.values[2]
print("by hand:  ", z[:4].round(4))
print("computed: ", good.output[0][:4].round(4))
drawing.mixture(good.weights, good.values, good.words, pick="I")

# %% [markdown]
# So the new vector of "I" is mostly its own value, with a little of the others. The output of "am" is even more its own
# value, with the same small share of both other words:

# %%
drawing.mixture(good.weights, good.values, good.words, pick="am")

# %% [markdown]
# And the output of "good" takes a fifth from "I", the person who is good:

# %%
drawing.mixture(good.weights, good.values, good.words, pick="good")

# %%
for word, row, output in zip(good.words, good.weights, good.output, strict=True):
    by_hand = sum(weight * value for weight, value in zip(row, good.values, strict=True))
    print(f"z({word}) begins with {output[:3].round(3)}, the same by hand: {np.allclose(by_hand, output)}")

# %% [markdown]
# What is this good for? The new vector of "it" in "A dog ate the food because it was hungry" is mostly the value of
# "dog": it now says what "it" refers to.

# %%
dog = regard.steps(*textbook.dog())
drawing.mixture(dog.weights, dog.values, dog.words, pick="it")

# %% [markdown]
# In "I like sushi because it makes me happy" the vector of "it" becomes mostly the value of "sushi".

# %%
sushi = regard.steps(*textbook.sushi())
drawing.mixture(sushi.weights, sushi.values, sushi.words, pick="it")

# %% [markdown]
# Weights are positive and add up to 1, so an output is a weighted mean of the values. It always lies between them:

# %%
print(
    "inside in every dimension:",
    bool(np.all((good.output <= good.values.max(0)) & (good.output >= good.values.min(0)))),
)

# %% [markdown]
# ## The whole mechanism
#
# Here is all of it in one diagram, for one word: from the inputs of "I am hungry" at the top to the output of "I" at
# the bottom. Each input becomes a query, a key and a value; the query of "I" meets all keys; its scores are divided by
# √d and become weights; and the weights mix the values.

# %%
hungry = regard.steps(*textbook.i_am_hungry())
drawing.schematic(
    x=hungry.x, queries=hungry.queries, keys=hungry.keys, values=hungry.values, words=hungry.words, word="I"
)

# %% [markdown]
# The same for "it" in the sentence about sushi. Its eight words are wider than this page: scroll sideways.

# %%
drawing.schematic(x=sushi.x, queries=sushi.queries, keys=sushi.keys, values=sushi.values, words=sushi.words, word="it")

# %% [markdown]
# ## The four steps
#
# With a matrix for each step, all words are computed at once:

# %%
drawing.mechanism(64)

# %% [markdown]
# 1. **Scores.** Multiply each query by each key: $QK^{\mathsf{T}}$.
# 2. **Scaling.** Divide the scores by the square root of the width of the keys: $QK^{\mathsf{T}} / \sqrt{d}$.
# 3. **Softmax.** Turn each row into weights that add up to 1: $A = \operatorname{softmax}(QK^{\mathsf{T}} / \sqrt{d})$.
# 4. **Weighted sum.** Mix the values in these weights: $Z = A\,V$.
#
# In one line:
#
# $$
# Z = \operatorname{softmax}(QK^{\mathsf{T}} / \sqrt{d})\,V
# $$
#
# The division is *inside* the softmax. Because it scales dot products, this computation is called **scaled dot-product
# attention**.
#
# ## Every number of a small example
#
# Three words of four numbers and matrices of 4 × 4 are small enough to check with pencil and paper. All of
# self-attention is these six lines:

# %%
X, W_Q, W_K, W_V, words = textbook.worked_example()

Q, K, V = X @ W_Q, X @ W_K, X @ W_V
scores = Q @ K.T
scaled = scores / np.sqrt(K.shape[1])
powers = np.exp(scaled - scaled.max(axis=1, keepdims=True))
weights = powers / powers.sum(axis=1, keepdims=True)
output = weights @ V
output.round(4)

# %% [markdown]
# `regard.steps` does the same and keeps everything. Print it and read it from top to bottom:

# %%
done = regard.steps(X, W_Q, W_K, W_V, words)
assert np.allclose(done.output, output)
print(done)

# %% [markdown]
# The same as a picture, with one score written out term by term. Hover over any number to see it in full.

# %%
done

# %% [markdown]
# ## A loop against matrix products
#
# One could also write it as a loop: for each word, for each other word. Matrix products do the same, all at once.


# %% The same attention twice, and a counter of what PyTorch is asked to do
def by_loop(Q, K, V):
    output = torch.zeros(len(Q), V.shape[1])
    for i in range(len(Q)):
        scores = torch.stack([Q[i] @ K[j] for j in range(len(K))]) / K.shape[1] ** 0.5
        weights = scores.exp() / scores.exp().sum()
        for j in range(len(K)):
            output[i] += weights[j] * V[j]
    return output


def by_matrices(Q, K, V):
    return (Q @ K.T / K.shape[1] ** 0.5).softmax(-1) @ V


class Operations(TorchDispatchMode):
    """Counts what PyTorch is asked to do, and notes how many numbers the largest tensor has."""

    count = numbers = 0

    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        made = function(*arguments, **(options or {}))
        self.count += 1
        for one in made if isinstance(made, tuple | list) else [made]:
            if isinstance(one, torch.Tensor):
                self.numbers = max(self.numbers, one.untyped_storage().nbytes() // one.element_size())
        return made


torch.manual_seed(0)
Q, K, V = torch.randn(3, 128, 64).unbind(0)
with Operations() as loop:
    looped = by_loop(Q, K, V)
with Operations() as matrices:
    multiplied = by_matrices(Q, K, V)
print("the same:", torch.allclose(looped, multiplied, atol=1e-5))
print(f"operations for 128 words: {loop.count:,} in the loop, {matrices.count} with matrix products")

# %% [markdown]
# The multiplications are the same ones, but a matrix product does them in one operation, and nothing in it has to wait:
# no word needs the output of another. (A model that reads one word after the other, such as the LSTM of chapter 6, has
# to wait at each.)
#
# ## What it costs
#
# Every word meets every word: n words make n × n scores. Twice the words, four times the work, and, if the weights are
# stored, four times the memory.

# %%
counts = np.array([500, 1000, 2000, 4000])
for n in counts:
    print(f"{n:6,} words: {n * n:11,} weights, {4 * n * n / 1e6:7.1f} MB, {2 * 64 * n * n:13,} multiplications")
print(f"a book of 100,000 words: {100_000**2:,} weights, {4 * 100_000**2 / 1e9:.0f} GB, for one layer")
drawing.curves({"million weights, by number of words": (counts, counts**2 / 1e6)})

# %% [markdown]
# ## The matrix need not be stored
#
# The time cannot be saved, but the memory can. To mix values we need weights, for the weights we need the sum of the
# row, and so it seems that a whole row has to be there before we can begin. It does not. Go through the keys and keep
# three things: the greatest score so far, the sum of the exps so far, and the mixture so far. When a greater score
# comes, scale down what was collected so far. At the end, divide.


# %%
def by_walking(q, K, V):
    greatest, total, mixture = torch.tensor(-torch.inf), torch.tensor(0.0), torch.zeros(V.shape[1])
    for k, v in zip(K, V, strict=True):
        score = q @ k / len(k) ** 0.5
        new = torch.maximum(greatest, score)
        shrink, power = (greatest - new).exp(), (score - new).exp()
        total = total * shrink + power
        mixture = mixture * shrink + power * v
        greatest = new
    return mixture / total


Q, K, V = torch.randn(3, 1000, 64).unbind(0)
print("the same, with no row stored:", torch.allclose(by_walking(Q[7], K, V), by_matrices(Q, K, V)[7], atol=1e-5))

# %% [markdown]
# A program that computes one such step on a processor is called a **kernel**. Fast attention kernels work in this way,
# a block of keys at a time, and do all four steps in one go: they are *fused*. The price is that nobody sees the
# weights. `regard` gives them back without storing them: an `AttentionMatrix` holds queries and keys, and computes what
# you ask for.

# %%
A = regard.AttentionMatrix(Q, K)
print(A)
print("A @ V is attention:   ", torch.allclose(A @ V, by_matrices(Q, K, V), atol=1e-5))
print("a row adds up to      ", f"{A[7].sum():.4f}")
print("its three best keys   ", A.top(3).keys[7].tolist())
print("who receives the most ", A.received().argmax().item())

# %% [markdown]
# Is it true that nothing of size n × n is created on the way? Look at the largest tensor (an array of numbers, in
# PyTorch's words) of each calculation:

# %%
Q, K, V = torch.randn(8000, 64), torch.randn(8000, 64), torch.randn(8000, 64)
with Operations() as plain:
    by_matrices(Q, K, V)
with Operations() as lazy:
    A = regard.AttentionMatrix(Q, K)
    A @ V
    A.received(), A.entropy(), A[7]
print(f"matrix products:   {plain.numbers:11,} numbers in the largest tensor: 8,000 × 8,000")
print(f"AttentionMatrix:   {lazy.numbers:11,} numbers, {plain.numbers // lazy.numbers} times fewer")
print(f"Q alone:           {Q.numel():11,} numbers")

# %% [markdown]
# ## What we have
#
# - An output is a weighted mean of the values.
# - Scores, scaling, softmax, weighted sum: $Z = \operatorname{softmax}(QK^{\mathsf{T}} / \sqrt{d})\,V$, which is called
#   scaled dot-product attention.
# - Written as matrix products, no word waits for another.
# - Time grows with the square of the number of words. Memory need not: a running maximum and a running sum are enough,
#   and an `AttentionMatrix` still shows any part of the weights.
#
# One row of weights for each word is often not enough. Next:
# [many heads, and the layer around them](6_many_heads_and_layers.py).

# %% [markdown]
# ## Write it yourself
#
# Write this function, and run the cell: `check` compares it with ours on random inputs, and says what differs. In the
# terminal, `regard quiz --code 5` does the same with a file.

# %%
from regard.learn import check


def attention(queries, keys, values):
    """softmax(QKᵀ / √d) V: an output for each query.

    queries: (words, d).
    keys: (words, d).
    values: (words, d_v).
    """
    raise NotImplementedError("write it here")


check(5, attention)
