"""Training text for recipes/wide-en-fr.toml from public corpora: screened, cleaned, with copies that teach facts.

    python recipes/corpora.py ../shared/data recipes/wide          # about ten minutes on two cores
    python recipes/corpora.py ../shared/data recipes/wide --screen captions.tsv news.tsv

It writes, always the same:
  parliament.tsv, documents.tsv   pairs far from every test set, whose numbers agree
  parliament-part.tsv             some of the first
  parliament-uncommon.tsv         some that have a word which parliament says three to four hundred times
  books.tsv, general.tsv          some sentences of old books; guides, administration, trades
  joined.tsv                      two to four short sentences of Tatoeba in one line
  numbers.tsv                     copies in which every number is another one, on both sides
  marks.tsv                       copies in which what both sides share (names, numbers, code) is ⟦1⟧, ⟦2⟧, …
  noise.tsv                       copies as people type: no capitals, no full stop, a slip of the finger
  greeted.tsv                     the greetings of greetings.tsv before and after other sentences
  last.tsv                        a few thousand pairs of each kind, for the last training
  vocabulary.spm                  subwords of all of it
With --screen it only drops, from files in that folder, what is near a line of a test set. With --same-words it only
prints the pairs of files of ../shared/data that have the same words on one side as a line of a test set, whatever the
case and the punctuation:
    python recipes/corpora.py ../shared/data recipes/wide --same-words tatoeba/train.tsv storybook/train.tsv
"""

from __future__ import annotations

import argparse
import bz2
import multiprocessing
import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path

from regard.translation.text.facts import Fact, split_facts
from regard.translation.training.corpus import near, read_lines, read_pairs
from regard.translation.training.vocabulary import Vocabulary, clean

Pair = tuple[str, str]

NEAR = 0.7  # character-4-gram Jaccard with a line of a test set, on either side
MOST_WORDS = 70
PART = 300_000  # pairs of parliament for the second training
DOCUMENTS = {"laws": 30_000, "php": 30_000, "python": 26_667, "godot": 11_271, "react": 3_141, "rust": 2_725,
             "kubernetes": 1_374}  # fmt: skip
UNCOMMON, BOOKS = 85_486, 84_872  # pairs for the last training
GENERAL = ("canada", "learnosm", "hfcourse", "historian", "opensourceguide", "cncf", "esco")
PIECES = 20_000
COPIES = {"joined": 110_000, "numbers": 130_000, "marked": 500_000, "marks": 120_000, "noise": 70_000}  # at most
LAST = {"tatoeba": 12_000, "parliament": 5_000, "documents": 1_000, "numbers": 1_000, "marks": 2_000, "noise": 1_500}
GREETED = 40  # lines for each greeting
# Pairs that the vocabulary is learned from: everyday words are to be whole, whatever parliaments talk about.
SAMPLE = {"parliament": 100_000, "documents": 30_000, "tatoeba": 450_000}

_ENGLISH = re.compile(r"\b(?:the|and|of|that|with|which|this)\b")
_FRENCH = re.compile(r"\b(?:le|la|les|des|du|une|que|dans|pour)\b")
_NUMBERS = {  # how a language writes them: thousands, then the decimals
    "en": re.compile(r"(?<![\w.,])(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?![\w]|[.,]\d)"),
    "fr": re.compile(r"(?<![\w.,])(?:\d{1,3}(?:[ .]\d{3})+|\d+)(?:,\d+)?(?![\w]|[.,]\d)"),
}
_NAME = re.compile(r"(?<=[^.!?:] )[A-Z][\w'-]*[\w]")


# Screening


def test_lines(data: Path, own: Path | None) -> tuple[list[str], list[str]]:
    """The English and the French lines that no training pair may come near: of the test sets and, with `own`, ours."""
    english, french = [], []
    for name in ("tatoeba/test.tsv", "tatoeba/dev.tsv", "ntrex128/pairs.tsv", "tico19/pairs.tsv"):
        for source, target in read_pairs(data / name):
            english.append(clean(source))
            french.append(clean(target))
    for name in ("test_2016_flickr", "test_2017_flickr", "test_2017_mscoco", "test_2018_flickr"):
        english += map(clean, read_lines(data / "multi30k" / f"{name}.en"))
        french += map(clean, read_lines(data / "multi30k" / f"{name}.fr"))
    for name in ("pronouns.tsv", "documents.txt", "facts.tsv", "neutral.txt") if own is not None else ():
        english += [clean(line.split("\t")[0]) for line in read_lines(own / name) if line and not line.startswith("#")]
    return english, french


