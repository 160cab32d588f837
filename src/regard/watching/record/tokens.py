"""Tokens and words: `Tokens` of one sequence, the `Vocabulary` they are read with, and the `Text` of one pass."""

from __future__ import annotations

import functools
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple, Protocol, overload, runtime_checkable
from weakref import WeakValueDictionary

import torch
from torch import Tensor

from regard.drawing.viewer import readable
from regard.errors import InputError
from regard.support import Bool
from regard.watching.images.families import Grid, Patch, find_patch, patch_names

__all__ = ["Detached", "Place", "Rows", "Sides", "Text", "Tokens", "Vocabulary", "Word"]

# A word or several in a row, or one occurrence, in brackets, among the words around it: "the old [dog] slept"; the
# number of a token, or a range of tokens; a patch of an image.
Place = str | int | range | Patch
_STARTS = ("Ġ", "▁")  # how byte-level and SentencePiece tokens mark a preceding space
_PAD = "[PAD]"
_PIECES = re.compile(r"\w+|[^\w\s]")
_MARKED = re.compile(r"\[([^\[\]]+)\]")
_BLANKS = str.maketrans({"\n": "↵", "\r": "", "\t": "⇥", " ": "␣", "Ċ": "↵", "Ġ": "␣", "▁": "␣"})
_BLANK = frozenset("↵⇥␣")
_LISTED, _AROUND = 8, (2, 3, 5, 8, 12)  # occurrences that an error lists; words on a side that tell them apart


@dataclass(frozen=True)
class Word:
    """A word and the tokens `start:stop` that spell it."""

    text: str
    start: int
    stop: int

    @property
    def tokens(self) -> range:
        """Its positions."""
        return range(self.start, self.stop)


