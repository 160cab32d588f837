# %% [markdown]
# # Attention of my Hugging Face model
#
# Put `regard.watch` around the call of your model, and ask the record. The model keeps its fused kernels and gives the
# same output as ever.
#
# This page builds a small Llama with random weights, so that it runs anywhere; its numbers mean nothing. Your own model
# takes its place with two lines:
#
#     model = AutoModelForCausalLM.from_pretrained("…")
#     tokenizer = AutoTokenizer.from_pretrained("…")

# %%
import tempfile
from pathlib import Path

import torch
from transformers import LlamaConfig, LlamaForCausalLM

import regard
from regard.watching import knock_out

torch.manual_seed(0)
config = LlamaConfig(
    hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
    vocab_size=99,
)  # fmt: skip
model = LlamaForCausalLM(config).eval()
words = ["A", "dog", "ate", "the", "food", "because", "it", "was", "hungry"]
ids = torch.arange(9)[None]

with torch.no_grad(), regard.watch(model, tokens=words) as record:  # with a tokenizer: regard.watch(model, tokenizer=…)
    output = model(ids)
print(record)
print("the output is the same:", torch.allclose(output.logits, model(ids).logits, atol=1e-5))

# %% [markdown]
# ## Ask
#
# Words that the tokenizer cut into pieces count as one. Without `layer`, `head` or `kind`, an answer is the mean of all
# heads.

# %%
print(record.looks("it"))  # what does this word look at?
print(record.looked_at("dog"))  # what looks at it?
print(record.heads("it", "dog"))  # which heads look most from here to there?
print(record.rollout("it"))  # through all layers, residuals included
print(record.spans({"who": "A dog", "what": "the food", "why": "it was hungry"}))

# %%
record.picture("lines", word="it", layer=1, head=0, title="One head")

# %% [markdown]
# Or "matrix", "grid", "flow" and "map". Any number is at hand: each entry is an `AttentionMatrix` under the name of its
# module, of shape (batch, heads, queries, keys).

# %%
entry = record["model.layers.1.self_attn"]
print(entry.shape, entry.kind)
print("the row of “it” in head 2:", entry[0, 2, 6].numpy().round(2))
print("entropy of each word in head 2:", entry.entropy()[0, 2].numpy().round(2))

# %% [markdown]
# ## A batch with padding
#
# Give the mask that your tokenizer made, as always; ask for one text of the batch with `sequence`. Padding receives
# nothing.

# %%
batch = torch.stack([torch.arange(9), torch.arange(20, 29)])
mask = torch.ones_like(batch)
mask[1, 6:] = 0
with torch.no_grad(), regard.watch(model, tokens=[words, [*words[:6], "…", "…", "…"]]) as padded:
    model(batch, attention_mask=mask)
print("received in the second text:", padded["model.layers.0.self_attn"].received()[1, 0].numpy().round(2))
print(padded.looks("because", sequence=1))

# %% [markdown]
# ## While it writes
#
# `generate` works too: the steps are put together into one matrix, and the tokens that were written look at all before
# them. `keep="summary"` grows with the text: whenever its picture gets too large, two bins become one. Beam search and
# drafts by an assistant rewrite what was computed before: they are refused before the first token. Generate with
# `num_beams=1`, or watch the model on the finished text.

# %%
with torch.no_grad(), regard.watch(model) as written:
    text = model.generate(ids, max_new_tokens=5, do_sample=False, pad_token_id=0)
print(text.shape, written["model.layers.0.self_attn"].shape)

# %% [markdown]
# ## Take a head out
#
# Does the head matter? Run once with it and once without.

# %%
effect = knock_out(model, {"model.layers.1.self_attn": [0]}, ids)
print(effect)
for token, before, after in effect.moved(k=3):  # at the last place
    print(f"token {token}: {before:.2%} → {after:.2%}")

# %% [markdown]
# ## Trust, but check; and keep
#
# `check` computes a sample of rows again, in the plainest way. `save` writes what was kept as safetensors.

# %%
record.check()
with tempfile.TemporaryDirectory() as folder:
    file = Path(folder) / "dog.safetensors"
    record.save(file)
    again = regard.Record.open(file)
    print(f"{file.stat().st_size:,} bytes;", again.looks("it"))

# %% [markdown]
# ## When it says no
#
# Most models call their attention through transformers' `AttentionInterface`, and can be watched. Some do not; `watch`
# says so, instead of recording nothing:

# %%
try:
    with regard.watch(torch.nn.Linear(3, 3)):
        pass
except regard.WatchError as error:
    print(error)
