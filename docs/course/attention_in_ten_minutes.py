# %% [markdown]
# # Attention in ten minutes
#
# From one sentence to the whole Transformer, in pictures. Nothing to run, nothing to know beforehand.
#
# *A dog ate the food because it was hungry.*
#
# Who was hungry? You did not stop to think: the dog. Now change one word. *A dog ate the food because it was
# delicious.* Now "it" is the food. The word "it" is the same, and what it means depends on the other words. To
# understand a sentence, each word has to look at the others.
#
# Here is a computer program that does so. It translates English into French. The lines show what it looks at when it
# reads "it"; the thicker a line, the more. (`</s>` is a mark at the end of the sentence.)

# %% “it” looks at “dog”, in the translator that comes with regard
import numpy as np
import torch

import regard
from regard import drawing, textbook

translator = regard.Translator.default()
((layer, head),) = translator.heads.values()  # the head that was taught what "it" stands for


def looks(text):
    """What "it" looks at in a sentence."""
    record = translator.translate(text).watch().at(kind="encoder")
    return record.picture("lines", word="it", layer=layer, head=head, title=text)


looks("A dog ate the food because it was hungry.")

# %% With one other word at the end, “it” looks at “food”
looks("A dog ate the food because it was delicious.")

# %% [markdown]
# The French needs to know it. It has two words for "it": *il* for the dog, *elle* for the food.

# %% Both sentences in French
for text in ("A dog ate the food because it was hungry.", "A dog ate the food because it was delicious."):
    print(translator.translate(text))

# %% [markdown]
# This looking is called **attention**. Almost every program of today that writes or translates is built from it. How
# does it work? With nothing but multiplication and addition, and all of it fits on this page. (Above each picture
# stands a line. It opens to show the code that drew the picture, from numbers that were computed and not made up. You
# can leave it closed.)
#
# ## 1. A word is a row of numbers
#
# A computer cannot look at words; it has numbers. So each word gets a row of them. In a real program there are hundreds
# of numbers in a row, and nobody can say what each one stands for. For this page we write a row by hand, with five
# numbers that have names. "dog" is an animal, "food" is food, and "it" is hardly anything:

# %% What each word is: one row for each word, a darker blue for a larger number
dog = regard.steps(*textbook.dog())
meanings = ("animal", "food", "action", "link", "feeling")
drawing.tables([drawing.Table(dog.keys, "keys", rows=dog.words, columns=meanings)])

# %% [markdown]
# A row like this is called the **key** of a word: what the word can be found by.
#
# ## 2. A word asks
#
# Each word has a second row of numbers: what it is looking for. This is its **query**. "it" looks for an animal, and a
# little for food, because animals and food are what "it" may stand for in such a sentence.

# %% What each word asks for
drawing.tables([drawing.Table(dog.queries, "queries", rows=dog.words, columns=meanings)])

# %% [markdown]
# In a real program nobody writes these tables. The program learns them from millions of examples: it guesses, is told
# the right answer, and changes its numbers a little, again and again.
#
# ## 3. The question meets the answers
#
# How well does "dog" answer the question of "it"? Multiply the two rows number by number and add up. The result is
# large if both are large in the same places. It is called the **score**.

# %% The score of “it” with “dog”
it, animal = dog.words.index("it"), dog.words.index("dog")
drawing.dot(dog.queries[it], dog.keys[animal], ("it", "dog"))

# %% [markdown]
# "it" gets such a score with every word of the sentence, itself included.

# %% The scores of “it” with all words
drawing.bars({word: float(score) for word, score in zip(dog.words, dog.scores[it], strict=True)})

# %% [markdown]
# ## 4. Scores become shares
#
# "it" has 100 % of attention to give. A rule turns its scores into shares: a higher score, a larger share, and a lead
# of a few points takes most of it. (The rule is called *softmax*. First the scores are divided by a fixed number, so
# that they do not grow with the length of the rows.) These shares are the **attention weights**, and every word has a
# row of them:

# %% The attention weights: who looks at whom. Each row adds up to 100 %
dog.as_matrix().picture(dog.words, "matrix")

# %% [markdown]
# Find the row of "it": most of it goes to "dog". This table is the *attention matrix*. For a book it has billions of
# numbers; that is why there are libraries that compute with it without ever storing it, such as the one that drew this
# page.
#
# ## 5. The word takes what it found
#
# Each word has a third row of numbers: what it gives to those that look at it. This is its **value**. Now "it"
# collects: from every word its value, as much of it as the share says. The sum is the new row of "it". Before, it said
# nothing; now it says mostly "dog".

# %% The new “it” is a mixture, and mostly “dog”
drawing.mixture(dog.weights, dog.values, dog.words, pick="it")

# %% [markdown]
# That is all. Question, answers, shares, mixture: every word does it, all at the same time, and every word comes out
# knowing something of the others. Here are all steps in one picture, for the word "I" in "I am hungry":

