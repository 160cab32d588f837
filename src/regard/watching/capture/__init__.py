"""See the attention of a running model: who computes it, with what queries, keys and masks.

Read in this order:

session.py       `watch`: the `with` block, and every attention call inside it
own_layers.py    regard's own layers, and what other modules compute with regard
huggingface.py   the same for Hugging Face models; the only file that imports transformers
plain_torch.py   and for modules with code of their own: what they call of torch and of regard
by_hand.py       attention that they compute by hand, known from what is computed
registry.py      who watches which module, and what is replaced meanwhile
modules.py       the modules of a model: their names, and what the class of each says about it
packed.py        attention that is computed part by part, as the one matrix that it is
links.py         `Link`: attention from some words to others, to be cut or steered
changes.py       the heads and links that a model runs without
masks.py         `Pattern` and `LazyMask`: masks as rules, without queries × keys numbers
shards.py        heads on several ranks (tensor parallel): their numbers, and all of them on one rank
calls.py         `AttentionCall`, and the steps of a generation that become one
beams.py         the beams of a search, put together as its hypotheses
passes.py        what all modules computed on one text, and which text a cache belongs to
module_calls.py  the calls of a module on one text, which become its entry
"""
