"""Pairs of sentences with numbers written as words: seventy-seven is soixante-dix-sept, ninety-nine quatre-vingt-dix-neuf.

python -m recipes.grammars.number_words numbers.tsv --lines 6000
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from recipes.grammars.writing import Pair, different, to_file

__all__ = ["english", "french", "sentences"]

_ENGLISH = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
]
_ENGLISH_TENS = ["-", "-", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
_FRENCH = [
    "zéro",
    "un",
    "deux",
    "trois",
    "quatre",
    "cinq",
    "six",
    "sept",
    "huit",
    "neuf",
    "dix",
    "onze",
    "douze",
    "treize",
    "quatorze",
    "quinze",
    "seize",
    "dix-sept",
    "dix-huit",
    "dix-neuf",
]
_FRENCH_TENS = [
    "-",
    "-",
    "vingt",
    "trente",
    "quarante",
    "cinquante",
    "soixante",
    "soixante",
    "quatre-vingt",
    "quatre-vingt",
]
# {n} is the number, {N} the same at the start of a sentence; after the second | the gender of what is counted.
FRAMES = """
I have {n} books.|J'ai {n} livres.|m
She bought {n} apples.|Elle a acheté {n} pommes.|f
My grandmother is {n} years old.|Ma grand-mère a {n} ans.|m
He is {n}.|Il a {n} ans.|m
My father turned {n} yesterday.|Mon père a eu {n} ans hier.|m
He died at the age of {n}.|Il est mort à l'âge de {n} ans.|m
There are {n} pages in this book.|Il y a {n} pages dans ce livre.|f
There were {n} people in the room.|Il y avait {n} personnes dans la pièce.|f
We need {n} chairs.|Nous avons besoin de {n} chaises.|f
The meeting lasts {n} minutes.|La réunion dure {n} minutes.|f
The village has {n} inhabitants.|Le village compte {n} habitants.|m
It costs {n} euros.|Ça coûte {n} euros.|m
The ticket costs {n} dollars.|Le billet coûte {n} dollars.|m
The train leaves in {n} minutes.|Le train part dans {n} minutes.|f
I have been waiting for {n} days.|J'attends depuis {n} jours.|m
They lived there for {n} years.|Ils ont vécu là pendant {n} ans.|m
{N} students passed the exam.|{N} étudiants ont réussi l'examen.|m
{N} houses were destroyed.|{N} maisons ont été détruites.|f
The answer is {n}.|La réponse est {n}.|m
Count to {n}.|Compte jusqu'à {n}.|m
He lives at number {n}.|Il habite au numéro {n}.|m
{N}|{N}|m
{N} percent of them agreed.|{N} pour cent d'entre eux étaient d'accord.|m
Only {n} of us stayed.|Seuls {n} d'entre nous sont restés.|m
This car is {n} years old.|Cette voiture a {n} ans.|m
The bus carries {n} passengers.|Le bus transporte {n} passagers.|m
Turn to page {n}.|Allez à la page {n}.|m
""".strip()


def english(number: int) -> str:
    """The English words of a number below a million.

    >>> english(77), english(301), english(4_900)
    ('seventy-seven', 'three hundred and one', 'four thousand nine hundred')
    """
    if number < 20:
        return _ENGLISH[number]
    if number < 100:
        tens, ones = divmod(number, 10)
        return _ENGLISH_TENS[tens] + (f"-{_ENGLISH[ones]}" if ones else "")
    if number < 1000:
        hundreds, rest = divmod(number, 100)
        return f"{_ENGLISH[hundreds]} hundred" + (f" and {english(rest)}" if rest else "")
    thousands, rest = divmod(number, 1000)
    link = " and " if 0 < rest < 100 else " "
    return f"{english(thousands)} thousand" + (link + english(rest) if rest else "")


def french(number: int, feminine: bool = False) -> str:
    """The French words of a number below a million, by the traditional rules.

    >>> french(71), french(77), french(80), french(81), french(99), french(200), french(201), french(80_000)
    ('soixante et onze', 'soixante-dix-sept', 'quatre-vingts', 'quatre-vingt-un', 'quatre-vingt-dix-neuf', 'deux cents',
     'deux cent un', 'quatre-vingt mille')
    >>> french(21, feminine=True), french(91, feminine=True)
    ('vingt et une', 'quatre-vingt-onze')
    """
    words = _below(number) if number < 1000 else _thousands(number)
    return words + "e" if feminine and (words == "un" or words.endswith((" un", "-un"))) else words


def _below(number: int) -> str:
    if number < 20:
        return _FRENCH[number]
    if number < 100:
        tens, ones = divmod(number, 10)
        if tens in (7, 9):
            ones += 10
        if number == 80:
            return "quatre-vingts"
        if ones in (1, 11) and tens < 8:
            return f"{_FRENCH_TENS[tens]} et {_FRENCH[ones]}"
        return _FRENCH_TENS[tens] + (f"-{_FRENCH[ones]}" if ones else "")
    hundreds, rest = divmod(number, 100)
    count = "" if hundreds == 1 else f"{_FRENCH[hundreds]} "
    return f"{count}cent {_below(rest)}" if rest else f"{count}cent" + "s" * (hundreds > 1)


def _thousands(number: int) -> str:
    thousands, rest = divmod(number, 1000)
    count = _below(thousands)
    if count.endswith(("vingts", "cents")):  # before mille they have no s
        count = count[:-1]
    return " ".join(filter(None, ["" if thousands == 1 else count, "mille", _below(rest) if rest else ""]))


def endless(draw: random.Random) -> Iterator[Pair]:
    """Sentences with numbers, most of them below a hundred and many from 70 to 99."""
    while True:
        low, high = draw.choices([(70, 99), (17, 99), (2, 16), (100, 999), (1000, 99_999)], [45, 30, 8, 12, 5])[0]
        number = draw.randint(low, high)
        source, target, gender = draw.choice(FRAMES.splitlines()).split("|")
        words, mots = english(number), french(number, gender == "f")
        values = {"n": words, "N": words.capitalize()}, {"n": mots, "N": mots.capitalize()}
        yield source.format(**values[0]), target.format(**values[1])


def sentences(lines: int = 6_000, seed: int = 0) -> list[Pair]:
    """So many different pairs of sentences, always the same ones for a seed."""
    return different(endless(random.Random(seed)), lines)


def main() -> None:
    """Write the pairs to a TSV file."""
    to_file(__doc__, sentences)


if __name__ == "__main__":
    main()
