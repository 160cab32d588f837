"""Pairs of sentences in which sense alone says which noun "it" stands for: a pizza melts in the mouth, a piano does not.

A sentence has two or three nouns of different classes and a predicate that suits one of them. The nouns are in
sense_nouns.py, the predicates with the classes that they suit in sense_predicates.py; pronouns.py mixes these sentences
with its own and agrees the words.
"""

from __future__ import annotations

import random
import re
from collections import defaultdict
from dataclasses import dataclass

from recipes.grammars.french import Noun, agree, fill, nominal, of, person, pronouns, read_nouns, speaker, to, verbs
from recipes.grammars.pronoun_words import NOUNS as EARLIER_NOUNS
from recipes.grammars.sense_english import PREDICATES as MORE_PREDICATES
from recipes.grammars.sense_nouns import NOUNS
from recipes.grammars.sense_predicates import GROUPS, PREDICATES

__all__ = [
    "ENGLISH_LIST",
    "FRAMES",
    "NOUN_GROUPS",
    "PREDICATE_LIST",
    "RELATIVES",
    "THREE",
    "groups_of",
    "only",
    "turned",
    "two",
]

# Classes whose nouns fit a frame. {A} and {B} are the nouns, {P} is a person, {dB} is de + B, {aB} à + B; {a}, {e} and
# {est} agree with the subject.
_PORTABLE = "food clothes jewel kitchen holder tool text gadget toy medicine instrument material"
_THINGS = _PORTABLE + " furniture machine plant liquid"
_TOPICS = "idea policy speech event text art money software group feeling place"
_SCENE = "animal place outdoor water way vehicle ship plant group part aircraft"
FRAMES = f"""
{{P}} put {{A}} next to {{B}}|{{P}} {{a}} posé {{A}} à côté {{dB}}|{_PORTABLE}|{_THINGS}
{{P}} placed {{A}} under {{B}}|{{P}} {{a}} placé {{A}} sous {{B}}|{_PORTABLE}|furniture machine vehicle part
{{P}} left {{A}} beside {{B}}|{{P}} {{a}} laissé {{A}} à côté {{dB}}|{_PORTABLE}|{_THINGS} animal vehicle part
{{P}} found {{A}} behind {{B}}|{{P}} {{a}} trouvé {{A}} derrière {{B}}|{_PORTABLE} animal|furniture machine plant part place
{{P}} took {{A}} away from {{B}}|{{P}} {{a}} éloigné {{A}} {{dB}}|{_PORTABLE} animal|machine furniture animal water plant
{{P}} bought {{A}} and {{B}}|{{P}} {{a}} acheté {{A}} et {{B}}|{_THINGS}|{_THINGS} animal
{{P}} sold {{A}} with {{B}}|{{P}} {{a}} vendu {{A}} avec {{B}}|place vehicle ship machine furniture|{_THINGS} animal
{{P}} traded {{A}} for {{B}}|{{P}} {{a}} troqué {{A}} contre {{B}}|{_THINGS} animal vehicle|{_THINGS} animal ship
{{P}} mentioned {{A}} and {{B}}|{{P}} {{a}} mentionné {{A}} et {{B}}|{_TOPICS}|{_TOPICS} animal vehicle
{{P}} wrote about {{A}} and about {{B}}|{{P}} {{a}} écrit au sujet {{dA}} et au sujet {{dB}}|{_TOPICS} animal ailment sky|{_TOPICS} plant vehicle
{{P}} asked me about {{A}} during {{B}}|{{P}} m'{{a}} interrogé sur {{A}} pendant {{B}}|{_TOPICS} vehicle animal ailment|event speech
{{P}} dreamed of {{A}} and of {{B}}|{{P}} {{a}} rêvé {{dA}} et {{dB}}|{_SCENE} food|{_TOPICS} animal jewel
{{P}} photographed {{A}} in front of {{B}}|{{P}} {{a}} photographié {{A}} devant {{B}}|animal vehicle group plant|place outdoor water ship aircraft part
{{P}} saw {{A}} near {{B}}|{{P}} {{a}} vu {{A}} près {{dB}}|{_SCENE}|{_SCENE} sky
{{P}} noticed {{A}} not far from {{B}}|{{P}} {{a}} remarqué {{A}} non loin {{dB}}|{_SCENE} small|{_SCENE}
{{P}} drew {{A}} on {{B}}|{{P}} {{a}} dessiné {{A}} sur {{B}}|animal plant vehicle ship place body|text part furniture material
{{P}} compared {{A}} with {{B}}|{{P}} {{a}} comparé {{A}} {{aB}}|{_TOPICS} vehicle|{_TOPICS} animal machine
{{P}} preferred {{A}} to {{B}}|{{P}} {{a}} préféré {{A}} {{aB}}|{_THINGS} {_TOPICS}|{_THINGS} {_TOPICS} animal vehicle
{{P}} won {{A}} at {{B}}|{{P}} {{a}} gagné {{A}} lors {{dB}}|{_PORTABLE} money vehicle|event
{{P}} lost {{A}} in {{B}}|{{P}} {{a}} perdu {{A}} dans {{B}}|{_PORTABLE} animal|place room outdoor water vehicle
{{P}} repaired {{A}} in {{B}}|{{P}} {{a}} réparé {{A}} dans {{B}}|machine vehicle furniture part instrument|place room outdoor
{{P}} hid {{A}} from {{B}}|{{P}} {{a}} caché {{A}} {{aB}}|food jewel text toy medicine|animal group
{{P}} kept {{A}} away from {{B}}|{{P}} {{a}} gardé {{A}} à l'écart {{dB}}|animal food plant material|machine group animal liquid
{{P}} swapped {{A}} with {{B}}|{{P}} {{a}} interverti {{A}} et {{B}}|{_THINGS}|{_THINGS}
{{P}} paid for {{A}} with {{B}}|{{P}} {{a}} payé {{A}} avec {{B}}|{_THINGS} event vehicle|money jewel
{{P}} talked to me about {{A}} in {{B}}|{{P}} m'{{a}} parlé {{dA}} dans {{B}}|{_TOPICS} animal vehicle ailment|place room vehicle
{{P}} criticised {{A}} after {{B}}|{{P}} {{a}} critiqué {{A}} après {{B}}|{_TOPICS}|event speech
{{P}} stored {{A}} below {{B}}|{{P}} {{a}} rangé {{A}} au-dessous {{dB}}|{_PORTABLE} liquid|furniture machine part room
{{P}} washed {{A}} before {{B}}|{{P}} {{a}} lavé {{A}} avant {{B}}|clothes fruit vegetable vehicle animal kitchen|clothes vegetable furniture vehicle animal
{{P}} measured {{A}} and {{B}}|{{P}} {{a}} mesuré {{A}} et {{B}}|furniture part room outdoor plant|machine clothes way ship
{{A}} lay between us and {{B}}|{{A}} était entre nous et {{B}}|water outdoor way animal|place ship animal group
{{A}} stood by {{B}}|{{A}} se trouvait près {{dB}}|animal vehicle plant furniture place|water way outdoor place machine part
{{A}} blocked {{B}}|{{A}} bloqu{{ait}} {{B}}|vehicle animal furniture plant ship|way part room water
{{A}} was waiting behind {{B}}|{{A}} attend{{ait}} derrière {{B}}|animal group vehicle|place plant part furniture vehicle
{{A}} had its picture next to {{B}}|{{A}} avait sa photo à côté {{dB}}|animal group ship|text art event
{{A}} surprised everyone at {{B}}|{{A}} {{a}} surpris tout le monde lors {{dB}}|animal text idea art policy money|event
{{A}} caused trouble during {{B}}|{{A}} {{a}} posé problème pendant {{B}}|machine vehicle animal software ailment|event speech
{{A}} covered {{B}}|{{A}} recouvr{{ait}} {{B}}|plant clothes material|part furniture way vehicle
{{A}} fell next to {{B}}|{{A}} {{est}} tombé{{e}} à côté {{dB}}|plant furniture machine tool kitchen|animal vehicle place part
{{A}} disappeared with {{B}}|{{A}} {{a}} disparu avec {{B}}|animal ship text jewel group|{_PORTABLE} money
{{A}} came from the same country as {{B}}|{{A}} ven{{ait}} du même pays que {{B}}|animal food liquid machine plant art|vehicle group clothes material instrument
{{A}} was cheaper than {{B}}|{{A}} coût{{ait}} moins cher que {{B}}|{_THINGS} event|{_THINGS} vehicle animal ship
{{A}} reminded me of {{B}}|{{A}} me rappel{{ait}} {{B}}|{_TOPICS} smell_sound food|{_TOPICS} place animal outdoor
{{A}} has been compared to {{B}}|{{A}} {{a}} été comparé{{e}} {{aB}}|art place machine|body sky idea plant
We will always remember {{A}} and {{B}}|Nous nous souviendrons toujours {{dA}} et {{dB}}|{_TOPICS} animal vehicle|{_SCENE} {_TOPICS}
There was a problem with {{A}} and with {{B}}|Il y avait un problème avec {{A}} et avec {{B}}|{_THINGS} {_SCENE}|{_THINGS} software money
Nobody knew anything about {{A}} or about {{B}}|Personne ne savait rien {{dA}} ni {{dB}}|{_TOPICS} {_SCENE}|{_TOPICS} ailment
""".strip()
# Three nouns: {C} is only in the way.
THREE = f"""
{{P}} put {{A}} between {{B}} and {{C}}|{{P}} {{a}} posé {{A}} entre {{B}} et {{C}}|{_PORTABLE}|{_THINGS}
{{P}} carried {{A}} and {{B}} into {{C}}|{{P}} {{a}} porté {{A}} et {{B}} dans {{C}}|{_PORTABLE}|{_PORTABLE}
{{P}} saw {{A}} and {{B}} in front of {{C}}|{{P}} {{a}} vu {{A}} et {{B}} devant {{C}}|animal vehicle plant|group machine vehicle
{{P}} discussed {{A}}, {{B}} and {{C}}|{{P}} {{a}} discuté {{dA}}, {{dB}} et {{dC}}|{_TOPICS}|{_TOPICS}
""".strip()
_LAST = {"into": "place room", "in front of": "place outdoor water part", "between": _THINGS, "discussed": _TOPICS}
# How the predicate follows: English, French, and how often.
JOINS = [
    ("{M} because {it} {q}.", "{M} {parcequil} {fut}.", 30),
    ("{M} since {it} {q}.", "{M} {puisquil} {fut}.", 8),
    ("{M}, as {it} {q}.", "{M}, car {il} {fut}.", 8),
    ("{M}, but {it} {q}.", "{M}, mais {il} {fut}.", 14),
    ("{M}, and {it} {q}.", "{M}, et {il} {fut}.", 8),
    ("{M} although {it} {q}.", "{M} même {sil} {fut}.", 8),
    ("{M} even though {it} {q}.", "{M} même {sil} {fut}.", 4),
    ("{M}. {It} {q}.", "{M}. {Il} {fut}.", 16),
    ("{M}; {it} {q}.", "{M} ; {il} {fut}.", 4),
    ("{M} when {it} {q}.", "{M} quand {il} {fut}.", 5),
    ("Because {it} {q}, {m}.", "Comme {il} {fut}, {m}.", 4),
    ("Although {it} {q}, {m}.", "Même {sil} {fut}, {m}.", 3),
    ("{M}. I think {it} {q}.", "{M}. Je crois {quil} {fut}.", 5),
    ("{M}. We knew that {it} {q}.", "{M}. Nous savions {quil} {fut}.", 4),
]  # fmt: skip
# With a relative clause the other noun stands nearer; then an object pronoun, which French agrees with too.
RELATIVES = """
{A} that {P} had left near {B} was taken away because {it} {q}.|{A} {queP} {avait} laissé{ée} près {dB} {a_} été emporté{ée} {parcequil} {fut}.
{A} that stood behind {B} was forgotten because {it} {q}.|{A} qui se {trouvait} derrière {B} {a_} été oublié{ée} {parcequil} {fut}.
{A} next to {B} {q}, so {P} left {them} there.|{A} à côté {dB} {fut}, alors {P} {l}{a} laissé{ée} là.
{A} next to {B} {q}, but {it} pleased {P}.|{A} à côté {dB} {fut}, mais {il} {plaisait} à {P}.
""".strip()


