"""The rules of a pair of languages, in one object: `Languages`. `ENGLISH_FRENCH` has those of the bundled model.

Other pairs have no rules: numbers and quotation marks stay as in the source.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

Rule = tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]]  # a pattern, and its replacement


@dataclass(frozen=True)
class Languages:
    """What depends on the languages of a translator; without arguments, nothing does.

    Args:
        source_rules: Applied to the source before the model reads it.
        typography_rules: Applied to a translation with typographic quotes and spaces.
        number_rules: How an English number or time is written in the target: the rules that match all of it.
        quotes: The quotation marks of the target; None: those of the source.
        number_words: Patterns for how the target spells 0, 1, 2, …; empty: a small number may be any word.
        sign_words: Patterns for how the target's word for a sign (%, kg, $) begins.
    """

    source_rules: tuple[Rule, ...] = ()
    typography_rules: tuple[Rule, ...] = ()
    number_rules: tuple[Rule, ...] = ()
    quotes: tuple[str, str] | None = None
    number_words: tuple[str, ...] = ()
    sign_words: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, name: str, *, typeset: bool = True) -> Languages:
        """The languages of this name, such as "en-fr"; without rules unless they have a table here.

        With `typeset`, translations get French typography, whatever the languages are.
        """
        if name != "en-fr":
            return cls(typography_rules=_TYPOGRAPHY if typeset else ())
        return ENGLISH_FRENCH if typeset else replace(ENGLISH_FRENCH, typography_rules=(), quotes=("« ", " »"))

    def prepare(self, text: str) -> str:
        """The source as the model reads it.

        >>> ENGLISH_FRENCH.prepare("Dont worry, I cant wait.")
        "Don't worry, I can't wait."
        """
        return _apply(self.source_rules, text)

    def typeset(self, text: str) -> str:
        """A translation with typographic apostrophes and quotes, and no-break spaces where a line must not end.

        >>> ENGLISH_FRENCH.typeset("C'est vrai ? dit-il : 1 299 %.")
        'C’est vrai\\u202f? dit-il\\xa0: 1\\u202f299\\xa0%.'
        """
        return _apply(self.typography_rules, text)

    def number(self, text: str) -> str:
        """A number or a time of the day as the target writes it.

        >>> [ENGLISH_FRENCH.number(text) for text in ("1,299.00", "3.5", ".5", "2030", "1,23", "10:30 pm")]
        ['1 299,00', '3,5', '0,5', '2030', '1,23', '22 h 30']
        """
        return _apply(self.number_rules, text)


def _apply(rules: tuple[Rule, ...], text: str) -> str:
    for pattern, form in rules:
        text = pattern.sub(form, text)
    return text


def is_typeset(text: str) -> bool:
    """Whether a text uses typographic quotes.

    >>> is_typeset("It’s late."), is_typeset("It's late.")
    (True, False)
    """
    return any(quote in text for quote in "’“”")


# English and French

# English as people type it, and in full: without apostrophes, and "you" as a letter where nothing else can be meant.
_TYPED = {
    **{f"{verb}nt": f"{verb}n't" for verb in ("do", "does", "did", "is", "are", "was", "were", "have", "has", "had")},
    **{f"{verb}nt": f"{verb}n't" for verb in ("would", "could", "should")},
    "cant": "can't", "wont": "won't", "im": "I'm", "ive": "I've", "youre": "you're", "theyre": "they're",
    "thats": "that's", "whats": "what's", "u": "you", "pls": "please", "thx": "thanks",
    "'tis": "it is", "'twas": "it was", "'em": "them", "'til": "until", "'cause": "because",
}  # fmt: skip
_ALWAYS = "|".join(word for word in _TYPED if word not in ("cant", "wont", "im", "ive", "u", "'cause"))
_SUBJECTS = "I|you|he|she|it|we|they|that|this|there|who"
_BEFORE_YOU = "can|do|did|are|will|would|could|should|thank|love|miss"
_AFTER_YOU = "are|can|will|have|want|know|need|think|should|would|could|cant|wont|dont|didnt"
_TYPED_WORD = re.compile(
    rf"""(?<![\w'.@#/&-])(?:
        (?: (?i:{_ALWAYS}) | im | ive )(?![\w'@/&-]|\.\w)
        | (?i:'cause)(?![\w'&/-]|[^']*'(?!\w))  # elsewhere a noun: 'Cause and Effect'
        | \A(?:Im|Ive)(?=\s[a-z])  # elsewhere it is a name: Mr. Ive
        | (?i:{_SUBJECTS})\s(?:cant|wont)(?!\w|'|\sto\b)  # elsewhere a noun: as is his wont
        | (?i:{_BEFORE_YOU})\su(?=\s[a-z]|[?!,]|\.?$)  # elsewhere a letter: solve for u
        | u(?=\s(?:{_AFTER_YOU})\b)
    )""",
    re.VERBOSE,
)
# What models know better: from Monday to Friday, from 12 July to 20 July.
_DAY = "(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day"
_DAYS = re.compile(rf"(?<![Ff]rom )\b({_DAY}) (?:to|through) (?={_DAY}\b)")
_MONTH = "January|February|March|April|May|June|July|August|September|October|November|December"
_DATES = re.compile(
    rf"\b({_MONTH}) (\d\d?)(?:st|nd|rd|th)?( (?:to|and|through|until) )({_MONTH}) (\d\d?)(?:st|nd|rd|th)?\b"
    r"(?![.,:]?\d|,? \d{4})"
)
_ARE_YOU = re.compile(r"(\A|[.?!,] |\b(?i:when|where|what|why|how|who|hey|hi|so) )([Rr]) u(?=\s[a-z]|[?!,]|\.?$)")


def _typed_in_full(match: re.Match[str]) -> str:
    """The last word in full, with its capital; alone and in capitals it is another word: IM, IVE."""
    before, space, word = match.group().rpartition(" ")
    if word.isupper() and not before:
        return word
    full = _TYPED[word.lower()]
    return before + space + (full[0].upper() + full[1:] if word.lstrip("'")[0].isupper() else full)


def _french_time(match: re.Match[str]) -> str:
    hour = int(match[1]) % 12 + 12 * (match[3].lower() == "p")
    return f"{hour} h" + (f" {match[2]}" if match[2] and match[2] != "00" else "")


_WIDE, _NARROW = "\u00a0", "\u202f"  # no-break spaces: before : and inside « », and before ; ! ? and in numbers
_TYPOGRAPHY: tuple[Rule, ...] = (
    (re.compile(r"(?<=\w)'(?=\w)"), "’"),
    (re.compile(r"""(?<![^\s(\['’-])"\s?(?=\S)"""), f"«{_WIDE}"),
    (re.compile(r"""(?<=\S)\s?"(?!\w)"""), f"{_WIDE}»"),
    (re.compile(r"(?<=«) (?=\S)"), _WIDE),
    (re.compile(r"(?<=\S) (?=»)"), _WIDE),
    (re.compile(r"(?<=[^\s]) (?=:(?:\s|$))"), _WIDE),
    (re.compile(r"(?<=[^\s]) (?=[;!?])"), _NARROW),
    (re.compile(r"(?<=\d) (?=\d{3}(?!\d))"), _NARROW),
    (re.compile(r"(?<=\d) (?=[%€$£¥°]|(?:[kcm]?[gm]|[mc]?l|h)\b)"), _WIDE),
)
ENGLISH_FRENCH = Languages(
    source_rules=(
        (_ARE_YOU, lambda match: match[1] + ("Are" if match[2] == "R" else "are") + " you"),
        (_TYPED_WORD, _typed_in_full),
        (_TYPED_WORD, _typed_in_full),  # "u cant" are two
        (_DAYS, lambda match: f"{'from' if match.start() else 'From'} {match[1]} to "),
        (_DATES, r"\2 \1\3\5 \4"),
    ),
    typography_rules=_TYPOGRAPHY,
    number_rules=(
        (re.compile(r"\A(1[0-2]|0?\d)(?::(\d\d))?\s?([apAP])\.?[mM]\.?\Z"), _french_time),
        (re.compile(r"\A\.(?=\d+\Z)"), "0."),
        (re.compile(r"\A\d{1,3}(?:,\d{3})+(?:\.\d+)?\Z"), lambda n: n[0].replace(",", " ").replace(".", ",")),
        (re.compile(r"\A(\d+)\.(\d+)\Z"), r"\1,\2"),
    ),
    quotes=(f"«{_WIDE}", f"{_WIDE}»"),
    number_words=(
        "zéro", "une?", "deux", "trois", "quatre", "cinq", "six", "sept", "huit", "neuf", "dix", "onze", "douze",
        "treize", "quatorze", "quinze", "seize", "dix-sept", "dix-huit", "dix-neuf", "vingt",
    ),
    sign_words={
        "%": "pour ?cent", "°C": "degr", "°F": "degr", "°": "degr", "km/h": "kilom", "mph": "mil", "km": "kilom",
        "cm": "centim", "mm": "millim", "mg": "milligr", "kg": "kilo", "ml": "millil", "mL": "millil", "kB": "kilo",
        "KB": "kilo", "MB": "m[ée]ga", "GB": "giga", "TB": "t[ée]ra", "Hz": "hertz", "kHz": "kilo", "MHz": "m[ée]ga",
        "GHz": "giga", "kWh": "kilo", "kW": "kilo", "MW": "m[ée]ga", "mA": "milli", "dB": "d[ée]cib", "kcal": "kilo",
        "ms": "millis", "lbs": "livre", "lb": "livre", "oz": "once", "ft": "pied", "g": "gramme", "m": "m[èe]tre",
        "l": "litre", "L": "litre", "W": "watt", "V": "volt", "px": "pixel",
        "$": "dollar", "€": "euro", "£": "livre", "¥": "yen", "pm": r"après-midi|soir|nuit|p\.?m\b",
    },
)  # fmt: skip


# Whether a text may be English

_ENGLISH = (
    "the a an of to and in is it that you i he she we they was for on are with as his her him be at this have had "
    "not or by my me your our their its from but what all were when there can will would who if no so do did does "
    "has how where why been more about out up them then than some could should into just like know don't it's i'm "
    "that's please thank here now very too because only over after before these those which any us going get got "
    "good yes hello am "
)
# Of French, German, Spanish, Italian, Portuguese and Dutch, without what is a common word of English too.
_OTHER = (
    "le la les un une des du et est que qui dans pour pas sur ce cette il elle nous vous je avec sont mais ne se "
    "au aux où bonjour merci beaucoup oui der das und ist nicht ein eine zu den mit von auf für sich dem wir ich "
    "sie haben werden auch aber wie bei guten danke el los las y en es por con para una su lo como más pero sus "
    "ya muy está hay gracias hola qué di che non è per gli della sono anche ma questo del dei ciao o os em não "
    "com foi ao ele seu het een van dat niet zijn voor ook maar "
)
_SMALL_WORDS = frozenset(_ENGLISH.split()), frozenset(_OTHER.split())
_MARKUP = re.compile(r"`[^`\n]*+`|<[^<>\n]*+>|\{[^{}\n]*+\}")
_ADDRESS = re.compile(r"://|@|\w[/_.]\w")
_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
_LATIN = re.compile(r"[A-Za-zÀ-ɏ]")
_UNLIKELY = re.compile(r"(?i)[bcdfghjklmnpqrstvwxz]{6,}|[^aeiouyà-ɏ'’]{5,}$|^[^aeiouyà-ɏ'’]{5,}|(.)\1\1")
_CODE = "{}[]<>=;_+*/\\\\$&|"
_FEW, _MANY = 3, 8  # words: a greeting or a name; English text of 8 words has a small word


def looks_english(text: str) -> bool:
    """Whether a text may be English, by its letters and its small words; a few words, such as a name, nearly always.

    >>> [looks_english(text) for text in ("The dog is here.", "OK", "Le chien est là.", "你好", "xkqj wvbnm zzzt qqpf")]
    [True, True, False, False, False]
    """
    plain = " ".join(word for word in _MARKUP.sub(" ", text).split() if not _ADDRESS.search(word))
    letters = [letter for letter in plain if letter.isalpha()]
    if not letters:
        return True  # there is nothing to translate
    if sum(map(bool, map(_LATIN.match, letters))) < 0.7 * len(letters):
        return False
    if sum(sign in _CODE for sign in plain) > 0.06 * len(plain):
        return False
    words = [word.lower().replace("’", "'") for word in _WORD.findall(plain)]
    english, other = (sum(word in known for word in words) for known in _SMALL_WORDS)
    odd = sum(map(bool, map(_UNLIKELY.search, words)))
    if other > english or odd > len(words) / 3:
        return False
    if len(words) <= _FEW or english > other:
        return True
    accents = sum(not letter.isascii() for letter in letters)
    return not accents and len(words) < _MANY
