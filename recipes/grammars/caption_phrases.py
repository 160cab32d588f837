"""The people, things and clothes of captions.py, with their adjectives, in both languages."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, replace

from recipes.grammars.caption_words import (
    CLOTHES,
    COLOURS,
    FAMILIES,
    HOW_LARGE,
    LANDMARKS,
    LOOKS,
    ORIGINS,
    PEOPLE,
    SIZES,
    THINGS,
    TRAITS,
)
from recipes.grammars.french import Noun, agree, of, phrase, read_nouns

Pair = tuple[str, str]


def entries(text: str, mark: str = ";") -> list[list[str]]:
    """English and French of a table, split at =."""
    return [entry.strip().split("=") for entry in text.split(mark) if entry.strip()]


def nouns_of(text: str) -> list[tuple[Noun, Noun | None]]:
    """Nouns of a table; those of the gender mp or fp are plural in French."""
    found = []
    for entry, (one, many) in zip(text.split(), read_nouns(text), strict=True):
        gender = entry.split(":")[2]
        found.append((replace(one, feminine=gender[0] == "f", plural=gender.endswith("p")), many))
    return found


PERSONS = {name: nouns_of(text) for name, text in PEOPLE.items()}
OBJECTS = {name: nouns_of(text) for name, text in THINGS.items()} | {"landmark": nouns_of(LANDMARKS)}
GARMENTS = {name: nouns_of(text) for name, text in CLOTHES.items()}
OBJECTS |= {"hat": GARMENTS["head"]}
COLOUR = entries(COLOURS)
PLAIN_COLOUR = [colour for colour in COLOUR if colour[1] != colour[-1] or colour[1] in ("rouge", "jaune", "rose")]
TRAIT = {name: entries(text) for name, text in TRAITS.items()}
ORIGIN = entries(ORIGINS)
ANIMALS = ("dog", "cat", "horse", "bird", "farm", "wild", "ape")
ROLES = [name for name in PEOPLE if name not in (*ANIMALS, "man", "woman", "boy", "girl", "child", "someone", "baby")]
NUMBERS = {"two": "deux", "three": "trois", "four": "quatre", "five": "cinq", "six": "six", "several": "plusieurs"}


@dataclass(frozen=True)
class Subject:
    """Whom a sentence is about, and how verbs agree with them in both languages."""

    english: str
    french: str
    feminine: bool = False
    plural: bool = False
    many: bool = False  # in English: "a group of people are"
    his: str = "his"
    kind: str = "man"
    members: str = ""  # how the participles of a group's people end: "un groupe de femmes vêtues de noir"


def describe(noun: Noun, adjectives: list[list[str]], determiner: str) -> Pair:
    """A noun with adjectives and a determiner: a, the, a number, many (no article in English) or bare.

    >>> describe(Noun("man", "homme", False, elides=True), [["old", "<vieux", "<vieille"]], "a")
    ('an old man', 'un vieil homme')
    >>> describe(Noun("trees", "arbres", False, True, True), [["tall", "<grand", "<grande"], ["green", "vert", "verte"]], "many")
    ('tall green trees', 'de grands arbres verts')
    """
    before, after = [], []
    for _, *forms in adjectives:
        first = forms[0].startswith("<")
        word = agree([form.removeprefix("<") for form in forms], noun.feminine, noun.plural)
        if first and noun.elides and not noun.plural:
            word = {"vieux": "vieil", "beau": "bel"}.get(word, word)
        (before if first else after).append(word)
    english = " ".join([*(adjective[0] for adjective in adjectives), noun.english.removeprefix("+")])
    french = " ".join([*before, noun.french, *after])
    elides = before[0][0] in "aeiouéêh" if before else noun.elides
    whole = Noun(english, french, noun.feminine, noun.plural, elides)
    if determiner == "bare":
        return english, french
    if determiner in NUMBERS:
        return f"{determiner} {english}", f"{NUMBERS[determiner]} {french}"
    if determiner == "many" or (noun.english.startswith("+") and determiner == "a"):
        indefinite = ("d'" if elides else "de ") if before else "des "
        return english, indefinite + french if noun.plural else phrase(whole, "a")[1]
    if noun.plural:
        many, plusieurs = phrase(whole, determiner)
        return many, ("d'" if elides else "de ") + french if before and plusieurs.startswith("des ") else plusieurs
    one, un = phrase(whole, determiner)
    return re.sub(r"^a (?=[AEIO](?!uro))", "an ", one), un


def pick(nouns: list[tuple[Noun, Noun | None]], draw: random.Random, plural: bool = False) -> Noun:
    """One of these nouns, in the plural where it has one and that is asked for."""
    one, many = draw.choice(nouns)
    return many if plural and many else one


def thing(name: str, draw: random.Random, determiner: str = "a", plural: bool = False) -> tuple[Noun, Pair]:
    """A thing, sometimes with its colour or its size."""
    noun = pick(OBJECTS[name], draw, plural)
    adjectives: list[list[str]] = []
    chance = draw.random()
    if (
        name in ("tool", "toy", "carried", "vehicle", "boat", "seat", "ball", "gear", "hat", "pushed", "cab")
        and chance < 0.3
    ):
        if " of " not in noun.english and noun.french.count(" ") < 2:
            adjectives = [draw.choice(PLAIN_COLOUR if chance < 0.2 else entries(HOW_LARGE))]
    elif name == "landmark" and chance < 0.15:
        adjectives = [
            draw.choice([["large", "<grand", "<grande"], ["old", "<vieux", "<vieille"], ["small", "<petit", "<petite"]])
        ]
    elif name in ("food", "meal", "instrument", "reading", "chew") and chance < 0.12 and " " not in noun.french:
        adjectives = [["big", "<gros", "<grosse"] if name != "reading" else ["old", "<vieux", "<vieille"]]
    return noun, describe(noun, adjectives, determiner)


def de(french: str) -> str:
    """De + noun phrase; that of "de grands arbres" is there already."""
    return french if re.match(r"de |d'", french) else of(french)


# Of several people, each has one; French keeps the singular: "ils lèvent la main".
_EACH = re.compile(
    r"(\btheir )(back|bike|face|hand|head|helmet|jacket|mouth|nose|opponent|paw|phone|skateboard|tongue)\b"
)
_MOUNT = re.compile(r"\bride an? (bike|bicycle|camel|horse|motorcycle|scooter|skateboard|sled|tricycle)\b")


def fill(english: str, french: str, subject: Subject, draw: random.Random) -> Pair:
    """Both texts with their slots filled: things, and what agrees with the subject.

    >>> fill("walk {his} dog", "promener {son} chien", Subject("two men", "deux hommes", plural=True, his="their"), random.Random(0))
    ('walk their dog', 'promener leur chien')
    >>> fill("raise {his} hand", "lever la main", Subject("two men", "deux hommes", plural=True, his="their"), random.Random(0))
    ('raise their hands', 'lever la main')
    """
    own = {"son": "leur", "sa": "leur", "ses": "leurs"} if subject.plural else {"son": "son", "sa": "sa", "ses": "ses"}
    him = ("elles" if subject.feminine else "eux") if subject.plural else "elle" if subject.feminine else "lui"
    ending = "e" * subject.feminine + "s" * subject.plural
    values = own | {"his": subject.his, "e": ending, "s": "s" * subject.plural, "lui": him}
    for group in sorted({match[1] for match in re.finditer(r"\{(?:\w+ )*(\w+)\}", english) if match[1] in OBJECTS}):
        many = "{many " + group in english
        the = "{de the " + group in french
        seed = draw.randrange(1 << 30)
        noun, indefinite = thing(group, random.Random(seed), "many" if many else "a", many)
        bare, definite = describe(noun, [], "bare"), describe(noun, [], "the")
        values |= {
            f"many {group}": indefinite[1],
            group: indefinite[1],
            f"de {group}": de(indefinite[1]),
            f"de the {group}": of(definite[1]),
        }
        english = english.replace("{many " + group + "}", indefinite[0]).replace("the {" + group + "}", definite[0])
        english = english.replace("{" + group + "}", bare[0] if the else indefinite[0])
    english = re.sub(r"\{(\w+)\}", lambda match: values[match[1]], english)
    if subject.plural or subject.members or subject.kind == "people":
        english = _EACH.sub(r"\1\2s", re.sub(r"\bits\b", "their", english))
        english = _MOUNT.sub(r"ride \1s", english)
    french = re.sub(r"(\w*)\{([\w ]+)\}", lambda match: _join(match[1], values[match[2]], match[2]), french)
    return english, french


def _join(stem: str, value: str, slot: str) -> str:
    joined = stem + value
    return joined[:-1] if slot == "e" and joined.endswith("ss") else joined


def one_person(kind: str, draw: random.Random, plural: bool) -> tuple[Noun, list[list[str]], str]:
    """A noun for someone of a kind, with adjectives, and what group of PEOPLE it is from."""
    name = kind
    if kind == "any":
        name = draw.choices(["adult", "child", "role", "someone"], [52, 26, 17, 5])[0]
    if name == "adult":
        name = draw.choice(["man", "man", "woman"])
    if name == "child":
        name = draw.choice(["boy", "girl", "child"])
    noun = pick(PERSONS[name], draw, plural)
    traits = TRAIT.get(name, TRAIT["role"])
    adjectives: list[list[str]] = []
    often = 0.7 if name in ANIMALS else 0.2 if name in ROLES else 0.45
    if draw.random() < often:
        adjectives = [draw.choice(traits)]
        if noun.french.count(" ") and not adjectives[0][1].startswith("<"):
            adjectives = []
    if (
        name in ("dog", "cat", "horse", "bird")
        and draw.random() < 0.3
        and noun.english not in ("puppy", "kitten", "foal")
    ):
        adjectives = [draw.choice(entries(SIZES))] + [one for one in adjectives if not one[1].startswith("<")]
    if name in ("man", "woman") and adjectives and adjectives[0][0] == "young" and draw.random() < 0.25:
        extra = draw.choice(traits)
        adjectives += [extra] * (
            not extra[1].startswith("<") and extra[0] not in ("older", "elderly", "middle-aged", "gray-haired")
        )
    if name not in ANIMALS and draw.random() < 0.04 and " " not in noun.french:
        adjectives = [one for one in adjectives if one[1].startswith("<")] + [draw.choice(ORIGIN)]
    return noun, adjectives, name


def people(kind: str, draw: random.Random, plain: bool = False) -> Subject:
    """Someone, or some people, or some animals."""
    how = draw.random()
    if kind in OBJECTS:
        many = how < 0.2
        determiner = draw.choice(["two", "three", "several"]) if many else "a"
        noun, (english, french) = thing(kind, draw, determiner, many)
        plural = noun.plural
        return Subject(english, french, noun.feminine, plural, plural, "its", kind)
    human = kind not in (*ANIMALS, "baby")
    if human and how < 0.13 and not plain:
        return _group(kind, draw)
    if kind in ("any", "adult") and how < 0.17 and not plain:
        text = "=".join(draw.choice(entries(FAMILIES)))
        english, french = text.split("=")
        return Subject(english, french, "mère et sa fille" in french, True, True, "their", "people")
    if kind == "dog" and how < 0.06:
        dog, other = (one_person("dog", draw, False)[:2] for _ in range(2))
        while other[0] == dog[0] and (not dog[1] or not other[1] or dog[1] == other[1]):
            dog, other = (one_person("dog", draw, False)[:2] for _ in range(2))
        one, two = describe(*dog, "a"), describe(*other, "a")
        return Subject(f"{one[0]} and {two[0]}", f"{one[1]} et {two[1]}", False, True, True, "their", "dog")
    plural = how > 0.76
    noun, adjectives, name = one_person(kind, draw, plural)
    if plain:
        adjectives = adjectives[:1] if draw.random() < 0.5 else []
    determiner = "a"
    if plural:
        determiner = draw.choices([*NUMBERS, "many"], [40, 16, 8, 4, 3, 12, 14])[0]
    elif draw.random() < 0.1 and not plain:
        determiner = "the"
    english, french = describe(noun, adjectives, determiner)
    his = "its" if name in ANIMALS else "her" if noun.feminine else "his"
    if noun.plural or noun.english in ("person", "teenager", "adult"):
        his = "their"
    return Subject(english, french, noun.feminine, noun.plural, noun.plural, his, name)


def _group(kind: str, draw: random.Random) -> Subject:
    noun, adjectives, name = one_person(kind, draw, True)
    adjectives = [one for one in adjectives if one[1].startswith("<")] if draw.random() < 0.4 else []
    if kind in ("any", "adult") and draw.random() < 0.4:
        noun, adjectives, name = (
            Noun("people", "personnes", True, True),
            adjectives[: draw.random() < 0.3 and name != "role"],
            "folk",
        )
        adjectives = [["young", "<jeune"]] if adjectives else []
    english, french = describe(noun, adjectives, "bare")
    of_them = de("des " + french) if noun.elides or adjectives else "de " + french
    if adjectives:
        of_them = ("d'" if french[0] in "aeéi" else "de ") + french
    first = draw.choices(
        ["a group of", "a lot of", "a crowd of", "a couple", "people", "a small group of"], [55, 5, 8, 12, 12, 8]
    )[0]
    many = draw.random() < 0.6
    if kind not in ("any", "adult") and first in ("a couple", "people", "a lot of", "a crowd of"):
        first = "a group of"
    if first == "people":
        return Subject("people", "des gens", plural=True, many=True, his="their", kind="people")
    if first == "a couple":
        word, mot = draw.choice(
            [
                ("a couple", "un couple"),
                ("a young couple", "un jeune couple"),
                ("an elderly couple", "un couple âgé"),
                ("a family", "une famille"),
            ]
        )
        return Subject(word, mot, mot == "une famille", his="their", kind="people")
    if first == "a lot of":
        return Subject("a lot of people", "beaucoup de gens", False, True, True, "their", "people")
    if first == "a crowd of":
        return Subject("a crowd of people", "une foule de gens", True, False, many, "their", "people")
    size = "petit " if "small" in first else ""
    return Subject(
        f"{first} {english}",
        f"un {size}groupe {of_them}",
        False,
        False,
        many,
        "their",
        name,
        "es" if noun.feminine else "s",
    )


def worn(subject: Subject, draw: random.Random, place: str = "") -> Pair:
    """What someone wears, or how they look, after the noun."""
    if subject.kind in (*ANIMALS, "baby", "people") or subject.kind in OBJECTS:
        return "", ""
    how = draw.random()
    e = subject.members or "e" * subject.feminine + "s" * subject.plural
    if how < 0.12:
        shaven = subject.feminine or subject.members or subject.kind in ("boy", "child", "baby")
        looks = [look for look in entries(LOOKS) if not shaven or not re.search("mustache|beard", look[0])]
        return fill(*draw.choice(looks), subject, draw)
    if how < 0.18:
        colour = draw.choice(
            [("black", "noir"), ("white", "blanc"), ("red", "rouge"), ("blue", "bleu"), ("green", "vert")]
        )
        return draw.choice(
            [
                (f"dressed in {colour[0]}", f"vêtu{e} de {colour[1]}"),
                (f"in {colour[0]}", f"en {colour[1]}"),
                (f"wearing {colour[0]}", f"vêtu{e} de {colour[1]}"),
            ]
        )
    bodies = (
        ["body"] * 4
        + (["woman"] * 3 if subject.feminine else ["man"] * (subject.kind not in ("boy", "child")))
        + ["legs"]
    )
    if subject.kind in ("swimmer", "surfer"):
        bodies = ["swim"]
    if subject.kind in (
        "footballer",
        "hitter",
        "tennis",
        "basket",
        "rugby",
        "hockey",
        "runner",
        "cyclist",
        "skier",
        "fighter",
    ):
        bodies = ["sport"]
    if subject.kind in ("worker", "cook"):
        bodies += ["work"] * 4
    kind = draw.choice(bodies)
    plural = subject.his == "their" and (subject.plural or bool(subject.members) or subject.kind != "someone")
    garment = pick(GARMENTS[kind], draw)
    both = next(pair for pair in GARMENTS[kind] if pair[0] is garment)
    colour_ = [draw.choice(COLOUR)] if draw.random() < 0.8 else []
    first = describe(both[1] if plural and both[1] else garment, colour_, "many" if plural else "a")
    if how < 0.48:
        bare = describe(garment, colour_, "bare")[1]
        other: Pair = ("", "")
        if kind == "body" and draw.random() < 0.25:
            legs = draw.choice(GARMENTS["legs"])
            tint = [draw.choice(PLAIN_COLOUR)] if draw.random() < 0.6 else []
            other = (" and " + describe(legs[0], tint, "a")[0], " et " + describe(legs[0], tint, "bare")[1])
        return f"in {first[0]}{other[0]}", f"en {bare}{other[1]}"
    if how < 0.62:
        return f"wearing {first[0]}", f"vêtu{e} {de(first[1])}"
    if how < 0.7:
        hat = draw.choice(GARMENTS["head"])
        tint = [draw.choice(PLAIN_COLOUR)] if draw.random() < 0.5 else []
        pair = describe(hat[1] if plural and hat[1] else hat[0], tint, "many" if plural else "a")
        return f"with {pair[0]}", f"avec {pair[1]}"
    second = draw.choice(GARMENTS[draw.choice(["head", "worn"])])
    tint = [draw.choice(PLAIN_COLOUR)] if draw.random() < 0.3 and second[0].french.count(" ") < 2 else []
    pair = describe(second[1] if plural and second[1] else second[0], tint, "many" if plural else "a")
    if how < 0.85:
        return f"wearing {first[0]} and {pair[0]}", f"portant {first[1]} et {pair[1]}"
    return (
        (f"wearing {first[0]}", f"portant {first[1]}")
        if draw.random() < 0.5
        else (f"wearing {pair[0]}", f"portant {pair[1]}")
    )