def usable(pair: Pair) -> bool:
    """Whether both sides are of their language, of like length, and have the same numbers."""
    source, target = pair
    words = sorted((len(source.split()), len(target.split())))
    if not words[0] or words[1] > MOST_WORDS or words[1] > 2 * words[0] + 4 or source == target:
        return False
    if len(_ENGLISH.findall(target)) > 1 or len(_FRENCH.findall(source)) > 2:
        return False
    english, french = (sorted(n for n in numbers(*each) if len(n) > 2) for each in ((source, "en"), (target, "fr")))
    return english == french


def screened(pairs: list[Pair], tests: tuple[list[str], list[str]]) -> list[Pair]:
    """The pairs that can be used and are near no test line."""
    pairs = [pair for pair in ((clean(source), clean(target)) for source, target in pairs) if usable(pair)]
    for side in (0, 1):
        is_near = near([pair[side] for pair in pairs], tests[side], NEAR)
        pairs = [pair for pair, drop in zip(pairs, is_near, strict=True) if not drop]
    return pairs


def same_words(pairs: Iterable[Pair], tests: tuple[list[str], list[str]]) -> list[Pair]:
    """The pairs that have the same words on one side as a test line, whatever the case and the punctuation.

    >>> same_words([("Come on!", "Allez !"), ("Come in!", "Entrez !")], (['"Come on."'], []))
    [('Come on!', 'Allez !')]
    """
    known = [{_words(line) for line in lines} for lines in tests]
    return [pair for pair in pairs if any(_words(pair[side]) in known[side] for side in (0, 1))]


def _words(text: str) -> tuple[str, ...]:
    return tuple(re.findall(r"\w+", text.lower()))


def uncommon(pairs: Sequence[Pair], least: int = 3, most: int = 400) -> list[Pair]:
    """The pairs of 4 to 48 English words of which one is in so many pairs.

    >>> bees, talks = ("the bees are gone now", "…"), ("the talks are over now", "…")
    >>> uncommon([bees, talks, talks, talks], least=1, most=2)
    [('the bees are gone now', '…')]
    """
    words = [set(re.findall(r"\b[a-z]{3,}\b", source)) for source, _ in pairs]
    count = Counter(word for some in words for word in some)
    return [
        pair
        for pair, some in zip(pairs, words, strict=True)
        if 4 <= len(pair[0].split()) <= 48 and any(least <= count[word] <= most for word in some)
    ]


def in_chunks(pairs: Iterable[Pair], size: int = 100_000) -> Iterator[list[Pair]]:
    """Lists of pairs, so many at a time."""
    pairs = iter(pairs)
    while chunk := list(islice(pairs, size)):
        yield chunk


def packed_pairs(path: Path) -> Iterator[Pair]:
    """The pairs of a TSV file that is compressed."""
    with bz2.open(path, "rt", encoding="utf-8", newline="\n") as file:
        for line in file:
            source, target, *_ = line.rstrip("\n").split("\t")
            yield source, target


# Numbers


def numbers(text: str, language: str) -> list[str]:
    """The numbers of a text, each as digits with a point.

    >>> numbers("1,299.50 of 7", "en"), numbers("1 299,50 sur 7", "fr")
    (['1299.50', '7'], ['1299.50', '7'])
    """
    return [_value(found.group(), language) for found in _NUMBERS[language].finditer(text)]


def _value(written: str, language: str) -> str:
    return written.replace(",", "") if language == "en" else re.sub(r"[ .]", "", written).replace(",", ".")


def other_numbers(pair: Pair, rng: random.Random) -> Pair | None:
    """The pair with other numbers, the same on both sides; None where the sides differ or have none.

    >>> other_numbers(("Bus 257 is late.", "Le bus 257 est en retard."), random.Random(0))
    ('Bus 7890 is late.', 'Le bus 7890 est en retard.')
    """
    found = numbers(pair[0], "en")
    if not found or Counter(found) != Counter(numbers(pair[1], "fr")):
        return None
    others = {value: _other(value, rng) for value in dict.fromkeys(found)}
    if len(set(others.values())) < len(others):
        return None

    def rewrite(text: str, language: str) -> str:
        def write(match: re.Match[str]) -> str:
            written = match.group()
            whole, _, decimals = others[_value(written, language)].partition(".")
            grouped = len(whole) > 4 or (len(whole) == 4 and not written.isdigit())
            if grouped:
                whole = f"{int(whole):,}".replace(",", "," if language == "en" else " ")
            point = "." if language == "en" else ","
            return whole + (point + decimals if decimals else "")

        return _NUMBERS[language].sub(write, text)

    return rewrite(pair[0], "en"), rewrite(pair[1], "fr")


