"""From text to text: what stands around the Transformer to translate with it.

vocabulary.py   text to token ids and back; marian_vocabulary.py for Marian folders
corpus.py       pairs of sentences from files
search.py       the most probable target, token by token: greedy or with a beam; loops.py guards it
sentences.py    paragraphs into sentences
islands.py      what a vocabulary cannot spell, taken out and put back
part.py         a piece of text that is translated in one go
alignment.py    which source words a target word looked at
translator.py   text in, text out: a translation, of translated.py
nearness.py     lines that say almost the same
score.py        BLEU and chrF2
"""

from regard.translation.result import Translation
from regard.translation.translator import Translator

__all__ = ["Translation", "Translator"]
