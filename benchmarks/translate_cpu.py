"""Beam search on a CPU against transformers' `generate` and CTranslate2, all with the same weights (Marian export).

python benchmarks/translate_cpu.py                 print the table, for the model in the package
python benchmarks/translate_cpu.py --random        random weights instead, which end no sentence
python benchmarks/translate_cpu.py --model FOLDER  another model
python benchmarks/translate_cpu.py --report        and keep the table in benchmarks/reports/
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from datetime import date
from pathlib import Path
from typing import Any

import torch
from measure import machine, rounds

import regard
from regard.translation import search
from regard.translation.translator import SHIPPED, Translator

BATCH, BEAM, TOKENS, VOCABULARY = 32, 4, 24, 16_000
SENTENCES = [
    "A dog ate the food because it was hungry.", "I like sushi because it makes me happy.", "I am hungry.",
    "Where is the station?", "She has lived in this house for ten years.", "We should leave before it gets dark.",
    "He told me that he would come tomorrow morning.", "Nobody knows what will happen next year.",
    "My brother works in a small shop near the river.", "Could you please open the window?",
    "The train was late, so we missed the beginning of the film.", "They have never been to Paris.",
    "What time does the museum open on Sundays?", "I forgot to bring my umbrella.", "This book is easy to read.",
    "If you need help, call me at any time.",
]  # fmt: skip


def name(token: int) -> str:
    return {0: "</s>", 1: "<unk>", VOCABULARY - 1: "<pad>"}.get(token, f"t{token}")


def random_model() -> regard.Transformer:
    """Weights that end no sentence, in the size of a small translator."""
    config = regard.TransformerConfig.base(VOCABULARY, width=384, heads=6, hidden=1536, activation="silu")
    return regard.Transformer(config).eval()


def converted(ctranslate2: Any, marian: Path, out: Path, quantization: str, words: dict[str, int]) -> Any:
    """The Marian folder as CTranslate2 wants it, with these names for tokens."""

    class Tokenizer:
        unk_token, eos_token, pad_token, bos_token = "<unk>", "</s>", "<pad>", None

        def get_vocab(self) -> dict[str, int]:
            return words

    class Converter(ctranslate2.converters.TransformersConverter):  # type: ignore[misc, name-defined]
        def load_tokenizer(self, *_: Any, **__: Any) -> Tokenizer:
            return Tokenizer()

    Converter(str(marian)).convert(str(out), quantization=quantization)
    threads = torch.get_num_threads()
    return ctranslate2.Translator(str(out), device="cpu", intra_threads=threads, compute_type=quantization)


def table(folder: Path | None, count: int) -> list[str]:
    import ctranslate2
    import transformers

    transformers.logging.set_verbosity_error()
    if folder is None:
        model = random_model()
        lengths = torch.linspace(6, 20, BATCH).long().tolist()
        ids = [[*torch.randint(2, VOCABULARY - 1, (n,)).tolist(), 0] for n in lengths]
        most = TOKENS
    else:
        translator = Translator.load(folder)
        model, most = translator.model, 128
        ids = [[*translator.words.encode(s), model.config.end] for s in (SENTENCES * 2)[:BATCH]]
    pad = model.config.pad
    source = torch.nn.utils.rnn.pad_sequence([torch.tensor(row) for row in ids], True, pad)
    words = [[name(token) for token in row] for row in ids]
    with tempfile.TemporaryDirectory() as place:
        marian = Path(place) / "marian"
        model.to_marian(marian)
        theirs = transformers.MarianMTModel.from_pretrained(marian).eval()
        produced: dict[str, int] = {}

        def ours() -> None:
            produced["regard"] = sum(len(h[0].tokens) + 1 for h in search(model, source, beam=BEAM, max_tokens=most))

        def generate() -> None:
            with torch.inference_mode():
                out = theirs.generate(
                    source, attention_mask=source.ne(pad).long(), num_beams=BEAM, max_new_tokens=most, max_length=None
                )
            produced["transformers"] = int(out[:, 1:].ne(pad).sum())

        # CTranslate2 comes last: once it has run, its threads beside torch's make all that torch does in this process
        # slower, to the end (a search took 0.41 s before and 0.65 s afterwards).
        taken = rounds({"transformers": generate, "regard": ours}, count)
        own = {name(token) if token != pad else "<pad>": token for token in range(model.config.vocabulary)}
        fast = {kind: converted(ctranslate2, marian, Path(place) / kind, kind, own) for kind in ("float32", "int8")}

        def convert(kind: str) -> None:
            found = fast[kind].translate_batch(
                words, beam_size=BEAM, max_decoding_length=most, max_batch_size=BATCH, min_decoding_length=0
            )
            produced[kind] = sum(len(f.hypotheses[0]) + 1 for f in found)

        taken |= rounds({"float32": lambda: convert("float32"), "int8": lambda: convert("int8")}, count)
    speed = {kind: produced[kind] / taken[kind].least for kind in taken}
    rows = [("transformers", "transformers `generate`"), ("regard", "regard `search`")]
    rows += [("float32", "CTranslate2 float32"), ("int8", "CTranslate2 int8")]
    return [
        "| | tokens/s | × transformers |",
        "| --- | --- | --- |",
        *(f"| {title} | {speed[kind]:,.0f} | {speed[kind] / speed['transformers']:.2f} |" for kind, title in rows),
    ]


def waits() -> list[str]:
    """What somebody at a keyboard waits for: the first translation, and the next."""
    translator = Translator.default()
    ten = "My sister works in a hospital near the old station."
    alone = rounds({"next": lambda: translator.translate(ten)}, 15)["next"]
    command = [sys.executable, "-m", "regard", "translate", ten]
    first = rounds(
        {
            "torch": lambda: subprocess.run([sys.executable, "-c", "import torch"], check=True),
            "ours": lambda: subprocess.run(command, check=True, capture_output=True),
        },
        5,
    )
    torch_, ours = first["torch"], first["ours"]
    return [
        f"`regard translate` of a sentence, as a command: {ours.least:.2f} s (median {ours.median:.2f} s), of which "
        f"`import torch` is {torch_.least:.2f} s (median {torch_.median:.2f} s).",
        "",
        f"Each next sentence of ten words: {alone.least * 1e3:.0f} ms (median {alone.median * 1e3:.0f} ms).",
    ]


def main() -> None:
    """Print the table, and keep it if asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=SHIPPED, help="a folder; the model in the package without it")
    parser.add_argument("--random", action="store_true", help="random weights of 6 + 6 layers")
    parser.add_argument("--report", action="store_true", help="write benchmarks/reports/DATE-translate-cpu.md")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    torch.manual_seed(0)
    model = None if options.random else options.model
    waited = ["", *waits()] if model == SHIPPED else []
    lines = table(model, options.rounds) + waited
    weights = "random weights (6 + 6 layers, width 384)"
    if model is not None:
        weights = "the model in the package" if model == SHIPPED else f"the model {model.name}"
    how = f"Batch {BATCH}, beam {BEAM}, {weights}, up to {TOKENS if model is None else 128} tokens each."
    best = f"The best of {options.rounds} rounds, taken in turn (ours and transformers; then, where torch has run "
    best += "before, CTranslate2's two); tokens of the best hypothesis, its end counted."
    best += f" Load average at the end: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores."
    text = f"# Translating on a CPU\n\n{machine()}. {how} {best}\n\n" + "\n".join(lines) + "\n"
    print(text)
    if options.report:
        path = Path(__file__).parent / "reports" / f"{date.today()}-translate-cpu.md"
        path.write_text(text + "\nMade by `python benchmarks/translate_cpu.py --report`.\n")


if __name__ == "__main__":
    main()
