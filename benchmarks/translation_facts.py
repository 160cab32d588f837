"""How many facts a translator keeps: 300 sentences with what must be in their translation, and 1,000 random numbers.

    python benchmarks/translation_facts.py                    # the model in the package
    python benchmarks/translation_facts.py --model FOLDER --failures

A line of tests/data/facts.tsv has a category, a source, and what must be in the translation: parts separated by |, each
with its other forms after ~; \\n stands for a line break.
"""

import argparse
import random
import re
import time
from collections import Counter
from pathlib import Path

from regard.translation import Translator, read_lines

FACTS = Path(__file__).parents[1] / "tests" / "data" / "facts.tsv"
CARRIERS = [
    "The flight number {} was late.", "I have {} books at home.", "He lives at number {} of this street.",
    "There were {} people in the room.", "She wrote {} letters last year.", "The bridge is {} meters long.",
    "We need {} chairs for the party.", "My bus is the {}.", "They sold {} tickets yesterday.",
    "The answer is {}.", "Open the book at page {}.", "He has {} friends on the Internet.",
    "The village has {} inhabitants.", "I counted {} stars last night.", "It happened {} days ago.",
    "The tower has {} steps.", "You must pay {} euros.", "The school bought {} computers.",
    "Only {} of them came back.", "Room {} is on the left.",
]  # fmt: skip
SPACES = re.compile("[\u00a0\u202f]")


def cases():
    """(category, source, what must be in the translation) of each line."""
    for line in read_lines(FACTS):
        category, source, needed = line.split("\t")
        yield category, source.replace("\\n", "\n"), needed.replace("\\n", "\n")


def passes(text, needed):
    """Whether a translation has every part, in one of its forms."""
    text = SPACES.sub(" ", text)
    return all(any(_has(text, form) for form in part.split("~")) for part in needed.split("|"))


def _has(text, form):
    bounded = re.escape(form)
    if form[:1].isdigit():
        bounded = rf"(?<![\d.,]){bounded}"
    if form[-1:].isdigit():
        bounded = rf"{bounded}(?![\d]|[.,]\d)"
    return re.search(bounded, text) is not None


def numbers(count, seed=0):
    """(source, number) with random numbers, of one to five digits."""
    choose = random.Random(seed)
    for n in range(count):
        digits = choose.randint(1, 5)
        number = str(choose.randrange(10 ** (digits - 1), 10**digits))
        yield CARRIERS[n % len(CARRIERS)].format(number), number


def main():
    """Translate and count."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--numbers", type=int, default=1000)
    parser.add_argument("--failures", action="store_true", help="print what failed")
    options = parser.parse_args()
    translator = Translator.default() if options.model is None else Translator.load(options.model)
    start = time.perf_counter()
    rows = list(cases())
    kept, total = Counter(), Counter()
    for (category, source, needed), found in zip(rows, translator.translate([row[1] for row in rows]), strict=True):
        right = passes(found.text, needed)
        kept[category] += right
        total[category] += 1
        if options.failures and not right:
            print(f"{category}: {source!r} -> {found.text!r} lacks {needed!r}")
    for category in total:
        print(f"{category:12} {kept[category]:3} of {total[category]:3}")
    print(f"all          {kept.total()} of {total.total()}: {kept.total() / total.total():.1%}")
    tried = list(numbers(options.numbers))
    small = {str(n) for n in range(21)}
    right = 0
    for (source, number), found in zip(tried, translator.translate([source for source, _ in tried]), strict=True):
        ok = [re.sub(r"\D", "", each) for each in re.findall(r"\d[\d .,]*", found.text)] == [number]
        ok = ok or (number in small and not re.search(r"\d", found.text))
        right += ok
        if options.failures and not ok:
            print(f"number: {source!r} -> {found.text!r}")
    print(f"numbers      {right} of {len(tried)}: {right / len(tried):.1%}, {time.perf_counter() - start:.0f} s in all")


if __name__ == "__main__":
    main()
