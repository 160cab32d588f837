"""Words put right before and after the model: English typed in a hurry or misread by it, French that it misspells."""

from __future__ import annotations

import re

__all__ = ["clearer", "in_full", "usual_french"]

# As people type English: without apostrophes, and "you" as a letter where nothing else can be meant.
_TYPED = {
    **{f"{verb}nt": f"{verb}n't" for verb in ("do", "does", "did", "is", "are", "was", "were", "have", "has", "had")},
    **{f"{verb}nt": f"{verb}n't" for verb in ("would", "could", "should")},
    "cant": "can't", "wont": "won't", "im": "I'm", "ive": "I've", "youre": "you're", "theyre": "they're",
    "thats": "that's", "whats": "what's", "u": "you", "pls": "please", "thx": "thanks",
}  # fmt: skip
_ALWAYS = "|".join(word for word in _TYPED if word not in ("cant", "wont", "im", "ive", "u"))
_SUBJECTS = "I|you|he|she|it|we|they|that|this|there|who"
_BEFORE_YOU = "can|do|did|are|will|would|could|should|thank|love|miss"
_AFTER_YOU = "are|can|will|have|want|know|need|think|should|would|could|cant|wont|dont|didnt"
_TYPED_WORD = re.compile(
    rf"""(?<![\w'.@#/&-])(?:
        (?: (?i:{_ALWAYS}) | im | ive )(?![\w'@/&-]|\.\w)
        | \A(?:Im|Ive)(?=\s[a-z])  # else it is a name: Mr. Ive
        | (?i:{_SUBJECTS})\s(?:cant|wont)(?!\w|'|\sto\b)  # else a noun: as is his wont
        | (?i:{_BEFORE_YOU})\su(?=\s[a-z]|[?!,]|\.?$)  # else a letter: solve for u
        | u(?=\s(?:{_AFTER_YOU})\b)
    )""",
    re.VERBOSE,
)
_ARE_YOU = re.compile(r"(\A|[.?!,] |\b(?i:when|where|what|why|how|who|hey|hi|so) )([Rr]) u(?=\s[a-z]|[?!,]|\.?$)")
# What a small model gets wrong, and right in other words: "Monday to Friday" after a comma, two dates with the month
# first, and "Ms.", of which it makes a plural.
_DAY = "(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day"
_MONTH = "January|February|March|April|May|June|July|August|September|October|November|December"
_DAYS = re.compile(rf"(?<!from )(?<!From )\b({_DAY}) (?:to|through) (?={_DAY}\b)")
_DATES = re.compile(
    rf"\b({_MONTH}) (\d\d?)(?:st|nd|rd|th)?( (?:to|and|through|until) )({_MONTH}) (\d\d?)(?:st|nd|rd|th)?\b"
    r"(?![.,:]?\d|,? \d{4})"
)
_MS = re.compile(r"\bMs\.?(?= [A-Z])")
# Of the French: "lundi à vendredi", an elision that is never left out, an exclamation mark that the English has not.
_JOUR = "(?:lun|mar|mercre|jeu|vendre|same)di|dimanche"
_JOURS = re.compile(rf"\b(?:(D)[eu] |d[eu] )?({_JOUR}) (?:à|au) ({_JOUR})\b")
_SI_IL = re.compile(r"\b([Ss])i (?=ils?\b)")
_EXCLAIMED = re.compile(r"\s?!(?=\.\.\.|…)")


def in_full(text: str) -> str:
    """English with the words in full that people type in a hurry.

    >>> in_full("Dont worry, when r u coming? I cant wait.")
    "Don't worry, when are you coming? I can't wait."
    """
    text = _ARE_YOU.sub(lambda found: found[1] + ("Are" if found[2] == "R" else "are") + " you", text)
    for _ in range(2):  # "u cant": the one, then the other
        text = _TYPED_WORD.sub(_typed_out, text)
    return text


def _typed_out(found: re.Match[str]) -> str:
    """The last word in full, with its capital; in capitals it is another one: Plan U, IM, IVE."""
    before, space, word = found.group().rpartition(" ")
    if word.isupper() and not before:
        return word
    full = _TYPED[word.lower()]
    return before + space + (full[0].upper() + full[1:] if word[0].isupper() else full)


def clearer(text: str) -> str:
    """English that says the same, where models understand one way of saying it better.

    >>> clearer("Ms. Hill is here Monday to Friday, and from July 12 to July 20.")
    'Mrs. Hill is here from Monday to Friday, and from 12 July to 20 July.'
    """
    text = _DAYS.sub(lambda day: f"{'from' if day.start() else 'From'} {day[1]} to ", text)
    return _MS.sub("Mrs.", _DATES.sub(r"\2 \1\3\5 \4", text))


def usual_french(text: str, source: str) -> str:
    """French as it is always written, whatever a model makes of the source.

    >>> usual_french("Si il pleut, ouvert lundi à vendredi !...", "If it rains, open Monday to Friday...")
    "S'il pleut, ouvert du lundi au vendredi..."
    """
    text = _JOURS.sub(lambda days: f"{days[1] or 'd'}u {days[2]} au {days[3]}", _SI_IL.sub(r"\1'", text))
    return text if "!" in source else _EXCLAIMED.sub("", text)
