# %% [markdown]
# # Export to CTranslate2
#
# [CTranslate2](https://github.com/OpenNMT/CTranslate2) runs translators fast on CPUs, in C++ and Python, without
# PyTorch. `Translator.translate` uses it by itself on a CPU. This page is for programs without regard. The way there is
# the Marian format, which transformers and CTranslate2 both read: `Translator.to_marian(folder)`, and then
# CTranslate2's own converter.

# %%
import logging
import tempfile
import time
import warnings
from pathlib import Path

import ctranslate2
import transformers

import regard

transformers.logging.disable_progress_bar()
logging.getLogger("transformers").setLevel(logging.ERROR)
warnings.filterwarnings("ignore", message="Recommended: pip install sacremoses")

translator = regard.Translator.default()  # or regard.Translator.load("my-model")
work = tempfile.TemporaryDirectory()
home = Path(work.name)
translator.to_marian(home / "marian")
for file in sorted((home / "marian").iterdir()):
    print(f"{file.name:<22} {file.stat().st_size:>11,} bytes")

# %% [markdown]
# Now the converter. In a shell it is
#
#     $ ct2-transformers-converter --model marian --output_dir ct2 --quantization int8

# %%
ctranslate2.converters.TransformersConverter(str(home / "marian")).convert(str(home / "ct2"), quantization="int8")
for file in sorted((home / "ct2").iterdir()):
    print(f"{file.name:<22} {file.stat().st_size:>11,} bytes")

# %% [markdown]
# CTranslate2 takes and gives pieces of words. `translator.words` makes them; elsewhere, SentencePiece does, with
# `vocabulary.spm` (it is the same file as `source.spm`). The source ends with `</s>`.

# %%
fast = ctranslate2.Translator(str(home / "ct2"), device="cpu", intra_threads=1)
words = translator.words


def translate(texts):
    """The same beam as `Translator.translate`."""
    pieces = [[*words.pieces(words.encode(text)), "</s>"] for text in texts]
    found = fast.translate_batch(pieces, beam_size=4)
    return ["".join(best.hypotheses[0]).replace("▁", " ").strip() for best in found]


texts = ["A dog ate the food because it was hungry.", "A dog ate the food because it was rotten.", "Where is my hat?"]
ours = [str(found) for found in translator.translate(texts)]
theirs = translate(texts)
for text, here, there in zip(texts, ours, theirs, strict=True):
    print(f"{text}\n   regard       {here}\n   CTranslate2  {there}")

# %%
for name, run in (("regard", translator.translate), ("CTranslate2, int8", translate)):
    began = time.perf_counter()
    run(texts)
    print(f"{name:<18} {time.perf_counter() - began:.2f} s for {len(texts)} sentences, on this machine")

# %% [markdown]
# The weights are rounded to int8 in this export, as in `Translator.translate` on a CPU; leave out `quantization` for
# the numbers of float32. What does not travel along: splitting long texts into sentences, the guard against
# repetitions, and the alignment, which are done by `regard.Translator`.
#
# The Marian folder opens in transformers as well:

# %%
tokenizer = transformers.MarianTokenizer.from_pretrained(home / "marian")
model = transformers.MarianMTModel.from_pretrained(home / "marian").eval()
found = model.generate(**tokenizer(texts[0], return_tensors="pt"), num_beams=4)
print(tokenizer.decode(found[0], skip_special_tokens=True))
work.cleanup()