class Tokens(Sequence[str]):
    """Tokens as the tokenizer wrote them, and the words they make.

    >>> tokens = Tokens(["▁A", "▁hun", "gry", "▁dog", "."])
    >>> [word.text for word in tokens.words]
    ['A', 'hungry', 'dog', '.']
    >>> tokens.find("hungry dog")
    range(1, 4)
    """

    def __init__(
        self,
        pieces: Sequence[str],
        special: Sequence[str] = (),
        tokenizer: Any = None,
        words: Sequence[Word] | None = None,
        *,
        named: bool = True,
        grids: Sequence[Grid] = (),
        unplaced: str = "",
        first: int = 0,
        whole: Tokens | None = None,
    ):
        self.pieces = tuple(pieces)
        self.first = first  # its number in the text, of which these may be the last tokens
        self._whole = whole  # that text, where it is known
        self.named = named  # False: the words are unknown, and tokens are called by their number
        self.grids = tuple(grids)  # of the images among the tokens
        self.unplaced = unplaced  # why there are none, though the model was shown an image
        self._special = frozenset(special)
        self._tokenizer = tokenizer
        self._patches = dict(patch_names(self.grids))
        self._places: Sequence[int] | None = None  # in a padded text, of those that are no padding
        self.words = self._group_words() if words is None else tuple(words)

    @classmethod
    def numbered(cls, length: int) -> Tokens:
        """Tokens whose words are unknown."""
        return _numbered(length)

    def with_images(self, grids: Sequence[Grid], unplaced: str = "") -> Tokens:
        """The same tokens, some of which are patches of images: a patch is a word, called by its row and column."""
        special = tuple(self._special)
        return Tokens(self.pieces, special, self._tokenizer, named=self.named, grids=grids, unplaced=unplaced)

    def last(self, count: int) -> Tokens:
        """The last so many tokens; numbers still count from the beginning of the text."""
        start = len(self) - count
        words = [Word(w.text, max(w.start - start, 0), w.stop - start) for w in self.words if w.stop > start]
        grids = [grid.shifted(-start) for grid in self.grids if int(grid.tokens[grid.tokens >= 0].min()) >= start]
        special, first = tuple(self._special), self.first + start
        return Tokens(
            self.pieces[start:], special, self._tokenizer, words, named=self.named, grids=grids, first=first, whole=self
        )

    def after(self, count: int) -> Tokens:
        """The same tokens after so many others, which nobody has read here: those are called by their number."""
        numbers = [Word(str(n), n, n + 1) for n in range(count)]
        words = [*numbers, *(Word(w.text, w.start + count, w.stop + count) for w in self.words)]
        pieces, grids = [*(word.text for word in numbers), *self.pieces], [grid.shifted(count) for grid in self.grids]
        return Tokens(pieces, tuple(self._special), self._tokenizer, words, named=self.named, grids=grids)

    def without_padding(self, real: Sequence[int], first: int) -> Tokens:
        """Those at these positions, the others being padding; the first of them has this number in the text.

        >>> Tokens(["[PAD]", "A", "dog"], ["[PAD]"]).without_padding(range(1, 3), 0).find("dog")
        range(1, 2)
        """
        if len(real) == len(self) and first == self.first:
            return self
        places = {position: n for n, position in enumerate(real)}
        table = torch.full((len(self) + 1,), -1)  # a place without a token is -1, before and after
        table[list(real)] = torch.arange(len(real))
        grids = [replace(grid, tokens=table[grid.tokens]) for grid in self.grids]
        pieces = [self.pieces[position] if self.named else str(first + n) for position, n in places.items()]
        whole = [word for word in self.words if all(position in places for position in word.tokens)]
        words: list[Word] | None = None  # grouped again, where padding was taken for a part of a word
        if self.named and sum(len(word.tokens) for word in whole) == len(real):
            words = [Word(word.text, places[word.start], places[word.stop - 1] + 1) for word in whole]
        found = Tokens(
            pieces, tuple(self._special), self._tokenizer, words, named=self.named, grids=grids, unplaced=self.unplaced,
            first=first, whole=self._whole,
        )  # fmt: skip
        found._places = real
        return found

    def in_row(self, tokens: range) -> list[range]:
        """Where these tokens lie in the padded text that they are of; of those to come, from the first of them on."""
        if self._places is None:
            return [tokens]
        places = [*self._places[tokens.start : tokens.stop]]
        if tokens.stop > len(self):
            before = self._places[-1] + 1 + max(tokens.start - len(self), 0) if self._places else tokens.start
            return [range(places[0] if places else before, tokens.stop)]
        starts = [n for n, place in enumerate(places) if n == 0 or place != places[n - 1] + 1]
        return [range(places[a], places[b - 1] + 1) for a, b in pairwise([*starts, len(places)])]

    def __len__(self) -> int:
        return len(self.pieces)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[str]: ...
    def __getitem__(self, index: int | slice) -> str | Sequence[str]:
        return self.pieces[index]

    def __repr__(self) -> str:
        return f"Tokens({list(self.pieces)})"

    def texts(self) -> list[str] | None:
        """Each token as it reads, with the space before it, in the letters of the text; None where they are unknown.

        >>> Tokens(["▁A", "▁hun", "gry"]).texts()
        [' A', ' hun', 'gry']
        """
        if not self.named:
            return None
        if self._tokenizer is None or not any(piece.startswith("Ġ") for piece in self.pieces):
            return readable(self.pieces)
        # Bytes written as letters: "Ã©" is é. A token may have a part of a letter only, and then stays as it is.
        texts = [str(self._tokenizer.convert_tokens_to_string([piece])) for piece in self.pieces]
        return [read if "\ufffd" in text else text for text, read in zip(texts, readable(self.pieces), strict=True)]

    def is_special(self, position: int) -> bool:
        """Whether the tokenizer calls a token special, as [CLS] or </s>."""
        return self.pieces[position] in self._special

    def word_at(self, position: int) -> Word:
        """The word that a token belongs to."""
        return next(word for word in self.words if position in word.tokens)

    def has(self, phrase: str) -> bool:
        """Whether a word, or several words in a row, occur."""
        return bool(self._search(phrase, str.casefold))

    def find(self, place: Place) -> range:
        """The tokens of a word or of several words in a row, or of a position; a word must occur exactly once."""
        matches = self.find_all(place)
        if len(matches) > 1:
            raise InputError(
                f'"{place}" occurs {len(matches):,} times. Put the one you mean in brackets, with words around it, or '
                f"give its token: {self._listing(matches)}."
            )
        return matches[0]

    def find_all(self, place: Place) -> list[range]:
        """The tokens of each occurrence; in brackets, of the occurrences among these words.

        >>> tokens = Tokens("the old dog slept , the young dog ran".split())
        >>> tokens.find_all("dog"), tokens.find_all("old [dog] slept")
        ([range(2, 3), range(7, 8)], [range(2, 3)])
        """
        if isinstance(place, Patch):
            token = find_patch(self.grids, place)
            return [range(token, token + 1)]
        if isinstance(place, range | int):
            return [self._numbered_place(place)]
        if not self.named:
            raise InputError(
                f'"{place}" cannot be found, for the words are unknown. Watch with tokenizer=…, or with tokens=[…] '
                f"that name each of the {len(self):,} tokens, in one list for each sequence; or give a number."
            )
        matches = self._search(place, str) or self._search(place, str.casefold)
        if not matches:
            if self._whole is not None and self._whole.has(place):
                raise InputError(
                    f'"{place}" is in the text, but not among the tokens from {self.first} on, whose rows were kept. '
                    'Watch with keep="matrix", or with more rows.'
                )
            where = f"among the tokens from {self.first} on" if self.first else "in the text"
            raise InputError(f'"{place}" is not {where}. Its words are: {self._excerpt()}.')
        return matches

    def _numbered_place(self, place: int | range) -> range:
        whole = self.first + len(self)
        if isinstance(place, int):
            place = range(place % whole, place % whole + 1) if -whole <= place < whole else range(whole, whole + 1)
        found = range(place.start - self.first, place.stop - self.first, place.step)
        if not 0 <= found.start < found.stop <= len(self) or found.step != 1:
            kept = f", of which those from {self.first} on were kept" if self.first else ""
            raise InputError(f"tokens are counted from 0 to {whole - 1}{kept}. Got {place}.")
        return found

    def _search(self, phrase: str, normalize: Callable[[str], str]) -> list[range]:
        """As it is written or, if it does not occur so, with brackets around what is meant."""
        matches = self._occurrences("", phrase, "", normalize)
        for mark in () if matches else _MARKED.finditer(phrase):  # in "[CLS] a [dog]" one of them is a token's own
            matches = self._occurrences(phrase[: mark.start()], mark[1], phrase[mark.end() :], normalize)
            if matches:
                break
        return matches

    def _occurrences(self, before: str, phrase: str, after: str, normalize: Callable[[str], str]) -> list[range]:
        if not before and not after:
            searched = normalize(_legible(phrase))
            whole_words = [word.tokens for word in self.words if normalize(word.text) == searched]
            if whole_words:
                return whole_words
        # Several words in a row, or a part of one ("hungry" in "hungry."): compared piece by piece, across line ends.
        pieces = [(normalize(piece), word) for word in self.words for piece in _pieces(word.text)]
        left, middle, right = ([normalize(piece) for piece in _pieces(part)] for part in (before, phrase, after))
        if not middle:
            return []
        run, first, last = left + middle + right, len(left), len(left) + len(middle) - 1
        starts = [n for n in range(len(pieces) - len(run) + 1) if pieces[n][0] == run[0]]
        starts = [n for n in starts if [piece for piece, _ in pieces[n : n + len(run)]] == run]
        found = (range(pieces[n + first][1].start, pieces[n + last][1].stop) for n in starts)
        return list(dict.fromkeys(found))  # "dog" is twice in the one word "dog-dog"

    def _listing(self, matches: Sequence[range]) -> str:
        """The first occurrences, each with as few words around it as tell it apart from all others, and its token."""
        words = [word for word in self.words if _pieces(word.text)]
        places = {word.start: n for n, word in enumerate(words)}
        stops = {word.stop: n + 1 for n, word in enumerate(words)}
        listed = {match.start: f"token {match.start + self.first}" for match in matches[:_LISTED]}
        for size in reversed(_AROUND if matches[0].start in places else ()):  # a line end has no words of its own
            around = {}
            for match in matches:
                n, m = places[match.start], stops[match.stop]
                parts = words[max(n - size, 0) : n], words[n:m], words[m : m + size]
                around[match.start] = tuple(" ".join(word.text for word in part) for part in parts)
            folded = [(f" {left}".casefold(), f"{right} ".casefold()) for left, _, right in around.values()]
            for start in listed:
                left, marked, right = around[start]
                a, b = f" {left}".casefold() if left else "", f"{right} ".casefold() if right else ""
                if sum(before.endswith(a) and after.startswith(b) for before, after in folded) == 1:
                    text = " ".join(filter(None, (left, f"[{marked}]", right)))
                    listed[start] = f'"{text}" (token {start + self.first})'
        return ", ".join(listed.values()) + (f" and {len(matches) - _LISTED:,} more" if len(matches) > _LISTED else "")

    def _excerpt(self) -> str:
        texts = [word.text for word in self.words]
        return " ".join(texts if len(texts) <= 30 else [*texts[:15], "…", *texts[-15:]])

    def _group_words(self) -> tuple[Word, ...]:
        marked = any(piece.startswith(_STARTS) for piece in self.pieces)
        words: list[list[int]] = []
        for position in range(len(self.pieces)):
            if words and self._continues_word(position, marked):
                words[-1].append(position)
            else:
                words.append([position])
        return tuple(Word(self._spelling(run), run[0], run[-1] + 1) for run in words)

    def _continues_word(self, position: int, marked: bool) -> bool:
        """Whether a token belongs to the word of the token before it."""
        piece, before = self.pieces[position], self.pieces[position - 1]
        if {piece, before} & self._special:
            return False
        if self._patches and (position in self._patches or position - 1 in self._patches):
            return False
        if piece.startswith("##"):
            return True
        if not marked or piece.startswith((*_STARTS, "Ċ", "<0x0A>")) or before.startswith(("Ċ", "<0x0A>")):
            return False
        # Tokens that mark spaces have nothing between "hungry" and ".": punctuation is a word of its own.
        return _alphanumeric(piece) == _alphanumeric(before)

    def _spelling(self, positions: Sequence[int]) -> str:
        if positions[0] in self._patches:
            return self._patches[positions[0]]
        pieces = [self.pieces[position] for position in positions]
        if self._tokenizer is not None and not set(pieces) & self._special:
            text = str(self._tokenizer.convert_tokens_to_string(pieces))
            if text:
                return text.strip() or _legible(text)
        joined = "".join(piece.removeprefix("##") for piece in pieces)
        return _legible(joined.lstrip("".join(_STARTS)) or joined)


