"""How the grammars agree their French: nouns and their plurals, determiners, adjectives, verbs and pronouns."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass

from recipes.grammars.pronoun_words import NOUNS

__all__ = [
    "GROUPS", "SPEAKERS", "Noun", "agree", "fill", "group", "nominal", "of", "person", "phrase", "pronouns", "read_nouns", "speaker", "to", "verbs",
]  # fmt: skip

_VOWELS = "aeiouhyéèêâîôûœàë"


@dataclass(frozen=True)
class Noun:
    """One noun of both languages: its gender and its number."""

    english: str
    french: str
    feminine: bool
    plural: bool = False
    elides: bool = False


def _english_plural(noun: str) -> str:
    if re.search(r"(?:s|x|ch|sh)$", noun):
        return noun + "es"
    return noun[:-1] + "ies" if re.search(r"[^aeiou]y$", noun) else noun + "s"


def _french_plural(noun: str) -> str:
    if noun[-1] in "sxz":
        return noun
    return noun[:-2] + "aux" if noun.endswith("al") else noun + ("x" if noun.endswith(("au", "eu")) else "s")


def read_nouns(text: str) -> list[tuple[Noun, Noun | None]]:
    """Nouns with their plurals, from the tables of pronoun_words.py and sense_nouns.py."""
    found = []
    for entry in text.split():
        english, french, gender, *plural = entry.replace("_", " ").split(":")
        elides = french[0] in _VOWELS and french[0] != "y"
        french = french.removeprefix("*")
        many = plural or [_english_plural(english), _french_plural(french)]
        one = Noun(english, french, gender == "f", elides=elides)
        found.append((one, None if many[0] == "-" else Noun(*many, gender == "f", plural=True, elides=elides)))
    return found


GROUPS = {name: read_nouns(text) for name, text in NOUNS.items()}


def group(names: str) -> list[tuple[Noun, Noun | None]]:
    """The nouns of some groups."""
    return [noun for name in names.split() for noun in GROUPS[name]]


def phrase(noun: Noun, determiner: str) -> tuple[str, str]:
    """A noun with its determiner, in both languages.

    >>> phrase(Noun("island", "île", True, elides=True), "the"), phrase(Noun("axe", "hache", True), "my")
    (('the island', "l'île"), ('my axe', 'ma hache'))
    """
    if noun.plural:
        english = {"this": "these", "a": "some", "that": "those"}.get(determiner, determiner)
        return (
            f"{english} {noun.english}",
            {"the": "les", "this": "ces", "that": "ces", "my": "mes", "our": "nos", "a": "des"}[determiner]
            + f" {noun.french}",
        )
    f, v = noun.feminine, noun.elides
    article = {
        "the": "l'" if v else "la " if f else "le ",
        "this": "cette " if f else "cet " if v else "ce ",
        "that": "cette " if f else "cet " if v else "ce ",
        "my": "ma " if f and not v else "mon ",
        "our": "notre ",
        "a": "une " if f else "un ",
    }[determiner]
    if determiner == "a" and noun.english[0] in "aeiou" and not noun.english.startswith("uni"):
        determiner = "an"
    return f"{determiner} {noun.english}", article + noun.french


def of(french: str) -> str:
    """De + noun phrase: du, des, d'un.

    >>> of("le lac"), of("les lacs"), of("l'île"), of("un lac"), of("des lacs")
    ('du lac', 'des lacs', "de l'île", "d'un lac", 'de lacs')
    """
    first, _, rest = french.partition(" ")
    if first in ("le", "les"):
        return ("du " if first == "le" else "des ") + rest
    if first == "des":
        return ("d'" if rest[0] in _VOWELS else "de ") + rest
    return ("d'" if first in ("un", "une") else "de ") + french


def to(french: str) -> str:
    """À + noun phrase: au, aux.

    >>> to("le lac"), to("les lacs"), to("l'île"), to("mon sac")
    ('au lac', 'aux lacs', "à l'île", 'à mon sac')
    """
    first, _, rest = french.partition(" ")
    return {"le": "au ", "les": "aux "}[first] + rest if first in ("le", "les") else f"à {french}"


def agree(words: list[str], feminine: bool, plural: bool) -> str:
    """A quality in the right gender and number.

    >>> agree(["beau", "belle"], False, True), agree(["!en panne"], True, True), agree(["!mal construit", "!mal construite"], True, True)
    ('beaux', 'en panne', 'mal construites')
    """
    word = words[-1] if feminine else words[0]
    if word.startswith("!"):
        word, fixed = word[1:], len(words) == 1 or word == "!marron"
        if fixed or not plural:
            return word
        if word.endswith("à clé"):
            return word.replace(" à clé", "s à clé")
    if not plural or word[-1] in "sx" or word == "marron":
        return word if word != "marron" or not plural else "marron"
    if word.endswith("al"):
        return word.removesuffix("al") + "aux"
    return word + ("x" if word.endswith("eau") else "s")


VERBS = {
    "a": "a ont", "na": "n'a n'ont", "est": "est sont", "nest": "n'est ne_sont", "ait": "ait aient", "sest": "s'est se_sont", "était": "était étaient",
    "sentait": "sentait sentaient", "avait": "avait avaient", "tremblait": "tremblait tremblaient",
    "narrive": "n'arrive n'arrivent", "viendra": "viendra viendront", "pleure": "pleure pleurent",
    "bouge": "bouge bougent", "dit": "dit disent", "boit": "boit boivent",
}  # fmt: skip


def fill(template: str, values: dict[str, str]) -> str:
    """A template with its slots filled, and a capital letter to begin with."""
    text = re.sub(r"\{(\w+)\}", lambda match: values[match[1]], template)
    return text[0].upper() + text[1:]


def verbs(subject: Noun) -> dict[str, str]:
    """The French verb forms that go with a subject, and the ending of its participle."""
    forms = {name: both.split()[subject.plural].replace("_", " ") for name, both in VERBS.items()}
    return forms | {
        "e": "e" * subject.feminine + "s" * subject.plural,
        "nt": "nt" * subject.plural,
        "ent": "ent" * subject.plural,
    }


def pronouns(noun: Noun) -> dict[str, str]:
    """It or they, il, elle, ils or elles, and what they do to the words before them."""
    il = ("elle" if noun.feminine else "il") + "s" * noun.plural
    it = "they" if noun.plural else "it"
    return {
        "it": it, "It": it.capitalize(), "il": il, "Il": il.capitalize(), "quil": f"qu'{il}", "parcequil": f"parce qu'{il}",
        "puisquil": f"puisqu'{il}", "sil": f"s'{il}" if il[0] == "i" else f"si {il}", "he": "she" if noun.feminine else "he",
        "was": "were" if noun.plural else "was", "is": "are" if noun.plural else "is",
    }  # fmt: skip


DETERMINERS = ["the"] * 14 + ["this", "my", "our", "that"]


NOBODYS = {
    noun.english
    for both in group("weather force road water land place hunter prey institution slope ground insect proposal")
    for noun in both
    if noun
}


def nominal(noun: Noun, draw: random.Random) -> tuple[str, str]:
    """A noun with some determiner; the wind and the sea are nobody's."""
    determiner = draw.choice(DETERMINERS)
    return phrase(noun, "the" if noun.english in NOBODYS and determiner in ("my", "our") else determiner)


def person(draw: random.Random) -> tuple[Noun, str, str]:
    """Someone of the family, or someone with a name."""
    if draw.random() < 0.25:
        name, feminine = draw.choice(
            [("Tom", False), ("Mary", True), ("Paul", False), ("Alice", True), ("Sophie", True)]
        )
        return Noun(name, name, feminine), name, {"Mary": "Marie"}.get(name, name)
    noun = draw.choice(GROUPS["person"])[0]
    english, french = phrase(noun, draw.choice(["my", "my", "our"]))
    return noun, english, french


SPEAKERS = [
    ("I", "j'ai", "je n'ai"),
    ("we", "nous avons", "nous n'avons"),
    ("he", "il a", "il n'a"),
    ("she", "elle a", "elle n'a"),
]


def speaker(english: str, french: str, draw: random.Random) -> tuple[str, str]:
    """A frame in which I, we, he or she takes the place of the person: nobody that "it" could be."""
    who, has, has_not = draw.choice(SPEAKERS)
    return english.replace("{P}", who), french.replace("{P} {a}", has).replace("{P} {na}", has_not)
