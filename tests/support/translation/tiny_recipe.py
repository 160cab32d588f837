"""A training of numbers in words that takes a second, as a recipe with its corpora."""

import json

import numpy as np

NUMBERS = [("one", "un"), ("two", "deux"), ("three", "trois"), ("four", "quatre"), ("five", "cinq"), ("six", "six")]
RECIPE = """\
train = ["train.tsv"]
dev = "dev.tsv"
vocabulary = 60
steps = {steps}
check = 8
tokens = 128
warmup = 10
rate = 5e-3
average = 0.9
patience = 100
sample = "two six"
[model]
width = 32
heads = 2
hidden = 32
encoder_layers = 1
decoder_layers = 1
dropout = 0.1
positions = 64
"""


def pairs(count, seed=0):
    random = np.random.default_rng(seed)
    for _ in range(count):
        some = [NUMBERS[n] for n in random.integers(0, 6, random.integers(1, 4))]
        yield " ".join(e for e, _ in some), " ".join(f for _, f in some)


def write_corpora(folder):
    for name, count in (("train", 200), ("dev", 10)):
        # The third column links the last word to the first: [[guide]] reads it, everything else passes it over.
        lines = [f"{a}\t{b}\t{len(a.split()) - 1}>0\n" for a, b in dict.fromkeys(pairs(count))]
        (folder / f"{name}.tsv").write_text("".join(lines), encoding="utf-8")


def write(folder, steps=24, **changes):
    """The recipe, with other fields than usual; returns its path."""
    text = RECIPE.format(steps=steps)
    guides = changes.pop("guide", [])
    for name, value in changes.items():
        rest = [line for line in text.splitlines() if not line.startswith(f"{name} =")]
        text = f"{name} = {json.dumps(value)}\n" + "\n".join(rest) + "\n"
    for guide in guides:
        text += "\n".join(["[[guide]]", *(f"{name} = {json.dumps(value)}" for name, value in guide.items())]) + "\n"
    path = folder / "recipe.toml"
    path.write_text(text, encoding="utf-8")
    return path


def log(folder):
    """The lines of the log, without what the speed of the machine decides."""
    lines = map(json.loads, (folder / "log.jsonl").read_text(encoding="utf-8").splitlines())
    return [{name: value for name, value in line.items() if name != "tokens_per_second"} for line in lines]


def losses(folder):
    return {line["step"]: line["loss"] for line in log(folder) if "loss" in line}
