"""Quotations: where they are, of which kind, and whether a translation has them.

`find_quotes` finds pairs of "…", “…”, «…», '…' and ‘…’. There are four kinds:
  code       print("x"), name="x", {"name": "x"}: copied as it stands.
  copied     titles, "War and Peace", and words that are spoken of, the word "love": the model reads a mark, ⟦1⟧.
  sentence   what somebody says. If the model loses its quotes, it is translated by itself, and stands behind a mark.
  fragment   a few words of the sentence around it. If the model loses the quotes, they are put back by the alignment.

Where a quote has no partner and is no sign for inches, it cannot be known what is quoted: that sort has no pairs then.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from regard.translation.text.facts import SENTENCE_END, Fact

Kind = Literal["code", "copied", "sentence", "fragment"]

__all__ = [
    "Quote",
    "QuoteCheck",
    "Quoted",
    "add_quotes",
    "commas_outside",
    "find_quotes",
    "french_quotes",
    "has_quotes",
]

_ANY = re.compile(r"""["“”«‘]|(?<!\w)'""")  # not the apostrophe of a word
_SMALL = frozenset(
    ["a", "an", "the", "and", "or", "nor", "but", "of", "in", "on", "at", "to", "for", "from", "with", "by", "as", "vs",
     "de", "la", "le", "les", "du", "des", "et"]
)  # fmt: skip
# One of them, alone or first, is said: no title, even if it has a capital.
_SAID_ALONE = frozenset(
    ["yes", "no", "hello", "hi", "hey", "thanks", "thank", "sorry", "stop", "please", "ok", "okay", "goodbye", "bye",
     "welcome", "good", "oh", "well", "help", "wait", "why", "what"]
)  # fmt: skip
_SAYING = re.compile(
    r"\b(?:sa(?:id|ys?|ying)|ask(?:s|ed|ing)?|repl(?:y|ies|ied)|answer(?:s|ed)?|shout(?:s|ed)?|cr(?:y|ied)|yell(?:s|ed)?"
    r"|whisper(?:s|ed)?|t(?:ell|ells|old)|exclaim(?:s|ed)?|add(?:s|ed)|scream(?:s|ed)?|murmur(?:s|ed)?|th(?:inks?|ought))\b"
)
_WORD_BEFORE = re.compile(
    r"\b(?:(?:word|term|expression|phrase|letter|prefix|suffix)s?,?|spell|pronounce) $", re.IGNORECASE
)
_MEANS_AFTER = re.compile(r" (?:means?|stands? for|is spelled)\b")
_SAID_JUST_BEFORE = re.compile(rf"(?:{_SAYING.pattern})(?: \w+)?[,:]? ?$")
_INTRODUCED = re.compile(rf"(?:{_SAYING.pattern})[^,.;:]*(, )$")
_TOLD_BY = re.compile(rf" (?:{_SAYING.pattern}|(?:I|you|he|she|it|we|they|[A-Z]\w+|the \w+) {_SAYING.pattern})")
# What begins with an apostrophe, and in full; '90s is 90s. 'n' is left as it is. In 'Cause and Effect' cause is a noun.
_ELIDED = {"tis": "it is", "twas": "it was", "em": "them", "til": "till", "cause": "because"}
_ELIDED_WORDS = r"tis|twas|em|til|cause(?![^'’]*+['’](?!\w))"
_ELISION = re.compile(rf"(?:{_ELIDED_WORDS}|twere|twill|till|round|n|\d\ds?)(?![^\W_])", re.IGNORECASE)
_ELIDED_WORD = re.compile(rf"(?<!\w)['‘’](?:(\d0)(?=s\b)|({_ELIDED_WORDS})(?![\w'’]))", re.IGNORECASE)
_ABBREVIATED = re.compile(r"\.\S+\.$")  # U.S.
_CODE = re.compile(r"[\w.-]*(?:=|(?<=\w)[(\[])$")  # before a quote
_JSON = re.compile(r'[{\[]\s*+"')
_INCHES = re.compile(r"""(?<![\d.,/])\d[\d.,/]*+(?:['’] ?\d{1,2})?["”]""")
_DOUBLE = re.compile('["“”«»]')
# Before one or more closing quotes, and whether another mark follows. What is quoted may be the sign itself: « , ».
_COMMA_INSIDE = re.compile(r"(?<!\s)(?<!«),((?:,?[ \u00a0\u202f]?»)+)(?![^\W_])(?=(\s?[.,;:!?…)(\]}—–-])?)")
_GOES_ON = re.compile(r"(», [^«».!?]{1,60}, «[ \u00a0\u202f]?)J(?=e\b|['’])")
_LETTER = re.compile(r"[^\W\d_]")
_NEAR = 24  # characters beside a quotation in which a verb of saying is looked for
_DEEPEST = 8  # quotations in one another; more are no quotations
# By how much the share of letters in quotes may differ from the source's,
# if words come before and after as there, or not.
_SURE, _UNSURE = 0.4, 0.2