@functools.lru_cache(maxsize=4)  # of every layer of a long text
def _numbered(length: int) -> Tokens:
    words = [Word(str(n), n, n + 1) for n in range(length)]
    return Tokens([word.text for word in words], words=words, named=False)


def _legible(text: str) -> str:
    r"""A text of nothing but spaces and line ends, as tokenizers write them, in signs that can be seen.

    >>> _legible("\n\n"), _legible("ĊĊ"), _legible("<0x0A>"), _legible("▁"), _legible("two words")
    ('↵↵', '↵↵', '↵', '␣', 'two words')
    """
    signs = text.replace("<0x0A>", "\n").translate(_BLANKS)
    return signs if _BLANK.issuperset(signs) and signs else text


def _pieces(text: str) -> list[str]:
    """Words and signs; spaces and line ends are none."""
    return [piece for piece in _PIECES.findall(text) if piece not in _BLANK]


def _in_common(name: str, other: str) -> int:
    """How many letters two names begin with in common."""
    return next((n for n, (a, b) in enumerate(zip(name, other, strict=False)) if a != b), min(len(name), len(other)))


def _alphanumeric(piece: str) -> bool:
    """Whether it has letters or digits; bytes of other scripts count, for they are written as letters too."""
    return any(character.isalnum() for character in piece.lstrip("".join(_STARTS)))


