"""What news.py draws for the slots of its frames: people, places, times, sums, with the words French puts before them."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

from recipes.grammars.french import Noun, of, to
from recipes.grammars.news_words import CITIES, COUNTRIES, JOBS, NAMES, NATIONS, NUMBERS, REGIONS, ROLES, TENS, WORDS

ELIDES = "aeiouyéèêâîôûœàh"


def de(french: str) -> str:
    """De before a noun phrase or a bare noun.

    >>> de("le lac"), de("Athènes"), de("*hausse"), de("Le Caire"), de("des armes")
    ('du lac', "d'Athènes", 'de hausse', 'du Caire', "d'armes")
    """
    if french.startswith("Le "):
        return "du " + french[3:]
    if french.split()[0] in ("le", "les", "des", "un", "une") or french.startswith(("l'", "la ")):
        return of(french)
    return ("d'" if french[0].lower() in ELIDES else "de ") + french.removeprefix("*")


def au(french: str) -> str:
    """À before a noun phrase: au Caire, à Londres."""
    return "au " + french[3:] if french.startswith("Le ") else to(french.removeprefix("*"))


def bare(french: str) -> str:
    """A country's or region's name without its article."""
    return re.sub(r"^(?:l'|la |le |les )", "", french)


def within(noun: Noun) -> str:
    """In a country.

    >>> within(Noun("Japan", "le Japon", False)), within(Noun("Iran", "l'Iran", False))
    ('au Japon', 'en Iran')
    """
    if noun.plural:
        return "aux " + bare(noun.french)
    return ("en " if noun.feminine or noun.french.startswith("l'") else "au ") + bare(noun.french)


def in_region(french: str, inside: str) -> str:
    """In a region, where it is not said otherwise: en Andalousie, au Texas."""
    return inside or within(Noun("", french, french.startswith("la ")))


def out_of(noun: Noun) -> str:
    """Of or from a country: d'Italie, du Japon, des Pays-Bas."""
    if noun.plural or (not noun.feminine and not noun.french.startswith("l'")):
        return of(noun.french)
    return de(bare(noun.french))


def read(text: str) -> list[Noun]:
    """The entries of a table, English=French=gender and number."""
    found = []
    for entry in re.split(r";\s*|\n\s*", text.strip()):
        english, french, *kind = entry.split("=")
        found.append(Noun(english, french, "f" in "".join(kind), "p" in "".join(kind), bool(kind)))
    return found


TABLES = {name: read(text) for name, text in WORDS.items()}
CITY, COUNTRY = read(CITIES), read(COUNTRIES)


def number(value: float) -> tuple[str, str]:
    """A number in both languages: in words below ten, with a comma and with a space for thousands.

    >>> number(3), number(12500), number(2.5)
    (('three', 'trois'), ('12,500', '12 500'), ('2.5', '2,5'))
    """
    if value in NUMBERS:
        return NUMBERS[int(value)]
    english = f"{value:,}"
    return english, english.replace(",", " ").replace(".", ",")


def large(draw: random.Random) -> tuple[str, str]:
    """A round number from ten up."""
    return number(
        draw.choice([draw.randint(10, 99)] * 3 + [draw.randint(2, 40) * 50] * 2 + [draw.randint(21, 900) * 100])
    )


def percent(draw: random.Random) -> tuple[str, str]:
    """A percentage."""
    value = draw.choice([draw.randint(2, 95), draw.randint(1, 9) + draw.randint(1, 9) / 10, draw.randint(2, 90)])
    english = f"{value}{draw.choice(['%', '%', ' percent', ' per cent'])}"
    return english, f"{value} %".replace(".", ",")


def rate(draw: random.Random) -> tuple[str, str]:
    """A low percentage: of inflation or of the unemployed."""
    value = f"{draw.randint(1, 14)}.{draw.randint(1, 9)}"
    return value + draw.choice(["%", " percent", " per cent"]), value.replace(".", ",") + " %"


