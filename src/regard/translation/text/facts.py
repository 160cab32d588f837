"""The facts of a text: what must be in its translation as it was in the source. `split_facts` finds them.

There are three kinds:
  copied   URLs, e-mail addresses, paths, code, {name}, %d, versions, product codes, phone numbers, numeric dates, x^2.
           The model reads a mark in their place, ⟦1⟧, or nothing if its vocabulary has no marks.
  markup   HTML tags, Markdown's emphasis and links: removed, and put back by the alignment.
  number   The model reads it, since grammar depends on it (1 day, 2 days). `Numbers.kept` says whether a translation
           has every number of its source and no other; `Numbers.rewrite` writes them as the target language does.
Quotations are further kinds. The model reads them with their marks. If the translation has lost some, the text is
translated again without the marks, and the alignment says where they go (segments.py). Copied are titles, "War and
Peace", words under discussion, the word "love", inches, 5", and empty quotations.

In French 1,299.50 is written 1 299,50 and $5 is 5 $, 50% is 50 %, 10:30 pm is 22 h 30. Numbers without a comma or a
point are written as in the source: years, 3-5, 5 mg, 20 °C.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from regard.translation.text.languages import Languages

Kind = Literal["copied", "markup", "number", "title", "opening", "closing"]

# Alternatives that repeat a class start where no character of the class precedes, or use a possessive repeat: a long
# text is read once.
_TOP = "com|org|net|edu|gov|info|io|dev|app|ai|fr|de|uk|eu|ch|be|ca|us"
_FILES = (
    "txt|md|rst|py|js|ts|json|csv|tsv|pdf|docx?|xlsx?|pptx?|png|jpe?g|gif|svg|html?|css|xml|ya?ml|toml|zip|tar|gz|exe|"
    "sh|mp3|mp4|wav|log|ini|cfg|conf|sql|cpp|java|ipynb|env"
)
_URL_REST = r"""[^\s<>"“”«»`⟦⟧|]"""
_COPIED = {
    "code": r"```[^`]*+```|``[^`\n]++``|`[^`\n]++`",
    "call": (
        r"""(?<![\w.-])[\w.-]++(?:=["“][^"”\n]*+["”]|[(\[]["“][^"”\n]*+["”][)\]]?)"""
        r"""|[{\[]\s*+"[^"{}\n]*+"[^{}\n]*+}"""
    ),
    "mark": r"⟦[^⟦⟧\n]{0,9}⟧|[⟦⟧]",
    "url": rf"(?<![A-Za-z])(?:https?|ftp|file|mailto|ssh|git):(?://)?{_URL_REST}++|(?<![\w.@/-])www\.{_URL_REST}++",
    "email": r"(?<![\w.+-])[\w.+-]++@[\w-]++(?:\.[\w-]++)++",
    "domain": rf"(?<![\w.@/-])(?:[A-Za-z0-9-]++\.){{1,4}}(?<=\.)(?:{_TOP})\b(?!\.\w)(?:/{_URL_REST}*+)?",
    "placeholder": (
        r"\{\{[^{}\n]{0,80}+\}\}|[$#]\{[^{}\n]{0,80}+\}|\{[\w.:!%#$-]{0,80}+\}|%\(\w{1,40}+\)[-+#0-9.]{0,6}+[a-zA-Z]"
        r"|(?<![\d%])%[-+0#]?\d{0,3}(?:\.\d{1,2})?l?[sdfixgu](?!\w)|(?<![\w$])\$[A-Z_]{2,40}+\b|%[A-Z_]{2,40}+%"
    ),
    "path": (
        r"""(?<![^\s("'=])(?:~|\.{1,2})?/(?:[\w.@%+-]++/)*+[\w.@%+-]*\w/?|(?<!\w)[A-Z]:\\[^\s"<>|]*+"""
        rf"|(?<![\w/.-])(?:[\w-]++/)++[\w-]++\.\w++|(?<![\w/.-])[\w-]++(?:\.[\w-]++)??\.(?:{_FILES})\b"
    ),
    "handle": r"(?<![\w@.])@[A-Za-z_]\w{1,40}+|(?<![\w#&])#(?:[A-Za-z_]\w{0,60}+|\d{1,12}+(?!\w|\.\d))",
    # x^2, O(n^2), but not the footnote in known^2
    "power": r"(?<![\w^.])(?=\w[\w(){}.+*/=-]{0,60}?(?<=[\w)}])(?<![^\W\d_]{4})\^[\w({+-])[\w^(){}.+*/=-]{1,80}+",
    "identifier": (
        r"(?<!\w)__\w{1,60}?__(?!\w)|(?<![\w.])[A-Za-z]\w{0,60}?_\w++(?:\(\))?|(?<![\w.])[a-z]\w{0,60}+(?:\.\w++)*+\(\)"
        r"|(?<!\w)[a-z]{1,30}+[A-Z]\w{0,60}+(?!\w)"
    ),
    "formula": r"(?<!\w)[A-Za-z]{1,3}[²³₀-₉]\w{0,8}+(?!\w)",  # CO₂, m²: normalised, they would be CO2 and m2
    "date": r"(?<![\d/.-])(?:\d{4}-\d\d-\d\d(?:T[\d:]++Z?)?|\d{1,2}/\d{1,2}/(?:\d{4}|\d\d))(?![\d/-])",
    "phone": (
        r"(?<![\w+])\+\d{1,3}(?:[ .-]?\(?\d{1,4}\)?){2,6}(?!\w)|(?<!\w)\(\d{3}\) ?\d{3}-\d{4}(?!\d)"
        r"|(?<![\w-])\d{3}-\d{4}(?![\w-])|(?<![\w-])\d(?:-?\d{3}){2}-\d{4}(?![\w-])|(?<![\w-])\d{3}-\d{3}-\d{4}(?![\w-])"
        r"|(?<![\w.])0\d(?:[ .]\d\d){4}(?![\w])"
    ),
    "version": r"(?<![\w.])v\d++(?:\.\d++)*+(?:-\w++)?(?!\w)|(?<![\w.,])\d++(?:\.\d++){2,}(?:-\w++(?:\.\d++)*+)?(?!\w)",
}
_MARKUP = (
    r"<!--[^<>\n]*+-->|</?[A-Za-z][^<>\n]*+>|&(?:[a-zA-Z]{2,8}|#\d{1,6});"
    r"|!?\[(?=[^\[\]\n]*+\]\([^()\s]*+(?:\s\"[^\"\n]*+\")?\))|\]\([^()\s]*+(?:\s\"[^\"\n]*+\")?\)"
)
_EMPHASIS = re.compile(r"(?<![\w*~])(\*{1,3}|_{1,2}|~~)(?=[^\s*_~])[^*_~\n]++(?<=\S)(\1)(?![\w*~])")

_UNIT = (
    "°C|°F|km/h|mph|kHz|MHz|GHz|kWh|kcal|lbs|km|cm|mm|mg|kg|ml|mL|kB|KB|MB|GB|TB|Hz|kW|MW|mA|dB|ms|lb|oz|ft|px"
    "|[%°gmlLWV]"
)
_DIGITS = (
    r"(?:\d{1,3}(?:,\d{3})++(?:\.\d++)?+(?!\d|,\d)|\d{1,3}(?:[ \u00a0\u202f]\d{3})++(?:[.,]\d++)?(?!\d)"
    r"|\d++(?:[.,]\d++)*+|\.\d++)"
)
_HALF = r"[ap]m\b|[AP]M\b|[ap]\.m\.|[AP]\.M\."  # of the day
# The first time of "3 to 4 pm", but not the day of "June 3 to 4 pm".
_RANGE = (
    r"(?<![\w:.,$€£¥])(?<!ary |rch |ril |May |une |uly |ust |ber )(?:1[0-2]|[1-9])(?::\d\d)?"
    rf"(?=(?:\s?[-–]\s?|\s(?:to|and|or|until|till)\s)(?P<end>1[0-2]|[1-9])(?::\d\d)?\s?(?P<half>{_HALF}))"
)
_NUMBER = (
    rf"(?P<time>{_RANGE}|(?<![\w:.,])\d{{1,2}}:\d\d(?::\d\d)?(?![\d:])(?:\s?(?:{_HALF}))?|(?<![\w:.,])\d{{1,2}}\s?(?:{_HALF}))"
    rf"|(?P<number>(?P<before>(?:(?<![A-Za-z])(?:US|CA|AU))?[$€£¥]\s?)?(?<![\d⟦])(?<!\d[.,])(?P<digits>{_DIGITS})"
    rf"(?P<after>\s?(?:(?:{_UNIT})(?![\w/^])|[%€£¥]|\$(?!\d)))?)"
)
# A word of letters and digits, with a capital: A4, COVID-19, MP3, AB-1234-X. Not 21ST, 1990S or 5MB.
_CODE = (
    rf"(?<![\w-])(?=[A-Za-z-]*+\d)(?=[a-z\d-]*+[A-Z])(?!\d++(?:ST|ND|RD|TH|S|{_UNIT})(?![\w/^-]))"
    r"[A-Za-z\d]++(?:-[A-Za-z\d]++)*+(?![\w-])"
    r"|(?<![\w-])(?=[a-z]*+\d)(?=\d*+[a-z])(?=[a-z\d]{6,})(?=[a-z]*+\d++[a-z]++\d)[a-z\d]++(?![\w-])"
    r"|(?<![\w.,-])\d{1,4}-\d{1,5}(?:-\d{1,7})++(?![\w-])"
)
_FACT = re.compile(
    "|".join(f"(?P<{name}>{pattern})" for name, pattern in _COPIED.items())
    + rf"|(?P<markup>{_MARKUP})|(?P<product>{_CODE})|{_NUMBER}"
)
_TRAILING = ".,;:!?'\"*_~"
# After "5 a.m." the dot also ends the sentence, unless a day, a month or an abbreviation follows.
_SENTENCE_END = re.compile(
    r"""["'”’»)\]]*+(?:$|\s++(?!(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day|(?:Jan|Febr)uary|March|April|May|June|July|August"""
    r"""|(?:Septem|Octo|Novem|Decem)ber|Eastern|Central|Pacific|[A-Z]{2,4}\b)[A-Z])"""
)
_ORDINAL_OR_DECADE = re.compile(r"(?:st|nd|rd|th|ST|ND|RD|TH|'?[sS])\b")
_MAGNITUDE = re.compile(r"\s?(?:thousand|million|billion|trillion|k|K|M|bn|B)\b")
_NUMBER_WORD = re.compile(
    r"\b(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|\w+teen|\w+ty|hundred|thousand|million|billion"
    r"|dozen|half|quarter|noon|midnight|first|second|third|o'clock|zero|\w+th)\b",
    re.IGNORECASE,
)
_WRITTEN_DIGITS = re.compile(  # in a translation; the digit of a mark is not a number
    r"(?<![\d⟦])\d{1,3}(?:[ \u00a0\u202f.,]\d{3})++(?:[.,]\d++)?(?!\d)|(?<!⟦)\d++(?:[.,]\d++)*+"
)
_WRITTEN = re.compile(
    rf"(?P<before>[$€£¥] ?)?(?<![\d.,])(?P<digits>{_WRITTEN_DIGITS.pattern})(?P<many> (?:millions?|milliards?|mille))?"
    rf"(?P<after> ?[%$€£¥](?!\w))?"
)
_SPELLED = 20  # a number up to this may be written in words


@dataclass(frozen=True)
class Fact:
    """A part of a text that is not translated."""

    text: str
    kind: Kind
    body: str = ""  # of a number its digits with their separators, none for a time of the day; of a title its words
    before: str = ""  # a currency sign, or the quotation mark of a title
    after: str = ""  # a unit, or a quotation mark
    exact: bool = True  # False: an ordinal, a decade or $5 million, which have other forms in French
    half: str = ""  # of a time: "a" before noon, "p" after noon, "" if its text does not say

    @property
    def is_time(self) -> bool:
        """Whether it is a time of the day."""
        return self.kind == "number" and not self.body

    @property
    def keys(self) -> list[str]:
        """The digits of each number in it, without separators."""
        return re.findall(r"\d+", self.text) if self.is_time else [_key(self.body)]

    def write(self, languages: Languages) -> str:
        """How the target language writes it.

        >>> from regard.translation.text.languages import ENGLISH_FRENCH
        >>> split_facts("$5")[0].write(ENGLISH_FRENCH)
        '5 $'
        """
        opening, closing = languages.quotes or (self.before or self.text, self.after or self.text)
        if self.kind == "title":
            return f"{opening}{self.body}{closing}"
        if self.kind in ("opening", "closing"):
            return closing if self.kind == "closing" else opening
        if self.kind != "number" or not languages.number_rules:
            return self.text
        if self.is_time:
            return languages.number(f"{self.text}{self.half}m" if self.half and self.text[-1].isdigit() else self.text)
        sign, unit = self.before.strip(), self.after.strip()
        spaced = re.fullmatch(r"[%$€£¥]", unit)
        return languages.number(self.body) + (f" {sign}" if sign else "") + (f" {unit}" if spaced else self.after)


def split_facts(text: str, quotes: Sequence[tuple[int, Fact]] = ()) -> list[str | Fact]:
    """A text as plain parts and facts, in order; `quotes` are further facts and their places (`quotes_as_facts`).

    >>> [part if isinstance(part, str) else (part.kind, part.text) for part in split_facts("Mail a@b.org by <b>5</b>.")]
    ['Mail ', ('copied', 'a@b.org'), ' by ', ('markup', '<b>'), ('number', '5'), ('markup', '</b>'), '.']
    """
    markup = [
        (start, Fact(text[start:end], "markup"))
        for match in _EMPHASIS.finditer(text)
        for start, end in (match.span(1), match.span(2))
    ]
    parts: list[str | Fact] = []
    end = 0
    for start, fact in sorted([*quotes, *_find(text), *markup], key=lambda each: each[0]):
        if start >= end:  # else it is inside another fact
            parts += [text[end:start], fact]
            end = start + len(fact.text)
    return [part for part in [*parts, text[end:]] if part]


def _find(text: str) -> Iterator[tuple[int, Fact]]:
    place = 0
    while match := _FACT.search(text, place):
        fact = _fact(text, match)
        yield match.start(), fact
        place = match.start() + max(len(fact.text), 1)


def _fact(text: str, match: re.Match[str]) -> Fact:
    matched, end = match.group(), match.end()
    if match["time"]:
        if matched.endswith(".") and _SENTENCE_END.match(text, end):
            matched = matched[:-1]
        half = next((letter for letter in (match["half"] or matched).lower() if letter in "ap"), "")
        if match["half"] and int(re.findall(r"\d+", matched)[0]) % 12 >= int(match["end"]) % 12:  # 9 to 5 pm
            half = "a" if half == "p" else "p"
        return Fact(matched, "number", half=half)
    if match["number"]:
        before, after = match["before"] or "", match["after"] or ""
        other_form = _MAGNITUDE if before else _ORDINAL_OR_DECADE
        return Fact(matched, "number", match["digits"], before, after, exact=not other_form.match(text, end))
    if match["markup"]:
        return Fact(matched, "markup")
    if match["url"] or match["domain"] or match["path"] or match["power"]:
        while matched[-1] in _TRAILING or (matched[-1] in ")]}" and _is_unopened(matched)):
            matched = matched[:-1]
    return Fact(matched, "copied")


def _is_unopened(text: str) -> bool:
    """Whether the bracket at the end was opened before the text: "(see http://a.org/b)"."""
    opening = "([{"[")]}".index(text[-1])]
    return text.count(opening) < text.count(text[-1])


def _key(number: str) -> str:
    return re.sub(r"\D", "", number)


@dataclass(frozen=True)
class Numbers:
    """The numbers of a source that the model reads, to be checked and rewritten in its translation.

    >>> from regard.translation.text.languages import ENGLISH_FRENCH
    >>> text = "I paid $1,299.00 for 2 of them."
    >>> numbers = Numbers([part for part in split_facts(text) if isinstance(part, Fact)], text, ENGLISH_FRENCH)
    >>> numbers.kept("J'en ai payé 1,299.00 $ pour deux."), numbers.kept("J'ai payé $ 129.000 pour 2.")
    (True, False)
    >>> numbers.rewrite("J'ai payé $1,299.00 pour 2.")
    "J'ai payé 1 299,00 $ pour 2."
    """

    facts: Sequence[Fact]
    source: str = field(repr=False)
    languages: Languages

    def kept(self, text: str) -> bool:
        """Whether a translation has every number of the source with its unit, and no other number."""
        counts = Counter(map(_key, _WRITTEN_DIGITS.findall(text)))
        for fact in self.facts:
            for key in fact.keys:
                form = next((form for form in _forms(fact, key) if counts[form]), None)
                if form is not None:
                    counts[form] -= 1
                elif fact.exact and not self._is_spelled(key, text):
                    return False
        zeros = ("0", "00") if any(fact.is_time for fact in self.facts) else ()
        if any(key not in zeros for key in counts.elements()) and not _NUMBER_WORD.search(self.source):
            return False
        return all(self._has_unit(fact, text) for fact in self.facts if fact.exact)

    def rewrite(self, text: str) -> str:
        """A translation with its numbers written as in the target language, or else as in the source."""
        facts = {_key(fact.body): fact for fact in self.facts if not fact.is_time}

        def write(match: re.Match[str]) -> str:
            fact = facts.get(_key(match["digits"]))
            if fact is None:
                return match.group()
            if not self.languages.number_rules:
                return match.group().replace(match["digits"], fact.body)
            sign = (match["before"] or match["after"] or "").strip()
            return self.languages.number(fact.body) + (match["many"] or "") + (f" {sign}" if sign else "")

        return _WRITTEN.sub(write, text) if facts else text

    def _is_spelled(self, key: str, text: str) -> bool:
        if len(key) > 2 or int(key) > _SPELLED:
            return False
        words = self.languages.number_words
        return not words or bool(re.search(rf"\b(?:{words[int(key)]})\b", text, re.IGNORECASE))

    def _has_unit(self, fact: Fact, text: str) -> bool:
        words = self.languages.sign_words
        if fact.half == "p" and words and (hour := int(fact.keys[0])) < 12:
            return bool(re.search(rf"\b{hour + 12}|{words['pm']}", text, re.IGNORECASE))
        signs = [sign for sign in (fact.before.strip()[-1:], fact.after.strip()) if sign and sign not in text]
        return all(sign in words and re.search(words[sign], text, re.IGNORECASE) for sign in signs)


def _forms(fact: Fact, key: str) -> Iterator[str]:
    """The digits that a translation may have for a number of the source."""
    yield key
    if fact.half == "p" and int(key) < 12:
        yield str(int(key) + 12)
    if not fact.exact and len(key) == 4:
        yield key[2:]


# Quotations

_MARK = re.compile('["“”«»]')
_BEFORE_OPENING = "([{-–—/=:“«'‘\""
# At least two words, all with capitals, except small words in the middle.
_SMALL_WORDS = "an?|the|and|or|of|in|on|at|to|for|from|with|by|as|vs|de|la|le|les|du|des|et"
_CAPITALISED = r"[^\W_a-zà-ÿ][\w'’.&-]*"
_TITLE = re.compile(rf"{_CAPITALISED}(?: (?:{_CAPITALISED}|{_SMALL_WORDS}))* {_CAPITALISED},?")
# Around a word under discussion: the word "love", What does 'love' mean?
_WORD_BEFORE = re.compile(
    r"\b(?:(?:word|term|expression|phrase|letter|prefix|suffix)s?|spell|pronounce) $", re.IGNORECASE
)
_MEANS_AFTER, _NEAR = re.compile(r" (?:means?|stands? for|is spelled)\b"), 12  # characters before
_SINGLE = re.compile(r"(?<!\w)['‘][^'‘’\n]{1,40}['’](?!\w)")
_EMPTY_OR_INCHES = re.compile(
    r"""(?<![^\s(])(?:"{2,3}|“”|«\s?»)(?![^\s.,;:!?)])|(?<![\d.,/])\d[\d.,/]*+(?:['’] ?\d{1,2})?["”]"""
)
_LETTER = re.compile(r"[^\W\d_]")
# The comma before closing quotes and markup, and whether another mark follows them; « , » is a quoted comma.
_COMMA_INSIDE = re.compile(
    r"(?<!\s)(?<!«),((?:</?\w++>|[*_~]++|,?[ \u00a0\u202f]?»)*(?<=»))(?![^\W_])(?=(\s?[.,;:!?…)(\]}—–-])?)"
)


def find_quotes(text: str) -> list[tuple[int, int]]:
    """Where each quotation of a text that is not empty starts and ends, its marks included.

    >>> text = 'He said "No!" of a 5" nail.'
    >>> [text[start:end] for start, end in find_quotes(text)]
    ['"No!"']
    """
    spans: list[tuple[int, int]] = []
    opened: list[int] = []
    for match in _MARK.finditer(text):
        place = match.start()
        before, after = text[place - 1 : place].strip(), text[place + 1 : place + 2].strip()
        may_open = (not before or before in _BEFORE_OPENING) and bool(after)
        may_close = bool(text[place - 1 : place].strip()) and not after.isalnum()
        if match[0] in "“«" or (match[0] == '"' and may_open and not (opened and may_close)):
            opened.append(place)
        elif opened:
            start = opened.pop()
            spans += [(start, place + 1)] if text[start + 1 : place].strip() else []
    return sorted(spans)


def quotes_as_facts(text: str, *, hide: bool) -> list[tuple[int, Fact]]:
    """What is copied of a text's quotations as facts, with their places; with `hide`, also the marks of the others.

    >>> [fact.text for _, fact in quotes_as_facts('I read "War and Peace" to "them".', hide=True)]
    ['"War and Peace', '"', '"', '"']
    """
    letters = [match.start() for match in (_LETTER.search(text), _LETTER.search(text[::-1])) if match]
    spans = find_quotes(text)
    ends_of_quotes = {end for _, end in spans}
    signs = [match for match in _EMPTY_OR_INCHES.finditer(text) if match.end() not in ends_of_quotes]
    facts = [(match.start(), Fact(match.group(), "copied")) for match in signs]
    for start, end in sorted([*spans, *(match.span() for match in _SINGLE.finditer(text))]):
        body = text[start + 1 : end - 1]
        is_whole = letters and start <= letters[0] and len(text) - end <= letters[1]
        is_title = _TITLE.fullmatch(body) and not is_whole and not text.isupper()
        if is_title or _WORD_BEFORE.search(text, max(start - _NEAR, 0), start) or _MEANS_AFTER.match(text, end):
            ends = body.count(".") == 1 and _SENTENCE_END.match(text, end)
            title = body.rstrip(",." if ends else ",") or body  # the model reads the mark at the end
            facts.append(
                (start, Fact(text[start : start + 1 + len(title)], "title", title, text[start], text[end - 1]))
            )
            facts.append((end - 1, Fact(text[end - 1], "title")))
        elif hide:
            facts += [(start, Fact(text[start], "opening")), (end - 1, Fact(text[end - 1], "closing"))]
    return facts


def keeps_quotes(source: str, translation: str) -> bool:
    """Whether a translation has as many quotations as its source; True if a mark of the source has no partner.

    >>> source = 'He said "I do not know" and left.'
    >>> keeps_quotes(source, "Il a dit « je ne sais pas » et est parti."), keeps_quotes(source, "Il a dit « je sais.")
    (True, False)
    """
    pairs = len(find_quotes(source))
    if 2 * pairs != len(_MARK.findall(source)):
        return True
    return pairs == len(find_quotes(translation)) and 2 * pairs == len(_MARK.findall(translation))


def french_quotes(text: str) -> str:
    """French with « » for other quotes.

    >>> french_quotes('"Stop !" cria-t-il.')
    '« Stop ! » cria-t-il.'
    """
    pairs = [(start, end) for start, end in find_quotes(text) if text[start] != "«"]
    marks = {start: "« " for start, _ in pairs} | {end - 1: " »" for _, end in pairs}
    return "".join(marks.get(place, letter) for place, letter in enumerate(text)) if marks else text


def commas_outside(text: str) -> str:
    """French with the commas after closing quotes that English has before them; none beside another mark.

    >>> commas_outside("« Oui, » dit-il.")
    '« Oui », dit-il.'
    """
    return _COMMA_INSIDE.sub(lambda match: match[1].replace(",", "") + ("" if match[2] else ","), text)