# %% All of it for one word, from top to bottom
hungry = regard.steps(*textbook.i_am_hungry())
drawing.schematic(
    x=hungry.x, queries=hungry.queries, keys=hungry.keys, values=hungry.values, words=hungry.words, word="I"
)

# %% [markdown]
# ## 6. Many questions at once
#
# "it" may want to know two things: *who* was it, and *why* did it happen? With one row of shares it has to choose. So a
# word asks several questions side by side. Each is called a **head**, with queries, keys and values of its own. One
# head may look at the dog, another one at "hungry":

# %% Two heads: one asks who, the other one why
x, w_q, w_k, w_v, words = textbook.dog()
one, two = w_q.copy(), w_q.copy()
one[:, [1, 2, 3, 4]] = 0  # asks for animals only
two[:, [0, 1, 2, 3]] = 0  # asks for feelings only
heads = np.stack([regard.steps(x, 2 * w, w_k, w_v).weights for w in (one, two)])
drawing.lines(heads, words, words, pick="it")

# %% [markdown]
# ## 7. A layer, and many of them
#
# After the heads, each word thinks for itself: a small calculation turns what it has collected into something new (the
# *feed-forward* part). Around both parts stand two simple helpers. One adds what the word was before, so that nothing
# is lost; the other keeps the numbers from growing. Together they are a **layer**:

# %% One layer: attention, then feed-forward
base = regard.TransformerConfig.base()
drawing.architecture(base, "layer")

# %% [markdown]
# The words that come out are as many as went in, so another layer can follow, and another. In the second layer "hungry"
# can ask a question about a dog that is already an "it". Six layers, one above the other, were the first Transformer's
# reader:

# %% The encoder: six layers that read
drawing.architecture(base, "encoder", source="A dog ate the food", unfold=False)

# %% [markdown]
# One thing is missing. Nothing so far knows the order of the words: "dog bites man" would be the same as "man bites
# dog". So each word is also given numbers that say where it stands.
#
# ## 8. Writing
#
# To translate, a second stack of layers writes the French, one word at a time. Each new word looks at the French
# written so far, and at all of the English. It cannot look at French words that are not written yet. In the matrix they
# are left out. (The numbers of this example are random.)

# %% While writing, a word sees only what came before it
french = regard.steps(*textbook.sentence("Un chien a mangé la nourriture"))
A = regard.AttentionMatrix(*(torch.from_numpy(each) for each in (french.queries, french.keys)), mask=regard.causal())
A.picture(french.words, "matrix")

# %% [markdown]
# A reader, a writer, and the writer looks at what the reader has understood. This is the whole **Transformer**:

# %% The Transformer: on the left it reads, on the right it writes
drawing.architecture(regard.TransformerConfig.documents(), source="I am good", target="Je vais bien")

# %% [markdown]
# And here is what a real one looked at while it wrote. Each French word looks at the English words that it needs:

# %% French words, and the English words that they looked at
delicious = translator.translate("A dog ate the food because it was delicious.")
delicious.picture()

# %% [markdown]
# A program that chats with you is the right half alone. It has no reader; it reads your question as the beginning of
# its own text, and goes on, one word at a time.
#
# ## 9. Is that why it says so?
#
# The pictures are convincing. But a line shows where a program looked, not why it wrote what it wrote. There is a way
# to find out: cut the line, and see what changes. Our translator prefers *il* to *elle* when the dog is hungry. Without
# the one line from "it" to "dog", in the one head of the first picture, it prefers *il* less:

# %% How much the translator prefers “il” to “elle”, with the line from “it” to “dog” and without
spelled = translator.words
il, elle = spelled.encode("qu'il")[-1], spelled.encode("qu'elle")[-1]
begun = torch.tensor([[spelled.pad, *spelled.encode("Un chien a mangé la nourriture parce qu'il")[:-1]]])
source = torch.tensor([[*spelled.encode("A dog ate the food because it was hungry."), spelled.end]])
odds = {}
for name, links in {
    "with the line": None,
    "without it": [regard.Link("it", "dog", layers=layer, heads=[head], kind="encoder")],
}.items():
    with torch.no_grad(), regard.watch(translator.model, tokenizer=translator.tokenizer, keep=(), without=links):
        logs = translator.model(source, begun)[0, -1].log_softmax(-1)
    odds[name] = (logs[il] - logs[elle]).exp().item()
drawing.bars(odds, caption="How many times as probable “il” is as “elle”.")

# %% [markdown]
# So this line matters, and it is not the only thing that matters: *il* still wins. Other heads look at the dog too.
# Whoever shows you a picture of attention should also show you this second picture.
#
# ## That was all of it
#
# - A word is a row of numbers. It asks (query), is found (key) and gives (value).
# - Scores become shares, and the shares mix the values: attention.
# - Several heads, and a small calculation for each word: a layer. Many layers that read, many that write: a
#   Transformer.
#
# Everything else is size: more numbers in a row, more heads, more layers, more text to learn from. If you want to
# compute it yourself, the course begins with [words as vectors](1_words_as_vectors.py). It needs Python and matrix
# products, nothing more.
