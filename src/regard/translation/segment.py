"""`Part`: a piece of a text that is translated in one go, how the model reads it, and what was found for it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor

from regard.support import Float
from regard.translation import sentences
from regard.translation.placeholders import Islands
from regard.translation.search import Hypothesis
from regard.translation.vocabulary import Vocabulary, clean

__all__ = ["Part", "parts"]

Align = Callable[["Part", Hypothesis], Tensor]


@dataclass
class Part:
    """A sentence of a text, or as much of it as a model can take.

    Text without a letter is copied. What the vocabulary cannot spell is taken out, and put back into the answer. A
    text in capitals is read in small letters, and answered in capitals.

    >>> words = Vocabulary.train(["A dog ate.", "The dog ran.", "Un chien court."] * 9, size=40)
    >>> Part.read("THE DOG RAN 😀", "", words).readable, Part.read("1 + 1 = 2", "", words).ids
    ('The dog ran', [])
    """

    text: str
    gap: str  # the white space after it
    words: Vocabulary
    readable: str
    ids: list[int]  # none: it is copied
    islands: Islands
    capitals: bool
    found: list[Hypothesis] = field(default_factory=list)

    @classmethod
    def read(cls, text: str, gap: str, words: Vocabulary) -> Part:
        """See what is to be translated."""
        capitals = text.isupper() and len(text.split()) > 1
        small = clean(text)
        if capitals:
            small = re.sub(r"\bi\b", "I", small.lower())
            small = re.sub(r"[^\W\d_]", lambda first: first.group().upper(), small, count=1)
        islands = Islands.find(small, words.knows)
        readable = islands.readable
        ids = words.encode(readable) if any(letter.isalpha() for letter in readable) else []
        return cls(text, gap, words, readable, ids, islands, capitals)

    def answer(self, rank: int, align: Align) -> str:
        """The text of the hypothesis of this rank, or of the last one there is."""
        if not self.found:
            return self.text
        hypothesis = self.found[min(rank, len(self.found) - 1)]
        text = self.words.decode(hypothesis.tokens)
        text = text.upper() if self.capitals else text
        if not self.islands.places:
            return text
        return self.islands.put_back(text, self.alignment(align).tolist())

    def alignment(self, align: Align) -> Float[Tensor, "words others"]:
        """Words of the best answer × words of the source; what was copied looks at itself."""
        return align(self, self.found[0]) if self.found else torch.eye(len(self.text.split()))

    def names(self) -> tuple[list[str], list[str]]:
        """The words of the best answer and of the source, as the alignment counts them."""
        if not self.found:
            return self.text.split(), self.text.split()
        return self.words.words(self.found[0].tokens)[0], self.words.words(self.ids)[0]


def parts(text: str, words: Vocabulary, longest: int, split: bool) -> list[Part]:
    """A text in parts of at most `longest` tokens: at sentence ends if it is too long (or if asked), else at words."""
    whole = Part.read(text.strip(), text[len(text.rstrip()) :], words)
    if not split and len(whole.ids) <= longest:
        return [whole] if whole.text else []
    found = []
    for sentence in sentences.split(text.lstrip()):
        part = Part.read(sentence.text, sentence.gap, words)
        found += [part] if len(part.ids) <= longest else list(_cut(sentence, words, longest))
    return found


def _cut(sentence: sentences.Sentence, words: Vocabulary, longest: int) -> Iterator[Part]:
    """A sentence that is too long, at its last comma that fits or else at the last word; a word too long, anywhere."""
    rest = sentence.text
    while rest:
        size, tokens = 0, 0
        for word in re.finditer(r"\s*\S+", rest):
            tokens += len(words.encode(word.group()))
            if tokens > longest:
                break
            size = word.end()
        if not size:  # not even a word: token for token, so that nothing is longer than it may be
            size = max(n for n in range(1, longest + 1) if n == 1 or len(words.encode(rest[:n])) <= longest)
        elif size < len(rest):
            size = max((m.end() for m in re.finditer(r"[,;:](?=\s)", rest[:size])), default=size)
        text = rest[:size].strip()
        left = rest[size:]
        gap = left[: len(left) - len(left.lstrip())]
        rest = left.lstrip()
        yield Part.read(text, gap if rest else sentence.gap, words)
