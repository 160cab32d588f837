# %% [markdown]
# # 1. Words as vectors
#
# What goes into self-attention and what comes out: a set of vectors, of any size, in no order.
#
# This course needs Python and matrix products, nothing more. It follows one small calculation from its first number
# to a program that translates. Everything it says is computed on the page, and you can change it and run it again.
#
# ## The question
#
# *A dog ate the food because it was hungry.* Who was hungry? You know that "it" is the dog. A program that reads the
# words one at a time cannot know: "it" could be anything. It has to look at the other words, and at some more than at
# others. The picture shows where "it" looks, drawn from numbers that we wrote by hand. The next chapters show how such
# numbers are computed; in chapter 7 a model learns them.

# %%
import numpy as np
import torch

import regard
from regard import drawing, textbook

dog = regard.steps(*textbook.dog())
dog.as_matrix().picture(dog.words, pick="it")

# %% [markdown]
# The thicker a line, the more "it" looks at that word. Each line is a share of what "it" has to give: all of them
# together are 100 %. Hover to read them.
#
# The second sentence that we follow through the course is *I like sushi because it makes me happy.* It has three words
# that mean little on their own. Here "it" is the sushi:

# %%
sushi = regard.steps(*textbook.sushi())
sushi.as_matrix().picture(sushi.words, pick="it")

# %% [markdown]
# "me" is the person who says "I", and "happy" says something about that person. Both should look at "I":

# %%
sushi.as_matrix().picture(sushi.words, pick="happy")

# %%
for word in ("it", "me", "happy"):
    row = sushi.weights[sushi.words.index(word)]
    best = sorted(zip(row, sushi.words, strict=True), reverse=True)[:3]
    print(f"{word:5} looks at", ", ".join(f"{other} {share:.0%}" for share, other in best))

# %% [markdown]
# All of this is **attention**: every word looks at all words of its sentence, and at some more than at others. Because
# the words look at their own sentence, it is called **self-attention**.
#
# ## A word is a row of numbers
#
# A computer calculates with numbers, so each word gets some: a **vector**, which is called its **embedding**. Which
# numbers? At first, any. Then a model is **trained**: it is given many examples, and after each its numbers are changed
# a little, so that its answers become better. Training makes the numbers useful. To see the numbers themselves we take
# a shorter sentence, "I am good": three words of 512 numbers each.

# %%
good = textbook.i_am_good()
for word, vector in zip(good.words, good.x, strict=True):
    print(f"{word:5}", vector[:3], "…", vector[-1], f"  {len(vector)} numbers")

# %% [markdown]
# Write the vectors of a sentence one below the other and you have its matrix **X**: one row for each word, one column
# for each number of an embedding.

# %%
print("X is", " × ".join(map(str, good.x.shape)))
drawing.tables([drawing.Table(good.x, "X", shape="3×512", rows=good.words)])

# %% [markdown]
# An embedding is looked up in a table: the same word has the same vector wherever it occurs. That is its weakness. In
# the two sentences below, "it" means two different things, and its vector cannot say which.

# %%
full = textbook.sentence("The dog left the food because it was full")
rotten = textbook.sentence("The dog left the food because it was rotten")
place = full.words.index("it")
print("the same vector for both:", np.array_equal(full.x[place], rotten.x[place]))

# %% [markdown]
# So the other words have to be brought in. A step that computes vectors from vectors, with numbers in it that are
# learned (its **parameters**), is called a **layer**. A **model** is several layers, one after the other. We want a
# layer that gives each word a new vector, made from *all* words.
#
# ## A layer on a set
#
# The simplest layer is **fully connected**: one vector in, one vector out. It is a matrix, and the size of the matrix
# fixes the size of its input. Could we give it a whole sentence, with its vectors joined end to end? Yes, but only
# sentences of one length.

# %%
connected = torch.nn.Linear(3 * 512, 3 * 64)
three, four = torch.randn(3, 512), torch.randn(4, 512)
print("3 words:", connected(three.flatten()).shape)
try:
    connected(four.flatten())
except RuntimeError as error:
    print("4 words:", error)

# %% [markdown]
# A **self-attention layer** takes a set of vectors and returns a set of vectors, one for each. The set may have any
# size, because everything the layer learns is about *one* vector or about a *pair* of them, never about how many there
# are.

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
# Each vector of such a set is called a **token**. Here a token is a word; in real models it is often a part of a word
# ([chapter 9](9_subwords.py)).
#
# ## Order does not matter yet
#
# We said *set*, not sequence. Shuffle the words, and every output is the same as before, at its word's new place. The
# numbers agree up to rounding.

# %%
order = torch.tensor([2, 0, 1])
x = torch.from_numpy(good.x).float() / 10
before, after = layer(x), layer(x[order])
print("words:", [good.words[n] for n in order])
print("moved with its word, to within", f"{(after - before[order]).abs().max():.0e}")
print("and is not what stood there before: differs by", f"{(after - before).abs().max():.2f}")

# %% [markdown]
# "Dog bites man" and "man bites dog" would be the same to this layer. Language needs more, and chapter 6 adds it in one
# line: the position is added to the vectors. The layer itself stays as it is. That is a strength, because many things
# besides sentences are sets.
#
# ## Not only words
#
# Nothing above depends on what a vector stands for. **DNA** is a chain of four kinds of letters. Cut it into words of
# four letters, and each distinct word gets an embedding, as in a language with few words:

# %%
strand = "GATTACAGATTACATATACGTG"
tokens = [strand[n : n + 4] for n in range(len(strand) - 3)]
kinds = sorted(set(tokens))
table = torch.nn.Embedding(len(kinds), 512)
vectors = table(torch.tensor([kinds.index(token) for token in tokens]))
print(tokens[:4], "…", len(tokens), "tokens of", len(kinds), "kinds")
print("into the same layer:", tuple(vectors.shape), "→", tuple(layer(vectors).shape))

# %% [markdown]
# A **graph** has nodes and links. Each node is a vector, and a **mask** says which nodes may look at each other: those
# that are linked. Here is a ring of five nodes. We change node 0 and see which outputs change.

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
# `examples/sets_graph.py` train such models in a few seconds.
#
# ## What we have
#
# - A word is a vector; a sentence is a matrix X with a row for each word.
# - A self-attention layer turns a set of vectors into a set of vectors, of any size.
# - Shuffling the inputs shuffles the outputs in the same way. Positions have to be added separately.
#
# How does one word look at another? It asks, and the other answers: [queries, keys, values](2_queries_keys_values.py).

# %% [markdown]
# ## Write it yourself
#
# Write this function, and run the cell: `check` compares it with ours on random inputs, and says what differs. In the
# terminal, `regard quiz --code 1` does the same with a file.

# %%
from regard.learn import check


def embed(words, vocabulary, table):
    """X: a row for each word of a sentence.

    words: a list of strings; a word may occur several times.
    vocabulary: a list of all words that are known.
    table: an array with a row for each word of the vocabulary, in its order.
    """
    raise NotImplementedError("write it here")


check(1, embed)
