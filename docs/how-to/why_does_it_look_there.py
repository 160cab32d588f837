# %% [markdown]
# # Why does it look there?
#
# A record shows where a head looks. `record.why` shows what made it look there: the score q·k/√d as a sum over
# everything that wrote the query and the key. These are the embeddings, and all heads and feed-forward layers before.
# `record.says` does the same for what the model writes next.
#
# The translator in the package has a head that was taught what "it" stands for. It looks at "dog" here:

# %%
import torch

import regard

torch.set_num_threads(1)  # enough for short texts
translator = regard.Translator.default()
model, vocabulary = translator.model, translator.words
layer, head = next(iter(translator.heads.values()))


def encoded(text):
    ids = vocabulary.encode(text)
    with torch.no_grad(), regard.watch(model, tokenizer=translator.tokenizer) as record:
        model(torch.tensor([[*ids, vocabulary.end]]), torch.tensor([[model.config.start]]))
    return record.at(kind="encoder")


hungry = encoded("A dog ate the food because it was hungry.")
print(hungry.looks("it", layer=layer, head=head))

# %% [markdown]
# ## The score as a sum
#
# Each term is one writer of the query (the word that looks) with one writer of the key (the word looked at). The
# largest come first, and all together are the score:

# %%
why = hungry.why("it", "dog", layer=layer, head=head)
print(why)
(entry,) = hungry.at(layer=layer, head=head).values()
it, dog = (entry.tokens[0].find(word)[0] for word in ("it", "dog"))
print(f"the score in the record: {float(entry.matrix.scaled[0, 0, it, dog]):.2f}")

# %% [markdown]
# `why.query` and `why.key` sum this table by its rows and by its columns:

# %%
print(why.query)

# %% [markdown]
# As a picture, with the writers that add least summed. 4·5 is head 5 of layer 4, and 4·ff its feed-forward layer.

# %%
why.picture()

# %% [markdown]
# ## Why there and not elsewhere
#
# Much of a score is the same for all keys, and the softmax does not see that part. The difference of two scores leaves
# it out. This is what tells the dog from the food, for two sentences that differ in their last word:

# %%
delicious = encoded("A dog ate the food because it was delicious.")
print(delicious.looks("it", layer=layer, head=head))
apart = {
    "hungry": hungry.why("it", "dog", minus="food", layer=layer, head=head),
    "delicious": delicious.why("it", "food", minus="dog", layer=layer, head=head),
}
for difference in apart.values():
    print(difference)

# %% [markdown]
# ## One level down
#
# A head writes what it took from other words. Of the heads that write the query of "it", this one adds most to the
# difference, and this is from where it took that:

# %%
for last, difference in apart.items():
    helper = next(term.name for term in difference.query if " head " in term.name)
    source = difference.source(helper)
    print(source)
    print(f"so {last} reaches it by {helper} with {source.of(last):+.2f} of {difference.score:+.2f}")

# %% [markdown]
# That is a chain of two links with numbers: from the last word to "it" by one head, and from "it" to the noun by the
# head that was taught. The other terms are chains too, of more links: a feed-forward layer writes what it made of all
# that earlier heads brought.
#
# ## What a head says
#
# The same for a logit, or for the difference of two. Here the decoder has written « parce qu' », and what comes next is
# *il* (for the dog) or *elle* (for *la nourriture*). The heads of « cross » look at the English:

# %%
begun = vocabulary.encode("Un chien a mangé la nourriture parce qu'")
il, elle = (vocabulary.encode(f"qu'{word}")[-1] for word in ("il", "elle"))  # after an apostrophe: other tokens
for last in apart:
    source = torch.tensor([[*vocabulary.encode(f"A dog ate the food because it was {last}."), vocabulary.end]])
    with torch.no_grad(), regard.watch(model, tokenizer=translator.tokenizer) as written:
        model(source, torch.tensor([[model.config.start, *begun]]))
    print(f"{last}: {written.says(il, elle)}")

# %% [markdown]
# ## Which heads and links made the answer
#
# `says` is about what is added directly. What depends on a head, by whatever way, is measured by a change: take what it
# computes from the other sentence, and see what the model says then
# ([attention is not cause](attention_is_not_cause.py)). This is the head that was taught, part by part:

# %%
from regard import Activation


def inputs(last):
    source = torch.tensor([[*vocabulary.encode(f"A dog ate the food because it was {last}."), vocabulary.end]])
    return [source, torch.tensor([[model.config.start, *begun]])]


with torch.no_grad(), regard.watch(model, tokenizer=translator.tokenizer) as other:
    model(*inputs("delicious"))
for part in ("output", "query", "key", "value"):
    what = Activation(part, layers=layer, heads=head, kind="encoder")
    changed = regard.effect(model, inputs("hungry"), instead={what: other})
    before, after = (float(x[0, -1, il] - x[0, -1, elle]) for x in (changed.before, changed.after))
    print(f"{what}, from the other sentence: il − elle {before:+.2f} → {after:+.2f}")

# %% [markdown]
# The last word acts by the query of "it", as the sums above say: keys and values of this head hardly depend on it.
# Which of all heads and links of the encoder carry the answer? They are estimated from one gradient, and the largest
# are run:

# %%
answer = regard.effects(
    model,
    inputs("hungry"),
    ("head", "link"),
    answer=(il, elle),
    kind="encoder",
    estimate=True,
    check=16,
    tokenizer=translator.tokenizer,
)
print(answer)
answer.picture(title="Why il, and not elle?")

# %% [markdown]
# An estimate takes the model after the changed head as a straight line, which it is not: the largest true effects here
# are larger than their estimates. What else is left out is said in
# [attention is not cause](attention_is_not_cause.py).

# %% [markdown]
# ## What is frozen, and what that leaves out
#
# The sums are exact because three things stay as they were: the scale of each norm, the weights of attention, and the
# outputs of feed-forward layers. So a term is what its writer adds *directly*. What it does to the scales of norms, to
# where other heads look, and to what later layers compute is left out: a head that matters only through others has a
# small term. To see what depends on it, cut it ([attention is not cause](attention_is_not_cause.py)).
#
# The biases of linear layers and of norms are a term of their own; so is the input of a model that reads vectors. Of a
# word with several tokens, or with several occurrences, the score is the mean. A softcap, a bias by position and the
# mask come after this score. The model runs again on the same inputs, three times. A model is refused if its logits or
# scores are no sums of what its layers wrote: mixtures of experts, unknown norms, a cap on the logits.
