# %% [markdown]
# # 1. Words as vectors
#
# What goes into self-attention and what comes out: a set of vectors, of any size, in no order.
#
# This course needs Python and matrix products, nothing more. It follows one small calculation from its first number
# to a model that translates. Everything it says is computed on the page, and you can change it and run it again.
#
# ## The question
#
# *A dog ate the food because it was hungry.* Who was hungry? You know that "it" is the dog. A program that reads the
# words one at a time cannot know: "it" could be anything. It must look at the other words, at some more than at others.
# Here is that look, drawn from numbers that we wrote by hand. The chapters after this one show how such numbers are
# computed; at the end of the course a model has learned them.

# %%
import numpy as np
import torch

import regard
from regard import drawing, textbook

dog = regard.steps(*textbook.dog())
dog.as_matrix().picture(dog.words, pick="it")

# %% [markdown]
# The thicker a line, the more "it" looks at that word. Hover to read the shares.
#
# ## A word is a row of numbers
#
# A computer calculates with numbers, so each word gets some: a **vector**, which is called its **embedding**. Which
# numbers? Before training, any; training makes them useful. Our first sentence has three words of 512 numbers each.

# %%
good = textbook.i_am_good()
for word, vector in zip(good.words, good.x, strict=True):
    print(f"{word:5}", vector[:3], "…", vector[-1], f"  {len(vector)} numbers")

# %% [markdown]
# Put the vectors of a sentence below each other and you have its matrix **X**: one row for each word, one column for
# each number of an embedding.

# %%
print("X is", " × ".join(map(str, good.x.shape)))
drawing.tables([drawing.Table(good.x, "X", shape="3×512", rows=good.words)])

# %% [markdown]
# An embedding is looked up: the same word has the same vector wherever it stands. That is its weakness. In the two
# sentences below "it" means two things, and its vector cannot say which.

# %%
full = textbook.sentence("The dog left the food because it was full")
rotten = textbook.sentence("The dog left the food because it was rotten")
place = full.words.index("it")
print("the same vector for both:", np.array_equal(full.x[place], rotten.x[place]))

# %% [markdown]
# So something has to bring the other words in. A step from vectors to vectors, with numbers in it that are learned, is
# called a **layer**. We want a layer that gives each word a new vector, made from *all* words.
#
# ## A layer on a set
#
# The plainest layer is **fully connected**: one vector in, one vector out. It is a matrix, and the size of the matrix
# fixes the size of what goes in. Could we give it a whole sentence, its vectors put end to end? Yes, one of that
# length.

# %%
connected = torch.nn.Linear(3 * 512, 3 * 64)
three, four = torch.randn(3, 512), torch.randn(4, 512)
print("3 words:", connected(three.flatten()).shape)
try:
    connected(four.flatten())
except RuntimeError as error:
    print("4 words:", error)

# %% [markdown]
# A **self-attention layer** takes a set of vectors and gives a set of vectors, one for each. The set may have any size,
# because everything that the layer has learned is about *one* vector or about *two*, never about how many there are.

# %%
drawing.set_layer(["I", "am", "hungry"], beside=True)

# %%
torch.manual_seed(0)
layer = regard.SelfAttention(512, 64)
for count in (1, 3, 4, 1000):
    print(f"{count:5} vectors in, {len(layer(torch.randn(count, 512))):5} out")
print(f"{sum(p.numel() for p in layer.parameters()):,} numbers to learn, however many words there are;")
print(f"{sum(p.numel() for p in connected.parameters()):,} in the fully connected layer, for three words only")

# %% [markdown]
# Each vector of such a set is called a **token**. Here a token is a word; in real models it is often a part of a word.
#
# ## Order does not matter yet
#
# We said *set*, not sequence. Shuffle the words: every output is the one it was before, at its word's new place. The
# numbers agree up to the rounding of the computer.

# %%
order = torch.tensor([2, 0, 1])
x = torch.from_numpy(good.x).float() / 10
before, after = layer(x), layer(x[order])
print("words:", [good.words[n] for n in order])
print("moved with its word, to within", f"{(after - before[order]).abs().max():.0e}")
print("and is not what stood there before: differs by", f"{(after - before).abs().max():.2f}")

# %% [markdown]
# "Dog bites man" and "man bites dog" would be the same to this layer. Language needs more, and chapter 6 adds it in one
# line: the position is written into the vectors. The layer itself stays as it is, and that is its strength, for much in
# the world is a set.
#
# ## Not only words
#
# Nothing above asked what a vector stands for. **DNA** is a chain of four letters. Cut it into words of four letters
# and each kind of word gets an embedding, as in a language with few words:

# %%
strand = "GATTACAGATTACATATACGTG"
tokens = [strand[n : n + 4] for n in range(len(strand) - 3)]
kinds = sorted(set(tokens))
table = torch.nn.Embedding(len(kinds), 512)
vectors = table(torch.tensor([kinds.index(token) for token in tokens]))
print(tokens[:4], "…", len(tokens), "tokens of", len(kinds), "kinds")
print("into the same layer:", tuple(vectors.shape), "→", tuple(layer(vectors).shape))

# %% [markdown]
# A **graph** has nodes and links. Each node is a vector, and a **mask** says who may look at whom: those that are
# linked. Here is a ring of five nodes. Change node 0, and see which outputs change.

# %%
ring = torch.eye(5).bool() | torch.eye(5).roll(1, 0).bool() | torch.eye(5).roll(-1, 0).bool()
nodes = torch.randn(5, 512)
changed = nodes.clone()
changed[0] += 1
moved = (layer(changed, mask=ring) - layer(nodes, mask=ring)).abs().amax(-1)
for node, by in enumerate(moved.tolist()):
    print(f"node {node}: {'changed' if by else 'exactly as before'}")

# %% [markdown]
# Node 0 and its two neighbours change; the others cannot see it. `examples/sets_dna.py` and
# `examples/sets_graph.py` train such models in some seconds.
#
# ## What we have
#
# - A word is a vector; a sentence is a matrix X with a row for each word.
# - A self-attention layer turns a set of vectors into a set of vectors, of any size.
# - Shuffling what goes in shuffles what comes out. Positions must be added by hand.
#
# How does a word look at another? It asks, and the other answers: [queries, keys, values](2_queries_keys_values.md).
