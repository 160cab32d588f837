# %% [markdown]
# # 7. Translation
#
# Encoder, decoder and masks; a small translator that learns while you watch; a real one that knows who "it" is.
#
# The transformer was made for translation. It has two stacks: the *encoder* reads the source sentence, the *decoder*
# writes the target sentence, word by word. We look at the masks they need, train a small one, and then ask a real one
# about the dog and its food.

# %%
import random

import numpy as np
import torch

import regard
from regard import drawing
from regard.translation import search

torch.manual_seed(0)
torch.set_num_threads(1)  # models this small gain nothing from a second core

drawing.architecture(
    regard.TransformerConfig.documents(), source="I am good", target="Je vais bien", title="Encoder and decoder, N = 2"
)

# %% [markdown]
# An encoder layer is the one of chapter 6. A decoder layer has one more part. Its words look
#
# 1. at the words written so far: self-attention, to the left only;
# 2. at the encoder's output: *cross-attention*, with queries from the target and keys and values from the source;
#
# and then comes the feed-forward layer.
#
# ## The mask of the decoder
#
# When the model writes, there is nothing to the right yet. In training there is: the whole target is known, and all its
# places are computed at once, each with the task of predicting the next word. Without a mask, each place could simply
# look at its answer. So every weight to the right of a word is set to zero, by a score of −∞ before the softmax.

# %%
french = ["Le", "chien", "avait", "faim"]
query, key = torch.randn(2, 4, 16).unbind(0)
A = regard.AttentionMatrix(query, key, mask=regard.causal())
A.picture(french, kind="matrix", title="Each word sees itself and what came before")

# %% [markdown]
# Does this hold in a whole model? We change the last word of a target and see at which places the prediction changes.

# %%
model = regard.Transformer(regard.TransformerConfig.tiny(vocabulary=100)).eval()
source, target = torch.randint(1, 99, (1, 7)), torch.randint(1, 99, (1, 6))
changed = target.clone()
changed[0, -1] = (changed[0, -1] + 1) % 98 + 1
with torch.no_grad():
    moved = (model(source, changed) - model(source, target)).abs().amax(-1)[0]
print("change of the prediction at each place:", [f"{m:.1g}" for m in moved.tolist()])

# %% [markdown]
# ## The mask of the padding
#
# For speed a model reads several sentences at once, a *batch*. They have different lengths, but all rows of a tensor
# have the same. Short sentences are filled up with a token that means nothing, the *padding*, and a second mask hides
# it from all words. So a sentence is not affected by what it was batched with:

# %%
pad = model.config.pad
longer = torch.cat([source, torch.full((1, 5), pad)], 1)
with torch.no_grad():
    difference = (model(longer, target) - model(source, target)).abs().max().item()
print(f"largest difference with 5 tokens of padding: {difference:.1e}")
print("without the mask it would be:", end=" ")
with torch.no_grad():
    x = model.embedding(longer) * model.config.width**0.5 + model.positions[: longer.shape[1]]
    states = model.encoder(x)  # the same encoder, and nothing hidden from it
    print(f"{(states[:, :7] - model.encode(source).states).abs().max().item():.1e}")

# %% [markdown]
# ## A small language to learn
#
# Real text takes hours. So we make up a little English and French, just large enough to contain our problem: what is
# "it"? In French one has to know, because *il* stands for masculine words and *elle* for feminine ones. Animals can be
# hungry, food can be rotten, never the other way round.

# %% Make up 4,000 pairs of sentences, and set some aside for the exam
ANIMALS = {"dog": "le chien", "cat": "le chat", "wolf": "le loup", "horse": "le cheval",
           "cow": "la vache", "mouse": "la souris", "hen": "la poule", "goat": "la chèvre"}  # fmt: skip
FOOD = {"bread": "le pain", "cheese": "le fromage", "cake": "le gâteau", "fish": "le poisson",
        "apple": "la pomme", "pear": "la poire", "soup": "la soupe", "meat": "la viande"}  # fmt: skip