def _other(value: str, rng: random.Random) -> str:
    """Another number of the same kind: 0 and 1 stay, for the grammar, and years are years."""
    decimals = value.partition(".")[2]
    if value in ("0", "1"):
        return value
    if re.fullmatch(r"1[89]\d\d|20\d\d", value) and rng.random() < 0.7:
        return str(rng.randint(1800, 2099))
    low, high = rng.choice(((2, 31), (2, 99), (100, 999), (1_000, 9_999), (10_000, 9_999_999)))
    return str(rng.randint(low, high)) + ("." + "".join(rng.choices("0123456789", k=len(decimals))) if decimals else "")


# Marks, noise, joined sentences


def marked(pair: Pair, rng: random.Random) -> Pair | None:
    """The pair with marks for up to three things that are the same on both sides; None where there are none."""
    source, target = pair
    copied = [part.text for part in split_facts(source) if isinstance(part, Fact) and part.kind == "copied"]
    shared = [
        text
        for text in dict.fromkeys([*copied, *_NAME.findall(source), *_NUMBERS["en"].findall(source)])
        if len(re.findall(_bounded(text), source)) == 1 == len(re.findall(_bounded(text), target))
    ]
    if not shared:
        return None
    chosen = sorted(rng.sample(shared, min(len(shared), rng.choice((1, 1, 2, 3)))), key=source.index)
    first = rng.randint(1, 10 - len(chosen)) if rng.random() < 0.4 else 1
    for number, text in enumerate(chosen, first):
        source, target = (re.sub(_bounded(text), f"⟦{number}⟧", side) for side in (source, target))
    return source, target


def _bounded(text: str) -> str:
    return rf"(?<![\w⟦]){re.escape(text)}(?![\w⟧])"


def noisy(pair: Pair, rng: random.Random) -> Pair:
    """The pair as people type: the source without capitals, or both without the full stop, or with a slip."""
    source, target = pair
    kind = rng.random()
    if kind < 0.35:
        source = source.lower()
    if 0.2 < kind < 0.5 and source.endswith(".") and target.endswith("."):
        return source[:-1], target[:-1]
    if kind > 0.5:
        words = source.split()
        long = [n for n, word in enumerate(words) if len(word) > 4 and word.isalpha() and word.islower()]
        if long:
            n = rng.choice(long)
            words[n] = _slip(words[n], rng)
        source = " ".join(words)
    return source, target


def _slip(word: str, rng: random.Random) -> str:
    at = rng.randrange(1, len(word) - 1)
    return rng.choice((word[:at] + word[at + 1] + word[at] + word[at + 2 :], word[:at] + word[at + 1 :],
                       word[:at] + word[at] + word[at:]))  # fmt: skip


def joined(pairs: list[Pair], lines: int, rng: random.Random) -> Iterator[Pair]:
    """Two to four pairs in one, as sentences follow each other in a text."""
    for _ in range(lines):
        chosen = rng.choices(pairs, k=rng.choice((2, 2, 3, 4)))
        yield " ".join(source for source, _ in chosen), " ".join(target for _, target in chosen)


def greeted(greetings: list[Pair], pairs: list[Pair], rng: random.Random) -> Iterator[Pair]:
    """Each greeting alone, then before or after others: a corpus holds no pair twice."""
    short = [pair for pair in pairs if len(pair[0]) < 40]
    for greeting in greetings:
        yield greeting
        for other in rng.sample(short, min(len(short), GREETED - 1)):
            first, second = rng.sample((greeting, other), 2)
            yield f"{first[0]} {second[0]}", f"{first[1]} {second[1]}"


# Files


def write(path: Path, pairs: Iterable[Pair]) -> None:
    """Write a TSV file, and say how many pairs it has."""
    lines = [f"{source}\t{target}\n" for source, target in pairs]
    path.write_text("".join(lines), encoding="utf-8", newline="\n")
    print(f"{path.name}: {len(lines):,} pairs", flush=True)


