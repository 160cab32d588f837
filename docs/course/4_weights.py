# %% [markdown]
# # 4. Weights
#
# Step 3: the softmax makes shares out of a row of scores. By hand, to exactly 90 %, 7 % and 3 %.
#
# After [chapter 3](3_scores_and_scaling.md) each word has a row of scaled scores, one for each word it could look at.
# They can be any numbers. We want **weights**: how much of its look a word gives to each word. Weights are positive,
# and a row of them adds up to 1.
#
# ## Softmax by hand
#
# Two steps. Take exp of each score, which makes it positive. Divide by the sum, which makes the sum 1. Here is the row
# of "I" in "I am good":

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
# "I" gives 90 % of its look to itself, 7 % to "am" and 3 % to "good". The other rows go the same way, each for itself:

# %%
scaled = drawing.Table(good.scaled, "", "QKᵀ / √64", rows=good.words, columns=good.words)
weights = drawing.Table(good.weights, "weights", "softmax", rows=good.words, columns=good.words, shares=True)
drawing.tables([scaled, weights], signs=("softmax →",), caption="Each row adds up to 100 %.")

# %%
print((100 * good.weights).round(6))
print("rows add up to   ", good.weights.sum(axis=1))
print("columns add up to", good.weights.sum(axis=0).round(3))

# %% [markdown]
# A row is what one word gives away, and it always gives all. A column is what one word receives, and that can be more
# than 1, as for "I" here, or less, as for "good".
#
# ## From shares back to scores
#
# The texts this course grew from print these shares and no scores that give them. Which scores do? Divide two shares
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
# **A difference becomes a factor.** One more in a scaled score is a weight that is e times as large, whatever else
# stands in the row.

# %%
for other in (-5.0, 0.0, 5.0):
    w = torch.tensor([3.0, 2.0, other]).softmax(0)
    shown = "  ".join(f"{share:.3f}" for share in w.tolist())
    print(f"scores 3, 2, {other:2.0f}: weights {shown}, the first is {w[0] / w[1]:.3f} times the second")

# %% [markdown]
# **Adding a number to a whole row changes nothing.** That is more than a curiosity. exp of a large number is too large
# for the computer, so we take the greatest score off each row first. The weights stay the same:

# %%
large = np.array([810.0, 808.0, 800.0])
with np.errstate(all="ignore"):
    print("as it stands:       ", np.exp(large) / np.exp(large).sum())
less = np.exp(large - large.max())
print("the greatest off:   ", less / less.sum())

# %% [markdown]
# **Larger scores, sharper weights.** Multiply a row by a number and it becomes all or none, or all alike. This is what
# √d was about. How sharp is a row? Its **entropy** says so, and exp of it is a number one can picture: among how many
# words is the look shared?

# %%
for factor in (0.0, 0.5, 1.0, 4.0):
    w = torch.from_numpy(factor * row).softmax(0)
    spread = torch.exp(torch.special.entr(w).sum())
    shown = " ".join(f"{share:6.1%}" for share in w.tolist())
    print(f"scores × {factor}: {shown}  as if among {spread:.2f} words; the least weight is {w.min():.0e}")

# %% [markdown]
# **No weight is ever 0**, as the last numbers show: softmax gives a little to everyone. To hide a word altogether,
# its score is set to minus infinity, for exp of that is 0. That is a **mask**. A word that writes a sentence must not
# look at words not yet written, so a mask hides what comes after:

# %%
A = regard.AttentionMatrix(torch.from_numpy(good.queries), torch.from_numpy(good.keys), mask=regard.causal())
A.picture(good.words, "matrix", title="Each word sees itself and what came before")

# %% [markdown]
# The rows still add up to 100 %: what was hidden is shared among the rest.
#
# ## Weights are a look
#
# The sentence that this course began with, all of its rows. Find "it": most of its look goes to "dog".

# %%
dog = regard.steps(*textbook.dog())
dog.as_matrix().picture(dog.words, "matrix", title="Who looks at whom")

# %% [markdown]
# ## What we have
#
# - Softmax: exp of each score, divided by the sum of its row. Rows add up to 1.
# - It turns differences into factors; a number added to a row cancels.
# - A mask sets scores to minus infinity, and their weights are 0.
#
# The weights say how much. Next, of what: [the weighted sum](5_the_weighted_sum.md).
