"""Sentences in English alone, with links from "it" to its noun: for a head that learns without a translation.

    python -m recipes.grammars.english linked.tsv --lines 120000

The words are those of the other grammars and of sense_more.py, which are many more than have a French side.
"""

from __future__ import annotations

import random
import re
from functools import cache
from typing import NamedTuple

from recipes.grammars import french, pronoun_frames, pronouns, sense, sense_more
from recipes.grammars.french import Noun, read_nouns
from recipes.grammars.writing import to_file

__all__ = ["linked", "sentences"]

PREDICATES = [*sense.PREDICATE_LIST, *sense.ENGLISH_LIST, *sense.read_english(sense_more.PREDICATES)]
_OBJECTS = sense.read_english(sense_more.OBJECTS)
_SYNONYMS = {
    word: [each.replace("_", " ") for each in others.split()]
    for word, others in (line.split(":") for line in sense_more.SYNONYMS.strip().splitlines())
}
# The groups whose nouns may take the place of those of a class in pronoun_frames.py.
_WIDER = {
    "animal": "animal", "hunter": "animal", "prey": "animal small", "beast": "animal", "insect": "small", "road": "way",
    "vehicle": "vehicle", "vessel": "ship", "water": "water", "seat": "furniture", "furniture": "furniture", "text": "text",
    "container": "holder", "clothes": "clothes", "jewel": "jewel", "device": "machine", "tool": "tool", "drink": "liquid",
    "instrument": "instrument", "food": "food fruit", "matter": "idea", "talk": "speech", "event": "event", "room": "room",
    "place": "place", "plant": "plant", "institution": "group", "proposal": "policy", "land": "outdoor", "aircraft": "aircraft",
}  # fmt: skip
_OPENINGS = """Yesterday, |Last week, |This morning, |As usual, |In the end, |At first, |Tom says that |I heard that |During the holidays, |
One day, |Unfortunately, |Luckily, |After lunch, |On Monday, |Everyone knows that |We were told that |Years ago, |Perhaps """.replace("\n", "").split("|")  # fmt: skip
_ENDS = [
    " yesterday",
    " last night",
    " on Sunday",
    " again",
    " this morning",
    " two days ago",
    " in the end",
    " at once",
]
_BECAUSE = ["{M} because {r}."] * 10 + [
    "{M} since {r}.", "{M}, since {r}.", "{M}, as {r}.", "{M}, for {r}.", "{M}. {R}.", "{M}; {r}.", "{M}: {r}.", "{M} just because {r}.",
    "Because {r}, {m}.", "As {r}, {m}.", "Since {r}, {m}.", "{M}. After all, {r}.", "{M}. You see, {r}.", "{M}, given that {r}.",
    "The reason why {m} was that {r}.", "{M}. That is because {r}.", "{M}, perhaps because {r}.", "{M}. I think {r}.", "{M} simply because {r}.",
]  # fmt: skip
_ANYHOW = [
    *_BECAUSE, "{M}, but {r}.", "{M}, but {r}.", "{M}, and {r}.", "{M} although {r}.", "{M} even though {r}.", "{M} though {r}.", "{M} when {r}.",
    "{M} while {r}.", "{M} until {r}.", "{M} before {r}.", "{M} after {r}.", "{M} if {r}.", "{M}. {R}.", "{M}. {R}.", "{M}. But {r}.", "{M}. However, {r}.",
    "{M}. In fact {r}.", "{M}, so {r}.", "{M}. We knew that {r}.", "Although {r}, {m}.", "When {r}, {m}.", "Once {r}, {m}.", "{M}, yet {r}.",
]  # fmt: skip
_THEN = [
    "{M}, so {r}.",
    "{M}. Then {r}.",
    "{M} and {r}.",
    "{M}, and then {r}.",
    "{M} before {r}.",
    "{M}. {R}.",
    "{M} until {r}.",
    "When {m}, {r}.",
]
_WHOSE = ["the"] * 12 + ["this", "my", "our", "that", "a", "his", "her", "their", "Tom's", "the neighbour's", "the other", "the red", "the white"]  # fmt: skip


class Thing(NamedTuple):
    """A noun in English, with the groups that it belongs to."""

    name: str
    plural: bool
    groups: frozenset[str]


