# %% [markdown]
# # Where the documents slip
#
# What the texts that this course grew from write in a few places, what comes out, and what is right.
#
# This course grew from three short texts on self-attention: a blog post that is still being written, notes on the
# transformer, and a lesson with code. They are good company, and the lesson computes without a slip. In a few places
# the formulas of the other two say something else than they mean: here is each of them, what comes out if one follows
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
# Right: s(I, am) = q(I) · k(am). The query is of the word that looks, the key of the word that is looked at.
#
# ## The blog post: three times the same term below the line
#
# The weight of "am" for "I" is written as a fraction with exp(s(I, am)) above the line and the *same* term three times
# below it. Whatever the score, that is a third. Below the line must stand the terms of all the words, each once.

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
# The text asks what the output for "delicious" should look at, in the sentence "I like sushi because it makes me
# happy".

# %%
sushi = regard.steps(*regard.textbook.sushi())
print("the words of the sentence:", ", ".join(sushi.words))
print("is “delicious” one of them?", "delicious" in sushi.words)
sushi.as_matrix().picture(sushi.words, pick="it", title="What the example is about: “it” looks at “sushi”")

# %% [markdown]
# What is said of it holds for "it", which refers to the sushi. (Here with meanings written by hand.)
#
# ## The notes: the division comes after the softmax
#
# The text divides by √d first and takes the softmax then, and its final formula says so too. But its summary writes
# softmax(QKᵀ) / √d. These are different things: divided afterwards, the rows do not add up to one, and the softmax has
# seen the large scores that the division was meant to tame.

# %%
good = regard.steps(*regard.textbook.i_am_good())
root = np.sqrt(good.queries.shape[1])
wrong = softmax(good.scores) / root
print(f"d = {good.queries.shape[1]}, √d = {root:.0f}")
for word, bad, right in zip(good.words, wrong, good.weights, strict=True):
    print(f"{word:>4}  as in the summary: {shares(bad, good.words)}   sum {bad.sum():.3f}")
    print(f"      as in the text:    {shares(right, good.words)}   sum {right.sum():.3f}")

# %% [markdown]
# Right: softmax(QKᵀ / √d). The division is inside.
#
# ## The notes: "normalizing the gradients"
#
# The third step, the softmax, carries this name. But it normalises *scores*: it makes of each row positive numbers that
# add up to one. Gradients come in elsewhere: they are what training sends back, and the second step, the division by
# √d, keeps *them* from vanishing. Both can be measured.

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
# Without the division the softmax is almost flat: a change of a score changes nothing, and nothing is learned. So the
# softmax normalises the scores, and the scaling keeps the gradients alive.
#
# ## The notes: three names that others use differently
#
# No slip, but a trap when one reads on. What the notes call the *score matrix* is what most texts, and this course,
# call the attention **weights**; and what they call the *attention matrix* Z is the **output**. In this library an
# `AttentionMatrix` is the matrix of weights.

# %%
A = good.as_matrix()
print("A, the weights:     ", tuple(A.shape), " each row adds up to", A.to_dense().sum(-1).numpy().round(6))
print("Z = A @ V, the output:", tuple(good.output.shape))
print("the same:", np.allclose(A.to_dense().numpy() @ good.values, good.output))
