"""Look into a model while it runs: `watch` gives a `Record` of the attention of every layer.

Read in this order:

session.py      `watch`: the `with` block, and every attention call inside it
own_layers.py   regard's own layers
huggingface.py  the same for Hugging Face models; the only file that imports transformers
plain_torch.py  and for plain PyTorch: nn.MultiheadAttention, and whatever calls torch's attention function
registry.py     who watches which module, and what is replaced meanwhile
links.py        `Link`: attention from some words to others, to be cut or steered
changes.py      the heads and links that a model runs without
masks.py        `Pattern` and `LazyMask`: masks as rules, without queries × keys numbers
shards.py       heads on several ranks (tensor parallel): their numbers, and all of them on one rank
calls.py        `AttentionCall`, and the steps of a generation that become one
entries.py      the calls of a module on one text, the `Entry` they become, and what its mask shows
reductions.py   what an entry can keep instead of its matrix
pooling.py      the kept picture, which grows with the text
tokens.py       tokens, words, and the text that a model read
record.py       `Record`: entries by module name, and the questions below; `Check`: a sample of it computed again
answers.py      `Looks`, `Rollout`, `Heads`, `Spans`: what the questions answer, and how it prints
sinks.py        attention sinks: which tokens they are, and what is given to them
rankings.py     how the answers are computed: what a word looks at, what it is made of, which heads do something
passages.py     a passage of a long text: its words, what they give to each other, and what goes elsewhere
written.py      the rows of cross-attention, named after the words that are written
cache.py        which tokens a key–value cache may forget; a press for kvpress
pictures.py     lines, matrix, grid, flow and map
storage.py      records as files
comparison.py   `effect`: what changes without some heads or links
scans.py        `effects`: the same for every head, or for every span of a text, many in one batch
local_models.py models by name, in installed packages and the Hugging Face cache
see.py          what `regard see` runs
"""

from regard.watching.comparison import Effect, effect
from regard.watching.entries import Entry
from regard.watching.links import Link
from regard.watching.record import Record
from regard.watching.scans import Effects, effects
from regard.watching.session import watch

__all__ = ["Effect", "Effects", "Entry", "Link", "Record", "effect", "effects", "watch"]