class Quote(NamedTuple):
    """A quotation, from its opening mark to the end of its closing mark."""

    start: int
    end: int
    kind: Kind


# Finding them


def has_quotes(text: str) -> bool:
    """Whether a text has any mark that may be a quotation mark: most have none."""
    return _ANY.search(text) is not None


def find_quotes(text: str, *, titles: bool = True) -> list[Quote]:
    """The quotations of a text in order, an outer one before those in it; `titles` says whether capitals mean titles.

    >>> [(quote.kind, 'He said "No!" in "King Lear".'[quote.start : quote.end]) for quote in
    ...  find_quotes('He said "No!" in "King Lear".')]
    [('fragment', '"No!"'), ('copied', '"King Lear"')]
    >>> find_quotes("The boys' 5\\" nail, 'tis rock 'n' roll")
    []
    """
    doubles = _nested([*_straight(text), *_curly(text, "“”"), *_curly(text, "«»")])
    singles = _inside_one(list(_single(text)), doubles)
    letters = _LETTER.search(text), _LETTER.search(text[::-1])
    first, last = (found.start() if found else len(text) for found in letters)
    has_json = _JSON.search(text) is not None
    quotes = []
    for start, end in sorted([*doubles, *singles]):
        words_around = first < start or end < len(text) - last  # what is all of the text is no title
        code = _is_code(text, start, end, has_json)
        quotes.append(Quote(start, end, "code" if code else _kind(text, start, end, titles and words_around)))
    return quotes


