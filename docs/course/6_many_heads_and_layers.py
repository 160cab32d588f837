# %% [markdown]
# # 6. Many heads and layers
#
# The parts that turn attention into a transformer, each switched off once to see what it is for.
#
# So far each word had one row of weights and received one weighted sum. Here we put several such *heads* side by side,
# add the parts that surround them, stack the result, and tell it the position of each word. A model that is made of
# such layers is called a **transformer**.

# %%
import torch
from torch import nn
from torch.nn import functional

import regard
from regard import drawing
from regard.nn import sinusoids

torch.manual_seed(0)
torch.set_num_threads(1)  # models this small gain nothing from a second core
words = ["A", "dog", "ate", "the", "food", "because", "it", "was", "hungry"]

# %% [markdown]
# ## Several heads
#
# A row of attention weights adds up to one. If "it" gives most of its attention to "dog", little is left for "hungry".
# But both matter: one says *who*, the other says *why*. With two heads, "it" can ask two questions. This is called
# **multi-head attention**: several scaled dot-product attentions side by side, each with matrices of its own.
#
# `regard.textbook.dog()` is this sentence with meanings written by hand: what each word is, and what it asks for. Here
# we let one head ask for animals only, and another one for feelings only. (In a real model nobody writes this down: it
# is learned.)

# %%
x, w_q, w_k, w_v, _ = regard.textbook.dog()
kinds = ["animal", "food", "action", "link", "feeling"]


def ask_for(kind):
    """The same questions, but only one kind of thing may be asked for."""
    only = w_q.copy()
    only[:, [n for n, name in enumerate(kinds) if name != kind]] = 0
    return 2 * only


two = [regard.steps(x, ask_for(kind), w_k, w_v, words=words) for kind in ("animal", "feeling")]
weights = torch.stack([torch.tensor(head.weights) for head in two])
drawing.lines(weights.numpy(), words, words, pick="it", title="Two heads: one asks who, one asks why")

# %% [markdown]
# Each head has its own $W_Q$, $W_K$ and $W_V$, and so its own weights. To keep the cost the same, the heads divide the
# width among them: with a width of 512 and 8 heads, each head works with 64 numbers. The outputs $Z_1, \dots, Z_8$ of
# the heads are put side by side, and one more matrix, $W_O$, mixes them:
#
# $$
# \operatorname{MultiHead}(X) = [\,Z_1 \;\; Z_2 \;\; \dots \;\; Z_8\,]\,W_O
# $$
#
# `regard.MultiHeadAttention` does this. Here is the same thing by hand, from the layer's own matrices.

# %%
layer = regard.MultiHeadAttention(512, heads=8)
sentence = torch.randn(9, 512)

projected = layer.projection(sentence)  # queries, keys and values, in one product
query, key, value = (part.view(9, 8, 64).transpose(0, 1) for part in projected.split(512, -1))
heads = torch.softmax(query @ key.mT / 64**0.5, -1) @ value  # eight times softmax(QKᵀ/√d) V
by_hand = layer.output(heads.transpose(0, 1).reshape(9, 512))

print("queries of all heads ", tuple(query.shape))
print("outputs of all heads ", tuple(heads.shape))
print("put side by side     ", tuple(by_hand.shape))
print("largest difference from the layer:", f"{(by_hand - layer(sentence)).abs().max().item():.1e}")
for count in (1, 8, 16):
    size = sum(p.numel() for p in regard.MultiHeadAttention(512, heads=count).parameters())
    print(f"{count:>2} heads: {size:,} parameters")

# %% [markdown]
# ### What a second head is good for
#
# A small game. Six cards lie on a table; one is marked "first", another one "second". A question looks at the cards and
# has to name both marked cards, in this order. The player is one attention layer and nothing else: no feed-forward
# layer, only one matrix for the answer.

# %% Deal the cards, and train a player with one head and a player with two
VALUES, CARDS = 7, 6


