# %% [markdown]
# # Train my language pair
#
# A training is one file, the *recipe*, and one command, `regard train`.
#
#     $ regard train recipes/small.toml -o small-model
#     $ regard translate --model small-model "Our grandfather found the grass, but it was white."
#
# The small recipe takes a few minutes on two cores. It learns made-up sentences, so do not expect it to know more.
#
# If it is stopped, whether by Ctrl-C, a full disk or a power cut, `--resume` goes on from the last checkpoint. On a CPU
# it then takes the very steps that it would have taken: also with `sampling`, and with `minutes`, where steps that are
# repeated get the time they had at first. (After a power cut the times of the last steps may be lost, and the rates of
# those steps differ; a GPU does not add in the same order each time.) The last two checkpoints are kept, each with a
# SHA-256; if the newer one is damaged, the one before it is used, and the training says so. A recipe or a corpus that
# has changed is refused, with what has changed.
#
# ## The recipe

# %%
import dataclasses
import json
import tempfile
from pathlib import Path

import numpy as np
import torch

import regard
from regard.drawing import curves
from regard.translation import Recipe, train

print(Path("recipes/small.toml").read_text())

# %% [markdown]
# | field | what it says |
# | --- | --- |
# | `train`, `dev` | corpora: a TSV file of pairs, or two files that match line by line |
# | `vocabulary` | how many subwords to learn, for both languages together |
# | `steps`, `minutes` | when to end, whichever comes first |
# | `tokens` | of a batch, padding included: lower it if memory is short |
# | `accumulate` | passes of a step: with 4, a batch has 4 times the `tokens`, and takes the memory of one |
# | `rate`, `warmup` | the learning rate at its peak, and the steps until there; then it falls |
# | `average` | the weights that are tested and kept are a running mean of this length |
# | `check`, `patience` | steps between looks at the dev corpus, and how many looks without progress end the training |
# | `sample` | a sentence that is translated at each look, for you to read |
# | `[model]` | sizes: the fields of `regard.TransformerConfig` |
# | `[[guide]]` | a head that is [taught where to look](teach_a_head_where_to_look.py) |
#
# The dev corpus is never learned from: it decides which model is kept. Every field has a comment in
# `regard.translation.Recipe`. A wrong one is named:

# %%
with tempfile.TemporaryDirectory() as folder:
    wrong = Path(folder) / "wrong.toml"
    wrong.write_text('train = ["a.tsv"]\ndev = "b.tsv"\nlearning_rate = 0.1\n')
    try:
        Recipe.read(wrong)
    except regard.FileError as error:
        print(str(error).replace(folder, "…"))

# %% [markdown]
# ## Your own pair
#
# A corpus is lines of `source<TAB>target`. Good sources of such pairs are [Tatoeba](https://tatoeba.org) and
# [OPUS](https://opus.nlpl.eu); mind their licences. Keep a few hundred pairs aside as dev corpus, and a few hundred
# more that you look at only once, at the end.
#
# Here the small recipe in very small, to show what a training leaves behind: a few pairs to look at, and a few steps.

# %%
torch.manual_seed(0)
torch.set_num_threads(1)
work = tempfile.TemporaryDirectory()
home = Path(work.name)
lines = Path("recipes/small/dev.tsv").read_text().splitlines(keepends=True)
(home / "dev.tsv").write_text("".join(lines[:8]))
recipe = dataclasses.replace(
    Recipe.read("recipes/small.toml"), dev=str(home / "dev.tsv"), vocabulary=600, tokens=512, steps=80, check=40,
    warmup=20, average=0.9,
    model={"width": 32, "heads": 2, "hidden": 64, "encoder_layers": 1, "decoder_layers": 1, "positions": 128},
)  # fmt: skip
model = train(recipe, home / "model", quiet=True)
print(model.config.parameters, "parameters")
for file in sorted((home / "model").iterdir()):
    print(f"{file.name:<22} {file.stat().st_size:>9,} bytes")

# %% [markdown]
# `config.json`, `model.safetensors` and `vocabulary.spm` are the translator. `config.json` has the SHA-256 of all:
# a damaged folder is refused and never translates wrongly (after an edit by hand, delete its field `sha256`). The
# checkpoints are for `--resume` and can be deleted afterwards; the log has a line for every tenth step and every look:

# %%
log = [json.loads(line) for line in (home / "model" / "log.jsonl").read_text().splitlines()]
losses = [(line["step"], line["loss"]) for line in log if "loss" in line]
steps, loss = map(np.array, zip(*losses, strict=True))
print("a look:", log[-1])
curves({"loss": (steps, loss)}, title="A few steps: it has hardly begun")

# %% [markdown]
# ## Is it any good?
#
# Translate sentences that it has never seen, and compare. `regard score` gives BLEU and chrF2 with their signatures, so
# that others can compare with you; and reading fifty translations tells more than either number.
#
#     $ regard translate --model my-model < test.en > test.out
#     $ regard score test.out test.fr

# %%
translator = regard.Translator.load(home / "model")
print(translator.translate("Alice called me because she was afraid.", beam=1).text[:80], "…")
work.cleanup()

# %% [markdown]
# After so few steps that is no translation yet. For the real thing, let the recipe run; for a serious pair, take a GPU
# (it is used if there is one) and `recipes/wide-en-fr.toml` as a start. Several GPUs, on one machine or many, are
# [another page](train_on_several_gpus.py).