VERBS = {"ate": "a mangé", "saw": "a vu", "found": "a trouvé", "took": "a pris", "wanted": "a voulu"}
OF_ANIMALS = {"hungry": "avait faim", "thirsty": "avait soif", "cold": "avait froid", "calm": "était calme"}
OF_FOOD = {"red": "était rouge", "rotten": "était immangeable", "clean": "était propre", "dirty": "était sale"}
UNSEEN = {("cow", "bread"), ("dog", "soup"), ("hen", "cake"), ("wolf", "pear")}  # never together in the training


def pair(choose):
    """An English sentence, its French translation, and whether it belongs to the test."""
    (animal, animal_fr), (verb, verb_fr), (food, food_fr) = (
        choose.choice(list(table.items())) for table in (ANIMALS, VERBS, FOOD)
    )
    english, french = f"the {animal} {verb} the {food}", f"{animal_fr} {verb_fr} {food_fr}"
    if choose.random() < 0.75:
        table, noun = choose.choice([(OF_ANIMALS, animal_fr), (OF_FOOD, food_fr)])
        why, why_fr = choose.choice(list(table.items()))
        english += f" because it was {why}"
        french += f" parce qu' {'il' if noun.startswith('le ') else 'elle'} {why_fr}"
    return english.split(), french.split(), (animal, food) in UNSEEN


choose = random.Random(0)
made = [pair(choose) for _ in range(4000)]
lessons = [(english, french) for english, french, unseen in made if not unseen]
exam = [(english, french) for english, french, unseen in made if unseen]
print(f"{len(lessons):,} sentences to learn from, {len(exam)} to be tested on, for example")
print("  ", " ".join(exam[0][0]), "→", " ".join(exam[0][1]))

# %% [markdown]
# The model sees numbers, so each word gets one. Number 0 ends a sentence; the last one is the padding, with which the
# decoder also begins. (Real translators cut rare words into pieces, the subwords of [chapter 9](9_subwords.py); here
# every word is known.)

# %%
vocabulary = ["</s>", *sorted({word for both in made for side in both[:2] for word in side}), "<pad>"]
number = {word: n for n, word in enumerate(vocabulary)}
END, PAD = 0, len(vocabulary) - 1


def rows(sentences, begin=()):
    """Sentences as rows of numbers, filled up to the same length."""
    ids = [torch.tensor([*begin, *(number[word] for word in words), END]) for words in sentences]
    return torch.nn.utils.rnn.pad_sequence(ids, batch_first=True, padding_value=PAD)


def translate(model, sentences):
    """The most probable word, one after the other, until the sentence ends (a beam of 1: no second thoughts)."""
    found = search(model.eval(), rows(sentences), beam=1)
    return [[vocabulary[n] for n in best[0].tokens] for best in found]


config = regard.TransformerConfig.tiny(len(vocabulary), width=64, hidden=128, positions=32, dropout=0.0)
print(f"{len(vocabulary)} words, {config.parameters:,} parameters")
print(" ".join(exam[0][0]), "→", rows([exam[0][0]]).tolist()[0])

# %% [markdown]
# ## Training, watched
#
# The loss is −log p, where p is the probability that the model gives to the right next word; we take the mean over all
# places. 0 would be certainty. Now and then we translate one sentence that is not in the training, and keep what the
# decoder looks at: the mean of all its heads, while it is given the correct translation.

# %% Train for 125 steps, and look eight times
sample = ["the", "cow", "ate", "the", "bread", "because", "it", "was", "hungry"]
truth = ["la", "vache", "a", "mangé", "le", "pain", "parce", "qu'", "elle", "avait", "faim"]


def cross_attention(model):
    """(French words, English words): at the place where each French word is chosen."""
    with torch.no_grad(), regard.watch(model.eval()) as record:
        model(rows([sample]), rows([truth], begin=[PAD])[:, :-1])
    weights = record.weights(kind="cross")[: len(truth), : len(sample)].numpy()
    return weights / weights.sum(1, keepdims=True)  # without the share of the end, which is no word