def money(draw: random.Random, scales: tuple[str, ...] = ("million", "billion")) -> tuple[str, str]:
    """A sum of money."""
    sign, unit = draw.choice([("$", "dollars"), ("$", "dollars"), ("€", "euros"), ("£", "livres sterling")])
    if draw.random() < 0.2:
        english, french = number(draw.choice([draw.randint(2, 99) * 500, draw.randint(11, 900) * 1000]))
        return f"{sign}{english}", f"{french} {unit}"
    value = draw.choice([draw.randint(2, 90), draw.randint(1, 9) + draw.randint(1, 9) / 10])
    scale = draw.choice(scales)
    échelle = {"million": "million", "billion": "milliard"}[scale]
    written = str(value).replace(".", ",")
    return f"{sign}{value} {scale}", f"{written} {échelle}{'s' * (value >= 2)} {de(unit)}"


def name(draw: random.Random) -> tuple[str, bool]:
    """A first name and a family name, and whether it is a woman's."""
    men, women, families = (NAMES[key].split() for key in ("m", "f", "family"))
    feminine = draw.random() < 0.5
    return f"{draw.choice(women if feminine else men)} {draw.choice(families)}", feminine


def job(draw: random.Random, feminine: bool) -> tuple[str, str]:
    """What someone is, in both languages."""
    english, french = draw.choice(re.split(r";\s*", JOBS.strip())).split("=")
    forms = french.split("/")
    return english, forms[-1] if feminine else forms[0]


def home(draw: random.Random) -> tuple[str, str]:
    """Where someone is from: a city, a region or a country, with de."""
    if draw.random() < 0.5:
        city = draw.choice(CITY)
        return city.english, de(city.french)
    if draw.random() < 0.5:
        english, french, inside = draw.choice(REGIONS)
        return english, de(bare(french)) if in_region(french, inside).startswith("en ") else of(french)
    country = draw.choice(COUNTRY)
    return country.english, out_of(country)


def someone(draw: random.Random) -> Noun:
    """Someone the news is about: with an age, a trade, a town, sometimes a name; or a few people."""
    kind = draw.random()
    who, feminine = name(draw)
    age = draw.randint(18, 84)
    english, french = job(draw, feminine)
    town, ville = home(draw)
    un, ancien = ("une ", "ancienne ") if feminine else ("un ", "ancien ")
    a = "an" if english[0] in "aeiou" else "a"
    old = f"{'an' if str(age).startswith('8') or age == 18 else 'a'} {age}-year-old"
    if kind < 0.14:
        english, french = (
            f"{old} {'woman' if feminine else 'man'}",
            f"{un}{'femme' if feminine else 'homme'} de {age} ans",
        )
    elif kind < 0.28:
        english, french = f"{old} {english} from {town}", f"{un}{french} de {age} ans originaire {ville}"
    elif kind < 0.36:
        english, french = f"{old} former {english}", f"{un}{ancien}{french} de {age} ans"
    elif kind < 0.44:
        english, french = f"a former {english} from {town}", f"{un}{ancien}{french} originaire {ville}"
    elif kind < 0.5:
        english, french = f"{a} {english}", f"{un}{french}"
    elif kind < 0.62:
        english, french = f"{who}, {age},", f"{who}, {age} ans,"
    elif kind < 0.7:
        english, french = (
            f"{who}, {old} {english} from {town},",
            f"{who}, {un}{french} de {age} ans originaire {ville},",
        )
    elif kind < 0.76:
        english, french = (
            f"{who}, a former {english},",
            f"{who}, {un}{ancien}{french},".replace(" un ", " ").replace(" une ", " "),
        )
    elif kind < 0.82:
        ten, dizaine = draw.choice(TENS)
        man, homme = ("woman", "femme") if feminine else ("man", "homme")
        english, french = f"a {man} in {'her' if feminine else 'his'} {ten}", f"{un}{homme} d'une {dizaine} d'années"
    else:
        count, combien = number(draw.randint(2, 6))
        many = draw.choice(TABLES["pair"])
        young = draw.randint(18, 40)
        english, french = f"{count} {many.english}", f"{combien} {many.french}"
        if draw.random() < 0.3:
            english += f" aged between {young} and {young + draw.randint(2, 30)}"
            french += f" âgé{'e' * many.feminine}s de {young} à {english.split()[-1]} ans"
        return Noun(english, french, many.feminine, True, True)
    return Noun(english, french, feminine, False, True)