class Vocabulary:
    """How to name the tokens: with a tokenizer that reads the model's input ids, or as the user listed them."""

    def __init__(self, tokenizer: Any = None, tokens: Sequence[str] | Sequence[Sequence[str]] | None = None):
        self._tokenizer = tokenizer
        self._listed: list[Tokens] | None = None
        self._longer: list[Tokens] | None = None  # with what was written after them
        self._fits = self._warned = False  # the user's tokens, so far
        if tokenizer is not None and not hasattr(tokenizer, "convert_ids_to_tokens"):
            raise InputError(
                "tokenizer must have convert_ids_to_tokens, as those of transformers do: AutoTokenizer.from_pretrained("
                f"…). Got {tokenizer!r}. Words go into tokens=[…]."
            )
        if tokens is not None:
            one = isinstance(tokens, list | tuple) and all(isinstance(token, str) for token in tokens)
            sequences: Any = [tokens] if one else tokens
            lists = isinstance(sequences, list | tuple) and all(isinstance(some, list | tuple) for some in sequences)
            if not lists or not tokens or not all(isinstance(token, str) for some in sequences for token in some):
                raise InputError(f"tokens are a list of strings, or one such list for each sequence. Got {tokens!r}.")
            self._listed = [Tokens(list(sequence)) for sequence in sequences]

    def repeated(self, count: int) -> Vocabulary:
        """The same for a batch in which each text is there so many times in a row."""
        other = Vocabulary(self._tokenizer)
        if self._listed is not None:
            other._listed = [tokens for tokens in self._listed for _ in range(count)]
        return other

    def listed(self, length: int, batch: int, real: Tensor | None = None) -> list[Tokens] | None:
        """The user's tokens, if they fit; lists of a padded batch may be shorter than the longest.

        They are those at the places that are `real` or, where that is not known, the first.
        """
        if self._listed is None or len(self._listed) != batch:
            return None
        lengths = [len(sequence) for sequence in self._listed]
        placed = real is not None and lengths == real.sum(1).tolist()
        if max(lengths) != length and not placed:
            return None
        self._fits = True
        if min(lengths) == length:
            return self._listed
        padded = [[_PAD] * length for _ in lengths]
        for n, sequence in enumerate(self._listed):
            places = real[n].nonzero().flatten().tolist() if placed and real is not None else range(len(sequence))
            for place, piece in zip(places, sequence, strict=True):
                padded[n][place] = piece
        return [Tokens(pieces, [_PAD]) for pieces in padded]

    def begun(self, length: int, batch: int, prompt: int, real: Tensor | None = None) -> list[Tokens] | None:
        """The user's tokens, if they are those of a prompt; what was written after it is called by its number."""
        known = None if real is None else real[:, :prompt]
        if self._tokenizer is not None or prompt >= length or (begin := self.listed(prompt, batch, known)) is None:
            return None
        lengths = [len(sequence) for sequence in self._listed or ()]
        if min(lengths) < prompt and (known is None or lengths != known.sum(1).tolist()):
            return None  # padded, and on which side is unknown
        if self._longer is None or len(self._longer[0]) != length:  # the layers of a model have the same
            self._longer = [
                Tokens([*sequence, *map(str, range(count, count + length - prompt))], [_PAD])
                for count, sequence in zip(lengths, begin, strict=True)
            ]
        return self._longer

    def warn(self, length: int, batch: int) -> None:
        """Say once that the user's tokens fit nothing."""
        if self._listed is None or self._tokenizer is not None or self._fits or self._warned:
            return
        self._warned = True
        given = " and ".join(sorted({str(len(sequence)) for sequence in self._listed}))
        warnings.warn(
            f"tokens has {len(self._listed)} list(s) of {given} tokens, but the model read {batch} × {length}: its "
            "tokens are numbers here. Give one list for each sequence.",
            stacklevel=2,
        )

    def read(self, ids: Tensor) -> list[Tokens] | None:
        """The tokens of ids (batch, tokens)."""
        if self._tokenizer is None:
            return None
        special = list(getattr(self._tokenizer, "all_special_tokens", ()))
        return [Tokens(self._tokenizer.convert_ids_to_tokens(row), special, self._tokenizer) for row in ids.tolist()]