torch.manual_seed(0)
student = regard.Transformer(config)
STEPS, BATCH, LOOKS = 125, 32, (0, 10, 20, 30, 40, 60, 90, 125)
optimizer = torch.optim.AdamW(student.parameters(), 4e-3, betas=(0.9, 0.98), weight_decay=0.0)
schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 4e-3, STEPS)
losses, seen = [], {}
for step in range(STEPS + 1):
    if step in LOOKS:
        seen[step] = cross_attention(student)
        said = " ".join(translate(student, [sample])[0][:14])
        print(f"step {step:>3}  loss {losses[-1]:.3f}  {said}" if losses else f"step   0              {said}")
    if step < STEPS:
        batch = [lessons[(step * BATCH + n) % len(lessons)] for n in range(BATCH)]
        loss = student.train().loss(rows([a for a, _ in batch]), rows([b for _, b in batch], begin=[PAD]))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(student.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        losses.append(loss.item())

# %%
drawing.curves({"loss": (np.arange(STEPS), np.array(losses))}, title="What the student still gets wrong")

# %% [markdown]
# First it learns which words are frequent and how a sentence goes on, then which word stands for which. Now the exam:
# animals and food that it never saw together.

# %%
answers = translate(student, [english for english, _ in exam])
right = sum(answer == french for answer, (_, french) in zip(answers, exam, strict=True))
print(f"{right} of {len(exam)} translations are right, word for word")
for why in ("hungry", "rotten"):
    for animal, food in (("cow", "bread"), ("dog", "soup")):
        english = f"the {animal} ate the {food} because it was {why}"
        print(english)
        print("    →", *translate(student, [english.split()])[0])

# %% [markdown]
# ## Attention before, during and after
#
# Rows are French words, columns the English words that they looked at while they were chosen. Nobody told the model
# which word belongs to which. Before training, every word looks almost evenly at all others:

# %%
drawing.matrix(seen[0], truth, sample, title="Cross-attention before training")

# %% [markdown]
# After some steps the first favourites appear:

# %%
drawing.matrix(seen[40], truth, sample, title="After 40 steps")

# %% [markdown]
# At the end most words have one. This is called an *alignment*:

# %%
drawing.matrix(seen[STEPS], truth, sample, title="After training")

# %% [markdown]
# The same in numbers: the favourite of each word, and the *entropy* of the rows, which says how spread out they are (0:
# all on one word; the maximum: spread evenly).

# %%
for step in (0, 40, STEPS):
    weights = seen[step]
    best = [sample[n] for n in weights.argmax(1)]
    spread = -(weights * np.log(weights + 1e-9)).sum(1).mean()
    print(f"after {step} steps: mean entropy of a row {spread:.2f}, of at most {np.log(len(sample)):.2f}")
    print("   ", ", ".join(f"{a}←{b}" for a, b in zip(truth, best, strict=True)))

# %% [markdown]
# It is an alignment of a kind, not a dictionary: look at *parce* and *elle*. A French word looks wherever it finds what
# it needs, because the encoder has already put into each English word something of the others. What did "it" look at in
# the encoder? For three words, the head that ties "it" to them most:

# %%
with torch.no_grad(), regard.watch(student, tokens=[*sample, "</s>"]) as record:
    student.encode(rows([sample]))
for noun in ("cow", "bread", "hungry"):
    best = record.heads("it", noun)[0]
    print(f"it → {noun:<6}  layer {best.layer}, head {best.head}: {best.weight:.0%}")

# %% [markdown]
# ## The translator that comes with regard
#
# Now a real one: trained on real sentences, cut into subwords, with eight encoder and three decoder layers. (How such a
# model is trained: [Train my language pair](../how-to/train_my_language_pair.py).)

# %%
translator = regard.Translator.default()
hungry = translator.translate("A dog ate the food because it was hungry.")
delicious = translator.translate("A dog ate the food because it was delicious.")
print(hungry)
print(delicious)

# %% [markdown]
# One word of the source differs, and with it the pronoun: *il*, the dog; *elle*, the food. The alignment is the mean of
# all heads of all decoder layers:

# %%
delicious.picture(title="What each French word looked at")

# %% [markdown]
# ## A head that finds what "it" stands for
#
# One of the texts this course grew from says that a model understands "it" by relating it to "dog". Models seldom do so
# of their own accord: in an earlier version of this translator, no head of 48 found the right noun much more often than
# a coin would. So one head was taught. In its last training a second loss asked it to look from "it" to the noun that
# it stands for, in sentences of a grammar that knows the noun. ([Teach a head where to
# look](../how-to/teach_a_head_where_to_look.py) does the same in a minute.) The translator says which head that is, and
# how often it is right:

# %%
((name, (layer, head)),) = translator.heads.items()
print(f"layer {layer}, head {head}: {name}")
print(translator.note)

# %%
words = translator.words


def encoded(text):
    """The encoder's attention to an English text."""
    ids = [*words.encode(text), words.end]
    with torch.no_grad(), regard.watch(translator.model, tokens=words.pieces(ids)) as record:
        translator.model.encode(torch.tensor([ids]))
    return record


encoded(hungry.source).picture("lines", word="it", layer=layer, head=head, title="Hungry: “it” is the dog")

# %% [markdown]
# The same head, with one other word at the end of the sentence:

# %%
encoded(delicious.source).picture("lines", word="it", layer=layer, head=head, title="Delicious: “it” is the food")

# %%
for found in (hungry, delicious):
    print(found.source)
    print("   ", encoded(found.source).looks("it", layer=layer, head=head))

# %% [markdown]
# ## Does the head decide?
#
# The picture is convincing, and proves nothing yet: what a head looks at is not why a model says what it says. The test
# is to take the link away, in this head and nowhere else, and to see how the odds of *il* against *elle* change: log
# p(il) − log p(elle), at the place where the pronoun is chosen.

# %%
il, elle = words.encode("qu'il")[-1], words.encode("qu'elle")[-1]
begun = torch.tensor([[words.pad, *words.encode("Un chien a mangé la nourriture parce qu'il")[:-1]]])


def odds(text, noun=None):
    """log p(il) − log p(elle), without the link from "it" to a noun in the taught head."""
    source = torch.tensor([[*words.encode(text), words.end]])
    links = None if noun is None else [regard.Link("it", noun, layers=layer, heads=[head], kind="encoder")]
    options = {"tokenizer": translator.tokenizer, "keep": (), "without": links}
    with torch.no_grad(), regard.watch(translator.model, **options):
        logs = translator.model(source, begun)[0, -1].log_softmax(-1)
    return (logs[il] - logs[elle]).item()


for found, noun in ((hungry, "dog"), (delicious, "food")):
    print(found.source)
    print(f"    all links: {odds(found.source):+.2f}    without it → {noun}: {odds(found.source, noun):+.2f}")

# %% [markdown]
# Without this one link the odds shrink by two fifths in one sentence and by two thirds in the other, and the pronoun
# stays right. So the head has a say, and it is not alone: other heads look at the two nouns too. Over all sentences of
# the test with a right pronoun, cutting the link takes away at least half of the preference in three quarters of them,
# and turns it round in half (`benchmarks/reports/translation-quality.md`).
#
# This was taught as well. In the last training the head was often made to look at one of the two nouns, whichever sense
# would have chosen, and the French to learn from had the pronoun of this noun. A decoder that trusts the head gets
# these sentences right; one that goes round it does not.
#
# [Chapter 8](8_inside_a_real_model.py) goes on from here, with models that nobody taught.

# %% [markdown]
# ## Write it yourself
#
# Write these functions, and run the cell: `check` compares each with ours on random inputs, and says what differs. In
# the terminal, `regard quiz --code 7` does the same with a file.

# %%
from regard.learn import check


def causal_weights(scores):
    """Weights of a decoder: a word sees itself and the words before it. Each row sums to 1.

    scores: (words, words), scaled.
    """
    raise NotImplementedError("write it here")


check(7, causal_weights)

# %%


def cross_attention(target, source, w_q, w_k, w_v):
    """What each word of the target takes from the source: (target words, d_v).

    target: (target words, width), the vectors of the decoder.
    source: (source words, width), the vectors of the encoder.
    w_q, w_k, w_v: the matrices of queries, keys and values.
    """
    raise NotImplementedError("write it here")


check(7, cross_attention)