def crowd(draw: random.Random) -> Noun:
    """So many people."""
    many = draw.choice(TABLES["people"])
    if draw.random() < 0.25:
        count, combien = draw.choice(
            [("dozens", "des dizaines"), ("hundreds", "des centaines"), ("thousands", "des milliers")]
        )
        of_them = " et ".join(de(part) for part in many.french.split(" et "))
        return Noun(f"{count} of {many.english}", f"{combien} {of_them}", many.feminine, True, True)
    about, environ = draw.choice(
        [("", ""), ("", ""), ("more than ", "plus de "), ("at least ", "au moins "), ("nearly ", "près de "), ("about ", "environ "),
         ("as many as ", "jusqu'à "), ("up to ", "jusqu'à "), ("around ", "environ "), ("almost ", "près de ")]
    )  # fmt: skip
    few = about in ("", "at least ") and draw.random() < 0.5
    count, combien = number(
        draw.randint(3, 9) if few else draw.choice([draw.randint(10, 99), draw.randint(2, 18) * 50])
    )
    return Noun(f"{about}{count} {many.english}", f"{environ}{combien} {many.french}", many.feminine, True, True)


def official(draw: random.Random) -> Noun:
    """Someone with an office, whose words are reported."""
    who, feminine = name(draw)
    english, *titles = draw.choice(ROLES.strip().splitlines()).split("=")
    french = titles[-1] if feminine else titles[0]
    if feminine:
        english = english.replace("spokesman", "spokeswoman").replace("Mr ", "Mrs ").replace("chairman", "chairwoman")
    city, family = draw.choice(CITY), who.split()[-1]
    parts = {"N": who, "S": family, "city": city.english, "de": de(city.french)}
    return Noun(
        *(re.sub(r"\{(\w+)\}", lambda m: parts[m[1]], side) for side in (english, french)), feminine, False, True
    )


def when(draw: random.Random) -> Noun:
    """A time in the past, as the news give it."""
    day, month = draw.choice(TABLES["day"]), draw.choice(TABLES["month"])
    kind = draw.random()
    if kind < 0.3:
        return Noun(f"on {day.english}", day.french, False)
    if kind < 0.45:
        part, partie = draw.choice(
            [("morning", "matin"), ("afternoon", "après-midi"), ("evening", "soir"), ("night", "soir")]
        )
        return Noun(f"on {day.english} {part}", f"{day.french} {partie}", False)
    if kind < 0.52:
        date = draw.randint(2, 28)
        written = draw.choice([f"on {month.english} {date}", f"on {date} {month.english}"])
        return Noun(written, f"le {date} {month.french}", False)
    if kind < 0.58:
        return Noun(f"last {day.english}", f"{day.french} dernier", False)
    if kind < 0.64:
        return Noun(f"in {month.english}", f"en {month.french}", False)
    if kind < 0.7:
        count, combien = number(draw.randint(2, 9))
        unit, unité = draw.choice([("days", "jours"), ("weeks", "semaines"), ("months", "mois"), ("years", "ans")])
        return Noun(f"{count} {unit} ago", f"il y a {combien} {unité}", False)
    return draw.choice(TABLES["past"])


