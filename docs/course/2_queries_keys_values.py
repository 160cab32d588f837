# %% [markdown]
# # 2. Queries, keys, values
#
# Three views of the same words: what a word asks for, what it answers to, and what it gives.
#
# In [chapter 1](1_words_as_vectors.py) a sentence became a matrix X with a row for each word. Now each word has to find
# the words that matter to it. Think of a library. You come with a question; each book has a title on its spine; you
# compare the question with the titles, and then you read what is *in* the books. Three different things:
#
# - a **query**: what a word asks for;
# - a **key**: what it can be found by;
# - a **value**: what it gives to the words that look at it.
#
# ## Written by hand
#
# For the sentence about the dog we wrote them ourselves, with five dimensions that have names. "it" *is* hardly
# anything, but it asks for an animal that can be hungry.

# %%
import numpy as np
import torch

import regard
from regard import drawing, textbook

dog = regard.steps(*textbook.dog())
meanings = ("animal", "food", "action", "link", "feeling")
queries = drawing.Table(dog.queries, "queries", rows=dog.words, columns=meanings)
keys = drawing.Table(dog.keys, "keys", rows=dog.words, columns=meanings)
drawing.tables([queries, keys], title="What each word asks for, and what it is")

# %% [markdown]
# Read the row of "it" on the left and the row of "dog" on the right: both are large in the column *animal*. That is all
# there is to "it" finding "dog". The next chapter turns it into a number.
#
# The sentence about sushi works the same way. Its "it" asks for a thing, its "me" and "happy" ask for a person:

# %%
sushi = regard.steps(*textbook.sushi())
meanings = ("thing", "person", "action", "link", "feeling")
queries = drawing.Table(sushi.queries, "queries", rows=sushi.words, columns=meanings)
keys = drawing.Table(sushi.keys, "keys", rows=sushi.words, columns=meanings)
drawing.tables([queries, keys], title="“it” asks for a thing, and “sushi” is one")

# %% [markdown]
# ## Three matrices
#
# Nobody gives a model such tables. It has the embeddings X, and three matrices that it learns: $W_Q$, $W_K$ and $W_V$.
# The embedding of each word is multiplied by each of them:
#
# $$
# Q = X\,W_Q \qquad K = X\,W_K \qquad V = X\,W_V
# $$
#
# One row of the last product is the value of one word. In "I am hungry", the value of "am" is
#
# $$
# \mathbf{v}_{\text{am}} = \mathbf{x}_{\text{am}}\,W_V
# $$
#
# Many texts write vectors as columns, and then the matrix comes first:
#
# $$
# \mathbf{v}_{\text{am}} = W_V\,\mathbf{x}_{\text{am}}
# $$
#
# It is the same product, with the matrix transposed.

# %%
hungry = regard.steps(*textbook.i_am_hungry())
for word, x in zip(hungry.words, hungry.x, strict=True):
    by_row, by_column = x @ hungry.w_v, hungry.w_v.T @ x
    print(f"v({word}) = {by_row}, the same either way: {np.array_equal(by_row, by_column)}")

# %% [markdown]
# The diagram shows the three products for "I am good", word by word:

# %%
good = regard.steps(*textbook.i_am_good())
drawing.schematic(
    x=good.x, queries=good.queries, keys=good.keys, values=good.values, words=good.words, until="projections"
)

# %% [markdown]
# ## Dimensions
#
# "I am good" has three words of 512 numbers. The matrices are 512 × 64, so queries, keys and values have 64 numbers for
# each word. That width is called **d**.

# %%
for name, w, result in (("Q", good.w_q, good.queries), ("K", good.w_k, good.keys), ("V", good.w_v, good.values)):
    sizes = [" × ".join(map(str, array.shape)) for array in (good.x, w, result)]
    print(f"{name}: ({sizes[0]}) times ({sizes[1]}) is {sizes[2]}")

# %%
x = drawing.Table(good.x, "X", shape="3×512", rows=good.words)
w = drawing.Table(good.w_q, "W_Q", shape="512×64")
q = drawing.Table(good.queries, "Q", shape="3×64", rows=good.words)
drawing.tables([x, w, q], signs=("·", "="))

