# %% [markdown]
# # 4. Weights
#
# Step 3: the softmax makes shares out of a row of scores. By hand, to exactly 90 %, 7 % and 3 %.
#
# After [chapter 3](3_scores_and_scaling.py) each word has a row of scaled scores, one for each word it could look at.
# They can be any numbers. We want **weights**: how much of its attention a word gives to each word. Weights are
# positive, and a row of them adds up to 1.
#
# ## Softmax by hand
#
# Take exp of each score, which makes it positive. Divide by the sum, which makes the sum 1. That is the **softmax** of
# a row of n numbers:
#
# $$
# \operatorname{softmax}(s_1, \dots, s_n)_j = \frac{\exp(s_j)}{\exp(s_1) + \dots + \exp(s_n)}
# $$
#
# The weight that "I" gives to "am" in "I am good" is one such fraction. Above the line is the term of "am", below the
# line are the terms of all words, each once:
#
# $$
# a_{\text{I},\text{am}} = \frac{\exp(s_{\text{I},\text{am}} / \sqrt{d})}{\exp(s_{\text{I},\text{I}} / \sqrt{d}) +
# \exp(s_{\text{I},\text{am}} / \sqrt{d}) + \exp(s_{\text{I},\text{good}} / \sqrt{d})}
# $$
#
# In numbers, for the whole row of "I":

# %%
import numpy as np
import torch

import regard
from regard import drawing, textbook

good = regard.steps(*textbook.i_am_good())
row = good.scaled[0]
powers = np.exp(row)
shares = powers / powers.sum()
for word, score, power, share in zip(good.words, row, powers, shares, strict=True):
    print(f"{word:5} exp({score:.2f}) = {power:9,.0f}   ÷ {powers.sum():,.0f} = {share:5.1%}")
print("together", f"{shares.sum():.0%}")

# %% [markdown]
# "I" gives 90 % of its attention to itself, 7 % to "am" and 3 % to "good". The rows of "am" and "good" are computed in
# the same way, each with a sum of its own:

# %%
for word, other in (("am", good.scaled[1]), ("good", good.scaled[2])):
    total = np.exp(other).sum()
    for name, score in zip(good.words, other, strict=True):
        print(f"{word:4} → {name:4} exp({score:5.2f}) ÷ {total:,.0f} = {np.exp(score) / total:5.1%}")

# %% [markdown]
# So "am" gives 95 % to itself and 2.5 % to each of the others. "good" gives 76 % to itself, 21 % to "I" and 3 % to
# "am". All three rows together:

# %%
scaled = drawing.Table(good.scaled, "", "QKᵀ / √64", rows=good.words, columns=good.words)
weights = drawing.Table(good.weights, "weights", "softmax", rows=good.words, columns=good.words, shares=True)
drawing.tables([scaled, weights], signs=("softmax →",), caption="Each row adds up to 100 %.")

# %%
print((100 * good.weights).round(6))
print("rows add up to   ", good.weights.sum(axis=1))
print("columns add up to", good.weights.sum(axis=0).round(3))

# %% [markdown]
# A row is the attention that one word gives, and it always adds up to 1. A column is what one word receives, and that
# can be more than 1, as for "I" here, or less, as for "good".
#
# ## From shares back to scores
#
# The texts this course grew from give these shares, but no scores that lead to them. Which scores do? Divide two shares
# of one row: the sum cancels, and what is left is exp of the *difference* of two scores. So shares fix differences,
# and one score of each row is free. Choose 110, 99 and 100 for a word with itself, and √64 = 8:

# %%
wanted = np.array([[90, 7, 3], [2.5, 95, 2.5], [21, 3, 76]]) / 100
own = np.array([110.0, 99.0, 100.0])
scores = own[:, None] + 8 * np.log(wanted / np.diag(wanted)[:, None])
print(scores.round(1))
powers = np.exp(scores / 8)
print((100 * powers / powers.sum(1, keepdims=True)).round(9))

