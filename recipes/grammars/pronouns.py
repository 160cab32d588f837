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

from recipes.grammars import sense
from recipes.grammars.french import (
    GROUPS,
    SPEAKERS,
    Noun,
    agree,
    fill,
    group,
    nominal,
    of,
    person,
    pronouns,
    speaker,
    to,
    verbs,
)
from recipes.grammars.pronoun_frames import CONCESSIONS, FRAMES, RESULTS
from recipes.grammars.pronoun_words import (
    ACTS,
    ANIMALS,
    EFFECTS,
    MOODS,
    OF,
    OF_PEOPLE,
    PEOPLE,
    QUALITIES,
    SINGLES,
    THINGS,
    WHO,
)
from recipes.grammars.writing import Pair, different, to_file

__all__ = ["CONCESSIONS", "FRAMES", "GROUPS", "RESULTS", "SPEAKERS", "links", "main", "sentences"]


Sentence = tuple[str, str, Noun | None]  # with the noun that "it" stands for
KINDS = {(parts := entry.split("="))[0]: parts[1:] for entry in QUALITIES.split(";") if entry}


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


def choose(pairs: list[tuple[Noun, Noun | None]], draw: random.Random, many: float = 0.15) -> Noun:
    """One of these nouns, now and then in the plural."""
    one, plural = draw.choice(pairs)
    return plural if plural and draw.random() < many else one


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


def two(draw: random.Random) -> list[Sentence]:
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
            (*_result(english, french, it, reason, joins, values, slots, draw), it)
            for it, reason in zip((a, b), reasons, strict=True)
        ]
    how = draw.random()
    found = []
    for it, reason in draw.sample(list(zip((a, b), reasons, strict=True)), draw.choice([1, 2, 2])):
        found.append((*_why(english, french, it, reason, table is CONCESSIONS, how, a, values, slots, draw), it))
    if subject is who and table is FRAMES and draw.random() < 0.15:
        found.append((*_why(english, french, who, MOODS, False, how, a, values, slots, draw), None))
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


def one(draw: random.Random) -> Sentence:
    """A sentence with one noun, which "it" stands for."""
    names = draw.choice(list(OF))
    noun = choose(group(names), draw)
    animate = "animal" in names or "beast" in names
    moves = names not in STAYING
    templates = SINGLES.splitlines() + THINGS.splitlines() * moves
    english, french = draw.choice(ANIMALS.splitlines() if animate and draw.random() < 0.8 else templates).split("|")
    return *_about(english, french, noun, OF[names], draw), noun


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


def people(draw: random.Random) -> Sentence:
    """A sentence about someone, with he or she."""
    english, french = draw.choice(PEOPLE.splitlines()).split("|")
    who, someone, quelquun = person(draw)
    quality, predicat = predicate(draw.choice(OF_PEOPLE.split(";")), who.feminine, False, "{fut}" in french)
    p = pronouns(who)
    slots = verbs(who) | p | {"P": quelquun, "fut": predicat, "soit": predicat}
    return fill(english, p | {"P": someone, "q": quality}), fill(french, slots), None


def act(draw: random.Random) -> Sentence:
    """A sentence in which "it" stands for what someone does: ça."""
    who, qui, person_, whom, que, agreement = draw.choice(WHO)
    base, third, forms, rest = draw.choice(ACTS)
    verb = forms.split()[person_]
    effect = draw.choice(EFFECTS)
    adjective = agree(KINDS[effect], "f" in agreement, "p" in agreement)
    subject = "j'" if qui == "je" and verb[0] in "aeiouhé" else qui + " "
    doing = third if person_ == 1 else base
    link, lien = draw.choice(
        [(" because it", " parce que ça"), (" because it", " parce que ça"), ("; it", " ; ça"), (". It", ". Ça")]
    )
    english, french = (
        f"{who} {doing}{link} makes {whom} {effect}.",
        f"{subject}{verb} {rest}{lien} {que} rend {adjective}.",
    )
    return english[0].upper() + english[1:], french[0].upper() + french[1:], None


def endless(draw: random.Random) -> Iterator[Sentence]:
    """Sentences of all kinds, some of them more than once."""
    while True:
        kind = draw.choices([one, people, act, two, sense.two], [27, 7, 3, 45, 45])[0]
        yield from kind(draw) if kind in (two, sense.two) else [kind(draw)]


def links(english: str, noun: Noun | None) -> str:
    """Which words look at which: "7>1" says that word 7 ("it") stands for word 1, counted from 0.

    >>> links("The ferry sank because it was too old.", Noun("ferry", "ferry", False))
    '4>1'
    >>> links("These palm trees fell. They were old.", Noun("palm trees", "palmiers", False, plural=True))
    '4>1 4>2'
    """
    if noun is None:
        return ""
    words = [word.strip(".,;:!?").lower() for word in english.split()]
    name = noun.english.lower().split()
    starts = [n for n in range(len(words)) if words[n : n + len(name)] == name]
    if len(starts) != 1:
        return ""
    pronoun = [n for n, word in enumerate(words) if word in ("it", "they", "them")]
    return " ".join(f"{row}>{starts[0] + n}" for row in pronoun for n in range(len(name)))


def linked_sentences(lines: int = 12_000, seed: int = 0) -> list[tuple[str, str, str]]:
    """So many different pairs of sentences with their links, always the same ones for a seed."""
    nouns: dict[str, Noun | None] = {}

    def pairs() -> Iterator[Pair]:
        for english, french, noun in endless(random.Random(seed)):
            nouns.setdefault(english, noun)
            yield english, french

    return [(english, french, links(english, nouns[english])) for english, french in different(pairs(), lines)]


def sentences(lines: int = 12_000, seed: int = 0) -> list[Pair]:
    """The pairs of `linked_sentences` alone."""
    return [(english, french) for english, french, _ in linked_sentences(lines, seed)]


def main() -> None:
    """Write the pairs to a TSV file, with the links in a third column."""
    to_file(__doc__, linked_sentences)


if __name__ == "__main__":
    main()