@cache
def things() -> dict[str, list[tuple[Thing, Thing | None]]]:
    """The nouns of each group, from sense.py and sense_more.py."""
    of: dict[str, set[str]] = {}
    plurals: dict[str, str | None] = {}
    tables = [(group, both) for group, pairs in sense.NOUN_GROUPS.items() for both in pairs]
    for line in sense_more.NOUNS.strip().splitlines():
        group, names = line.split(": ")
        tables += [(group, both) for both in read_nouns(" ".join(f"{name}:x:m" for name in names.split()))]
    for group, (one, many) in tables:
        of.setdefault(one.english, set()).update({group, *sense.groups_of(one.english)})
        if one.french != "x" or one.english not in plurals:
            plurals[one.english] = many.english if many else None
    found: dict[str, list[tuple[Thing, Thing | None]]] = {}
    for name, groups in of.items():
        groups |= {"food"} if groups & {"fruit", "vegetable"} else set()
        groups |= {"machine"} if "gadget" in groups else set()
        many = plurals[name]
        both = Thing(name, False, frozenset(groups)), Thing(many, True, frozenset(groups)) if many else None
        for group in groups:
            found.setdefault(group, []).append(both)
    return found


def _thing(groups: str, plural: bool, draw: random.Random) -> Thing:
    while True:
        one, many = draw.choice(things()[draw.choice(groups.split())])
        if not plural or many:
            return many if plural and many else one


def _old(kind: str, plural: bool, draw: random.Random) -> Thing:
    """A noun of a class of pronoun_frames.py, or of a wider group."""
    if kind in _WIDER and draw.random() < 0.6:
        return _thing(_WIDER[kind], plural, draw)
    one, many = draw.choice(french.GROUPS[kind])
    noun = many if plural and many else one
    return Thing(noun.english, noun.plural, frozenset())


def _with_determiner(thing: Thing, draw: random.Random) -> str:
    whose = draw.choice(_WHOSE)
    if thing.plural:
        whose = {"a": "some", "this": "these", "that": "those"}.get(whose, whose)
    elif whose == "a" and thing.name[0] in "aeiou" and not thing.name.startswith("uni"):
        whose = "an"
    return f"{whose} {thing.name}"


def _quality(quality: str, draw: random.Random) -> str:
    """A quality, or a word like it."""
    quality = quality.replace("-thing", "").replace("-place", "")
    how, name = (quality[:4], quality[4:]) if quality.startswith("too ") else ("", quality)
    if name in _SYNONYMS and draw.random() < 0.45:
        other = draw.choice(_SYNONYMS[name])
        return other if how and (" " in other or "-" in other) else how + other
    return quality


def _write(main: str, reason: str, joints: list[str], draw: random.Random) -> str:
    main = main[0].upper() + main[1:]
    named = re.match(r"I\b|Tom|Mary|Paul|Alice|Sophie", main)
    joint = draw.choice(joints)
    opening = draw.choice(_OPENINGS) if draw.random() < 0.12 and joint.startswith("{M}") else ""
    end = draw.choice(_ENDS) if not opening and draw.random() < 0.08 else ""
    small = main if named else main[0].lower() + main[1:]
    begun = opening + small if opening else main
    large = reason[0].upper() + reason[1:]
    return joint.format(M=begun + end, m=small, r=reason, R=large)


def _said(predicate: sense.Predicate, plural: bool) -> str:
    return predicate.of(Noun("", "", False, plural=plural))[0]