def _nested(spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Those that lie in one another or apart; of two that cross, the first."""
    kept: list[tuple[int, int]] = []
    around: list[int] = []  # where those end that are open
    for start, end in sorted(spans):
        while around and around[-1] <= start:
            around.pop()
        if not around or end <= around[-1]:
            kept.append((start, end))
            around.append(end)
    return kept


def _inside_one(spans: Sequence[tuple[int, int]], others: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Those that begin and end within the same of the others, or outside of all."""
    edges = sorted({edge for span in others for edge in span})
    starts = dict(others)
    owner = [-1]  # between two edges: the innermost that is open there
    around: list[int] = []
    for edge in edges:
        if around and starts[around[-1]] == edge:
            around.pop()
        if edge in starts:
            around.append(edge)
        owner.append(around[-1] if around else -1)
    return [(a, b) for a, b in spans if owner[bisect_right(edges, a)] == owner[bisect_right(edges, b - 1)]]


def _straight(text: str) -> list[tuple[int, int]]:
    """Pairs of "; none if one that is no sign for inches has no partner, since then any could be the one."""
    spans: list[tuple[int, int]] = []
    opened: list[int] = []
    for found in re.finditer('"', text):
        place = found.start()
        if opened and _may_close(text, place):
            spans.append((opened.pop(), place + 1))
        elif _may_open(text, place):
            opened.append(place)
        elif not _is_inches(text, place):
            return []
        if len(opened) > _DEEPEST:
            return []
    return [] if opened else spans


def _curly(text: str, marks: str) -> list[tuple[int, int]]:
    """Pairs of marks that differ; none if one has no partner."""
    spans: list[tuple[int, int]] = []
    opened: list[int] = []
    for found in re.finditer(f"[{marks}]", text):
        if found.group() == marks[0]:
            opened.append(found.start())
        elif opened:
            spans.append((opened.pop(), found.end()))
        elif not _is_inches(text, found.start()):
            return []
        if len(opened) > _DEEPEST:
            return []
    return [] if opened else spans


def _single(text: str) -> Iterator[tuple[int, int]]:
    """Pairs of ' where no apostrophe can be meant.

    The closing one comes before the next that opens. It does not follow an s, as in "the boys' books", or it is the
    only one that could close, and closes one or two words.
    """
    places = [found.start() for found in re.finditer("['‘’]", text)]
    opening = [place for place in places if text[place] != "’" and _may_open(text, place) and _no_elision(text, place)]
    closing = iter([place for place in places if text[place] != "‘" and _may_close(text, place)])
    close = next(closing, None)
    for place, following in zip(opening, [*opening[1:], len(text)], strict=False):
        ends = []
        while close is not None and close < following:
            if close > place + 1:
                ends.append(close)
            close = next(closing, None)
        certain = [end for end in ends if text[end - 1] not in "sS"]
        if len(ends) == 1 and len(text[place : ends[0]].split(maxsplit=2)) < 3:
            certain = ends
        if certain:
            yield place, certain[0] + 1


def _may_open(text: str, place: int) -> bool:
    before, after = text[place - 1 : place], text[place + 1 : place + 2]
    return (not before or before.isspace() or before in "([{-–—/=:\0\"“«'‘") and bool(after) and not after.isspace()


def _may_close(text: str, place: int) -> bool:
    before, after = text[place - 1 : place], text[place + 1 : place + 2]
    return bool(before) and not before.isspace() and not after.isalnum()


def _no_elision(text: str, place: int) -> bool:
    return not _ELISION.match(text, place + 1)


def _is_inches(text: str, place: int) -> bool:
    return text[place - 1 : place].isdigit()


def _is_code(text: str, start: int, end: int, has_json: bool) -> bool:
    before, after = text[max(start - _NEAR, 0) : start], text[end : end + _NEAR]
    if _CODE.search(before):
        return True
    return has_json and before.rstrip()[-1:] in ("{", "[", ":", ",") and after.lstrip()[:1] in (":", ",", "]", "}")


def _kind(text: str, start: int, end: int, titles: bool) -> Kind:
    inside = text[start + 1 : end - 1]
    before = _DOUBLE.split(text[max(start - _NEAR, 0) : start])[-1]
    after = _DOUBLE.split(text[end : end + _NEAR])[0]
    is_said = bool(_SAYING.search(before) or _SAYING.search(after))
    spoken_of = _WORD_BEFORE.search(before) or _MEANS_AFTER.match(after)
    is_sign = "\0" not in inside and not any(map(str.isalnum, inside))  # "", "😀", "+"
    # One word may have its capital because it comes first: "Almost." "Love" is all you need.
    is_first = not before.strip() and len(inside.split()) == 1
    if is_sign or spoken_of or (titles and not is_first and _is_title(inside, is_said)):
        return "copied"
    is_sentence = not inside[0].islower() or _SAID_JUST_BEFORE.search(before)
    return "sentence" if is_sentence and len(inside.split()) > 1 else "fragment"


def _is_title(inside: str, is_said: bool) -> bool:
    """Whether all words have capitals, but for small ones in the middle; what is said must have three."""
    words = [word.strip(".,:;!?…()") for word in inside.split()]
    if not words or "" in words or "\0" in inside or words[0].lower() in _SAID_ALONE:
        return False
    ends = words[0], words[-1]
    capitals = all(word[0].isupper() or word[0].isdigit() or word in _SMALL for word in words)
    named = [word for word in words if len(word) > 1 and word[0].isupper()]
    if not capitals or any(word in _SMALL for word in ends) or not named:
        return False
    return len(words) > 2 or not (is_said or inside[-1] in ("!", "?", "…"))


# In a text


class Quoted(NamedTuple):
    """A text with its quotations as facts."""

    parts: list[str | Fact]
    speech: list[str]  # what is said in it
    found: bool  # whether there are quotations


def add_quotes(
    parts: Sequence[str | Fact], *, titles: bool, french: tuple[str, str] | None, said: Mapping[str, str] | None = None
) -> Quoted:
    """The parts of a text with its quotations as facts.

    Titles and empty quotations always are. So is what is said if `said` has its translations, unless nothing else is
    left to translate; then the quotes of fragments are markup. `french` are the marks to write, None those of the
    source, which need not be English.

    >>> add_quotes(['I saw "King Lear".'], titles=True, french=("« ", " »")).parts[1].written
    '« King Lear »'
    """
    text, masked = "".join(map(_text, parts)), "".join(map(_masked, parts))
    quotes = find_quotes(masked, titles=titles)
    if not _around("".join(part if isinstance(part, str) else " " * len(part.text) for part in parts), quotes):
        quotes = [quote._replace(kind="fragment") if quote.kind == "sentence" else quote for quote in quotes]
    cuts, speech, hidden = list(_inches(masked, quotes)), [], 0  # hidden: all up to here
    if french:
        cuts += _in_full(masked)
    for quote in quotes:
        if quote.start < hidden:
            continue
        if quote.kind == "code":
            cuts.append(_code(text, quote))
            hidden = quote.end
            continue
        whole = text[quote.start : quote.end]
        body = whole[1:-1].strip()
        ends = quote.kind == "copied" and not _ABBREVIATED.search(body) and SENTENCE_END.match(text, quote.end)
        inside = body.rstrip(",." if ends else ",") or body
        opening, closing = french if french and inside else (whole[0], whole[-1])
        if quote.kind == "sentence":
            speech.append(inside)
        if quote.kind == "copied" or (said is not None and quote.kind == "sentence"):
            translated = (said or {}).get(inside, inside)
            fact = Fact(whole, "copied", written=f"{opening}{translated}{closing}")
            cut = _Cut(quote.start, quote.end, [fact, body[len(inside) :]])
            cuts.append(cut if quote.kind == "copied" else _with_marks_of_speech(masked, cut))
            hidden = quote.end
        elif said is not None:
            cuts.append(_Cut(quote.start, quote.start + 1, [Fact("“", "markup", written=opening)]))
            cuts.append(_Cut(quote.end - 1, quote.end, [Fact("”", "markup", written=closing)]))
    return Quoted(_replaced(parts, sorted(cuts, key=lambda cut: cut.start)), speech, bool(quotes))


def _around(text: str, quotes: Sequence[Quote]) -> bool:
    """Whether there are words outside of all quotations."""
    end = 0
    for quote in [*quotes, Quote(len(text), len(text), "copied")]:
        if _LETTER.search(text, end, quote.start):
            return True
        end = max(end, quote.end)
    return False


class _Cut(NamedTuple):
    """A part of a text, and what comes instead of it."""

    start: int
    end: int
    new: list[str | Fact]


def _code(text: str, quote: Quote) -> _Cut:
    """With what it belongs to: print("x"), name="x"."""
    start, end = quote.start, quote.end
    found = _CODE.search(text[max(start - _NEAR, 0) : start])
    if found:
        end += text[start - 1] in "([" and text[end : end + 1] in (")", "]")
        start -= len(found.group())
    return _Cut(start, end, [Fact(text[start:end], "copied")])


def _with_marks_of_speech(text: str, cut: _Cut) -> _Cut:
    """With a colon before, a comma after: without its words, nothing else tells that somebody says it."""
    fact, after = cut.new
    introduced = _INTRODUCED.search(text[max(cut.start - _NEAR, 0) : cut.start])
    if introduced:
        return _Cut(cut.start - len(introduced[1]), cut.end, [": ", fact, after])
    return _Cut(cut.start, cut.end, [fact, "," if _TOLD_BY.match(text, cut.end) else after])


def _inches(text: str, quotes: Sequence[Quote]) -> Iterator[_Cut]:
    taken = {quote.end for quote in quotes} | {quote.start + 1 for quote in quotes}
    for found in _INCHES.finditer(text):
        if found.end() not in taken:
            yield _Cut(*found.span(), [Fact(found.group(), "copied")])


def _in_full(text: str) -> Iterator[_Cut]:
    """Words that begin with an apostrophe, in full: models take it for a quote."""
    for found in _ELIDED_WORD.finditer(text):
        if found[1]:
            yield _Cut(found.start(), found.start() + 1, [])
        else:
            full = _ELIDED[found[2].lower()]
            yield _Cut(*found.span(), [full[0].upper() + full[1:] if found[2][0].isupper() else full])


def _text(part: str | Fact) -> str:
    return part if isinstance(part, str) else part.text


def _masked(part: str | Fact) -> str:
    """A part without quotes of its own; beside markup a quotation may begin and end."""
    if isinstance(part, str) or part.kind == "number":
        return _text(part)
    return ("\0" if part.kind == "markup" else "x") * len(part.text)


def _replaced(parts: Sequence[str | Fact], cuts: Sequence[_Cut]) -> list[str | Fact]:
    """The parts with what comes instead of some of them, or of pieces of plain ones."""
    out: list[str | Fact] = []
    waiting = list(reversed(cuts))
    place = done = 0  # of this part; all before `done` is in `out`
    for part in parts:
        end = place + len(_text(part))
        while waiting and waiting[-1].start < end:
            cut = waiting.pop()
            if cut.start < max(done, place) or (cut.start > place and not isinstance(part, str)):
                continue  # a part of a fact is not replaced
            if isinstance(part, str):
                out.append(part[max(done - place, 0) : cut.start - place])
            out += cut.new
            done = cut.end
        if done <= place or isinstance(part, str):
            out.append(part[max(done - place, 0) :] if isinstance(part, str) else part)
        place = end
    return [part for part in out if part]


# In a translation


def french_quotes(text: str) -> str:
    """French with « » for other quotes.

    >>> french_quotes('"Stop !" cria-t-il.')
    '« Stop ! » cria-t-il.'
    """
    pairs = [quote for quote in find_quotes(text, titles=False) if text[quote.start] != "«"]
    marks = {quote.start: "« " for quote in pairs} | {quote.end - 1: " »" for quote in pairs}
    return "".join(marks.get(place, letter) for place, letter in enumerate(text)) if pairs else text


def commas_outside(text: str) -> str:
    """French with the commas after closing quotes that English has before them; none beside another mark.

    Where what is said goes on, I is no capital in French.

    >>> commas_outside("« Oui, » dit-il, « Je sais. »")
    '« Oui », dit-il, « je sais. »'
    """
    text = _COMMA_INSIDE.sub(lambda found: found[1].replace(",", "") + ("" if found[2] else ","), text)
    return _GOES_ON.sub(r"\1j", text)


@dataclass(frozen=True)
class QuoteCheck:
    """How many quotations a model saw, and how much of the text was in them.

    >>> check = QuoteCheck.of('He said "I don\\'t know" and left.')
    >>> check.kept("Il a dit « je ne sais pas » et est parti."), check.kept("Il a dit « je ne sais pas et est parti. »")
    (True, False)
    """

    pairs: int
    share: float
    outside: tuple[bool, bool]  # whether words come before the first, and after the last
    lonely: bool  # whether there are only quotes without a partner

    @classmethod
    def of(cls, source: str) -> QuoteCheck:
        """The quotations of what a model reads."""
        spans = [(quote.start, quote.end) for quote in find_quotes(source, titles=False)]
        lonely = not spans and _DOUBLE.search(source) is not None
        return cls(len(spans), _share(source, spans), _outside(source, spans), lonely)

    def kept(self, text: str) -> bool:
        """Whether a translation has as many, around about as much of it."""
        if not self.pairs:
            return self.lonely or not _DOUBLE.search(text)
        if text.count('"') % 2 or text.count("«") != text.count("»"):
            return False
        spans = [(quote.start, quote.end) for quote in find_quotes(text, titles=False)]
        most = _SURE if _outside(text, spans) == self.outside else _UNSURE
        return len(spans) == self.pairs and abs(_share(text, spans) - self.share) <= most


def _share(text: str, spans: Sequence[tuple[int, int]]) -> float:
    """How much of the letters is in quotes."""
    inside = end = 0
    for first, last in sorted(spans):
        inside += sum(map(str.isalnum, text[max(first, end) : max(last, end)]))
        end = max(end, last)
    total = sum(map(str.isalnum, text))
    return inside / total if total else 0.0


def _outside(text: str, spans: Sequence[tuple[int, int]]) -> tuple[bool, bool]:
    first, last = min((a for a, _ in spans), default=0), max((b for _, b in spans), default=0)
    return any(map(str.isalnum, text[:first])), any(map(str.isalnum, text[last:]))
