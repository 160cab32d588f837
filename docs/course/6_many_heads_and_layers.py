# %% [markdown]
# # 6. Many heads and layers
#
# The parts that make a transformer out of attention, each switched off once to see what it is there for.
#
# So far a word made one list of weights and received one weighted sum. Here we put several such *heads* side by side,
# add the parts that stand around them in every transformer, stack the result, and tell it where each word stands.

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
# But both matter: one says *who*, the other says *why*. With two heads, "it" can ask two questions.
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
# Each head has its own W_Q, W_K and W_V, and so its own weights. To keep the cost the same, the heads share the width:
# with a width of 512 and 8 heads, each head works with 64 numbers. The outputs of the heads are put side by side, and
# one more matrix, W_O, mixes them.
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
# A small game. Six cards lie on a table; one carries a mark "first", another one a mark "second". A question looks at
# the cards, and has to name both marked cards, in this order. The player is one attention layer and nothing else: no
# feed-forward layer, one matrix for the answer.

# %%
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
# Both players have the same number of parameters. One head finds one marked card and can only guess the other: a sum of
# both values would not tell which of them came first. With two heads, each looks at a mark of its
# own (① and ② are the marks):

# %%
cards, marks, _ = deal(1)
table = [f"{card}{' ①②'[mark]}" for card, mark in zip(cards[0], marks[0], strict=True)]
with torch.no_grad(), regard.watch(namers[2]) as record:
    namers[2](cards, marks)
drawing.matrix(record["attention"][0, :, 0].numpy(), ["head 0", "head 1"], table, title="Where each head looks")

# %% [markdown]
# ## The feed-forward layer
#
# Once the weights are known, attention only *adds up* values. What has been gathered still has to be worked on. This
# is the job of the feed-forward layer: for each word by itself, the same small network, wider in the middle and bent
# there: `down(relu(up(x)))`.
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


# %%
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
# Without it the layer does better than a guess, because softmax and the norm (next section) bend a little too. But the
# sum of values is no place to compute in.
#
# ## Residuals and norms
#
# Two more parts make a stack of layers trainable. A *residual* adds the input of a part to its output: x + part(x). The
# part only has to say what should change. A *norm* brings each word's numbers back to mean 0 and size 1.
#
# Twelve random layers show what happens without them. For each layer we measure two things: how alike the words have
# become (the mean cosine between two different words; 1 means that all words are the same), and how large their
# numbers are.

# %%
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


print("residual  norm   alike after layer 1, 2, 6, 12      size after layer 12")
for residual in (False, True):
    for norm in (False, True):
        alike, size = through(residual, norm)
        shown = "  ".join(f"{alike[n]:.3f}" for n in (0, 1, 5, 11))
        print(f"{'yes' if residual else 'no':<9} {'yes' if norm else 'no':<6} {shown:<34} {size[-1]:.2g}")

# %% [markdown]
# Without the residual, all words are the same after two layers: each is a mean of all others, and the mean of means
# forgets who was who. With it, they stay apart much longer. Without the norm the numbers shrink to nothing or grow with
# every layer. (This is before training; training has to begin from something that is not yet lost.)
#
# ## The transformer layer
#
# Attention, residual, norm; feed-forward, residual, norm. That is all of it:

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
# The output of a layer has the shape of its input, so layers can be stacked: the second one looks at words that already
# know their neighbours. The paper takes N = 6; one of the documents this course grew from draws N = 2.

# %%
encoder = regard.Encoder(6, width=512, heads=8, hidden=2048).eval()
print("in", tuple(sentence.shape), " out", tuple(encoder(sentence).shape))
for n in (1, 2, 6):
    size = sum(p.numel() for p in encoder.layers[:n].parameters())
    print(f"N = {n}: {size:>12,} parameters")

# %% [markdown]
# ## Positions
#
# Nothing up to here knows the order of the words. Attention works on sets: if the words come in another order, the
# outputs come in that other order, and nothing else changes.

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
# Without positions, the dog that bites and the dog that is bitten are the same vector (up to rounding). The cure is
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
# Before attention, sequences were read by recurrent networks, one word after the other, with a memory that is handed on
# from step to step. The LSTM is the best known of them. The documents say that it has trouble with what lies far back.
# Let us see.
#
# A stream of random letters, one of them marked. At the end: which one was it? For each distance, a new LSTM and a new
# layer of attention (looking to the left only, no positions) learn from scratch, with the same number of updates.

# %%
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
# In the LSTM, the letter and the news about a wrong answer have to travel through every step in between. For attention
# each letter is one step away.
#
# It is not that an LSTM *could not* remember. If it may begin with short distances, it learns the long ones too:

# %%
torch.manual_seed(0)
lessons = iter([distances[n // 100] for n in range(300)])  # a hundred updates for each distance, short ones first
reader = teach(Reader("LSTM"), lambda: stream(32, next(lessons)), updates=300, rate=0.005)
shares = [right_answers(reader, lambda d=distance: stream(256, d)).item() for distance in distances]
print("LSTM, short ones first", *(f"{share:>6.0%}" for share in shares))

# %% [markdown]
# So the claim that holds is the smaller one: at a distance, attention is *easier to train*. A longer run of this
# comparison, up to 512 steps, is in `examples/attention_against_lstm.py`. And attention pays for it: it compares each
# word with each other word, which is what chapter 5 was about.
#
# Two such stacks, one that reads and one that writes, make a translator: [chapter 7](7_translation.md).