# %% [markdown]
# Those are the shares we wanted, and these are the scores of `regard.textbook.i_am_good()`:

# %%
print("the same scores:", np.allclose(scores, good.scores))

# %% [markdown]
# ## What the softmax does, and does not do
#
# **A difference becomes a factor.** If one scaled score is larger than another by 1, its weight is e times as large,
# whatever else is in the row.

# %%
for other in (-5.0, 0.0, 5.0):
    w = torch.tensor([3.0, 2.0, other]).softmax(0)
    shown = "  ".join(f"{share:.3f}" for share in w.tolist())
    print(f"scores 3, 2, {other:2.0f}: weights {shown}, the first is {w[0] / w[1]:.3f} times the second")

# %% [markdown]
# **Adding a number to a whole row changes nothing.** That is useful. exp of a large number overflows, so we subtract
# the greatest score from each row first. The weights stay the same:

# %%
large = np.array([810.0, 808.0, 800.0])
with np.errstate(all="ignore"):
    print("as it stands:       ", np.exp(large) / np.exp(large).sum())
less = np.exp(large - large.max())
print("maximum subtracted: ", less / less.sum())

# %% [markdown]
# **Larger scores, sharper weights.** Multiply a row by a large number, and almost everything goes to one word; by a
# small one, and all weights become alike. This is why we divided by √d. How sharp is a row? Its **entropy** says so:
# the sum of −w log w over its weights w. It is 0 if one word has everything. And exp of the entropy is easy to picture:
# among how many words is the attention shared?

# %%
for factor in (0.0, 0.5, 1.0, 4.0):
    w = torch.from_numpy(factor * row).softmax(0)
    spread = torch.exp(torch.special.entr(w).sum())
    shown = " ".join(f"{share:6.1%}" for share in w.tolist())
    print(f"scores × {factor}: {shown}  as if among {spread:.2f} words; the least weight is {w.min():.0e}")

# %% [markdown]
# **No weight is ever 0**, as the last numbers show: softmax gives every word at least a little. To hide a word
# altogether, its score is set to minus infinity, because exp of that is 0. That is a **mask**. A model that writes a
# sentence must not look at words that are not written yet, so a mask hides what comes after each word:

# %%
A = regard.AttentionMatrix(torch.from_numpy(good.queries), torch.from_numpy(good.keys), mask=regard.causal())
A.picture(good.words, "matrix", title="Each word sees itself and what came before")

# %% [markdown]
# The rows still add up to 100 %: what was hidden is shared among the rest.
#
# ## All rows of a sentence
#
# Here are the weights of the sentence that this course began with. Find the row of "it": most of it goes to "dog".

# %%
dog = regard.steps(*textbook.dog())
dog.as_matrix().picture(dog.words, "matrix", title="Who looks at whom")

# %% [markdown]
# In the sentence about sushi, the row of "it" has most at "sushi", and the rows of "me" and "happy" have most at "I":

# %%
sushi = regard.steps(*textbook.sushi())
sushi.as_matrix().picture(sushi.words, "matrix", title="“it” is the sushi, “me” and “I” are the same person")

# %% [markdown]
# ## What we have
#
# - Softmax: exp of each score, divided by the sum of its row. Rows add up to 1.
# - It turns differences into factors; a number added to a row cancels.
# - A mask sets scores to minus infinity, and their weights are 0.
#
# The weights say how much to take from each word. Next, what is taken: [the weighted sum](5_the_weighted_sum.py).

# %% [markdown]
# ## Write it yourself
#
# Write this function, and run the cell: `check` compares it with ours on random inputs, and says what differs. In the
# terminal, `regard quiz --code 4` does the same with a file.

# %%
from regard.learn import check


def softmax(scores):
    """Weights: the scores of each row as positive numbers that add up to 1.

    scores: (queries, keys); some rows have scores near 1,000, whose exp is too large for a float.
    """
    raise NotImplementedError("write it here")


check(4, softmax)
