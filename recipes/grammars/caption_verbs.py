"""What people do in captions.py, in the forms of both languages that sentences need."""

from __future__ import annotations

import re
from dataclasses import dataclass

from recipes.grammars.caption_phrases import Subject
from recipes.grammars.caption_words import IRREGULAR

VERBS = {verb[0]: verb[1:] for verb in (entry.split() for entry in IRREGULAR.split(";"))}


def conjugate(verb: str) -> tuple[str, str, str]:
    """He, they and -ing of a French verb.

    >>> conjugate("nettoyer"), conjugate("lancer"), conjugate("promener")
    (('nettoie', 'nettoient', 'nettoyant'), ('lance', 'lancent', 'lançant'), ('promène', 'promènent', 'promenant'))
    """
    if verb in VERBS:
        he, they, doing = VERBS[verb]
        return he, they, doing
    if not verb.endswith("er"):
        raise KeyError(verb)
    stem = verb[:-2]
    soft = stem + "e" if stem[-1] == "g" else stem[:-1] + "ç" if stem[-1] == "c" else stem
    strong = re.sub(r"(?<=[aou])y$", "i", re.sub(r"(?:é([^aeiouéèêâîôû]+)|e([cdlmnpstv]))$", r"è\1\2", stem))
    return strong + "e", strong + "ent", soft + "ant"


def english_forms(verb: str) -> tuple[str, str]:
    """-s and -ing of an English verb.

    >>> english_forms("sit"), english_forms("ride"), english_forms("lie"), english_forms("catch"), english_forms("carry")
    (('sits', 'sitting'), ('rides', 'riding'), ('lies', 'lying'), ('catches', 'catching'), ('carries', 'carrying'))
    """
    if verb in ("be", "have", "rappel", "patrol"):
        return {
            "be": ("is", ""),
            "have": ("has", "having"),
            "rappel": ("rappels", "rappelling"),
            "patrol": ("patrols", "patrolling"),
        }[verb]
    third = re.sub(r"(?<=[^aeiou])y$", "ie", verb) + "s"
    if re.search(r"(?:s|sh|ch|x|z|[^o]o)$", verb):
        third = verb + "es"
    if verb.endswith("ie"):
        return third, verb[:-2] + "ying"
    if re.search(r"[^eoy]e$", verb):
        return third, verb[:-1] + "ing"
    return third, verb + (verb[-1] if re.fullmatch(r"[^aeiou]*[aeiou][^aeiouwxy]", verb) else "") + "ing"


def de_verb(infinitive: str) -> str:
    """De + infinitive: d'écrire."""
    return ("d'" if infinitive[0] in "aeéiouœ" else "de ") + infinitive


@dataclass(frozen=True)
class Doing:
    """What someone does, in the forms that sentences need."""

    english: str
    french: str

    def says(self, form: str, subject: Subject) -> str:
        """English: stands, standing, is standing, was standing or stand.

        >>> Doing("sit down", "").says("is -ing", Subject("two men", "", many=True))
        'are sitting down'
        """
        verb, _, rest = self.english.partition(" ")
        third, doing = english_forms(verb)
        be = {"is -ing": ("is", "are"), "was -ing": ("was", "were")}.get(form, ("", ""))[subject.many]
        word = {"-s": third if not subject.many else "are" if verb == "be" else verb, "base": verb}.get(
            form, f"{be} {doing}"
        )
        return " ".join(f"{word} {rest}".split())

    def dit(self, form: str, subject: Subject) -> str:
        """French: il (or ils), imparfait, ant, train (en train de).

        >>> Doing("", "s'appuyer contre un mur").dit("il", Subject("", "", plural=True)), Doing("", "être assis").dit("ant", Subject("", ""))
        ("s'appuient contre un mur", 'assis')
        """
        own, verb, rest = re.fullmatch(r"(se |s')?(\S+)(.*)", self.french).groups()  # type: ignore[union-attr]
        he, they, doing = conjugate(verb)
        if form == "ant" and re.match(r"se tenir(?: debout| devant| derrière| à côté| sous|$)", self.french):
            return "debout" + rest.removeprefix(" debout")
        if verb == "être" and form in ("ant", "train"):
            return rest.strip() if form == "ant" else self.dit("il", subject)
        past = doing[:-3] + ("aient" if subject.plural else "ait")
        if form == "train":
            infinitive = self.french
            be = "sont" if subject.plural else "est"
            return f"{be} en train {de_verb(infinitive)}"
        word = {"il": they if subject.plural else he, "imparfait": past, "ant": doing}[form]
        return ("" if not own else "s'" if word[0] in "aeéêiouœ" else "se ") + word + rest
