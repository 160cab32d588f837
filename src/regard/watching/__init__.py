"""Look into a model while it runs: `watch` gives a `Record` of the attention of every layer.

Read in this order:

session.py      `watch`: the `with` block, and every attention call inside it
own_layers.py   regard's own layers, and what other modules compute with regard
huggingface.py  the same for Hugging Face models; the only file that imports transformers
plain_torch.py  and for modules with code of their own: what they call of torch and of regard
by_hand.py      attention that they compute by hand, known from what is computed
registry.py     who watches which module, and what is replaced meanwhile
modules.py      the modules of a model: their names, and what the class of each says about it
packed.py       attention that is computed part by part, as the one matrix that it is
links.py        `Link`: attention from some words to others, to be cut or steered
changes.py      the heads and links that a model runs without
masks.py        `Pattern` and `LazyMask`: masks as rules, without queries × keys numbers
shards.py       heads on several ranks (tensor parallel): their numbers, and all of them on one rank
calls.py        `AttentionCall`, and the steps of a generation that become one
beams.py        the beams of a search, put together as its hypotheses
passes.py       what all modules computed on one text, and which text a cache belongs to
entries.py      `Entry`: what a reader sees of a module, and what its mask shows
module_calls.py  the calls of a module on one text, which become its entry
reductions.py   what an entry can keep instead of its matrix
pooling.py      the kept picture, which grows with the text
patches.py      `Grid` and `Patch`: the tokens of an image, and where they lie in it
tokens.py       tokens, words, and the text that a model read
image_families.py  how each family of models reads an image
images.py       the images of one pass: which tokens are their patches, in tower and language model
record.py       `Record`: entries by module name, and the questions below; `Check`: a sample of it computed again
answers.py      `Looks`, `Rollout`, `Heads`, `Spans`: what the questions answer, and how it prints
sinks.py        attention sinks: which tokens they are, and what is given to them
rankings.py     how the answers are computed: what a word looks at, what it is made of, which heads do something
roles.py        what each head does, in one phrase
atlas.py        `Atlas`: what every head does, in numbers and in a phrase
passages.py     a passage of a long text: its words, what they give to each other, and what goes elsewhere
written.py      the rows of cross-attention, named after the words that are written
cache.py        which tokens a key–value cache may forget; a press for kvpress
framing.py      a picture of the user's, and which part of it each patch saw
overlays.py     what a word looks at, over the picture
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
from regard.watching.patches import Patch
from regard.watching.record import Record
from regard.watching.scans import Effects, effects
from regard.watching.session import watch

__all__ = ["Effect", "Effects", "Entry", "Link", "Patch", "Record", "effect", "effects", "watch"]