@dataclass(frozen=True)
class Predicate:
    """What is said of a thing in the past, in both languages, and the groups that it suits or may suit."""

    english: str
    masculine: str
    feminine: str
    is_verb: bool
    suits: frozenset[str]
    may_suit: frozenset[str]

    def of(self, noun: Noun) -> tuple[str, str]:
        """Agree with a noun: ("was ripe", "était mûre"), ("had worms in them", "contenaient des vers")."""
        english = self.english if self.is_verb else f"was {self.english}"
        if noun.plural:
            english = re.sub(r"\bits\b", "their", re.sub(r"\bit\b", "them", re.sub(r"^was\b", "were", english)))
        if not self.is_verb and self.masculine != "" and " " not in self.masculine:
            be = "étaient" if noun.plural else "était"
            return english, f"{be} {agree([self.masculine, self.feminine], noun.feminine, noun.plural)}"
        words = self.feminine.split() if noun.feminine else self.masculine.split()
        if noun.plural:
            differing = {
                n for n, (m, f) in enumerate(zip(self.masculine.split(), self.feminine.split(), strict=True)) if m != f
            }
            marked = {n for n, word in enumerate(words) if word.endswith("+")} | differing
            words = [word.rstrip("+") + "s" * (n in marked and word[-1] not in "sx") for n, word in enumerate(words)]
        french = " ".join(word.rstrip("+") for word in words)
        if not self.is_verb:
            return english, f"{'étaient' if noun.plural else 'était'} {french}"
        return english, re.sub(r"ait\b", "aient", french, count=1) if noun.plural else french


