"""Pairs of sentences in the language of news reports and health advice: a small grammar that writes training data.

    python -m recipes.grammars.news news.tsv            # 12,000 lines, always the same
    python -m recipes.grammars.news news.tsv --lines 500

The sentences are in news_frames.py, the words that fill them and the health advice in news_words.py; news_draws.py
draws people, places and sums from those, and this is the grammar that agrees them. A frame is one sentence in both languages:

    {P} {was} <arrested/questioned>{t}|{P} {a} été <arrêté/interrogé>{e}{t}

<a/b> chooses the same alternative on both sides. {P} is someone, {K} so many people, {O} an official, {C} a country,
{T} a time that is past and {F} one to come, {L} a place; {t}, {f} and {l} are these or nothing; {O2} is another than {O}.
Lower-case names are numbers and sums (DRAWS in news_draws.py) or tables of WORDS. Before {x} French has {de.x}, {au.x},
{que.x}; in a country {in.x} and from it {of.x}; a case {some.x} (de rougeole), ill {ill.x} (d'un cancer); of a
nationality {m.x}, {f.x}, {mp.x}, {fp.x}. {e}, {a}, {est}, {il}, {was}, {his} agree with the first noun of the frame, and
{e.x} with {x}.

Countries and cities are real. All that is said of them is invented, and so are the people, with common names; companies,
agencies and newspapers have no name. These are sentences, not facts and not advice.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

from recipes.grammars.french import Noun
from recipes.grammars.news_draws import ELIDES, au, bare, de, out_of, pick, within
from recipes.grammars.news_frames import FRAMES, LEADS, SOURCES, TAILS
from recipes.grammars.news_words import HEALTH
from recipes.grammars.writing import different, to_file

_SLOT = re.compile(r"\{(?:(\w+)\.)?(\w+)\}")
_REPORTED = re.compile(r"\b(said|told|says|say|according|warned|announced|denied|reported|asked|argued|added)\b")
_KNOWN = re.compile(r"(virus|infection|maladie|maladie d'Alzheimer|rage)$")  # with the article: un cas de la maladie
_HAPPENED = re.compile(r"\{[tT]\}")  # what has a time: not what is always so
SAYERS = {topic: [entry.split("=") for entry in text.split("; ")] for topic, text in SOURCES.items()}
PLAIN = ("advice", "quotes", "longer", "headlines")

VERBS = {
    "a": "a ont", "na": "n'a n'ont", "avait": "avait avaient", "est": "est sont", "était": "était étaient",
    "sest": "s'est se_sont", "sera": "sera seront", "serait": "serait seraient", "aurait": "aurait auraient",
    "devrait": "devrait devraient", "doit": "doit doivent", "va": "va vont", "peut": "peut peuvent", "nest": "n'est ne_sont",
    "nt": "_ nt", "ait": "ait aient", "son": "son leur", "sa": "sa leur", "ses": "ses leurs", "lui": "lui leur", "risque": "risque risquent",
}  # fmt: skip
BE = {
    "was": "was were",
    "is": "is are",
    "has": "has have",
    "s": "s _",
    "his": "his their",
    "he": "he they",
    "him": "him them",
}


def form(how: str, noun: Noun, language: int) -> str:
    """A word that goes with a noun: an ending, a verb, a pronoun, or the noun after a preposition."""
    if how in BE and language == 0:
        word = BE[how].split()[noun.plural].replace("_", "")
        return {"his": "her", "he": "she", "him": "her"}.get(word, word) if noun.feminine else word
    if how in VERBS:
        return VERBS[how].split()[noun.plural].replace("_", " " if how != "nt" else "")
    il = ("elle" if noun.feminine else "il") + "s" * noun.plural
    f = noun.feminine
    of_some = de(noun.french if _KNOWN.search(noun.french) else bare(noun.french))
    m, *rest = noun.french.split(",")
    return {
        "e": "e" * f + "s" * noun.plural, "il": il, "ne": "ne" * f + "s" * noun.plural, "eux": ("eux", "euse")[f],
        "m": m, "f": (rest or [m])[0], "mp": m + "s" * (m[-1] not in "sx"), "fp": (rest or [m])[0] + "s",
        "de": de(noun.french), "au": au(noun.french), "in": within(noun), "of": out_of(noun),
        "some": of_some, "ill": of_some.replace("de cancer", "d'un cancer"),
        "que": ("qu'" if noun.french[:1].lower() in ELIDES else "que ") + noun.french,
    }[how]  # fmt: skip


def choose(english: str, french: str, draw: random.Random) -> list[str]:
    """Both sides of a frame with the same alternatives chosen."""
    chosen = [draw.randrange(len(group.split("/"))) for group in re.findall(r"<([^>]*)>", english)]
    sides = []
    for side in (english, french):
        turn = iter(chosen)
        sides.append(re.sub(r"<([^>]*)>", lambda m: m[1].split("/")[next(turn)], side))  # noqa: B023
    return sides


def write(english: str, french: str, draw: random.Random) -> tuple[str, str]:
    """A frame with its alternatives chosen and its slots filled and agreed."""
    sides = choose(english, french, draw)
    names = [
        m[2]
        for side in sides
        for m in _SLOT.finditer(side)
        if m[2] not in VERBS and m[2] not in BE and m[2] not in ("e", "il", "ne", "eux")
    ]
    drawn: dict[str, Noun] = {}
    for slot in dict.fromkeys(names):
        while slot not in drawn or drawn[slot].english in [
            drawn[other].english for other in drawn if other != slot and drawn[slot].english
        ]:
            drawn[slot] = pick(slot, draw)
    first = next(
        (drawn[slot] for slot in names if drawn[slot].elides and slot not in ("O2", "O3")), Noun("", "", False)
    )
    done = []
    for language, side in enumerate(sides):

        def put(m: re.Match[str], language: int = language) -> str:
            how, slot = m[1], m[2]
            if slot not in drawn:
                return form(slot, first, language)
            return (
                form(how, drawn[slot], language) if how else (drawn[slot].french if language else drawn[slot].english)
            )

        text = _SLOT.sub(put, side).replace("*", "")
        text = re.sub(r",\s*,", ",", text)
        text = text if language else re.sub(r"\b([Aa]) (?=[AEIO]|eight|8\d?-|1[18]-)", r"\1n ", text)
        text = re.sub(r",(?=[.?!;:])", "", re.sub(r",( »)?,", r"\1,", text))
        text = (
            re.sub(r"\b(de|que) (?=[éèêâîôaeiou](?!ui\b|nze\b))", lambda m: m[1][:-1] + "'", text) if language else text
        )
        text = re.sub(r'(: "|: « )(\w)', lambda m: m[1] + m[2].upper(), text)
        at = re.search(r"\w", text)
        done.append(text if at is None else text[: at.start()] + text[at.start()].upper() + text[at.end() :])
    return done[0], done[1]


def extended(topic: str, english: str, french: str, draw: random.Random) -> tuple[str, str]:
    """A frame with a tail, a source or an opening, where its topic has them."""
    ends = english[-1] if english[-1] in "?!:" else "."
    if topic in PLAIN or ends != ".":
        return (english, french) if english[-1] in "?!:." else (english + ".", french + ".")
    english, french = choose(english, french, draw)
    happened = _HAPPENED.search(english)
    tails = [line.split("|") for line in TAILS[topic].splitlines() + (TAILS["any"].splitlines() if happened else [])]
    tails = [tail for tail in tails if len(tail) < 3 or re.search(tail[2].replace("/", "|"), english)]
    if tails and draw.random() < 0.5:
        tails += [tail for tail in tails if len(tail) == 3] * 4
        tail = draw.choice(tails)
        english, french = english + tail[0], french + tail[1]
    if not _REPORTED.search(english):
        kind, time = draw.random(), "" if "{t}" in english else "{t}"
        en, fr, numbers = draw.choice(SAYERS[topic] + SAYERS["any"])
        say = "say" if numbers[0] == "p" else "says"
        ont, affirme = ("ont", "affirment") if numbers[1] == "p" else ("a", "affirme")
        if kind < 0.28:
            verb, verbe = draw.choice(
                [
                    ("said", "déclaré"),
                    ("said", "indiqué"),
                    ("said", "annoncé"),
                    ("reported", "rapporté"),
                    ("confirmed", "confirmé"),
                ]
            )
            english, french = f"{english}, {en} {verb}{time}", f"{french}, {ont} {verbe} {fr}{time}"
        elif kind < 0.4:
            english, french = f"{english}, according to {en}", f"{french}, selon {fr}"
        elif kind < 0.5:
            english, french = f"according to {en}, {english}", f"selon {fr}, {french}"
        elif kind < 0.58:
            english, french = f"{en} {say} {english}", f"{fr} {affirme} que {french}"
            french = re.sub(r" que \{(\w+)\}", r" {que.\1}", french)
        elif kind < 0.66 and happened:
            lead, début = draw.choice(LEADS.strip().splitlines()).split("|")
            english, french = f"{lead}, {english}", f"{début}, {french}"
    return english + ".", french + "."


ALL = [
    (topic, *line.split("|"))
    for table in (FRAMES, HEALTH)
    for topic, text in table.items()
    for line in text.strip().splitlines()
]


def endless(draw: random.Random) -> Iterator[tuple[str, str]]:
    """Sentences of all topics, some of them more than once."""
    while True:
        yield write(*extended(*draw.choice(ALL), draw), draw)


def sentences(lines: int = 12_000, seed: int = 0) -> list[tuple[str, str]]:
    """So many different pairs of sentences, always the same ones for a seed."""
    return different(endless(random.Random(seed)), lines)


def main() -> None:
    """Write the pairs to a TSV file."""
    to_file(__doc__, sentences)


if __name__ == "__main__":
    main()
