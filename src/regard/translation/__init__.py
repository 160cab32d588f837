"""Translation: everything around the Transformer that turns text into text, and trains it to.

Read in this order:
vocabulary.py   text to token ids and back; for training, in more ways than one
segments.py     a text as sentences and segments that a model can read
beam_search.py  the most probable target, token by token, in batches
result.py       `Translation`, and which source words its words attended to
translator.py   `Translator`: text to text; the shipped model lies in model/
corpus.py       pairs of sentences from files, near duplicates, and pairs of ids as padded batches
recipe.py       everything that defines a training
checkpoint.py   a training on disk, and the time it has taken
training.py     `train`: from a recipe to a model
scoring.py      `score`: BLEU and chrF2
"""

from regard.translation.beam_search import Hypothesis, search
from regard.translation.corpus import read_lines, read_pairs
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