# %% [markdown]
# The matrices do not depend on the number of words: computing one word at a time or all at once gives the same result:

# %%
one_by_one = np.stack([word @ good.w_q for word in good.x])
print("the same queries:", np.allclose(one_by_one, good.queries))

# %% [markdown]
# Queries and keys must have the same width, because they will be multiplied with each other. Values may have another:
# they are only weighted and added. `regard` reports a mismatch:

# %%
random = np.random.default_rng(0)
x3 = random.normal(size=(3, 512))
done = regard.steps(x3, random.normal(size=(512, 64)), random.normal(size=(512, 64)), random.normal(size=(512, 10)))
print("values of another width work:", done.output.shape)
try:
    regard.steps(x3, random.normal(size=(512, 64)), random.normal(size=(512, 32)), random.normal(size=(512, 64)))
except regard.ShapeError as error:
    print(error)

# %% [markdown]
# ## Why three, and not one?
#
# The next chapter multiplies each query with each key; the result is called a **score**. If each word asked with its
# own key, Q = K, then any two words would find each other equally: the score of "it" with "dog" would be the score of
# "dog" with "it". But "it" needs "dog", and "dog" does not need "it".

# %%
it, animal = dog.words.index("it"), dog.words.index("dog")
print(f"it looks at dog: {dog.weights[it, animal]:.0%}, dog looks at it: {dog.weights[animal, it]:.0%}")
same = dog.keys @ dog.keys.T
print("with Q = K the scores are the same both ways:", np.allclose(same, same.T))

# %% [markdown]
# ## The matrices are learned
#
# At first W_Q, W_K and W_V are random, and so is what a word looks at. Training changes them a little at a time,
# towards whatever makes the model's answers better. Here the answer we want is simple: "it" should look at "dog". Watch
# the share that "it" gives to "dog". (`regard.AttentionMatrix` computes such shares from queries and keys; the next two
# chapters do it by hand.)
#
# Training needs one number that says how wrong the answer is, the **loss**: here −log of the share, which is 0 when
# "dog" gets everything, and large when it gets little. In each step `backward` finds out in which direction each number
# of the matrices has to change to make the loss smaller ([chapter 13](13_the_backward_pass.py) does that by hand), and
# the *optimizer* changes it a little.

# %%
torch.manual_seed(1)
words, embeddings = dog.words, torch.randn(len(dog.words), 16)
layer = regard.SelfAttention(16, 8)
optimizer = torch.optim.Adam([layer.query.weight, layer.key.weight], lr=0.005)
shares = []
for _ in range(40):
    A = regard.AttentionMatrix(layer.query(embeddings), layer.key(embeddings))
    share = A[it, animal]
    shares.append(share.item())
    optimizer.zero_grad()
    (-share.log()).backward()
    optimizer.step()
print(f"before: {shares[0]:.1%}, after 40 steps: {shares[-1]:.1%}")
drawing.curves({"how much “it” looks at “dog”": (np.arange(40), np.array(shares))})

# %% [markdown]
# A real model is not told where to look. It is asked for a translation or for the next word, and learns that looking at
# the right words helps. Chapter 7 trains one.
#
# ## What we have
#
# - $Q = X\,W_Q$, $K = X\,W_K$, $V = X\,W_V$: for each word a query, a key and a value of d numbers.
# - Queries and keys differ, so that "it" can look at "dog" without "dog" looking at "it".
# - The matrices are what is learned; they do not depend on how many words there are.
#
# Next, queries meet keys: [scores and scaling](3_scores_and_scaling.py).

# %% [markdown]
# ## Write it yourself
#
# Write this function, and run the cell: `check` compares it with ours on random inputs, and says what differs. In the
# terminal, `regard quiz --code 2` does the same with a file.

# %%
from regard.learn import check


def project(x, w_q, w_k, w_v):
    """Queries, keys and values: three arrays with a row for each word.

    x: (words, width).
    w_q, w_k, w_v: (width, d).
    """
    raise NotImplementedError("write it here")


check(2, project)
