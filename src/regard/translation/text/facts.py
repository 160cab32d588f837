"""What must come out of a translation as it went in: numbers, addresses, code, markup, placeholders.

`split_facts` finds them in a text. There are three kinds:
  copied   URLs, e-mail addresses, paths, code, {name}, %d, versions, product codes, phone numbers, numeric dates, x^2.
           The model does not see them: it reads a mark, ⟦1⟧, or nothing where its vocabulary has no marks.
  markup   HTML tags, Markdown's emphasis and links: not words, so they are removed and put back by the alignment.
  number   the model sees it, since grammar depends on it (1 day, 2 days), but for times with am or pm into French.
           `Numbers.kept` says whether a translation has every number of its source and no other; `Numbers.rewrite`
           writes them as the target language does.

In French 1,299.50 is written 1 299,50 and $5 is 5 $, 50% is 50 %, 10:30 pm is 22 h 30, with plain spaces; `typeset`
makes them no-break spaces. What has no comma or point is written as in the source: years, 3-5, 5 mg, 20 °C.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

__all__ = ["SENTENCE_END", "Fact", "Numbers", "french_number", "split_facts"]

Kind = Literal["copied", "markup", "number"]

# Every alternative that repeats a class begins where no character of that class precedes it, or takes all it can for
# good: a text without end is read once.
_TOP = "com|org|net|edu|gov|info|io|dev|app|ai|fr|de|uk|eu|ch|be|ca|us"
_FILES = (
    "txt|md|rst|py|js|ts|json|csv|tsv|pdf|docx?|xlsx?|pptx?|png|jpe?g|gif|svg|html?|css|xml|ya?ml|toml|zip|tar|gz|exe|"
    "sh|mp3|mp4|wav|log|ini|cfg|conf|sql|cpp|java|ipynb|env"
)
_URL_REST = r"""[^\s<>"“”«»`⟦⟧|]"""
_COPIED = {
    "code": r"```[^`]*+```|``[^`\n]++``|`[^`\n]++`",
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

_UNITS = {  # the sign, and how a French word for it begins
    "%": "pour ?cent", "°C": "degr", "°F": "degr", "°": "degr", "km/h": "kilom", "mph": "mil", "km": "kilom",
    "cm": "centim", "mm": "millim", "mg": "milligr", "kg": "kilo", "ml": "millil", "mL": "millil", "kB": "kilo",
    "KB": "kilo", "MB": "m[ée]ga", "GB": "giga", "TB": "t[ée]ra", "Hz": "hertz", "kHz": "kilo", "MHz": "m[ée]ga",
    "GHz": "giga", "kWh": "kilo", "kW": "kilo", "MW": "m[ée]ga", "mA": "milli", "dB": "d[ée]cib", "kcal": "kilo",
    "ms": "millis", "lbs": "livre", "lb": "livre", "oz": "once", "ft": "pied", "g": "gramme", "m": "m[èe]tre",
    "l": "litre", "L": "litre", "W": "watt", "V": "volt", "px": "pixel",
}  # fmt: skip
_CURRENCIES = {"$": "dollar", "€": "euro", "£": "livre", "¥": "yen"}
_UNIT = "|".join(re.escape(unit) for unit in sorted(_UNITS, key=len, reverse=True))
_DIGITS = (
    r"(?:\d{1,3}(?:,\d{3})++(?:\.\d++)?+(?!\d|,\d)|\d{1,3}(?:[ \u00a0\u202f]\d{3})++(?:[.,]\d++)?(?!\d)"
    r"|\d++(?:[.,]\d++)*+|\.\d++)"
)
_HALF = r"[ap]m\b|[AP]M\b|[ap]\.m\.|[AP]\.M\."  # of the day
_NUMBER = (
    rf"(?P<time>(?<![\w:.,])\d{{1,2}}:\d\d(?::\d\d)?(?![\d:])(?:\s?(?:{_HALF}))?|(?<![\w:.,])\d{{1,2}}\s?(?:{_HALF}))"
    rf"|(?P<number>(?P<before>(?:(?<![A-Za-z])(?:US|CA|AU))?[$€£¥]\s?)?(?<![\d⟦])(?<!\d[.,])(?P<digits>{_DIGITS})"
    rf"(?P<after>\s?(?:(?:{_UNIT})(?![\w/^])|[%€£¥]|\$(?!\d)))?)"
)
# A word of letters and digits, with a capital: A4, COVID-19, MP3, AB-1234-X. Not 21ST or 1990S; 5MB is a number.
_CODE = (
    r"(?<![\w-])(?=[A-Za-z-]*+\d)(?=[a-z\d-]*+[A-Z])(?!\d++(?:ST|ND|RD|TH|S)\b)[A-Za-z\d]++(?:-[A-Za-z\d]++)*+(?![\w-])"
    r"|(?<![\w-])(?=[a-z]*+\d)(?=\d*+[a-z])(?=[a-z\d]{6,})(?=[a-z]*+\d++[a-z]++\d)[a-z\d]++(?![\w-])"
    r"|(?<![\w.,-])\d{1,4}-\d{1,5}(?:-\d{1,7})++(?![\w-])"
)
_FACT = re.compile(
    "|".join(f"(?P<{name}>{pattern})" for name, pattern in _COPIED.items())
    + rf"|(?P<markup>{_MARKUP})|(?P<unit>(?<![\w.,-])\d++\s?(?:{_UNIT})(?![\w/^-]))|(?P<product>{_CODE})|{_NUMBER}"
)
_AMOUNT = re.compile(_NUMBER)
_TRAILING = ".,;:!?'\"*_~"
# After "5 a.m.": the dot ends the sentence too, if nothing follows or a capital that is no day, month or zone.
SENTENCE_END = re.compile(
    r"""["'”’»)\]]*+(?:$|\s++(?!(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day|(?:Jan|Febr)uary|March|April|May|June|July|August"""
    r"""|(?:Septem|Octo|Novem|Decem)ber|Eastern|Central|Mountain|Pacific|Greenwich|[A-Z]{2,4}\b)[A-Z])"""
)
_RANGE, _NEAR = re.compile(r"\d\s?(?:-|–|to|and|or|until|till)\s?$"), 9  # characters before a time
_PM = re.compile(r"p\.?m", re.IGNORECASE)
_ORDINAL = re.compile(r"(?:st|nd|rd|th|ST|ND|RD|TH)\b")
_DECADE = re.compile(r"'?[sS]\b")
_MAGNITUDE = re.compile(r"\s?(?:thousand|million|billion|trillion|k|K|M|bn|B)\b")
_FOUND = re.compile(  # in a translation; the digit of a mark is none
    r"(?<![\d⟦])\d{1,3}(?:[ \u00a0\u202f.,]\d{3})++(?:[.,]\d++)?(?!\d)|(?<!⟦)\d++(?:[.,]\d++)*+"
)
_NUMBER_WORD = re.compile(
    r"\b(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|\w+teen|twenty|thirty|forty|fifty|sixty|seventy"
    r"|eighty|ninety|hundred|thousand|million|billion|dozen|half|quarter|noon|midnight|first|second|third|o'clock|zero"
    r"|fourth|fifth|\w+th)\b",
    re.IGNORECASE,
)
_FRENCH = [
    "zéro", "une?", "deux", "trois", "quatre", "cinq", "six", "sept", "huit", "neuf", "dix",
    "onze", "douze", "treize", "quatorze", "quinze", "seize", "dix-sept", "dix-huit", "dix-neuf", "vingt",
]  # fmt: skip
_SPELLED = 20  # a number up to this may be written in words, in any language


@dataclass(frozen=True)
class Fact:
    """A part of a text that is not translated.

    >>> [part for part in split_facts("It costs $5.") if isinstance(part, Fact)][0].french
    '5 $'
    """

    text: str
    kind: Kind
    number: str = ""  # of a number: its digits with their separators
    before: str = ""  # a currency sign
    after: str = ""  # a unit
    exact: bool = True  # False: an ordinal or a decade, which has other forms in French
    half: bool = False  # whether it is a time of its own, with am or pm
    written: str = ""  # of a quotation: how it is written in the translation

    @property
    def keys(self) -> list[str]:
        """The digits of each number in it."""
        return [_key(each) for each in re.findall(r"\d+", self.text)] if self.is_time else [_key(self.number)]

    @property
    def is_time(self) -> bool:
        """Whether it is a time of the day."""
        return self.kind == "number" and not self.number

    @property
    def french(self) -> str:
        """How it is written in French."""
        if self.is_time:
            return _french_time(self.text)
        if self.kind != "number":
            return self.text
        sign, unit = self.before.strip(), self.after.strip()
        spaced = unit in {"%", *_CURRENCIES}
        return french_number(self.number) + (f" {sign}" if sign else "") + (f" {unit}" if spaced else self.after)


def split_facts(text: str) -> list[str | Fact]:
    """A text as plain parts and facts, in order.

    >>> [part if isinstance(part, str) else (part.kind, part.text) for part in split_facts("Mail a@b.org by <b>5</b>.")]
    ['Mail ', ('copied', 'a@b.org'), ' by ', ('markup', '<b>'), ('number', '5'), ('markup', '</b>'), '.']
    """
    parts: list[str | Fact] = []
    end = 0
    emphasis = sorted(span for found in _EMPHASIS.finditer(text) for span in (found.span(1), found.span(2)))
    marks = iter([*emphasis, (len(text) + 1, len(text) + 1)])
    mark = next(marks)
    place = 0
    while True:
        match = _FACT.search(text, place)
        start = len(text) if match is None else match.start()
        while mark[0] < min(start, len(text)):  # emphasis before the next fact; inside of one it belongs to it
            if mark[0] >= end:
                parts += [text[end : mark[0]], Fact(text[slice(*mark)], "markup")]
                end = mark[1]
            mark = next(marks)
        if match is None:
            break
        fact = _fact(text, match)
        parts += [text[end:start], fact] if start >= end else []
        end = max(end, start + len(fact.text))
        place = max(start + len(fact.text), place + 1)
    parts.append(text[end:])
    return [part for part in parts if part]


def _fact(text: str, match: re.Match[str]) -> Fact:
    found, start = match.group(), match.start()
    if match["unit"]:
        match = _AMOUNT.match(text, start) or match
        found = match.group()
    if match["time"]:
        if found.endswith(".") and SENTENCE_END.match(text, start + len(found)):
            found = found[:-1]
        # Of "3 to 4 pm" both are after noon: the model is left to say so.
        half = _french_time(found) != found and not _RANGE.search(text[max(start - _NEAR, 0) : start])
        return Fact(found, "number", half=half)
    if match["number"]:
        number, before, after = match["digits"], match["before"] or "", match["after"] or ""
        end = match.end()
        if before and _MAGNITUDE.match(text, end):  # $5 million is 5 millions de dollars
            return Fact(found, "number", number, before, after, exact=False)
        exact = not (_ORDINAL.match(text, end) or _DECADE.match(text, end))
        return Fact(found, "number", number, before, after, exact)
    groups = match.groupdict()
    if groups["markup"]:
        return Fact(found, "markup")
    if groups["url"] or groups["domain"] or groups["path"] or groups["power"]:
        while found[-1] in _TRAILING or (found[-1] in ")]}" and _unopened(found)):
            found = found[:-1]
    return Fact(found, "copied")


def _unopened(text: str) -> bool:
    """Whether the bracket at the end was opened before the text: "(see http://a.org/b)"."""
    opening = "([{"[")]}".index(text[-1])]
    return text.count(opening) < text.count(text[-1])


# Numbers


def french_number(number: str) -> str:
    """An English number as it is written in French; whatever is not one stays as it is.

    >>> [french_number(number) for number in ("1,299.00", "3.5", ".5", "2030", "1,23")]
    ['1 299,00', '3,5', '0,5', '2030', '1,23']
    """
    if re.fullmatch(r"\d{1,3}(,\d{3})+(\.\d+)?", number):
        return number.replace(",", " ").replace(".", ",")
    if re.fullmatch(r"\d*\.\d+", number):
        return (number if number[0] != "." else f"0{number}").replace(".", ",")
    return number


def _french_time(text: str) -> str:
    """10:30 pm as 22 h 30; without am or pm it stays as it is."""
    found = re.fullmatch(r"(\d+)(?::(\d\d))?(:\d\d)?\s?([ap])\.?m\.?", text, re.IGNORECASE)
    if found is None or found[3] or int(found[1]) > 12:
        return text
    hour = int(found[1]) % 12 + 12 * (found[4].lower() == "p")
    return f"{hour} h" + (f" {found[2]}" if found[2] and found[2] != "00" else "")


def _key(number: str) -> str:
    return re.sub(r"\D", "", number)


@dataclass(frozen=True)
class Numbers:
    """The numbers of a source as a model saw them, to be found again in its translation.

    >>> parts = [part for part in split_facts("I paid $1,299.00 for 2 of them.") if isinstance(part, Fact)]
    >>> numbers = Numbers([(fact, fact.number) for fact in parts], "I paid $1,299.00 for 2 of them.", french=True)
    >>> numbers.kept("J'en ai payé 1,299.00 $ pour deux."), numbers.kept("J'ai payé $ 129.000 pour 2.")
    (True, False)
    >>> numbers.rewrite("J'ai payé $1,299.00 pour 2.")
    "J'ai payé 1 299,00 $ pour 2."
    """

    shown: Sequence[tuple[Fact, str]]  # each number, and the digits that the model saw instead of its own
    source: str = field(repr=False)
    french: bool

    def kept(self, text: str) -> bool:
        """Whether a translation has every number of the source, with its unit, and no other."""
        lost, others = self._compare(text)
        return not lost and not others and self._units_kept(text)

    def wrong(self, text: str) -> tuple[Fact, str] | None:
        """The one number of the source that is lost, and the digits that are there instead, if it is only that."""
        lost, others = self._compare(text)
        return (lost[0], others[0]) if len(lost) == len(others) == 1 and self._units_kept(text) else None

    def rewrite(self, text: str) -> str:
        """A translation with its numbers written as in French, or else as in the source."""
        forms = {_key(digits): fact for fact, digits in self.shown if not fact.is_time}
        if not forms:
            return text
        wrong = self.wrong(text)
        if wrong is not None and not wrong[0].is_time:
            forms[wrong[1]] = wrong[0]

        def write(found: re.Match[str]) -> str:
            fact = forms.get(_key(found["digits"]))
            if fact is None:
                return found.group()
            if not self.french:
                return found.group().replace(found["digits"], fact.number)
            sign = (found["before"] or found["after"] or "").strip()
            return french_number(fact.number) + (found["many"] or "") + (f" {sign}" if sign else "")

        return _WRITTEN.sub(write, text)

    def _compare(self, text: str) -> tuple[list[Fact], list[str]]:
        """The numbers of the source that a translation has not, and the digits of those that only it has."""
        found = Counter(_key(each.group()) for each in _FOUND.finditer(text))
        lost = []
        for fact, digits in self.shown:
            for key in fact.keys if fact.is_time else [_key(digits)]:
                form = next((form for form in self._forms(fact, key) if found[form]), None)
                if form is not None:
                    found[form] -= 1
                elif fact.exact and not self._spelled(key, text):
                    lost.append(fact)
        times = any(fact.is_time for fact, _ in self.shown)
        others = [key for key in found.elements() if not (times and key in ("0", "00"))]
        return lost, [] if others and not lost and _NUMBER_WORD.search(self.source) else others

    def _afternoon(self, fact: Fact, text: str) -> bool:
        """Whether a time after noon is still one: 5 pm is 17 h, or 5 h de l'après-midi."""
        if not self.french or not fact.is_time or not _PM.search(fact.text):
            return True
        hour = int(re.findall(r"\d+", fact.text)[0])
        return hour > 11 or bool(re.search(rf"\b{hour + 12}|après-midi|soir|nuit|p\.?m\b", text, re.IGNORECASE))

    def _forms(self, fact: Fact, key: str) -> Iterator[str]:
        """The digits that may stand for it."""
        yield key
        if fact.is_time and _PM.search(fact.text) and int(key) < 12:
            yield str(int(key) + 12)
        if not fact.exact and len(key) == 4:
            yield key[2:]

    def _spelled(self, key: str, text: str) -> bool:
        if len(key) > 2 or int(key) > _SPELLED:
            return False
        return not self.french or bool(re.search(rf"\b(?:{_FRENCH[int(key)]})\b", text, re.IGNORECASE))

    def _units_kept(self, text: str) -> bool:
        facts = [fact for fact, _ in self.shown if fact.exact]
        return all(self._has_unit(fact, text) and self._afternoon(fact, text) for fact in facts)

    def _has_unit(self, fact: Fact, text: str) -> bool:
        sign, unit = fact.before.strip()[-1:], fact.after.strip()
        for name, words in ((sign, _CURRENCIES), (unit, _UNITS | _CURRENCIES)):
            if name and name not in text and not (self.french and re.search(words[name], text, re.IGNORECASE)):
                return False
        return True


_WRITTEN = re.compile(
    rf"(?P<before>[$€£¥] ?)?(?<![\d.,])(?P<digits>{_FOUND.pattern})(?P<many> (?:millions?|milliards?|mille))?"
    rf"(?P<after> ?[%$€£¥](?!\w))?"
)
