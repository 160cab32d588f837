"""`looks_english`: whether a text may be English, by its letters and by its small words."""

from __future__ import annotations

import re

from regard.translation.text.facts import split_facts

__all__ = ["looks_english"]

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
_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
_LATIN = re.compile(r"[A-Za-zÀ-ɏ]")
_UNLIKELY = re.compile(r"(?i)[bcdfghjklmnpqrstvwxz]{6,}|[^aeiouyà-ɏ'’]{5,}$|^[^aeiouyà-ɏ'’]{5,}|(.)\1\1")
_CODE = "{}[]<>=;_+*/\\\\$&|"
_FEW, _MANY = 3, 8  # words: a greeting or a name; so many without a small word are no English


def looks_english(text: str) -> bool:
    """Whether a text may be English; of a text of few words, such as a name, only what clearly is not is refused.

    >>> [looks_english(text) for text in ("The dog is here.", "OK", "Le chien est là.", "你好", "xkqj wvbnm zzzt qqpf")]
    [True, True, False, False, False]
    """
    plain = " ".join(part for part in split_facts(text) if isinstance(part, str))
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
