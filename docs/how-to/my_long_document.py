# %% [markdown]
# # My long document
#
# Which passage did the model look at? For a long text the matrix cannot be kept, and nobody would read it. Three views
# can: a map of the whole, what each token receives, and how much passages give to each other. All of them are exact and
# take memory that grows with the tokens, not with their square.
#
# The text of this page is the rhymes of `examples/tiny_gpt.txt`, four times over, with a question at the end; the model
# is a random one of two layers. Put in your own.

# %%
import re
from pathlib import Path

import torch
from transformers import LlamaConfig, LlamaForCausalLM

import regard

torch.manual_seed(0)
torch.set_num_threads(1)
rhymes = Path("examples/tiny_gpt.txt").read_text()
text = rhymes * 4 + "\nQuestion: who went up the hill?"
words = re.findall(r"\w+|[^\w\s]", text)
vocabulary = {word: n for n, word in enumerate(sorted(set(words)))}
ids = torch.tensor([[vocabulary[word] for word in words]])
config = LlamaConfig(
    hidden_size=128, intermediate_size=256, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
    vocab_size=len(vocabulary), max_position_embeddings=16_384, initializer_range=0.15,
)  # fmt: skip
model = LlamaForCausalLM(config).eval()
print(f"{len(words):,} tokens; the weights of one head would be {4 * len(words) ** 2 / 1e6:.0f} MB")

with torch.no_grad(), regard.watch(model, tokens=words) as record:
    model(ids)

# %% [markdown]
# ## The map
#
# The whole matrix as a small picture, with words of the text as landmarks. Each cell is a mean of many weights; each of
# them was computed, none was kept.

# %%
record.picture("map", layer=1, title="Layer 1, from the first word to the last")

# %% [markdown]
# The upper right is empty: in this model words look only back. The first words are seen by all others, the last ones by
# few. A trained model shows more: paragraphs, lists and quotations stand out as blocks and stripes.
#
# ## What each token receives
#
# The sum of a column: how much attention goes *to* a token, from all others. In trained models the first token often
# takes most of it.

# %%
received = record["model.layers.1.self_attn"].received()[0].mean(0)
best = received.topk(5)
for share, place in zip(best.values.tolist(), best.indices.tolist(), strict=True):
    print(f"token {place:>5,} {words[place]!r:<10} receives {share:.1f}")
print(f"a token receives {received.mean().item():.2f} on average: each row gives away one")

# %% [markdown]
# ## Passages
#
# Name parts of the text by what is written there, or by tokens (first, last + 1). The answer: for each row's passage,
# the share that its tokens give to each other passage. Shares that are left over go to the rest of the text.

# %%
quarter = len(words) // 4
parts = {"first": (0, quarter), "second": (quarter, 2 * quarter), "third": (2 * quarter, 3 * quarter)}
parts |= {"fourth": (3 * quarter, len(words) - 8), "question": (len(words) - 8, len(words))}
spans = record.spans(parts, layer=1)
print(spans)
print({name: f"{share:.0%}" for name, share in spans["question"].items()})

# %% [markdown]
# With "sentence" or, for a chat, "message", the text is cut for you: `record.spans("message")`.
#
# ## Longer still
#
# Queries and keys of all layers are kept, unless you say otherwise. For very long texts keep only what you need: then a
# layer's reductions are computed while the model runs, and its queries and keys are let go.

# %%
with torch.no_grad(), regard.watch(model, tokens=words, keep="summary") as small:
    model(ids)
print(small)
small.picture("map", layer=1, title="The same from the summary")
