# %% [markdown]
# # Where the documents slip
#
# A few places where the texts that this course grew from are wrong, what comes out if one follows them, and what is
# right.
#
# This course grew from three short texts on self-attention: a blog post that is still being written, notes on the
# transformer, and a lesson with code. They are worth reading, and the lesson makes no mistake. In a few places the
# formulas of the other two do not say what their authors mean. Here is each such place, what comes out if one follows
# it, and what is right.

# %%
import numpy as np

import regard


def softmax(x):
    """Of each row."""
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def shares(row, words):
    """A row of weights, to be read."""
    return "  ".join(f"{word} {weight:.1%}" for word, weight in zip(words, row, strict=True))


# %% [markdown]
# ## The blog post: the score of "I" with "am" uses the key of "I"
#
# The text says in words: the query of "I" times the key of "am". The formula next to it multiplies with the key of "I".
# Followed to the letter, a word would only ever compare itself with itself: every score of its row would be the same
# number, and every weight 1 in n.

# %%
done = regard.steps(*regard.textbook.i_am_hungry())
words = done.words
q, k, d = done.queries, done.keys, done.queries.shape[1]

as_written = np.array([[q[i] @ k[i] for _ in words] for i in range(len(words))]) / np.sqrt(d)
as_meant = np.array([[q[i] @ k[j] for j in range(len(words))] for i in range(len(words))]) / np.sqrt(d)
print("the row of “I” as written: ", shares(softmax(as_written)[0], words))
print("the row of “I” as meant:   ", shares(softmax(as_meant)[0], words))
print("the same as regard:        ", np.allclose(softmax(as_meant), done.weights))

# %% [markdown]
# Right is
#
# $$
# s_{\text{I},\text{am}} = \mathbf{q}_{\text{I}} \cdot \mathbf{k}_{\text{am}}
# $$
#
# The query belongs to the word that looks, the key to the word that is looked at.
#
# ## The blog post: three times the same term below the line
#
# The weight of "am" for "I" is written as a fraction with the term of "am" above the line and the *same* term three
# times below it. Whatever the score, that is a third. Below the line there must be the terms of all words, each once:
#
# $$
# a_{\text{I},\text{am}} = \frac{\exp(s_{\text{I},\text{am}} / \sqrt{d})}{\exp(s_{\text{I},\text{I}} / \sqrt{d}) +
# \exp(s_{\text{I},\text{am}} / \sqrt{d}) + \exp(s_{\text{I},\text{hungry}} / \sqrt{d})}
# $$

# %%
row = as_meant[0]
above = np.exp(row[1])
print(f"as written: {above / (3 * above):.1%}, for these scores and for any others")
print(f"as meant:   {above / np.exp(row).sum():.1%}")
written = [np.exp(s) / (3 * np.exp(s)) for s in (-5.0, 0.0, 100.0)]
print("as written, for scores −5, 0 and 100:", [f"{w:.1%}" for w in written])

# %% [markdown]
# ## The blog post: a word that is not in its sentence
#
# The text asks which words matter for the output of "delicious" in the sentence "I like sushi because it makes me
# happy".

# %%
sushi = regard.steps(*regard.textbook.sushi())
print("the words of the sentence:", ", ".join(sushi.words))
print("is “delicious” one of them?", "delicious" in sushi.words)
sushi.as_matrix().picture(sushi.words, pick="it", title="What the example is about: “it” looks at “sushi”")

# %% [markdown]
# What the text says of "delicious" is true of "it", which refers to the sushi. (Here with meanings written by hand.)
#
# ## The notes: the division comes after the softmax
#
# The text divides by √d first and then takes the softmax, and its final formula says so too. But its summary has
# $\operatorname{softmax}(QK^{\mathsf{T}}) / \sqrt{d}$. That is not the same: divided afterwards, the rows do not add up
# to one, and the softmax has already seen the large scores that the division was meant to reduce.

# %%
good = regard.steps(*regard.textbook.i_am_good())
root = np.sqrt(good.queries.shape[1])
wrong = softmax(good.scores) / root
print(f"d = {good.queries.shape[1]}, √d = {root:.0f}")
for word, bad, right in zip(good.words, wrong, good.weights, strict=True):
    print(f"{word:>4}  as in the summary: {shares(bad, good.words)}   sum {bad.sum():.3f}")
    print(f"      as in the text:    {shares(right, good.words)}   sum {right.sum():.3f}")

# %% [markdown]
# Right is $\operatorname{softmax}(QK^{\mathsf{T}} / \sqrt{d})$, with the division inside.
#
# ## The notes: "normalizing the gradients"
#
# The third step, the softmax, carries this name. But it normalises *scores*: it turns each row into positive numbers
# that add up to one. Gradients are what training sends back through the steps, and it is the second step, the division
# by √d, that keeps *them* stable. Both can be measured.

# %%
print("sums of the rows before the softmax:", good.scaled.sum(1).round(1))
print("sums of the rows after it:          ", good.weights.sum(1).round(6))


def slope(scores):
    """The greatest derivative of any weight of a row by any of its scores: diag(p) − p pᵀ."""
    p = softmax(scores)
    return np.abs(np.diag(p) - np.outer(p, p)).max()


for name, rows in (("not divided", good.scores), ("divided by √d", good.scaled)):
    print(f"{name:<14} greatest slope of the softmax in each row:", [f"{slope(row):.2g}" for row in rows])

# %% [markdown]
# Without the division the softmax is almost flat in these rows: a small change of a score changes nothing. It is often
# said that gradients *vanish* without √d, and in a typical row they do. But not in all rows: where two scores are
# nearly tied, the softmax is steep, and the undivided keys make the gradient large. Here are both, for random queries
# and keys ([chapter 3](3_scores_and_scaling.py) explains and measures them in more detail):

# %%
random = np.random.default_rng(0)
print("                by the scores              by the query")
print("              d   typical row   typical row   all rows, RMS")
for name, power in (("without √d", 0), ("with √d", -0.5)):
    for d in (4, 64, 512):
        sizes = []
        for _ in range(2000):
            query, key, value = random.normal(size=d), random.normal(size=(16, d)), random.normal(size=16)
            p = softmax(key @ query * d**power)
            by_scores = p * (value - p @ value)  # the gradient of the output p · value by the scores
            sizes.append((np.linalg.norm(by_scores), np.linalg.norm(by_scores @ key) * d**power))
        typical, mean = np.median(sizes, 0), np.sqrt(np.mean(np.square(sizes), 0))
        print(f"{name:10} {d:4} {typical[0]:13.4f} {typical[1]:13.4f} {mean[1]:15.2f}")

# %% [markdown]
# Without √d the gradient of a typical row vanishes as d grows, while that of a few rows grows so much that the mean
# over all rows grows too; in a stack of layers it explodes. With √d neither happens. So the softmax normalises the
# scores, and the scaling keeps the gradients stable.
#
# ## The notes: three names that others use differently
#
# This is not a slip, but it can confuse those who read on. What the notes call the *score matrix* is what most texts,
# and this course, call the attention **weights**; and what they call the *attention matrix* Z is the **output**. In
# this library an `AttentionMatrix` is the matrix of weights.

# %%
A = good.as_matrix()
print("A, the weights:     ", tuple(A.shape), " each row adds up to", A.to_dense().sum(-1).numpy().round(6))
print("Z = A @ V, the output:", tuple(good.output.shape))
print("the same:", np.allclose(A.to_dense().numpy() @ good.values, good.output))

# %% [markdown]
# Next: [further reading](reading.md), or a task of your own in [the how-to pages](../how-to/index.md).
