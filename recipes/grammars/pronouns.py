"""Pairs of sentences in which French must choose il or elle for "it": a small grammar that writes training data.

    python -m recipes.grammars.pronouns pronouns.tsv            # 12,000 lines, always the same
    python -m recipes.grammars.pronouns pronouns.tsv --lines 500

The words are in pronoun_words.py and what happens between two of them in pronoun_frames.py; this is the grammar that
agrees them.

English pronouns say little: "it" is il or elle, as the noun it stands for is masculine or feminine. Which noun that is
follows from sense ("The ferry sank in the lake because it was too old / too deep."). Tatoeba has hardly any such
sentence. Those of tests/data/pronouns.tsv, which measure the model, share no noun and no template with these.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass

from recipes.grammars.pronoun_frames import CONCESSIONS, FRAMES, RESULTS
from recipes.grammars.pronoun_words import (
    ACTS,
    ANIMALS,
    EFFECTS,
    MOODS,
    NOUNS,
    OF,
    OF_PEOPLE,
    PEOPLE,
    QUALITIES,
    SINGLES,
    THINGS,
    WHO,
)
from recipes.grammars.writing import different, to_file

_VOWELS = "aeiouhyéèêâîôûœàë"


@dataclass(frozen=True)
class Noun:
    """One noun of both languages: its gender and its number."""

    english: str
    french: str
    feminine: bool
    plural: bool = False
    elides: bool = False


def read_nouns(text: str) -> list[tuple[Noun, Noun | None]]:
    """Nouns with their plurals, from the tables of pronoun_words.py."""
    found = []
    for entry in text.split():
        english, french, gender, *plural = entry.replace("_", " ").split(":")
        elides = french[0] in _VOWELS and french[0] != "y"
        french = french.removeprefix("*")
        many = plural or [english + "s", french + "s"]
        one = Noun(english, french, gender == "f", elides=elides)
        found.append((one, None if many[0] == "-" else Noun(*many, gender == "f", plural=True, elides=elides)))
    return found


GROUPS = {name: read_nouns(text) for name, text in NOUNS.items()}
KINDS = {(parts := entry.split("="))[0]: parts[1:] for entry in QUALITIES.split(";") if entry}


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
    return word + ("x" if word.endswith("eau") else "s")


def predicate(quality: str, feminine: bool, plural: bool, past: bool) -> tuple[str, str]:
    """What "was tired" or "is too hungry" is in both languages, without the English verb.

    >>> predicate("very hungry", True, True, True), predicate("too old", True, False, False)
    (('very hungry', 'avaient très faim'), ('too old', 'est trop vieille'))
    """
    how, name = "", quality
    for english, french in (("too ", "trop "), ("very ", "très "), ("already ", "déjà ")):
        if quality.startswith(english):
            how, name = french, quality.removeprefix(english)
    words = KINDS[name]
    english = quality.replace("-thing", "").replace("-place", "").replace("warm-place", "warm")
    if words[0].startswith("@"):
        verb = [["a", "ont"], ["avait", "avaient"]][past][plural]
        return english, f"{verb} {how}{words[0][1:]}"
    verb = [["est", "sont"], ["était", "étaient"]][past][plural]
    return english, f"{verb} {how}{agree(words, feminine, plural)}"


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


def choose(pairs: list[tuple[Noun, Noun | None]], draw: random.Random, many: float = 0.15) -> Noun:
    """One of these nouns, now and then in the plural."""
    one, plural = draw.choice(pairs)
    return plural if plural and draw.random() < many else one


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


def nouns(firsts: str, seconds: str, draw: random.Random) -> tuple[Noun, Noun]:
    """Two nouns for a frame, mostly of different genders and of the same number."""
    while True:
        kind = draw.choice(firsts.split())
        a = choose(group(kind), draw)
        others = group(kind if seconds == "=" else draw.choice(seconds.split()))
        other_gender = [noun for noun in others if noun[0].feminine != a.feminine]
        b = choose(other_gender if other_gender and draw.random() < 0.8 else others, draw)
        if b.english.rstrip("s") != a.english.rstrip("s") and (a.plural == b.plural or draw.random() < 0.3):
            return a, b


def two(draw: random.Random) -> list[tuple[str, str]]:
    """Sentences with two nouns: "it" stands for the first in one, for the second in the next, or for someone."""
    table = draw.choices([FRAMES, CONCESSIONS, RESULTS], [82, 9, 9])[0]
    english, french, firsts, seconds, *reasons = draw.choice(table.splitlines()).split("|")
    if "{P}" in french and draw.random() < 0.5:
        english, french = speaker(english, french, draw)
    a, b = nouns(firsts, seconds, draw)
    who, someone, quelquun = person(draw)
    (a_en, a_fr), (b_en, b_fr) = nominal(a, draw), nominal(b, draw)
    subject = who if "{P}" in french else a
    values = {"A": a_en, "B": b_en, "P": someone, "was": "were" if subject.plural else "was"}
    values |= {"s": "" if subject.plural else "s", "dont": "don't" if subject.plural else "doesn't"}
    slots = verbs(subject) | {"A": a_fr, "B": b_fr, "P": quelquun, "dB": of(b_fr), "aB": to(b_fr)}
    if table is RESULTS:
        joins = draw.choice([", ", ", ", ". "])
        return [
            _result(english, french, it, reason, joins, values, slots, draw)
            for it, reason in zip((a, b), reasons, strict=True)
        ]
    how = draw.random()
    found = []
    for it, reason in draw.sample(list(zip((a, b), reasons, strict=True)), draw.choice([1, 2, 2])):
        found.append(_why(english, french, it, reason, table is CONCESSIONS, how, a, values, slots, draw))
    if subject is who and table is FRAMES and draw.random() < 0.15:
        found.append(_why(english, french, who, MOODS, False, how, a, values, slots, draw))
    return found


def _result(
    english: str, french: str, it: Noun, reasons: str, joins: str, values: dict[str, str], slots: dict[str, str],
    draw: random.Random,
) -> tuple[str, str]:  # fmt: skip
    does, fait = draw.choice(reasons.split(";")).split("=")
    p = pronouns(it)
    fait = fill("X" + fait, verbs(it))[1:]
    if joins == ", ":
        return f"{fill(english, values)}, {p['it']} {does}.", f"{fill(french, slots)}, {p['il']} {fait}."
    english, french = (
        re.sub(r"^(When|After|As soon as|Quand|Après que|Dès que) ", "", text) for text in (english, french)
    )
    return f"{fill(english, values)}. {p['It']} {does}.", f"{fill(french, slots)}. {p['Il']} {fait}."


def _why(
    english: str, french: str, it: Noun, reasons: str, despite: bool, how: float, a: Noun, values: dict[str, str],
    slots: dict[str, str], draw: random.Random,
) -> tuple[str, str]:  # fmt: skip
    past = "nt} " not in french
    quality, predicat = predicate(draw.choice(reasons.split(";")), it.feminine, it.plural, past)
    p = pronouns(it)
    be = p["was" if past else "is"]
    if reasons is MOODS:
        p |= {"it": p["he"], "It": p["he"].capitalize()}
    main, principale = fill(english, values), fill(french, slots)
    if despite:
        although = "although" if how < 0.4 else "even though"
        return f"{main} {although} {p['it']} {be} {quality}.", f"{principale} même {p['sil']} {predicat}."
    if how < 0.12:
        return f"{main}. {p['It']} {be} {quality}.", f"{principale}. {p['Il']} {predicat}."
    if how < 0.24 and it is a and french.startswith("{A}"):
        if how < 0.17:
            return (
                f"As {p['it']} {be} {quality}, {main[0].lower()}{main[1:]}.",
                f"Comme {p['il']} {predicat}, {principale[0].lower()}{principale[1:]}.",
            )
        rest, reste = english.removeprefix("{A} "), french.removeprefix("{A} ")
        return (
            fill(f"{{A}} {be} {quality}, so {p['it']} {rest}.", values),
            fill(f"{{A}} {predicat}, alors {p['il']} {reste}.", slots),
        )
    if how < 0.3:
        return f"{main} since {p['it']} {be} {quality}.", f"{principale} {p['puisquil']} {predicat}."
    if how < 0.36:
        return f"{main}, as {p['it']} {be} {quality}.", f"{principale}, car {p['il']} {predicat}."
    return f"{main} because {p['it']} {be} {quality}.", f"{principale} {p['parcequil']} {predicat}."


STAYING = (
    "event",
    "text talk matter",
    "place room shelter",
    "water land road",
    "opening barrier",
    "institution",
    "proposal",
)


def one(draw: random.Random) -> tuple[str, str]:
    """A sentence with one noun, which "it" stands for."""
    names = draw.choice(list(OF))
    noun = choose(group(names), draw)
    animate = "animal" in names or "beast" in names
    moves = names not in STAYING
    templates = SINGLES.splitlines() + THINGS.splitlines() * moves
    english, french = draw.choice(ANIMALS.splitlines() if animate and draw.random() < 0.8 else templates).split("|")
    return _about(english, french, noun, OF[names], draw)


def _about(english: str, french: str, noun: Noun, qualities: str, draw: random.Random) -> tuple[str, str]:
    past = "{fut}" in french
    quality, predicat = predicate(draw.choice(qualities.split(";")), noun.feminine, noun.plural, past)
    who, someone, quelquun = person(draw)
    en, fr = nominal(noun, draw)
    subject = who if "{P}" in french else noun
    p = pronouns(noun)
    p |= {"them": "them" if noun.plural else "it", "le": "les" if noun.plural else "la" if noun.feminine else "le"}
    p |= {"l": "les " if noun.plural else "l'", "ée": "e" * noun.feminine + "s" * noun.plural}
    values = p | {"A": en, "P": someone, "q": quality}
    slots = verbs(subject) | p | {"A": fr, "dA": of(fr), "aA": to(fr), "P": quelquun, "fut": predicat, "soit": predicat}
    return fill(english, values), fill(french, slots)


def people(draw: random.Random) -> tuple[str, str]:
    """A sentence about someone, with he or she."""
    english, french = draw.choice(PEOPLE.splitlines()).split("|")
    who, someone, quelquun = person(draw)
    quality, predicat = predicate(draw.choice(OF_PEOPLE.split(";")), who.feminine, False, "{fut}" in french)
    p = pronouns(who)
    slots = verbs(who) | p | {"P": quelquun, "fut": predicat, "soit": predicat}
    return fill(english, p | {"P": someone, "q": quality}), fill(french, slots)


def act(draw: random.Random) -> tuple[str, str]:
    """A sentence in which "it" stands for what someone does: ça."""
    who, qui, person_, whom, que, agreement = draw.choice(WHO)
    base, third, forms, rest = draw.choice(ACTS)
    verb = forms.split()[person_]
    effect = draw.choice(EFFECTS)
    adjective = agree(KINDS[effect], "f" in agreement, "p" in agreement)
    subject = "j'" if qui == "je" and verb[0] in _VOWELS else qui + " "
    doing = third if person_ == 1 else base
    link, lien = draw.choice(
        [(" because it", " parce que ça"), (" because it", " parce que ça"), ("; it", " ; ça"), (". It", ". Ça")]
    )
    english, french = (
        f"{who} {doing}{link} makes {whom} {effect}.",
        f"{subject}{verb} {rest}{lien} {que} rend {adjective}.",
    )
    return english[0].upper() + english[1:], french[0].upper() + french[1:]


def endless(draw: random.Random) -> Iterator[tuple[str, str]]:
    """Sentences of all kinds, some of them more than once."""
    while True:
        kind = draw.choices([one, people, act, None], [27, 7, 3, 45])[0]
        yield from [kind(draw)] if kind else two(draw)


def sentences(lines: int = 12_000, seed: int = 0) -> list[tuple[str, str]]:
    """So many different pairs of sentences, always the same ones for a seed."""
    return different(endless(random.Random(seed)), lines)


def main() -> None:
    """Write the pairs to a TSV file."""
    to_file(__doc__, sentences)


if __name__ == "__main__":
    main()
