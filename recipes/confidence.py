"""Fit the confidence of a translator on pairs that it was not trained on, and write it beside the model.

    python recipes/confidence.py FOLDER ../shared/data         # writes FOLDER/translation.json
    python recipes/confidence.py FOLDER ../shared/data --dry   # prints the curves and how well they are calibrated

What counts as right is defined in regard/translation/confidence.py. The pairs are of several kinds of text, as many of
each: everyday sentences, manuals, administration, prose, phrases. None is of a test set, and the model in the package
learned from none of these files: a model that learns from them needs others, or a part that is held out.
Each kind is also left out once, and the curve of the others measured on it: so far off is it on a kind that is new.
"""

import argparse
import bz2
import random
from pathlib import Path

from regard.nn.model_folder import read_json, write_json
from regard.translation import Translation, Translator
from regard.translation.confidence import Calibration, Curve, calibration_error, is_right, right_words

KINDS = {
    "everyday": ["tatoeba/dev.tsv"],
    "manuals": [f"general/{name}.tsv.bz2" for name in ("learnosm", "hfcourse", "opensourceguide", "cncf", "historian")],
    "administration": ["general/canada.tsv.bz2"],
    "prose": ["general/books.tsv.bz2", "general/bible.tsv.bz2"],
    "phrases": ["general/esco.tsv.bz2"],
}
TOGETHER = 64  # lines


def pairs(path, count):
    """So many pairs of a file, always the same; all if it has no more."""
    with (bz2.open if path.suffix == ".bz2" else open)(path, "rt", encoding="utf-8", newline="\n") as file:
        lines = [line.rstrip("\n").split("\t")[:2] for line in file]
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
                for n, good in enumerate(right_words(each.words, reference)):
                    words.append((min(log for log, owner in zip(logs, owners, strict=False) if owner == n), good))
    return sentences, words


def fit(examples):
    """The curve of some examples."""
    return Curve.fit(*zip(*examples, strict=True))


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
    parser.add_argument("--dry", action="store_true")
    options = parser.parse_args()
    translator = Translator.load(options.folder)
    found = {}
    for kind, files in KINDS.items():
        chosen = [pair for name in files for pair in pairs(options.data / name, options.lines // len(files))]
        found[kind] = examples(translator, chosen)
        print(f"{kind}: {len(chosen):,} lines", flush=True)
    curves = []
    for place, name in enumerate(Calibration._fields):
        parts = {kind: both[place] for kind, both in found.items()}
        curve = fit([each for part in parts.values() for each in part])
        print(f"{name}: offset {curve.offset:.3f}, slope {curve.slope:.3f}")
        for kind, part in parts.items():
            report(kind, curve, part)
            report(f"{kind}, left out", fit([e for k, other in parts.items() if k != kind for e in other]), part)
        curves.append(Curve(*(round(number, 4) for number in curve)))
    if not options.dry:
        path = options.folder / "translation.json"
        fields = read_json(path) if path.is_file() else {}
        write_json(path, fields | {"confidence": Calibration(*curves).as_json()})


if __name__ == "__main__":
    main()
