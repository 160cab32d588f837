"""`Tokens` and words of one sequence, the `Vocabulary` that names tokens, and the `Text` of one pass."""

from __future__ import annotations

import functools
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, takewhile
from typing import TYPE_CHECKING, Any, NamedTuple, overload
from weakref import WeakValueDictionary

import torch
from torch import Tensor

from regard.drawing.viewer import readable
from regard.errors import InputError
from regard.support import Bool
from regard.watching.images.families import Grid, Patch, find_patch, patch_names

if TYPE_CHECKING:
    from regard.watching.capture.passes import ModuleCalls
    from regard.watching.images.images import Images

# Some words in a row, or one occurrence of them in brackets: "the old [dog] slept"; the number of a token, or a range
# of tokens; a patch of an image.
Place = str | int | range | Patch
_STARTS = ("Ġ", "▁")  # how byte-level and SentencePiece tokens mark a preceding space
_END = "</w>"  # how the tokens of CLIP mark the end of a word
_PAD = "[PAD]"
_PIECES = re.compile(r"\w+|[^\w\s]")
_MARKED = re.compile(r"\[([^\[\]]+)\]")
_BLANKS = str.maketrans({"\n": "↵", "\r": "", "\t": "⇥", " ": "␣", "Ċ": "↵", "Ġ": "␣", "▁": "␣"})
_BLANK = frozenset("↵⇥␣")
_LISTED, _AROUND = 8, (2, 3, 5, 8, 12)  # occurrences that an error lists; words around them that tell them apart


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
        words: Sequence[Word] | None = None,  # None: grouped by the marks of the pieces
        *,
        named: bool = True,  # False: the words are unknown, and tokens are called by their number
        grids: Sequence[Grid] = (),  # the images among the tokens
        unplaced: str = "",  # why there are none, though the model was shown an image
        first: int = 0,  # the number of the first token, where these are the last tokens of a text
        whole: Tokens | None = None,  # that text, where it is known
    ):
        self.pieces, self.named, self.first = tuple(pieces), named, first
        self.grids, self.unplaced = tuple(grids), unplaced
        self._special, self._tokenizer, self._whole = frozenset(special), tokenizer, whole
        self._patches = dict(patch_names(self.grids))
        self._places: Sequence[int] | None = None  # positions of these tokens in the padded text
        self.words = self._group_words() if words is None else tuple(words)

    @classmethod
    @functools.lru_cache(maxsize=4)  # every layer of a long text needs them
    def numbered(cls, length: int) -> Tokens:
        """Return tokens whose words are unknown."""
        words = [Word(str(n), n, n + 1) for n in range(length)]
        return cls([word.text for word in words], words=words, named=False)

    def _replaced(self, pieces: Sequence[str], words: Sequence[Word] | None, **changes: Any) -> Tokens:
        """Return other tokens of the same tokenizer; words = None: grouped again."""
        return Tokens(pieces, tuple(self._special), self._tokenizer, words, **{"named": self.named} | changes)

    @functools.lru_cache(maxsize=8)  # noqa: B019  # the blocks and steps of a model have the same
    def with_images(self, grids: tuple[Grid, ...], unplaced: str = "") -> Tokens:
        """Return these tokens with patches of images among them: a patch is a word, called by its row and column."""
        return self._replaced(self.pieces, None, grids=grids, unplaced=unplaced)

    def last(self, count: int) -> Tokens:
        """Return the last tokens; their numbers still count from the beginning of the text."""
        start = len(self) - count
        words = [Word(w.text, max(w.start - start, 0), w.stop - start) for w in self.words if w.stop > start]
        grids = [grid.shifted(-start) for grid in self.grids if int(grid.tokens[grid.tokens >= 0].min()) >= start]
        return self._replaced(self.pieces[start:], words, grids=grids, first=self.first + start, whole=self)

    @functools.lru_cache(maxsize=8)  # noqa: B019
    def after(self, count: int, more: int = 0) -> Tokens:
        """Return these tokens after `count` unknown tokens and before `more`, which are called by their number."""
        unknown = Tokens.numbered(count + len(self) + more)
        words = [Word(w.text, w.start + count, w.stop + count) for w in self.words]
        words = [*unknown.words[:count], *words, *unknown.words[count + len(self) :]]
        pieces = [*unknown.pieces[:count], *self.pieces, *unknown.pieces[count + len(self) :]]
        return self._replaced(pieces, words, grids=[grid.shifted(count) for grid in self.grids])

    def without_padding(self, real: Sequence[int], first: int) -> Tokens:
        """Return the tokens at these positions (the others are padding); `first` is the number of the first of them.

        >>> Tokens(["[PAD]", "A", "dog"], ["[PAD]"]).without_padding(range(1, 3), 0).find("dog")
        range(1, 2)
        """
        if len(real) == len(self) and first == self.first:
            return self
        places = {position: n for n, position in enumerate(real)}
        table = torch.full((len(self) + 1,), -1)  # a place without a token is -1, before and after
        table[list(real)] = torch.arange(len(real))
        pieces = [self.pieces[position] if self.named else str(first + n) for position, n in places.items()]
        kept = [word for word in self.words if all(position in places for position in word.tokens)]
        words: list[Word] | None = None  # grouped again, where padding was taken for a part of a word
        if self.named and sum(len(word.tokens) for word in kept) == len(real):
            words = [Word(word.text, places[word.start], places[word.stop - 1] + 1) for word in kept]
        tokens = self._replaced(
            pieces,
            words,
            grids=[replace(grid, tokens=table[grid.tokens]) for grid in self.grids],
            unplaced=self.unplaced,
            first=first,
            whole=self._whole,
        )
        tokens._places = real
        return tokens

    def in_row(self, tokens: range) -> list[range]:
        """Return where these tokens lie in the padded text; tokens yet to come are counted from the last one on."""
        if self._places is None:
            return [tokens]
        places = [*self._places[tokens.start : tokens.stop]]
        if tokens.stop > len(self):
            before = self._places[-1] + 1 + max(tokens.start - len(self), 0) if self._places else tokens.start
            return [range(places[0] if places else before, tokens.stop)]
        return runs(places)

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
        """Return each token as it reads, with the space before it; None where the words are unknown.

        >>> Tokens(["▁A", "▁hun", "gry"]).texts()
        [' A', ' hun', 'gry']
        """
        if not self.named:
            return None
        if self._tokenizer is None or not any(piece.startswith("Ġ") for piece in self.pieces):
            return readable(self.pieces)
        # Bytes written as letters: "Ã©" is é. A token that has a part of a letter only stays as it is.
        texts = [str(self._tokenizer.convert_tokens_to_string([piece])) for piece in self.pieces]
        return [read if "\ufffd" in text else text for text, read in zip(texts, readable(self.pieces), strict=True)]

    def is_special(self, position: int) -> bool:
        """Whether the tokenizer calls a token special, such as [CLS] or </s>."""
        return self.pieces[position] in self._special

    def word_at(self, position: int) -> Word:
        """Return the word that a token belongs to."""
        return next(word for word in self.words if position in word.tokens)

    # Words and other places

    def has(self, phrase: str) -> bool:
        """Whether some words in a row occur."""
        return bool(self._search(phrase, str.casefold))

    def find(self, place: Place) -> range:
        """Return the tokens of a place; words must occur exactly once."""
        matches = self.find_all(place)
        if len(matches) > 1:
            raise InputError(
                f'"{place}" occurs {len(matches):,} times. Put the one you mean in brackets, with words around it, or '
                f"give its token: {self._listing(matches)}."
            )
        return matches[0]

    def find_all(self, place: Place) -> list[range]:
        """Return the tokens of each occurrence of a place.

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
        if matches:
            return matches
        if self._whole is not None and self._whole.has(place):
            raise InputError(
                f'"{place}" is in the text, but not among the tokens from {self.first} on, whose rows were kept. '
                'Watch the whole text with keep="matrix", or keep more rows.'
            )
        where = f"among the tokens from {self.first} on" if self.first else "in the text"
        texts = [word.text for word in self.words]
        excerpt = " ".join(texts if len(texts) <= 30 else [*texts[:15], "…", *texts[-15:]])
        raise InputError(f'"{place}" is not {where}. Its words are: {excerpt}.')

    def _numbered_place(self, place: int | range) -> range:
        whole = self.first + len(self)
        if isinstance(place, int):
            place = range(place % whole, place % whole + 1) if -whole <= place < whole else range(whole, whole + 1)
        tokens = range(place.start - self.first, place.stop - self.first, place.step)
        if not 0 <= tokens.start < tokens.stop <= len(self) or tokens.step != 1:
            kept = f", of which those from {self.first} on were kept" if self.first else ""
            raise InputError(f"tokens are counted from 0 to {whole - 1}{kept}. Got {place}.")
        return tokens

    def _search(self, phrase: str, normalize: Callable[[str], str]) -> list[range]:
        """Search for a phrase as it is written or else, where a part of it is in brackets, for this part."""
        matches = self._occurrences("", phrase, "", normalize)
        for mark in _MARKED.finditer(phrase):  # in "[CLS] a [dog]", [CLS] is a token
            matches = matches or self._occurrences(phrase[: mark.start()], mark[1], phrase[mark.end() :], normalize)
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
        matches = (range(pieces[n + first][1].start, pieces[n + last][1].stop) for n in starts)
        return list(dict.fromkeys(matches))  # "dog" is twice in the one word "dog-dog"

    def _listing(self, matches: Sequence[range]) -> str:
        """List the first occurrences, each with the fewest words around it that tell it apart, and its token."""
        words = [word for word in self.words if _pieces(word.text)]
        places = {word.start: n for n, word in enumerate(words)}
        stops = {word.stop: n + 1 for n, word in enumerate(words)}
        listed = [f"token {match.start + self.first}" for match in matches[:_LISTED]]

        def around(match: range, size: int) -> tuple[str, ...]:
            n, m = places[match.start], stops[match.stop]
            parts = words[max(n - size, 0) : n], words[n:m], words[m : m + size]
            return tuple(" ".join(word.text for word in part) for part in parts)

        for size in reversed(_AROUND if matches[0].start in places else ()):  # line ends are no words
            contexts = [around(match, size) for match in matches]
            folded = [(f" {left}".casefold(), f"{right} ".casefold()) for left, _, right in contexts]
            for n, (left, marked, right) in enumerate(contexts[:_LISTED]):
                a, b = folded[n][0] if left else "", folded[n][1] if right else ""
                if sum(before.endswith(a) and after.startswith(b) for before, after in folded) == 1:
                    text = " ".join(filter(None, (left, f"[{marked}]", right)))
                    listed[n] = f'"{text}" (token {matches[n].start + self.first})'
        return ", ".join(listed) + (f" and {len(matches) - _LISTED:,} more" if len(matches) > _LISTED else "")

    # How pieces make words

    def _group_words(self) -> tuple[Word, ...]:
        marked = any(piece.startswith(_STARTS) for piece in self.pieces)
        self._ends = any(piece.endswith(_END) for piece in self.pieces)
        starts = [n for n in range(len(self.pieces)) if n == 0 or not self._continues_word(n, marked)]
        return tuple(Word(self._spelling(a, b), a, b) for a, b in pairwise([*starts, len(self.pieces)]))

    def _continues_word(self, position: int, marked: bool) -> bool:
        """Whether a token belongs to the word of the token before it."""
        piece, before = self.pieces[position], self.pieces[position - 1]
        if {piece, before} & self._special or {position, position - 1} & self._patches.keys():
            return False
        if piece.startswith("##"):
            return True
        if self._ends:
            return not before.endswith(_END)
        if not marked or piece.startswith((*_STARTS, "Ċ", "<0x0A>")) or before.startswith(("Ċ", "<0x0A>")):
            return False
        # Tokens that mark spaces have nothing between "hungry" and ".": punctuation is a word of its own.
        return _alphanumeric(piece) == _alphanumeric(before)

    def _spelling(self, start: int, stop: int) -> str:
        if start in self._patches:
            return self._patches[start]
        pieces = list(self.pieces[start:stop])
        if self._tokenizer is not None and not set(pieces) & self._special:
            text = str(self._tokenizer.convert_tokens_to_string(pieces))
            if text:
                return text.strip() or _legible(text)
        joined = "".join(piece.removeprefix("##").removesuffix(_END) for piece in pieces)
        return _legible(joined.lstrip("".join(_STARTS)) or joined)


def runs(positions: Sequence[int]) -> list[range]:
    """Return ascending positions as runs of neighbours.

    >>> runs([2, 3, 4, 7])
    [range(2, 5), range(7, 8)]
    """
    starts = [n for n, position in enumerate(positions) if n == 0 or position != positions[n - 1] + 1]
    return [range(positions[a], positions[b - 1] + 1) for a, b in pairwise([*starts, len(positions)])]


def _legible(text: str) -> str:
    r"""Return a text of nothing but spaces and line ends, as tokenizers write them, in visible signs.

    >>> _legible("\n\n"), _legible("ĊĊ"), _legible("<0x0A>"), _legible("▁"), _legible("two words")
    ('↵↵', '↵↵', '↵', '␣', 'two words')
    """
    signs = text.replace("<0x0A>", "\n").translate(_BLANKS)
    return signs if _BLANK.issuperset(signs) and signs else text


def _pieces(text: str) -> list[str]:
    """Return the words and signs of a text, without spaces and line ends."""
    return [piece for piece in _PIECES.findall(text) if piece not in _BLANK]


def _alphanumeric(piece: str) -> bool:
    """Whether a piece has letters or digits; bytes of other scripts count, as they are written as letters too."""
    return any(character.isalnum() for character in piece.lstrip("".join(_STARTS)))


class Vocabulary:
    """Names tokens: with a tokenizer that reads the model's input ids, or as the user listed them."""

    def __init__(self, tokenizer: Any = None, tokens: Sequence[str] | Sequence[Sequence[str]] | None = None):
        self.tokenizer = tokenizer
        self._listed: list[Tokens] | None = None
        self._longer: list[Tokens] | None = None  # the listed tokens and the tokens that were written after them
        self._fits = self._warned = False  # the user's tokens, so far
        if tokenizer is not None and not hasattr(tokenizer, "convert_ids_to_tokens"):
            raise InputError(
                "tokenizer must have convert_ids_to_tokens, as the tokenizers of transformers do: "
                f"AutoTokenizer.from_pretrained(…). Got {tokenizer!r}. Words go into tokens=[…]."
            )
        if tokens is not None:
            one = isinstance(tokens, list | tuple) and all(isinstance(token, str) for token in tokens)
            sequences: Any = [tokens] if one else tokens
            lists = isinstance(sequences, list | tuple) and all(isinstance(some, list | tuple) for some in sequences)
            if not lists or not tokens or not all(isinstance(token, str) for some in sequences for token in some):
                raise InputError(f"tokens are a list of strings, or one such list for each sequence. Got {tokens!r}.")
            self._listed = [Tokens(list(sequence)) for sequence in sequences]

    def repeated(self, count: int) -> Vocabulary:
        """Return the vocabulary of a batch in which each text occurs `count` times in a row."""
        other = Vocabulary(self.tokenizer)
        if self._listed is not None:
            other._listed = [tokens for tokens in self._listed for _ in range(count)]
        return other

    def listed(self, length: int, batch: int, real: Tensor | None = None) -> list[Tokens] | None:
        """Return the user's tokens, if they fit; lists of a padded batch may be shorter than the longest.

        Shorter lists name the tokens that are `real` or, where that is not known, the first tokens.
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
        """Return the user's tokens, if they are those of a prompt; tokens written after it are called by number."""
        known = None if real is None else real[:, :prompt]
        if self.tokenizer is not None or prompt >= length or (begin := self.listed(prompt, batch, known)) is None:
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
        """Warn once that the user's tokens fit nothing."""
        if self._listed is None or self.tokenizer is not None or self._fits or self._warned:
            return
        self._warned = True
        lengths = " and ".join(sorted({str(len(sequence)) for sequence in self._listed}))
        warnings.warn(
            f"tokens has {len(self._listed)} list(s) of {lengths} tokens, but the model read {batch} × {length}: its "
            "tokens are numbers here. Give one list for each sequence.",
            stacklevel=2,
        )

    def read(self, ids: Tensor) -> list[Tokens] | None:
        """Return the tokens of ids (batch, tokens)."""
        if self.tokenizer is None:
            return None
        special = list(getattr(self.tokenizer, "all_special_tokens", ()))
        return [Tokens(self.tokenizer.convert_ids_to_tokens(row), special, self.tokenizer) for row in ids.tolist()]