def read_predicates(text: str) -> list[Predicate]:
    """The predicates of sense_predicates.py."""
    predicates: list[Predicate] = []
    suits, may_suit = frozenset[str](), frozenset[str]()
    for line in text.splitlines():
        if line.startswith("@"):
            certain, _, possible = line[1:].partition("~")
            suits, may_suit = frozenset(certain.split()), frozenset(possible.split())
            continue
        english, masculine, *feminine = line.removeprefix(">").split("=")
        last = feminine[0] if feminine else masculine
        predicates.append(Predicate(english, masculine, last, line.startswith(">"), suits, may_suit))
    return predicates


def read_english(text: str) -> list[Predicate]:
    """The predicates of sense_english.py, which have no French."""
    lines = [line.split(";") if line[0] != "@" else [line] for line in text.strip().splitlines()]
    each = [f"{'>' if line[0][0] == '>' and n else ''}{said}" for line in lines for n, said in enumerate(line)]
    return read_predicates("\n".join(said if said[0] == "@" else f"{said}=-" for said in each))


PREDICATE_LIST = read_predicates(PREDICATES)
ENGLISH_LIST = read_english(MORE_PREDICATES)
NOUN_GROUPS: dict[str, list[tuple[Noun, Noun | None]]] = {}
_group_of_class = {each: group for group, classes in GROUPS.items() for each in classes.split()}
for _table in (NOUNS, EARLIER_NOUNS):
    for _class, _text in _table.items():
        if _table is NOUNS or _class in _group_of_class:
            NOUN_GROUPS.setdefault(_group_of_class.get(_class, _class), []).extend(read_nouns(_text))
