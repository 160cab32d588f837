"""Translation: everything around the Transformer that turns text into text, and trains it to.

Read in this order:
vocabulary.py   text to token ids and back; for training, in more ways than one
structure.py    the lines of a text, what begins them, what is no prose; its sentences
facts.py        what must come out as it went in: numbers, addresses, code, markup
typography.py   plain French as it is printed
placeholders.py what is removed before a model reads a text, and put back by the alignment
segments.py     a text as segments that a model can read, with their facts hidden
hypotheses.py   a hypothesis, its score and its longest length; how a beam grows
engine.py       CTranslate2 with our weights, for the search on a CPU
static_search.py the search on a GPU, in fixed shapes
beam_search.py  the most probable target, token by token, in batches
language.py     whether a text looks like English
confidence.py   how sure a translation is
result.py       `Translation`, and which source words its words attended to
translator.py   `Translator`: text to text; the shipped model lies in model/
corpus.py       pairs of sentences from files, near duplicates, and pairs of ids as padded batches
recipe.py       everything that defines a training
checkpoint.py   a training on disk, and the time it has taken
processes.py    the processes of a training that torchrun started, and what each one does
training.py     `train`: from a recipe to a model
scoring.py      `score`: BLEU and chrF2
"""

from regard.translation.beam_search import search
from regard.translation.corpus import read_lines, read_pairs
from regard.translation.hypotheses import Hypothesis
from regard.translation.recipe import Recipe
from regard.translation.result import Translation
from regard.translation.scoring import Score, score, score_files
from regard.translation.training import train
from regard.translation.translator import Translator
from regard.translation.vocabulary import Vocabulary

__all__ = [
    "Hypothesis",
    "Recipe",
    "Score",
    "Translation",
    "Translator",
    "Vocabulary",
    "read_lines",
    "read_pairs",
    "score",
    "score_files",
    "search",
    "train",
]
