"""Translation: everything around the Transformer that turns text into text, and trains it to.

Read in this order:

training/      `train`, from a recipe to a model; `score`: BLEU and chrF2
searching/     the most probable target, token by token
text/          from a text to segments that a model can read, and back
result.py      `Translation`: how sure the model was, and which source words its words attended to
translator.py  `Translator`: text to text; the shipped model lies in model/
"""

from regard.translation.result import Translation
from regard.translation.searching import search
from regard.translation.searching.definition import Hypothesis
from regard.translation.training.corpus import Score, read_lines, read_pairs, score, score_files
from regard.translation.training.loop import train
from regard.translation.training.recipe import Recipe
from regard.translation.training.vocabulary import Vocabulary
from regard.translation.translator import Translator

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