NOUN_GROUPS |= {name: read_nouns(NOUNS[name]) for name in ("gadget", "fruit", "vegetable")}
_GROUPS_OF: dict[str, set[str]] = defaultdict(set)  # a noun may be in several
for _name, _pairs in NOUN_GROUPS.items():
    for _one, _ in _pairs:
        _GROUPS_OF[_one.english].add(_name)
_ALSO = {"gadget": "machine", "fruit": "food", "vegetable": "food"}


def groups_of(name: str) -> set[str]:
    """All groups of the noun with this English name."""
    own = _GROUPS_OF[name]
    return own | {_ALSO[each] for each in own if each in _ALSO}


def _choose(groups: str, draw: random.Random) -> tuple[Noun, set[str]]:
    group = draw.choice(groups.split())
    one, many = draw.choice(NOUN_GROUPS[group])
    return (many if many and draw.random() < 0.15 else one), groups_of(one.english)


def only(suited: set[str], others: list[set[str]], predicates: list[Predicate] = PREDICATE_LIST) -> list[Predicate]:
    """The predicates that suit one noun and cannot be meant of the others."""
    return [
        each
        for each in predicates
        if each.suits & suited and not any((each.suits | each.may_suit) & other for other in others)
    ]


def _nouns(groups: list[str], draw: random.Random) -> tuple[list[Noun], list[set[str]]]:
    """Nouns for a frame, of the same number, the first two mostly of different genders."""
    while True:
        chosen = [_choose(each, draw) for each in groups]
        nouns, of_each = [noun for noun, _ in chosen], [own for _, own in chosen]
        different = len({noun.english for noun in nouns}) == len(nouns) and len({noun.plural for noun in nouns}) == 1
        if different and (nouns[0].feminine != nouns[1].feminine or draw.random() < 0.2):
            return nouns, of_each