def where(draw: random.Random) -> Noun:
    """A place, with the preposition that it takes in French."""
    kind, city, country = draw.random(), draw.choice(CITY), draw.choice(COUNTRY)
    if kind < 0.3:
        return Noun(f"in {city.english}", au(city.french), False)
    if kind < 0.5:
        return Noun(f"in {country.english}", within(country), False)
    if kind < 0.62:
        english, french, inside = draw.choice(REGIONS)
        return Noun(f"in {english}", in_region(french, inside), False)
    if kind < 0.74:
        part, partie = draw.choice(
            [
                ("northern", "le nord"),
                ("southern", "le sud"),
                ("eastern", "l'est"),
                ("western", "l'ouest"),
                ("central", "le centre"),
            ]
        )
        in_the = (
            f"in the {part} {country.english[4:]}"
            if country.english.startswith("the ")
            else f"in {part} {country.english}"
        )
        return Noun(in_the, f"dans {partie} {of(country.french)}", False)
    english, french = draw.choice(
        [("near", "près {}"), ("on the outskirts of", "dans la banlieue {}"), ("in central", "dans le centre {}"),
         ("in a suburb of", "dans une banlieue {}"), ("south of", "au sud {}"), ("outside", "près {}"), ("in downtown", "au centre {}"),
         ("in the city of", "dans la ville {}"), ("not far from", "non loin {}"), ("north of", "au nord {}")]
    )  # fmt: skip
    return Noun(f"{english} {city.english}", french.format(de(city.french)), False)


def nation(draw: random.Random) -> Noun:
    """A nationality; its French has two genders."""
    return draw.choice(read(NATIONS))


def between(low: int, high: int, unit: int = 1) -> Callable[[random.Random], tuple[str, str]]:
    """Draws a number between two others, a multiple of a unit."""
    return lambda draw: number(draw.randint(low, high) * unit)


def age(low: int, high: int) -> Callable[[random.Random], tuple[str, str]]:
    """Draws an age, in digits."""
    return lambda draw: (years := str(draw.randint(low, high)), years)


DRAWS: dict[str, Callable[[random.Random], Noun | tuple[str, str]]] = {
    "P": someone, "K": crowd, "O": official, "T": when, "L": where, "C": lambda draw: draw.choice(COUNTRY),
    "city": lambda draw: draw.choice(CITY), "nat": nation, "n": between(2, 9), "num": large, "pct": percent, "money": money,
    "age": age(19, 88), "kid": age(4, 12), "teen": age(13, 17), "life": age(62, 86), "cash": lambda draw: money(draw, ("million",)),
    "few": between(2, 4), "degrees": between(12, 38), "wind": between(9, 25, 10), "years": between(10, 30), "mid": between(7, 40, 10),
    "far": between(3, 90, 1000), "rate": rate,
    "wage": lambda draw: ("€" + (n := number(draw.randint(12, 49) * 100))[0], f"{n[1]} euros"),
    "year": lambda draw: (str(year := draw.randint(1975, 2024)), str(year)), "F": lambda draw: draw.choice(TABLES["future"]),
    "sum": lambda draw: ("€" + (n := number(draw.randint(10, 900) * draw.choice([100, 1000])))[0], f"{n[1]} euros"),
    "h": lambda draw: (str(goals := draw.randint(0, 2)), str(goals)),
    "ten": between(10, 60), "g": lambda draw: (str(goals := draw.randint(3, 6)), str(goals)),
}  # fmt: skip


def pick(slot: str, draw: random.Random) -> Noun:
    """What fills a slot; {t}, {l} and {f} are often nothing."""
    kind = slot.rstrip("23")
    if kind in ("t", "l", "f"):
        if draw.random() < 0.35:
            return Noun("", "", False)
        some = pick({"t": "T", "l": "L", "f": "F"}[kind], draw)
        return Noun(" " + some.english, " " + some.french, False)
    found = DRAWS[kind](draw) if kind in DRAWS else draw.choice(TABLES[kind])
    return found if isinstance(found, Noun) else Noun(*found, False)
