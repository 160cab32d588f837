"""Descriptions of pictures in both languages, and plain sentences with their words: a grammar that writes training data.

    python -m recipes.grammars.captions captions.tsv            # 12,000 lines, always the same
    python -m recipes.grammars.captions captions.tsv --lines 500

The words are in caption_words.py, and people and things with their adjectives in caption_phrases.py; this is the
grammar of scenes. What is seen in a picture (a man on a ladder in a blue shirt) hardly occurs in parliaments or
manuals, and is said differently: without a final verb, with participles.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

from recipes.grammars.caption_phrases import (
    ANIMALS,
    GARMENTS,
    OBJECTS,
    PERSONS,
    PLAIN_COLOUR,
    ROLES,
    Pair,
    Subject,
    de,
    describe,
    entries,
    fill,
    one_person,
    people,
    thing,
    worn,
)
from recipes.grammars.caption_verbs import Doing, de_verb
from recipes.grammars.caption_words import (
    ACTIONS,
    ASIDES,
    CHEERS,
    MOUNTS,
    MOVES,
    OFTEN,
    ONLOOKERS,
    OUTSIDE,
    PLACES,
    PLAIN,
    POSES,
    POSITIONS,
    SCENERY,
    STAY,
    VARIANTS,
    VIEWS,
    WISHES,
    YOUNG,
)
from recipes.grammars.writing import different, to_file

BRITISH = re.compile(rf"\b(?:{'|'.join(VARIANTS)})\b")
PLACE = {name: entries(text) for name, text in PLACES.items()}


TABLES = [(who.split(), where.split(), entries(text)) for who, where, text in ACTIONS]
SCENES = [(who.split(), where.split(), entries(text)) for who, where, text in SCENERY]
ASIDE = entries(ASIDES)
VIEW = entries(VIEWS, "|")


def somewhere(name: str, draw: random.Random) -> Pair:
    """A place of a group; "mark" is next to something."""
    if name != "mark":
        english, french = draw.choice(PLACE[name])
        return english, french
    english, french = draw.choice(POSITIONS)
    _, (mark, repere) = thing("landmark", draw)
    return f"{english} {mark}", f"{french} {de(repere) if french in ('à côté', 'près') else repere}"


def event(draw: random.Random, tables: list, subject: Subject | None = None) -> tuple[Subject, Doing, Pair, str]:
    """Someone, what they do, where, and what kind of place that is."""
    while True:
        kinds, groups, verbs = draw.choices(
            tables, [len(table[2]) ** 0.7 * OFTEN.get(table[0][0], 1) for table in tables]
        )[0]
        kind = draw.choice(kinds)
        if kind in ROLES and draw.random() < 0.5:  # a man who surfs, not a surfer
            kind = "child" if kind in YOUNG and draw.random() < 0.3 else "adult"
        who = subject or people(kind, draw)
        english, french = draw.choice(verbs)
        together = who.plural or (who.his == "their" and who.kind != "someone")
        if english.startswith("&") and not together:
            continue
        if re.search(r"\b(?:its|son|sa)\b", french) and who.plural and who.kind in ANIMALS:
            continue
        english, french = fill(english.removeprefix("&"), french, who, draw)
        if re.search("happy|smiling|crying", who.english) and english in ("cry", "smile", "laugh"):
            continue
        if not groups:
            return who, Doing(english, french), ("", ""), ""
        name = "water" if english == "swim" else draw.choice(groups)
        place = somewhere(name, draw)
        moves = re.match(r"(?:through|across|along|down|past|up|toward|away|around|over) ", place[0])
        repeats = set(re.findall(r"\w{4,}", english)) & set(re.findall(r"\w{4,}", place[0]))
        needs = english in ("stand", "sit", "lie")
        if repeats or (moves and english.split()[0] not in MOVES.split()) or draw.random() < 0.2:
            if needs:
                continue
            place = ("", "")
        return who, Doing(english, french), place, name


def _sentence(*parts: Pair, end: str = ".") -> Pair:
    english, french = (" ".join(part[side] for part in parts if part[side]).replace(" ,", ",") for side in (0, 1))
    french = re.sub(r"\bde (?=elles?\b|eux\b)", "d'", french)
    return english[0].upper() + english[1:] + end, french[0].upper() + french[1:] + (end if end == "." else f" {end}")


def _said(how: float, doing: Doing, who: Subject, draw: random.Random) -> Pair:
    """The verb of a caption in one of its forms."""
    if how < 0.5:
        return doing.says("is -ing", who), doing.dit("train" if draw.random() < 0.07 else "il", who)
    if how < 0.8:
        form = draw.random()
        if form < 0.55 or doing.french.startswith("être"):
            return doing.says("-ing", who), doing.dit("ant", who)
        return doing.says("-ing", who), "qui " + doing.dit("il", who) if form < 0.8 else doing.dit("train", who).split(
            " ", 1
        )[1]
    return doing.says("-s", who), doing.dit("il", who)


def caption(draw: random.Random) -> Pair:
    """The description of a picture: who, in what clothes, doing what, where, and what else is to be seen."""
    if draw.random() < 0.09:
        return _posture(draw)
    who, doing, place, name = event(draw, SCENES if draw.random() < 0.06 else TABLES)
    human = who.kind not in (*ANIMALS, *OBJECTS)
    clothes = worn(who, draw) if draw.random() < 0.48 else ("", "")
    subject, how, shape = (who.english, who.french), draw.random(), draw.random()
    how = 0.0 if who.english.startswith("the ") and 0.5 <= how < 0.8 else how
    if re.match(r"se tenir|être (?:assis|debout|appuyé)", doing.french) and human and draw.random() < 0.12:
        pose = fill(*draw.choice(entries(POSES)), who, draw)
        return _sentence(subject, clothes, _said(how, doing, who, draw), place, (pose[0], ", " + pose[1]))
    verb = _said(how, doing, who, draw)
    if shape < 0.06 and place[0] and human and name in STAY.split():
        return _sentence(subject, worn(who, draw), place)
    if (
        shape > 0.965
        and human
        and (attire := worn(who, draw))[0].startswith("wearing")
        and not attire[1].startswith("vêtu")
    ):
        wears = ("are " if who.many else "is ") + attire[0]
        return _sentence(subject, (wears, attire[1].replace("portant", "portent" if who.plural else "porte", 1)))
    if shape > 0.925 and human:
        return _sentence(subject, clothes, tuple(draw.choice(entries(MOUNTS))))
    if shape < 0.08 and place[0]:
        return _sentence((place[0] + ",", place[1] + ","), subject, clothes, _said(0.0, doing, who, draw))
    if shape < 0.11 and not who.english.startswith("the "):
        form = "ant" if doing.french.startswith("être") else "il"
        there = ("there are" if who.many and not re.match("an? ", who.english) else "there is", "il y a")
        return _sentence(
            there,
            subject,
            (doing.says("-ing", who), ("" if doing.french.startswith("être") else "qui ") + doing.dit(form, who)),
            place,
        )
    if shape < 0.15:
        return _sentence(subject, clothes, (doing.says("was -ing", who), doing.dit("imparfait", who)), place)
    if shape < 0.17 and clothes[0].startswith("wearing"):
        return _sentence(
            subject, ("," + " " + clothes[0] + ",", ", " + clothes[1] + ","), _said(0.0, doing, who, draw), place
        )
    if shape < 0.23 and place[0] and name in OUTSIDE.split():
        return _sentence(
            subject,
            clothes,
            verb,
            place,
            ("with " + (view := draw.choice(VIEW))[0] + " in the background", f"avec {view[1]} en arrière-plan"),
        )
    if shape < 0.27 and name:
        return _sentence(
            subject,
            clothes,
            verb,
            place,
            tuple(draw.choice(entries(CHEERS if name in ("court", "pitch", "stage", "ring", "ice") else ONLOOKERS))),
        )
    if shape < 0.42 and human and who.kind != "baby":
        return _with_aside(who, subject, clothes, doing, place, name, how, draw)
    return _sentence(subject, clothes, verb, place)


def _posture(draw: random.Random) -> Pair:
    """Someone who stands or sits somewhere, doing something."""
    sits = draw.random() < 0.5
    worker = not sits and draw.random() < 0.3
    table = next(
        table for table in TABLES if table[0][0] == ("worker" if worker else "any") and ("seat" in table[1]) == sits
    )
    name = draw.choice(
        ["seat", "seat", "transit"] if sits else ["site"] if worker else ["street", "park", "indoor", "mark", "beach"]
    )
    who, doing, _, _ = event(draw, [table])
    while re.match(
        r"être|se tenir|.*\bmur\b|travailler|monter|conduire|pousser|se (?:reposer|détendre|rassembler)|dormir|faire la sieste",
        doing.french,
    ):
        who, doing, _, _ = event(draw, [table])
    place = somewhere(name, draw)
    while re.match(r"at night|on a sunny|at sunset|in the rain|outdoors|outside$", place[0]):
        place = somewhere(name, draw)
    clothes = worn(who, draw) if draw.random() < 0.5 else ("", "")
    posture = Doing("sit", fill("", "être assis{e}", who, draw)[1]) if sits else Doing("stand", "être debout")
    how, form = draw.random(), draw.random()
    says = (posture.says("is -ing" if how < 0.5 else "-ing", who), doing.says("-ing", who))
    if how >= 0.5:
        after = doing.dit("ant", who) if form < 0.6 else "en train " + de_verb(doing.french)
        return _sentence(
            (who.english, who.french), clothes, (says[0], posture.dit("ant", who)), place, (says[1], after)
        )
    if form < 0.35:
        return _sentence(
            (who.english, who.french),
            clothes,
            (says[0], posture.dit("ant", who)),
            place,
            (says[1], doing.dit("il", who)),
        )
    link, after = ("and ", "et " + doing.dit("il", who)) if form < 0.65 else ("", "en train " + de_verb(doing.french))
    return _sentence(
        (who.english, who.french), clothes, (says[0], posture.dit("il", who)), place, (link + says[1], after)
    )


def _with_aside(
    who: Subject, subject: Pair, clothes: Pair, doing: Doing, place: Pair, name: str, how: float, draw: random.Random
) -> Pair:
    free = name in ("street", "park", "indoor", "seat", "path", "market", "mark", "transit", "beach")
    form = draw.random()
    asides = [
        one
        for one in ASIDE
        if one[0].split()[0] != doing.english.split()[0] and (form < 0.4 or free or not re.search(r"\{|baby", one[0]))
    ]
    if who.kind in ("boy", "girl", "child"):
        asides = [one for one in asides if "baby" not in one[0]]
    aside = draw.choice(asides)
    verb = _said(how if form > 0.4 or how < 0.5 or how > 0.8 else 0.0, doing, who, draw)
    if form < 0.4:
        other = people("any", draw, plain=True)
        second = Doing(*fill(*aside, other, draw))
        says = draw.choice(["is -ing", "-s"])
        link = draw.choice([("while", "pendant que"), ("while", "tandis que"), ("as", "alors que")])
        que = link[1][:-1] + "'" + other.french if other.french[0] in "aeou" else f"{link[1]} {other.french}"
        return _sentence(
            subject,
            clothes,
            verb,
            place,
            (f"{link[0]} {other.english} {second.says(says, other)}", f"{que} {second.dit('il', other)}"),
        )
    also = Doing(*fill(*aside, who, draw))
    if form < 0.75:
        gerund = ("tout en " if draw.random() < 0.4 else "en ") + also.dit("ant", who)
        return _sentence(subject, clothes, verb, place, ("while " + also.says("-ing", who), gerund))
    if 0.5 <= how < 0.8:
        if verb[1].startswith("qui "):
            return _sentence(
                subject, clothes, verb, place, ("and " + also.says("-ing", who), "et " + also.dit("il", who))
            )
        return _sentence(
            subject,
            clothes,
            (doing.says("-ing", who), doing.dit("ant", who)),
            place,
            ("and " + also.says("-ing", who), "et " + also.dit("ant", who)),
        )
    also_says = also.says("-ing" if how < 0.5 else "-s", who)
    return _sentence(
        subject, clothes, (verb[0], doing.dit("il", who)), place, ("and " + also_says, "et " + also.dit("il", who))
    )


def plain(draw: random.Random) -> Pair:
    """A sentence with the same words that is not a caption."""
    how = draw.random()
    if how < 0.2:
        kinds, groups, verbs = draw.choice([table for table in TABLES if table[0][0] not in (*ANIMALS, "baby")])
        english, french = draw.choice(
            [verb for verb in verbs if not re.search(r"&|\{(?:his|s|e|lui)", "=".join(verb))] or [["rest", "dormir"]]
        )
        english, french = fill(english, french, Subject("", ""), draw)
        if re.match(r"se |s'|être ", french):
            return plain(draw)
        place = (
            somewhere(draw.choice(groups), draw)
            if groups and draw.random() < 0.5 and "path" not in groups and "slope" not in groups
            else ("", "")
        )
        wish, souhait = draw.choice(entries(WISHES))
        end = "?" if wish.startswith("do ") else "."
        english = (
            Doing(english, french).says("-ing", Subject("", "")) if re.search(r"(?:him|her|them)$", wish) else english
        )
        joined = (
            f"{souhait[:-1]}'{french}" if souhait.endswith(" de") and french[0] in "aeéiouœ" else f"{souhait} {french}"
        )
        return _sentence((f"{wish} {english}", joined), place, end=end)
    if how < 0.4:
        kinds, groups, verbs = draw.choice(TABLES)
        noun, adjectives, name = one_person(draw.choice(kinds), draw, False)
        who = Subject(
            *describe(noun, adjectives[:1], "the"),
            noun.feminine,
            kind=name,
            his="its" if name in ANIMALS else "her" if noun.feminine else "his",
        )
        _, doing, place, _ = (
            event(draw, [(kinds, groups, verbs)], who)
            if any(verb[0][0] != "&" for verb in verbs)
            else event(draw, TABLES, who)
        )
        if how < 0.25:
            first = ("is " + who.english, "est-ce que " + who.french)
            return _sentence(
                (first[0], first[1].replace("que un", "qu'un")),
                (doing.says("-ing", who), doing.dit("il", who)),
                place,
                end="?",
            )
        tense = draw.choice([("is -ing", "il"), ("was -ing", "imparfait"), ("is -ing", "il")])
        return _sentence((who.english, who.french), (doing.says(tense[0], who), doing.dit(tense[1], who)), place)
    return _about_a_thing(draw)


def _about_a_thing(draw: random.Random) -> Pair:
    english, french, groups = draw.choice(PLAIN.splitlines()).split("|")
    name = draw.choice(groups.split())
    if name == "clothes":
        nouns = [pair for garments in GARMENTS.values() for pair in garments]
    elif name == "people":
        nouns = PERSONS[
            draw.choice(["man", "woman", "boy", "girl", "child", "someone", *ROLES, "role", "role", "role"])
        ]
    else:
        nouns = OBJECTS.get(name) or PERSONS[name]
    one, more = draw.choice([pair for pair in nouns if not pair[0].english.startswith("+")])
    many = "many X" in english
    noun = more if many and more else one
    colour = (
        [draw.choice(PLAIN_COLOUR)]
        if draw.random() < 0.25 and name in ("clothes", "vehicle", "tool", "boat") and " " not in noun.french
        else []
    )
    mark = draw.choice(OBJECTS["landmark"])[0]
    values: dict[str, Pair] = {"the landmark": describe(mark, [], "the")}
    for determiner in ("a", "the", "my", "this", "bare"):
        values[f"{determiner} X"] = describe(noun, colour, determiner)
    values["many X"] = describe(noun, colour, "many")
    values["your X"] = ("your " + values["bare X"][0], "")
    values["ton X"] = ("", re.sub(r"^m(on|a|es) ", r"t\1 ", values["my X"][1]))
    values["bare many X"] = values["bare X"]
    e = "e" * noun.feminine + "s" * noun.plural
    words = {key: pair[1] for key, pair in values.items()} | {f"de {key}": de(pair[1]) for key, pair in values.items()}
    words["de many X"] = ("d'" if noun.elides else "de ") + values["bare X"][1]
    words |= {
        "e": e,
        "s": "s" * noun.plural,
        "est": "sont" if noun.plural else "est",
        "a": "ont" if noun.plural else "a",
    }
    english = re.sub(r"\{([\w ]+)\}", lambda match: values[match[1]][0], english)
    french = re.sub(r"\{([\w ]+)\}", lambda match: words[match[1]], french)
    return english[0].upper() + english[1:], french[0].upper() + french[1:]


def endless(draw: random.Random) -> Iterator[Pair]:
    """Sentences of a fit length, some of them more than once."""
    while True:
        english, french = caption(draw) if draw.random() < 0.86 else plain(draw)
        if draw.random() < 0.25:
            english = re.sub(BRITISH, lambda match: VARIANTS[match[0]], english)
        if 4 <= len(english.split()) <= 25 and not re.search(r"\b(?!nous)(\w+) \1\b", f"{english} {french}"):
            yield english, french


def sentences(lines: int = 12_000, seed: int = 0) -> list[Pair]:
    """So many different pairs of sentences, always the same ones for a seed."""
    return different(endless(random.Random(seed)), lines)


def main() -> None:
    """Write the pairs to a TSV file."""
    to_file(__doc__, sentences)


if __name__ == "__main__":
    main()