# The text of one pass


class Sides(NamedTuple):
    """The ids and tokens of the queries and of the keys of a matrix, as far as they are known."""

    ids: Tensor | None
    key_ids: Tensor | None
    tokens: list[Tokens] | None
    key_tokens: list[Tokens] | None


class Detached:
    """Notes whether numbers of a record without a gradient were read where a gradient may have been meant."""

    def __init__(self) -> None:
        self._read = False

    def ask(self) -> None:
        """Note that numbers were read."""
        self._read = self._read or torch.is_grad_enabled()

    def passed(self, _: Tensor) -> None:
        """Warn once, as a gradient passes through the attention that these numbers describe."""
        if self._read:
            self._read = False
            warnings.warn(
                "numbers of a record were read with gradients enabled, and the model is now differentiated. These "
                'numbers are constants and train nothing. Watch with keep="graph" to train through them, or read them '
                "inside torch.no_grad().",
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
        self,
        vocabulary: Vocabulary,
        wordless: Callable[[str], bool] = lambda _: False,
        ends: Sequence[int] = (),
        pads: Mapping[str, int] | None = None,
    ):
        self._vocabulary, self._wordless = vocabulary, wordless
        self._ends = torch.tensor([*ends], dtype=torch.long)  # after one of these, written tokens are padding
        self._pads = dict(pads or {})  # by module: the id of padding, where no mask tells it
        self._images: Images | None = None
        self._ids: dict[str, list[Tensor]] = {}
        self.detached = Detached()
        self.readers: WeakValueDictionary[str, ModuleCalls] = WeakValueDictionary()  # by module
        self._read: tuple[Tensor, list[Tokens] | None] = torch.empty(0), None  # the last ids, and their tokens

    def add(self, ids: Mapping[str, Tensor], images: Images | None = None) -> None:
        """Add the ids that reached these modules, in a generation the ids of one step; images come with the first."""
        for module, step in ids.items():
            self._ids.setdefault(module, []).append(step)
        self._images = images if self._images is None else self._images

    def change(self, each: Callable[[list[Tensor]], list[Tensor]]) -> None:
        """Replace the ids that each module received, step by step."""
        self._ids = {module: each(steps) for module, steps in self._ids.items()}

    def ids(self, name: str, length: int, batch: int) -> Tensor | None:
        """Return the ids that the innermost module around `name` received, if their number fits."""
        nearest_first = sorted(self._ids, key=lambda module: (not name.startswith(module), -len(module)))
        for module in nearest_first:
            ids = torch.cat([step.cpu() for step in self._ids[module]], -1)
            if ids.shape[-1] == length and batch % ids.shape[0] == 0:
                return ids.repeat_interleave(batch // ids.shape[0], 0)
        return None

    def read(self, name: str, length: int, batch: int) -> Bool[Tensor, "batch tokens"] | None:
        """Return which tokens are not padding by their ids: tokens after the end of a generation are padding."""
        for module, steps in self._ids.items():
            tells = module in self._pads or (len(steps) > 1 and len(self._ends) > 0)
            if not tells or not f"{name}.".startswith(f"{module}." if module else ""):
                continue  # before ids are copied from the device
            if (ids := self.ids(module, length, batch)) is None:
                continue
            if module in self._pads:
                return (ids != self._pads[module]).flip(1).cumsum(1).flip(1) > 0
            ended = torch.isin(ids, self._ends)
            ended[:, : steps[0].shape[-1]] = False
            return ended.cumsum(1) == 0
        return None

    def reader(self, name: str, batch: int, queries: int) -> ModuleCalls | None:
        """Return the self-attention that reads the queries of a module's cross-attention: the nearest by name."""

        def nearness(other: str) -> tuple[bool, int]:
            common = takewhile(lambda letters: letters[0] == letters[1], zip(name, other, strict=False))
            return alike[other].kind == "decoder", len(list(common))

        alike = {other: each for other, each in self.readers.items() if (each.batch, each.rows) == (batch, queries)}
        return alike[max(alike, key=nearness)] if alike else None

    def sides(
        self,
        name: str,
        kind: str,
        shape: Sequence[int],  # (batch, heads, queries, keys)
        tokens: int,  # of the text; the queries are the last of them
        unseen: int = 0,  # first tokens in a cache that was filled before the model was watched
        real: Sequence[Tensor | None] = (None, None),
    ) -> Sides:
        """Return what is known of the queries and the keys of a module.

        `real`: which of the tokens, and which of the keys, are not padding.
        """
        batch, _, queries, keys = shape
        real_tokens, real_keys = real
        ids, side = None, self._vocabulary.listed(tokens, batch, real_tokens) if unseen else None
        if side is None:
            seen = None if real_tokens is None else real_tokens[:, unseen:]
            ids, side = self._side(name, "", tokens - unseen, batch, seen)
            side = [text.after(unseen) for text in side] if unseen and side is not None else side
        key_ids, key_side = None if unseen else ids, side
        if kind == "cross":
            key_ids, key_side = self._side(name, "cross", keys, batch, real_keys)
        elif tokens != keys:
            key_ids, key_side = None, self.tokens(None, keys, batch, real_keys)
        if tokens > queries:
            ids = None if ids is None else ids[:, -queries:]
            side = [text.last(queries) for text in side or [Tokens.numbered(tokens)] * batch]
        return Sides(ids, key_ids, side, key_side)

    def _side(
        self, name: str, kind: str, length: int, batch: int, real: Tensor | None
    ) -> tuple[Tensor | None, list[Tokens] | None]:
        """Return the ids and the tokens of the queries of a module or, where the kind is "cross", of its keys."""
        sees = self._images is not None and self._images.sees(name)
        ids = None
        if not sees and not self._wordless(name):
            ids = self.ids("encoder." if kind == "cross" else name, length, batch)
        words = None if self._images is None else self._images.words(length, kind == "cross")
        if words is not None:
            tokens = self.tokens(None, words, batch) if words else None
        else:
            tokens = self._vocabulary.listed(length, batch) if sees else self.tokens(ids, length, batch, real)
        if self._images is None:
            return ids, tokens
        return ids, self._images.place(name, kind == "cross", length, batch, tokens, has_words=ids is not None)

    def tokens(self, ids: Tensor | None, length: int, batch: int, real: Tensor | None = None) -> list[Tokens] | None:
        """Return the user's tokens or, if they do not fit, the tokens of the ids; one for each sequence."""
        listed = self._vocabulary.listed(length, batch, real)
        if listed is None and ids is not None:
            firsts = {steps[0].shape[-1] for steps in self._ids.values() if len(steps) > 1}  # prompts of generations
            begun = (self._vocabulary.begun(length, batch, each, real) for each in sorted(firsts))
            listed = next(filter(None, begun), None)
        if listed is None:
            self._vocabulary.warn(length, batch)
        if listed is not None or ids is None:
            return listed
        if not torch.equal(ids, self._read[0]):  # the layers of a model read the same
            self._read = ids, self._vocabulary.read(ids)
        return self._read[1]
