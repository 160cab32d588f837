"""Fit the confidence of a translator on pairs it was not trained on, and write it beside the model.

    python recipes/confidence.py FOLDER dev.tsv          # writes FOLDER/translation.json
    python recipes/confidence.py FOLDER dev.tsv --dry    # prints the curves and how well they are calibrated

A sentence counts as right if its chrF2 with the reference is 60 or more, a word if the reference has it. The curves are
fitted on one half of the pairs and printed against the other half: mean confidence and share that was right, by tenths.
"""

import argparse
from pathlib import Path

from regard.nn.files import read_json, write_json
from regard.translation import Translator, read_pairs
from regard.translation.confidence import Calibration, Curve
from regard.translation.scoring import import_sacrebleu

RIGHT = 60.0  # chrF2


def examples(translator, pairs):
    """(log-probability, right) of sentences and of words."""
    chrf = import_sacrebleu()
    sentences, words = [], []
    found = translator.translate([source for source, _ in pairs])
    for translation, (_, reference) in zip(found, pairs, strict=True):
        right = chrf.sentence_chrf(translation.text, [reference]).score >= RIGHT
        known = {word.strip(".,;:!?\"'").lower() for word in reference.split()}
        for each in translation._segments:
            if not each.hypotheses:
                continue
            logs, owners = each.logs, each.segment.vocabulary.words(each.hypotheses[0].tokens)[1]
            sentences.append((sum(logs) / len(logs), right))
            for n, word in enumerate(each.words):
                least = min(log for log, owner in zip(logs, owners, strict=False) if owner == n)
                words.append((least, word.strip(".,;:!?\"'").lower() in known | {""}))
    return sentences, words


def report(name, curve, held):
    """Print how confident it is, and how often right, by tenths of what was held out."""
    ranked = sorted((curve(log), right) for log, right in held)
    tenths = [ranked[len(ranked) * n // 10 : len(ranked) * (n + 1) // 10] for n in range(10)]
    error = 0.0
    print(f"{name}: offset {curve.offset:.3f}, slope {curve.slope:.3f}, {len(held):,} held out")
    for tenth in tenths:
        sure, right = (sum(column) / len(tenth) for column in zip(*tenth, strict=True))
        error += abs(sure - right) * len(tenth) / len(ranked)
        print(f"  confidence {sure:.2f}  right {right:.2f}")
    print(f"  expected calibration error {error:.3f}")


def main():
    """Fit, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("pairs", type=Path)
    parser.add_argument("--lines", type=int, default=2000)
    parser.add_argument("--dry", action="store_true")
    options = parser.parse_args()
    pairs = list(read_pairs(options.pairs))[: options.lines]
    translator = Translator.load(options.folder)
    fitted, held = (examples(translator, part) for part in (pairs[::2], pairs[1::2]))
    curves = [Curve.fit(*zip(*part, strict=True)) for part in fitted]
    for name, curve, part in zip(("sentence", "word"), curves, held, strict=True):
        report(name, curve, part)
    if not options.dry:
        path = options.folder / "translation.json"
        fields = read_json(path) if path.is_file() else {}
        curves = [Curve(*(round(number, 4) for number in curve)) for curve in curves]
        write_json(path, fields | {"confidence": Calibration(*curves).as_json()})


if __name__ == "__main__":
    main()
