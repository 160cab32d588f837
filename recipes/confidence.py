"""Fit the confidence of a translator on pairs that it was not trained on, and write it beside the model.

    python recipes/confidence.py FOLDER ../shared/data --trained recipes/wide/*.tsv        # writes translation.json
    python recipes/confidence.py FOLDER ../shared/data --trained recipes/wide/*.tsv --dry  # only prints

A translation is right if its chrF2 with a person's translation of the same text is at least 50. A word is right if the
person's translation has it, apart from case and from punctuation at its ends. Both miss paraphrases: of the pairs of
translations that two people gave to one sentence in Tatoeba, 73 % reach 50. So "right" depends on how freely the
references of a kind of text are translated.

The pairs are of several kinds of text, as many of each: everyday sentences, laws, prose. None is of a test set, and
those of --trained are left out. Each kind is also left out once, and the curve of the others measured on it: so far off
is it on a kind that is new.
"""

import argparse
import bz2
import math
import random
from itertools import pairwise
from pathlib import Path

import torch

from regard.nn.model_folder import read_json, write_json
from regard.translation import Translation, Translator
from regard.translation.result import Calibration, Curve
from regard.translation.training.corpus import import_sacrebleu
from regard.translation.training.vocabulary import clean

KINDS = {"everyday": ["tatoeba/dev.tsv"], "laws": ["documents/laws.tsv.bz2"], "prose": ["general/books.tsv.bz2"]}
TOGETHER = 64  # lines
RIGHT = 50.0  # chrF2
GROUPS = 10  # of a calibration error
EDGES = ".,;:!?…\"'«»“”‘’()"  # punctuation at the ends of a word
ROUNDS, RIDGE = 50, 1e-3  # of Newton's method; the ridge keeps the curve finite if the two groups do not overlap


def is_right(text, reference):
    """Whether the chrF2 of a translation with its reference is at least 50."""
    return bool(import_sacrebleu().sentence_chrf(text, [reference]).score >= RIGHT)


def right_words(words, reference):
    """Whether a reference has each of these words; case and punctuation at the ends do not count."""
    known = {"", *(word.strip(EDGES).lower() for word in reference.split())}
    return [word.strip(EDGES).lower() in known for word in words]


def fit(logs, right):
    """The most likely curve from log-probabilities to being right, by Newton's method; it never falls."""
    x = torch.stack([torch.ones(len(logs)), torch.tensor(list(logs))], 1).double()
    y, weights = torch.tensor(list(right)).double(), torch.zeros(2).double()
    for _ in range(ROUNDS):
        p = torch.sigmoid(x @ weights)
        gradient = x.mT @ (y - p) - RIDGE * weights
        hessian = (x.mT * (p * (1 - p))) @ x + RIDGE * torch.eye(2).double()
        weights = weights + torch.linalg.solve(hessian, gradient)
    offset, slope = weights.tolist()
    if slope < 0:
        return Curve(math.log((sum(right) + 1) / (len(right) - sum(right) + 1)), 0.0)
    return Curve(offset, slope)


def calibration_error(confidences, right):
    """The expected calibration error: |mean confidence - share that is right|, averaged over ten groups of equal size.

    The groups have the least confident translations to the most confident ones.
    """
    ranked = sorted(zip(confidences, right, strict=True), key=lambda pair: pair[0])
    cuts = [len(ranked) * n // GROUPS for n in range(GROUPS + 1)]
    groups = [ranked[start:stop] for start, stop in pairwise(cuts)]
    return sum(abs(math.fsum(sure - good for sure, good in group)) for group in groups) / len(ranked)


def read(path):
    """The pairs of a file."""
    with (bz2.open if path.suffix == ".bz2" else open)(path, "rt", encoding="utf-8", newline="\n") as file:
        return [line.rstrip("\n").split("\t")[:2] for line in file]


def pairs(path, count, trained=()):
    """So many pairs of a file, always the same, without English that is trained on; all if it has no more."""
    lines = [pair for pair in read(path) if clean(pair[0]) not in trained]
    return random.Random(0).sample(lines, min(count, len(lines)))


def examples(translator, pairs):
    """(log-probability, right) of sentences and of words."""
    sentences, words = [], []
    for start in range(0, len(pairs), TOGETHER):
        some = pairs[start : start + TOGETHER]
        found = translator.translate([source for source, _ in some])
        Translation.read_together(found)
        for translation, (_, reference) in zip(found, some, strict=True):
            right = is_right(translation.text, reference)
            for each in translation._segments:
                if not each.hypotheses:
                    continue
                logs, owners = each.logs, each.segment.vocabulary.words(each.hypotheses[0].tokens)[1]
                sentences.append((sum(logs) / len(logs), right))
                for n, good in enumerate(right_words(each.words(each.pair[1]), reference)):
                    words.append((min(log for log, owner in zip(logs, owners, strict=False) if owner == n), good))
    return sentences, words


def report(name, curve, examples):
    """Print how confident a curve is of some examples, and how often they are right."""
    sure, right = [curve(log) for log, _ in examples], [good for _, good in examples]
    means = f"confidence {sum(sure) / len(sure):.2f}, right {sum(right) / len(right):.2f}"
    print(f"  {name:28} {means}, calibration error {calibration_error(sure, right):.3f}", flush=True)


def main():
    """Fit, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("data", type=Path)
    parser.add_argument("--lines", type=int, default=500, help="of each kind of text")
    parser.add_argument("--trained", type=Path, nargs="*", default=[], metavar="FILE", help="pairs to leave out")
    parser.add_argument("--dry", action="store_true")
    options = parser.parse_args()
    translator = Translator.load(options.folder)
    trained = {clean(source) for path in options.trained for source, _ in read(path)}
    found = {}
    for kind, files in KINDS.items():
        chosen = [pair for name in files for pair in pairs(options.data / name, options.lines // len(files), trained)]
        found[kind] = examples(translator, chosen)
        print(f"{kind}: {len(chosen):,} lines", flush=True)
    curves = []
    for place, name in enumerate(Calibration._fields):
        parts = {kind: both[place] for kind, both in found.items()}
        curve = fit(*zip(*(each for part in parts.values() for each in part), strict=True))
        print(f"{name}: offset {curve.offset:.3f}, slope {curve.slope:.3f}")
        for kind, part in parts.items():
            report(kind, curve, part)
            others = [each for other, part in parts.items() if other != kind for each in part]
            report(f"{kind}, left out", fit(*zip(*others, strict=True)), part)
        curves.append(Curve(*(round(number, 4) for number in curve)))
    if not options.dry:
        path = options.folder / "translation.json"
        fields = read_json(path) if path.is_file() else {}
        write_json(path, fields | {"confidence": Calibration(*curves).as_json()})


if __name__ == "__main__":
    main()