def main() -> None:
    """Make all files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="the folder with tatoeba/, europarl/, documents/ and the test sets")
    parser.add_argument("out", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--screen", nargs="+", metavar="FILE", default=[], help="only screen these files of OUT")
    parser.add_argument("--same-words", nargs="+", metavar="FILE", default=[], help="only list these pairs of DATA")
    options = parser.parse_args()
    for name in options.same_words:
        found = same_words(read_pairs(options.data / name), test_lines(options.data, None))
        print(*map("\t".join, found), f"{name}: {len(found)} pairs", sep="\n")
    if options.same_words:
        return
    options.out.mkdir(parents=True, exist_ok=True)
    rng = random.Random(options.seed)
    screen = partial(screened, tests=test_lines(options.data, Path(__file__).parent.parent / "tests" / "data"))
    for name in options.screen:
        write(options.out / name, screen(list(read_pairs(options.out / name))))
    if options.screen:
        return
    with multiprocessing.Pool(2) as pool:

        def far(pairs: Iterable[Pair]) -> list[Pair]:
            kept = [pair for chunk in pool.imap(screen, in_chunks(pairs)) for pair in chunk]
            return list(dict.fromkeys(kept))

        documents = []
        for name, most in DOCUMENTS.items():
            found = far(packed_pairs(options.data / "documents" / f"{name}.tsv.bz2"))
            documents += rng.sample(found, min(most, len(found)))
        write(options.out / "documents.tsv", documents)
        files = sorted((options.data / "europarl").glob("*.bz2"))
        parliament = far(pair for file in files for pair in packed_pairs(file))
        write(options.out / "parliament.tsv", parliament)
        write(options.out / "parliament-part.tsv", random.Random(options.seed).sample(parliament, PART))
        general = options.data / "general"
        if general.is_dir():
            some, last = uncommon(parliament), random.Random(options.seed)
            write(options.out / "parliament-uncommon.tsv", last.sample(some, min(UNCOMMON, len(some))))
            write(
                options.out / "general.tsv",
                far(p for name in GENERAL for p in packed_pairs(general / f"{name}.tsv.bz2")),
            )
            books = [pair for pair in far(packed_pairs(general / "books.tsv.bz2")) if 3 <= len(pair[0].split()) <= 42]
            write(options.out / "books.tsv", last.sample(books, min(BOOKS, len(books))))
    tatoeba = [(clean(source), clean(target)) for source, target in read_pairs(options.data / "tatoeba" / "train.tsv")]
    everything = [*tatoeba, *documents, *parliament]
    write(options.out / "joined.tsv", joined(tatoeba, COPIES["joined"], rng))
    with_numbers = [pair for pair in everything if re.search(r"\d", pair[0]) and len(pair[0]) < 250]
    copies = (other_numbers(pair, rng) for pair in rng.choices(with_numbers, k=COPIES["numbers"]))
    write(options.out / "numbers.tsv", filter(None, copies))
    short = [pair for pair in everything if len(pair[0]) < 200]
    copies = (marked(pair, rng) for pair in rng.sample(short, COPIES["marked"]))
    write(options.out / "marks.tsv", islice(filter(None, copies), COPIES["marks"]))
    write(options.out / "noise.tsv", (noisy(pair, rng) for pair in rng.sample(tatoeba, COPIES["noise"])))
    own = random.Random(options.seed)
    greetings = list(read_pairs(Path(__file__).parent / "greetings.tsv"))
    write(options.out / "greeted.tsv", greeted(greetings, tatoeba, own))
    kinds = {name: list(read_pairs(options.out / f"{name}.tsv")) for name in LAST if name != "tatoeba"}
    last = [pair for name, most in LAST.items() for pair in own.sample((kinds | {"tatoeba": tatoeba})[name], most)]
    write(options.out / "last.tsv", last)
    samples = {"parliament": parliament, "documents": documents, "tatoeba": tatoeba}
    lines = [side for name, most in SAMPLE.items() for pair in rng.choices(samples[name], k=most) for side in pair]
    Vocabulary.train(lines, PIECES, marks=True).save(options.out)
    print("vocabulary.spm", flush=True)


if __name__ == "__main__":
    main()