def two(draw: random.Random) -> list[tuple[str, str, Noun]]:
    """Sentences of one frame: "it" stands for the first noun in one, for the second in the other."""
    return [(english, french, noun) for english, french, noun, _, _ in turned(draw)]


def turned(draw: random.Random, predicates: list[Predicate] = PREDICATE_LIST) -> list[tuple[str, str, Noun, str, Noun]]:
    """The sentences of `two`, each also with the French that it would have if "it" stood for the other noun.

    The second French and noun are those of the first where the sentence has no such reading. With predicates of
    `ENGLISH_LIST` only the English is right.
    """
    table = draw.choices([FRAMES, THREE, RELATIVES], [80, 10, 10])[0]
    english, french, *groups = draw.choice(table.splitlines()).split("|")
    if table is RELATIVES:
        groups = [f"{_PORTABLE} animal vehicle plant", f"{_THINGS} part place"]
    if table is THREE:
        groups.append(next(last for word, last in _LAST.items() if word in english))
    if "{P} {a} " in french and table is not RELATIVES and draw.random() < 0.5:
        english, french = speaker(english, french, draw)
    nouns, of_each = _nouns(groups, draw)
    who, someone, quelquun = person(draw)
    subject = who if "{P}" in french else nouns[0]
    values = {"P": someone}
    slots = {"P": quelquun, "queP": f"qu'{quelquun}" if quelquun[0] == "A" else f"que {quelquun}"}
    for letter, noun in zip("ABC", nouns, strict=False):
        values[letter], slots[letter] = nominal(noun, draw)
        slots |= {f"d{letter}": of(slots[letter]), f"a{letter}": to(slots[letter])}
    if nouns[0].plural:
        english = (
            english.replace("{A} was ", "{A} were ").replace("{A} has ", "{A} have ").replace("had its", "had their")
        )
        french = french.replace("{A} était ", "{A} étaient ").replace("{A} se trouvait", "{A} se trouvaient")
        french = french.replace("{A} avait sa photo", "{A} avaient leur photo").replace(
            "se {trouvait}", "se trouvaient"
        )
        english = re.sub(r"^(\{A\} that .*) was (taken|forgotten)", r"\1 were \2", english)
    french = french.replace("{trouvait}", "trouvait")
    joint = draw.choices(JOINS, [weight for *_, weight in JOINS])[0]
    sentences = []
    for n in draw.sample([0] if table is RELATIVES else [0, 1], 1 if table is RELATIVES else draw.choice([1, 2, 2])):
        choices = only(of_each[n], [own for m, own in enumerate(of_each) if m != n], predicates)
        if choices:
            predicate, other = draw.choice(choices), nouns[1 - n]
            found = _sentence(english, french, joint, nouns[n], predicate, subject, values, slots)
            if table is RELATIVES:
                sentences.append((*found, *found[1:]))
            else:
                misread = _sentence(english, french, joint, other, predicate, subject, values, slots)
                sentences.append((*found, *misread[1:]))
    return sentences


def _sentence(
    english: str, french: str, joint: tuple[str, str, int], noun: Noun, predicate: Predicate, subject: Noun,
    values: dict[str, str], slots: dict[str, str],
) -> tuple[str, str, Noun]:  # fmt: skip
    said, dit = predicate.of(noun)
    forms = pronouns(noun) | {"q": said, "fut": dit, "them": "them" if noun.plural else "it"}
    forms |= {
        "ée": "e" * noun.feminine + "s" * noun.plural,
        "l": "les " if noun.plural else "l'",
        "a_": "ont" if noun.plural else "a",
    }
    forms |= {"plaisait": "plaisaient" if noun.plural else "plaisait"}
    if "{q}" in english:  # a relative clause has its own end
        return fill(english, values | forms), fill(french, verbs(subject) | slots | forms), noun
    main, principale = fill(english, values), fill(french, verbs(subject) | slots)
    lower = main if re.match(r"I\b|Tom|Mary|Paul|Alice|Sophie", main) else main[0].lower() + main[1:]
    petite = (
        principale if re.match(r"Tom|Marie|Paul|Alice|Sophie", principale) else principale[0].lower() + principale[1:]
    )
    return (
        fill(joint[0], forms | {"M": main, "m": lower}), fill(joint[1], forms | {"M": principale, "m": petite}), noun,
    )  # fmt: skip