def _by_sense(draw: random.Random) -> tuple[str, Thing] | None:
    """A sentence whose predicate suits only one of two or three nouns."""
    table = draw.choices([sense.FRAMES, sense.THREE, sense_more.FRAMES], [60, 15, 25])[0]
    frame, *rest = draw.choice(
        table.splitlines() if table is not sense_more.FRAMES else table.strip().splitlines()
    ).split("|")
    groups = [each for each in rest if "{" not in each and ";" not in each][:2]
    if len(groups) < 2:
        groups = rest[:2]
    if "{C}" in frame:
        groups.append("place room furniture outdoor group")
    plural = draw.random() < 0.15
    chosen = [_thing(each, plural, draw) for each in groups]
    if len({thing.name for thing in chosen}) < len(chosen):
        return None
    at = draw.choice([0, 1])
    others = [set(thing.groups) for n, thing in enumerate(chosen) if n != at]
    who = french.person(draw)[1] if draw.random() < 0.5 else draw.choice(["I", "we", "he", "she", "someone"])
    values = {letter: _with_determiner(thing, draw) for letter, thing in zip("ABC", chosen, strict=False)}
    main = frame.format(P=who, **values)
    if plural:
        main = re.sub(r"^(\{A\}) was ", r"\1 were ", frame).format(P=who, **values).replace("had its", "had their")
    if draw.random() < 0.15:
        table_of_objects = sense.only(set(chosen[at].groups), others, _OBJECTS)
        if not table_of_objects:
            return None
        done = draw.choice(table_of_objects).english.format(it="them" if plural else "it")
        return _write(
            main, f"{draw.choice(['Tom', 'Mary', 'my sister', 'he', 'she', 'I', 'we'])} {done}", _THEN, draw
        ), chosen[at]
    choices = sense.only(set(chosen[at].groups), others, PREDICATES)
    if not choices:
        return None
    said = _said(draw.choice(choices), plural)
    return _write(main, f"{'they' if plural else 'it'} {said}", _ANYHOW, draw), chosen[at]


def _by_cause(draw: random.Random) -> tuple[str, Thing] | None:
    """A sentence in which what happens between two nouns says which of them is so."""
    if draw.random() < 0.45:
        frame, *groups, first, second = draw.choice(sense_more.FRAMES.strip().splitlines()).split("|")
        plural = draw.random() < 0.15
        chosen = [_thing(each, plural, draw) for each in groups]
        past, joints = True, _BECAUSE
    else:
        table = draw.choices([pronoun_frames.FRAMES, pronoun_frames.CONCESSIONS], [9, 1])[0]
        frame, other, *groups, first, second = draw.choice(table.strip().splitlines()).split("|")[:6]
        plural, past = draw.random() < 0.15, "nt} " not in other
        kinds = [draw.choice(each.split()) for each in groups]
        kinds = [kinds[0] if kind == "=" else kind for kind in kinds]
        chosen = [_old(kind, plural, draw) for kind in kinds]
        joints = (
            ["{M} although {r}.", "{M} even though {r}.", "{M}. And yet {r}."]
            if table is not pronoun_frames.FRAMES
            else _BECAUSE
        )
        if "makes me" in frame or "{" in first + second:
            return None
    if chosen[0].name == chosen[1].name or re.search(r"\bit\b", frame):
        return None
    at = draw.choice([0, 1])
    thing = chosen[at]
    who = french.person(draw)[1] if draw.random() < 0.5 else draw.choice(["I", "we", "he", "she", "someone"])
    subject = chosen[0].plural
    values = {letter: _with_determiner(each, draw) for letter, each in zip("AB", chosen, strict=True)}
    values |= {
        "P": who,
        "was": "were" if subject else "was",
        "s": "" if subject else "s",
        "dont": "don't" if subject else "doesn't",
    }
    main = frame.format(**values)
    quality = draw.choice((first, second)[at].split(";"))
    if quality.startswith(">"):
        said = _said(sense.Predicate(quality[1:], "", "", True, frozenset(), frozenset()), thing.plural)
    else:
        be = ("were" if thing.plural else "was") if past else ("are" if thing.plural else "is")
        said = f"{be} {_quality(quality, draw)}"
    return _write(main, f"{'they' if thing.plural else 'it'} {said}", joints, draw), thing


def linked(draw: random.Random) -> tuple[str, str]:
    """A sentence and its links."""
    while True:
        found = _by_sense(draw) if draw.random() < 0.5 else _by_cause(draw)
        if found is None:
            continue
        english, thing = found
        links = pronouns.links(english, Noun(thing.name, "", False, plural=thing.plural))
        if links:
            return english, links


def sentences(lines: int = 120_000, seed: int = 0) -> list[tuple[str, str, str]]:
    """So many different sentences, each with a dash for French, and its links; always the same ones for a seed."""
    draw, found = random.Random(seed), dict[str, str]()
    while len(found) < lines:
        english, links = linked(draw)
        found.setdefault(english, links)
    return [(english, "-", links) for english, links in found.items()]


if __name__ == "__main__":
    to_file(__doc__, sentences)