def deal(games):
    """Cards and marks (games, 6), and the two marked cards in order (games, 2)."""
    cards = torch.randint(VALUES, (games, CARDS))
    where = torch.rand(games, CARDS).argsort(1)[:, :2]
    marks = torch.zeros_like(cards).scatter(1, where, torch.tensor([[1, 2]]).expand(games, 2))
    return cards, marks, cards.gather(1, where)


class Namer(nn.Module):
    """A question that looks at the cards."""

    def __init__(self, heads, width=32):
        super().__init__()
        self.cards, self.marks = nn.Embedding(VALUES, width), nn.Embedding(3, width)
        self.question = nn.Parameter(torch.randn(1, 1, width))
        self.attention = regard.MultiHeadAttention(width, heads)
        self.answer = nn.Linear(width, 2 * VALUES)

    def forward(self, cards, marks):
        """For both marked cards, a number for each value that they may have: the greatest is the answer."""
        table = self.cards(cards) + self.marks(marks)
        seen = self.attention(self.question.expand(len(cards), 1, -1), table)
        return self.answer(seen[:, 0]).view(-1, 2, VALUES)


def teach(model, lesson, updates, rate):
    """The same short training for every model of this chapter."""
    optimizer = torch.optim.AdamW(model.parameters(), rate)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, updates)
    for _ in range(updates):
        *inputs, right = lesson()
        loss = functional.cross_entropy(model(*inputs).flatten(0, -2), right.flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    return model.eval()


@torch.no_grad()
def right_answers(model, lesson):
    """The share of right answers, for each thing that was asked."""
    *inputs, right = lesson()
    return (model(*inputs).argmax(-1) == right).float().mean(0)


namers = {}
for count in (1, 2):
    torch.manual_seed(0)
    namers[count] = teach(Namer(count), lambda: deal(128), updates=300, rate=0.01)
    first, second = right_answers(namers[count], lambda: deal(4096)).tolist()
    size = sum(p.numel() for p in namers[count].parameters())
    print(f"{count} head{'s' * (count > 1)}, {size:,} parameters: first card {first:.0%} right, second {second:.0%}")
print(f"a guess: {1 / VALUES:.0%}")

# %% [markdown]
# Both players have the same number of parameters (numbers to learn). One head finds one marked card and can only guess
# the other: a sum of both values would not tell which of them came first. With two heads, each looks at a mark of its
# own (① and ② are the marks). `regard.watch` records the attention of a model while it runs:

# %%
cards, marks, _ = deal(1)
table = [f"{card}{' ①②'[mark]}" for card, mark in zip(cards[0], marks[0], strict=True)]
with torch.no_grad(), regard.watch(namers[2]) as record:
    namers[2](cards, marks)
drawing.matrix(record["attention"][0, :, 0].numpy(), ["head 0", "head 1"], table, title="Where each head looks")

# %% [markdown]
# ## The feed-forward layer
#
# Once the weights are known, attention only *adds up* values. Something still has to be computed from the sum. That is
# the task of the feed-forward layer, the same for each word: a matrix `up` makes the vector wider, *relu* replaces
# every negative number by 0, and a matrix `down` makes it as wide as before: `down(relu(up(x)))`. What relu does cannot
# be done by matrix products and sums alone: it is called *nonlinear*.
#
# It mixes no words. Change one word, and only that word's output changes:

# %%
feed_forward = regard.FeedForward(512, 2048)
changed = sentence.clone()
changed[6] += 1
moved = (feed_forward(changed) - feed_forward(sentence)).abs().amax(-1)
print("feed-forward layer:", [word for word, change in zip(words, moved, strict=True) if change > 1e-6])
moved = (layer(changed) - layer(sentence)).abs().amax(-1)
print("attention layer:   ", [word for word, change in zip(words, moved, strict=True) if change > 1e-6])

# %% [markdown]
# Now the game with a harder question: the *difference* of the two marked cards, modulo seven. It is not enough to find
# the cards; something has to be computed from both. We play with a whole `regard.EncoderLayer`, and with the same layer
# whose feed-forward part gives zero.


# %% Train a player with the feed-forward part and a player without
class Nothing(nn.Module):
    """What stands in for a part that is switched off."""

    def forward(self, x):
        """Zero, of the same shape."""
        return torch.zeros_like(x)


class Subtracter(nn.Module):
    """The question is one more word of the set."""

    def __init__(self, on, width=64):
        super().__init__()
        self.cards, self.marks = nn.Embedding(VALUES, width), nn.Embedding(3, width)
        self.question = nn.Parameter(torch.randn(1, 1, width))
        self.layer = regard.EncoderLayer(width, heads=2, hidden=2 * width)
        if not on:
            self.layer.feed_forward = Nothing()
        self.answer = nn.Linear(width, VALUES)

    def forward(self, cards, marks):
        """A number for each possible difference."""
        table = self.cards(cards) + self.marks(marks)
        both = torch.cat([self.question.expand(len(cards), 1, -1), table], 1)
        return self.answer(self.layer(both)[:, 0])


def difference(games):
    """The same cards, another question."""
    cards, marks, both = deal(games)
    return cards, marks, (both[:, 0] - both[:, 1]) % VALUES


for on in (False, True):
    torch.manual_seed(0)
    subtracter = teach(Subtracter(on), lambda: difference(128), updates=250, rate=0.005)
    share = right_answers(subtracter, lambda: difference(4096)).item()
    print(f"feed-forward {'on' if on else 'off':>3}: {share:.0%} right")
print(f"a guess: {1 / VALUES:.0%}")

# %% [markdown]
# Without the feed-forward part the layer does better than a guess, because the softmax and the norm (next section) are
# nonlinear too. But it is far from right: a sum of values is not enough to compute with.
#
# ## Residuals and norms
#
# Two more parts make a stack of layers trainable. A *residual* adds the input of a part to its output: x + part(x). The
# part only has to compute what should change. A *norm* brings each word's numbers back to mean 0 and spread 1.
#
# Twelve random layers show what happens without them. For each layer we measure two things: how alike the words have
# become (the mean cosine between two different words; 1 means that all words are the same), and how large their
# numbers are.

# %% Send 16 words through 12 random layers, with and without residual and norm
torch.manual_seed(0)
parts = [part for _ in range(12) for part in (regard.MultiHeadAttention(128, 4), regard.FeedForward(128, 512))]
start = torch.randn(16, 128)


@torch.no_grad()
def through(residual, norm):
    """How alike 16 words are, and how large, after each of 12 layers."""
    x, alike, size = start, [], []
    for n, part in enumerate(parts):
        x = x + part(x) if residual else part(x)
        x = functional.layer_norm(x, (128,)) if norm else x
        if n % 2:  # attention and feed-forward make a layer
            unit = functional.normalize(x, dim=-1)
            alike.append(((unit @ unit.mT).sum() - 16).item() / (16 * 15))
            size.append(x.std().item())
    return alike, size


print("residual  norm   alike after 1, 2, 6, 12 layers     size after 12 layers")
for residual in (False, True):
    for norm in (False, True):
        alike, size = through(residual, norm)
        shown = "  ".join(f"{alike[n]:.3f}" for n in (0, 1, 5, 11))
        print(f"{'yes' if residual else 'no':<9} {'yes' if norm else 'no':<6} {shown:<34} {size[-1]:.2g}")

# %% [markdown]
# Without the residual, all words are the same after two layers: each becomes a mean of all words, and in a mean of
# means the differences between the words are lost. With it, they stay apart much longer. Without the norm the numbers
# shrink to nothing or grow with every layer. (This is before training; but training needs a start at which the words
# can still be told apart.)
#
# ## The transformer layer
#
# Attention, residual, norm; feed-forward, residual, norm. That is the whole layer:

# %%
encoder_layer = regard.EncoderLayer(512, heads=8, hidden=2048).eval()


def by_hand(x):
    """The layer, part by part."""
    x = encoder_layer.attention_norm(x + encoder_layer.attention(x))
    return encoder_layer.feed_forward_norm(x + encoder_layer.feed_forward(x))


print(f"largest difference: {(by_hand(sentence) - encoder_layer(sentence)).abs().max().item():.1e}")
base = regard.TransformerConfig.base()
drawing.architecture(base, "layer", title="One layer of the encoder")

# %% [markdown]
# ## N of them
#
# The output of a layer has the shape of its input, so layers can be stacked: the second one gets words that already
# contain something of their neighbours. Such a stack of N identical layers (some texts call each of them an encoder) is
# the **encoder**. The paper *Attention Is All You Need* takes N = 6:

# %%
drawing.architecture(base, "encoder", source="I am good", unfold=False, title="A stack of N = 6 encoder layers")

# %% [markdown]
# The layers are identical in shape, but each learns its own numbers, so each of them adds to the parameters:

# %%
encoder = regard.Encoder(6, width=512, heads=8, hidden=2048).eval()
print("in", tuple(sentence.shape), " out", tuple(encoder(sentence).shape))
for n in (1, 2, 6):
    size = sum(p.numel() for p in encoder.layers[:n].parameters())
    print(f"N = {n}: {size:>12,} parameters")

# %% [markdown]
# ## Positions
#
# So far nothing depends on the order of the words. Attention works on sets: if the words come in another order, the
# outputs come in that order too, and nothing else changes.

# %%
embeddings = {word: torch.randn(512) for word in ("dog", "bites", "man")}
one, other = ["dog", "bites", "man"], ["man", "bites", "dog"]


@torch.no_grad()
def dog_in(text, places=None):
    """The vector of "dog" after six layers."""
    x = torch.stack([embeddings[word] for word in text])
    x = x if places is None else x + places[: len(text)]
    return encoder(x)[text.index("dog")]


print(f"without positions: {(dog_in(one) - dog_in(other)).abs().max().item():.1e}")
places = sinusoids(50, 512)
print(f"with positions:    {(dog_in(one, places) - dog_in(other, places)).abs().max().item():.2f}")

# %% [markdown]
# Without positions, the dog that bites and the dog that is bitten have the same vector (up to rounding). The remedy is
# simple: to each embedding, add a vector that depends only on the place. The paper takes sines and cosines of many
# wavelengths. Each place then has a pattern of its own,

# %%
drawing.curves(
    {f"number {n}": (torch.arange(50).numpy(), places[:, n].numpy()) for n in (0, 40, 80)},
    same_scale=True,
    title="Three of the 512 numbers that say where a word stands",
    caption="To the right: the place in the text.",
)

# %% [markdown]
# and the product of two patterns depends only on how far apart they are. A head can therefore learn to look "two words
# back", wherever it stands:

# %%
for place in (5, 20, 40):
    products = [(places[place] @ places[place - back]).item() for back in range(5)]
    print(f"place {place:>2} with the one 0, 1, 2, 3, 4 back: ", "  ".join(f"{p:.1f}" for p in products))

# %% [markdown]
# ## Against the LSTM
#
# Before attention, sequences were read by *recurrent* models, one word after the other, with a memory that is passed on
# from step to step. The LSTM (long short-term memory) is the best known of them. The texts this course grew from say
# that it has trouble with what lies far back. Let us see.
#
# The task: in a stream of random letters one is marked, and at the end the model has to say which one it was. For each
# distance, a new LSTM and a new layer of attention (looking to the left only, no positions) learn from scratch, with
# the same number of updates.

# %% Train an LSTM and a layer of attention for each distance
LETTERS, WIDTH = 16, 64


def stream(streams, distance):
    """Letters and signs (streams, steps), and the letter that was marked `distance` steps before the end."""
    letters = torch.randint(LETTERS, (streams, distance + 9))
    signs = torch.zeros_like(letters)
    signs[:, -distance - 1], signs[:, -1] = 1, 2  # the mark, and the question
    return letters, signs, letters[:, -distance - 1]


class Reader(nn.Module):
    """Letters and signs as vectors, a body that reads from left to right, and the answer at the end."""

    def __init__(self, name):
        super().__init__()
        self.letters, self.signs = nn.Embedding(LETTERS, WIDTH), nn.Embedding(3, WIDTH)
        if name == "LSTM":
            self.body = nn.LSTM(WIDTH, WIDTH, batch_first=True)
            nn.init.ones_(self.body.bias_hh_l0[WIDTH : 2 * WIDTH])  # it begins with open gates, which helps it
        else:
            self.body = regard.Decoder(1, WIDTH, heads=1, hidden=2 * WIDTH, cross=False)
        self.answer = nn.Linear(WIDTH, LETTERS)

    def forward(self, letters, signs):
        """A number for each letter."""
        read = self.body(self.letters(letters) + self.signs(signs))
        states = read[0] if isinstance(read, tuple) else read
        return self.answer(states[:, -1])


distances = (8, 32, 64)
print("steps ago             ", *(f"{distance:>6}" for distance in distances))
for name in ("attention", "LSTM"):
    shares = []
    for distance in distances:
        torch.manual_seed(distance)
        reader = teach(Reader(name), lambda d=distance: stream(32, d), updates=100, rate=0.005)
        shares.append(right_answers(reader, lambda d=distance: stream(256, d)).item())
    print(f"{name:<22}", *(f"{share:>6.0%}" for share in shares))
print(f"a guess: {1 / LETTERS:.0%}")

# %% [markdown]
# In the LSTM, the letter and the gradient of a wrong answer have to pass through every step in between. With attention
# each letter is one step away.
#
# It is not that an LSTM *cannot* remember. If it starts with short distances, it learns the long ones too:

# %%
torch.manual_seed(0)
lessons = iter([distances[n // 100] for n in range(300)])  # a hundred updates for each distance, short ones first
reader = teach(Reader("LSTM"), lambda: stream(32, next(lessons)), updates=300, rate=0.005)
shares = [right_answers(reader, lambda d=distance: stream(256, d)).item() for distance in distances]
print("LSTM, short ones first", *(f"{share:>6.0%}" for share in shares))

# %% [markdown]
# So a weaker claim holds: over a distance, attention is *easier to train*. A longer run of this comparison, up to 512
# steps, is in `examples/attention_against_lstm.py`. And it has its price: every word is compared with every other word,
# as chapter 5 counted.
#
# ## What we have
#
# - Multi-head attention: several attentions side by side, each with its own matrices, mixed by $W_O$.
# - A transformer layer is attention, residual, norm; feed-forward, residual, norm. An encoder is a stack of N of them,
#   N = 6 in the paper.
# - Positions are added to the embeddings; without them a sentence is a set of words.
#
# Two such stacks, one that reads and one that writes, make a translator: [chapter 7](7_translation.py).

# %% [markdown]
# ## Write it yourself
#
# Write these functions, and run the cell: `check` compares each with ours on random inputs, and says what differs. In
# the terminal, `regard quiz --code 6` does the same with a file.

# %%
import numpy as np  # noqa: F401 for your code

from regard.learn import check


def multi_head(x, w_q, w_k, w_v, w_o, heads):
    """Multi-head attention: (words, width).

    x: (words, width).
    w_q, w_k, w_v, w_o: (width, width). The first head has the first width / heads columns of w_q, w_k and w_v,
        the second head the next, and so on. The outputs of the heads are joined in this order, then multiplied by w_o.
    heads: how many.
    """
    raise NotImplementedError("write it here")


check(6, multi_head)

# %%


def encoder_layer(x, attention, feed_forward):
    """A Transformer layer: attention, residual, norm; then feed-forward, residual, norm.

    x: (words, width).
    attention, feed_forward: functions of such an array that return one of the same shape.

    The norm gives each word a mean of 0 and a variance of 1: it adds 1e-5 to the variance and has no weights.
    """
    raise NotImplementedError("write it here")


check(6, encoder_layer)