class Sides(NamedTuple):
    """The ids and tokens of the queries and of the keys of a matrix, as far as they are known."""

    ids: Tensor | None
    key_ids: Tensor | None
    tokens: list[Tokens] | None
    key_tokens: list[Tokens] | None


@runtime_checkable
class Images(Protocol):
    """The images that a model read in one pass; images.py has them."""

    def sees(self, name: str) -> bool:
        """Whether a module reads images and no words."""

    def place(
        self, name: str, cross: bool, length: int, batch: int, tokens: list[Tokens] | None, has_words: bool
    ) -> list[Tokens] | None:
        """These tokens of a module (its keys, if `cross`) with the images among them."""


class Rows(NamedTuple):
    """Where the queries of a module lie in the text: the last of so many tokens, the first of which nobody saw."""

    batch: int
    queries: int
    tokens: int
    unseen: int


@runtime_checkable
class Reader(Protocol):
    """The self-attention of a module."""

    kind: str

    @property
    def rows(self) -> Rows:
        """Where its queries lie in the text."""

    def real(self) -> Bool[Tensor, "batch tokens"] | None:
        """Which tokens up to the last query are no padding; None where that is not known."""


class Detached:
    """Whether numbers of a record outside the autograd graph were asked for where a gradient may have been meant."""

    def __init__(self) -> None:
        self._asked = False

    def ask(self) -> None:
        """Numbers were asked for."""
        self._asked = self._asked or torch.is_grad_enabled()

    def passed(self, _: Tensor) -> None:
        """A gradient passes through the attention that they are of: warn, once."""
        if self._asked:
            self._asked = False
            warnings.warn(
                "the numbers of a record were asked for with gradients enabled, and the model is now differentiated: "
                'they are constants, and train nothing. Watch with keep="graph" to train through them; inside '
                "torch.no_grad() they are only read, without this warning.",
                stacklevel=2,
            )


class Text:
    """The ids that the modules of a model received in one pass, and the tokens they stand for.

    >>> text = Text(Vocabulary(tokens=["A", "dog"]))
    >>> text.add({"encoder": torch.tensor([[5]])})
    >>> text.add({"encoder": torch.tensor([[6]])})                          # a step of a generation
    >>> ids = text.ids("encoder.layers.0", length=2, batch=1)
    >>> ids, text.tokens(ids, length=2, batch=1)
    (tensor([[5, 6]]), [Tokens(['A', 'dog'])])
    """

    def __init__(
        self, vocabulary: Vocabulary, wordless: Callable[[str], bool] = lambda _: False, ends: Sequence[int] = (),
        pads: Mapping[str, int] | None = None,
    ):  # fmt: skip
        self._vocabulary, self._wordless = vocabulary, wordless
        self._ends = torch.tensor([*ends], dtype=torch.long)  # after one of these, written tokens are padding
        self._pads = dict(pads or {})  # by module: the id of padding, of which its mask says nothing
        self._images: Images | None = None
        self._ids: dict[str, list[Tensor]] = {}
        self.detached = Detached()
        self.readers: WeakValueDictionary[str, Reader] = WeakValueDictionary()  # by module
        self._read: tuple[Tensor, list[Tokens] | None] = torch.empty(0), None  # the last ids, and their tokens

    def add(self, ids: Mapping[str, Tensor], images: Images | None = None) -> None:
        """Ids that reached these modules, in a generation those of one step; and images, which come with the first."""
        for module, step in ids.items():
            self._ids.setdefault(module, []).append(step)
        self._images = images if self._images is None else self._images

    def change(self, each: Callable[[list[Tensor]], list[Tensor]]) -> None:
        """Put other ids in the place of those that each module received, step by step."""
        self._ids = {module: each(steps) for module, steps in self._ids.items()}

    def ids(self, name: str, length: int, batch: int) -> Tensor | None:
        """The ids that the innermost module around `name` received, if there are as many as tokens."""
        nearest_first = sorted(self._ids, key=lambda module: (not name.startswith(module), -len(module)))
        for module in nearest_first:
            ids = torch.cat([step.cpu() for step in self._ids[module]], -1)
            if ids.shape[-1] == length and batch % ids.shape[0] == 0:
                return ids.repeat_interleave(batch // ids.shape[0], 0)
        return None

    def read(self, name: str, length: int, batch: int) -> Bool[Tensor, "batch tokens"] | None:
        """Which tokens are no padding by their ids: before the end of what was written, and of the target of ours."""
        for module, steps in self._ids.items():
            ids = self.ids(module, length, batch)
            if not f"{name}.".startswith(f"{module}." if module else "") or ids is None:
                continue
            if module in self._pads:
                return (ids != self._pads[module]).flip(1).cumsum(1).flip(1) > 0
            if len(steps) > 1 and len(self._ends):
                ended = torch.isin(ids, self._ends)
                ended[:, : steps[0].shape[-1]] = False
                return ended.cumsum(1) == 0
        return None

    def reader(self, name: str, batch: int, queries: int) -> Reader | None:
        """Who reads the queries of a module's cross-attention as a text of its own: the nearest by its name."""
        alike = {other: each for other, each in self.readers.items() if each.rows[:2] == (batch, queries)}
        nearest = max(alike, key=lambda other: (alike[other].kind == "decoder", _in_common(name, other)), default=None)
        return None if nearest is None else alike[nearest]

    def sides(
        self,
        name: str,
        kind: str,
        shape: Sequence[int],
        tokens: int,
        unseen: int = 0,
        real: Sequence[Tensor | None] = (None, None),
    ) -> Sides:
        """What is known of the queries and the keys of a module, for a matrix (batch, heads, queries, keys).

        Its queries are the last ones of a text of so many `tokens`, the first of which may be `unseen`: in a cache that
        was filled before anybody watched. `real`: which of these tokens, and which of the keys, are no padding.
        """
        batch, _, queries, keys = shape
        of_text, of_keys = real
        ids, own = None, self._vocabulary.listed(tokens, batch, of_text) if unseen else None
        if own is None:
            seen = None if of_text is None else of_text[:, unseen:]
            ids, own = self._side(name, "", tokens - unseen, batch, seen)
            own = [text.after(unseen) for text in own] if unseen and own is not None else own
        key_ids, key_tokens = None if unseen else ids, own
        if kind == "cross":
            key_ids, key_tokens = self._side(name, "cross", keys, batch, of_keys)
        elif tokens != keys:
            key_ids, key_tokens = None, self.tokens(None, keys, batch, of_keys)
        if tokens > queries:
            ids = None if ids is None else ids[:, -queries:]
            own = [text.last(queries) for text in own or [Tokens.numbered(tokens)] * batch]
        return Sides(ids, key_ids, own, key_tokens)

    def _side(
        self, name: str, kind: str, length: int, batch: int, real: Tensor | None
    ) -> tuple[Tensor | None, list[Tokens] | None]:
        """The ids and the tokens of so many queries of a module; of its keys, where the kind is "cross"."""
        sees = self._images is not None and self._images.sees(name)
        ids = None
        if not sees and not self._wordless(name):
            ids = self.ids("encoder." if kind == "cross" else name, length, batch)
        tokens = self._vocabulary.listed(length, batch) if sees else self.tokens(ids, length, batch, real)
        if self._images is None:
            return ids, tokens
        return ids, self._images.place(name, kind == "cross", length, batch, tokens, has_words=ids is not None)

    def tokens(self, ids: Tensor | None, length: int, batch: int, real: Tensor | None = None) -> list[Tokens] | None:
        """The user's tokens or, if they do not fit, those of the ids; one for each sequence."""
        listed = self._vocabulary.listed(length, batch, real)
        if listed is None and ids is not None:
            firsts = {steps[0].shape[-1] for steps in self._ids.values() if len(steps) > 1}  # of a generation
            begun = (self._vocabulary.begun(length, batch, each, real) for each in sorted(firsts))
            listed = next(filter(None, begun), None)
        if listed is None:
            self._vocabulary.warn(length, batch)
        if listed is not None or ids is None:
            return listed
        if not torch.equal(ids, self._read[0]):  # the layers of a model read the same
            self._read = ids, self._vocabulary.read(ids)
        return self._read[1]
