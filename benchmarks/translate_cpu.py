"""Beam search on a CPU: regard, transformers and CTranslate2 with the same weights, each in a process of its own.

python benchmarks/translate_cpu.py                 print the table, for the model in the package
python benchmarks/translate_cpu.py --random        random weights instead, which end no sentence
python benchmarks/translate_cpu.py --model FOLDER  another model
python benchmarks/translate_cpu.py --busy 2        beside two busy processes, with one thread and with all
python benchmarks/translate_cpu.py --lines FILE    lines a second of a large file (--before SRC: of an older src/ too)
python benchmarks/translate_cpu.py --report        and keep the table in benchmarks/reports/

`regard` is what `Translator` runs, CTranslate2 in int8 with batches side by side; `regard search` is our own search in
torch, which runs where CTranslate2 cannot. CTranslate2 itself is given the model as its converter for Marian makes it.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import torch
from measure import machine, rounds

import regard
from regard.translation import search
from regard.translation.beam_search import search_all
from regard.translation.translator import SHIPPED, Translator

BATCH, BEAM, TOKENS, VOCABULARY = 32, 4, 24, 16_000
ENGINES = ["transformers", "regard", "regard search", "CTranslate2 float32", "CTranslate2 int8"]
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
    return {0: "</s>", 1: "<unk>"}.get(token, f"t{token}")


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


def inputs(folder: Path | None) -> tuple[regard.Transformer, list[list[int]], int]:
    """The model, the ids of a batch, and the longest target."""
    if folder is None:
        torch.manual_seed(0)
        lengths = torch.linspace(6, 20, BATCH).long().tolist()
        return random_model(), [[*torch.randint(2, VOCABULARY - 1, (n,)).tolist(), 0] for n in lengths], TOKENS
    translator = Translator.load(folder)
    ids = [[*translator.words.encode(s), translator.model.config.end] for s in (SENTENCES * 2)[:BATCH]]
    return translator.model, ids, 128


def one(engine: str, folder: Path | None, count: int) -> dict[str, float]:
    """Tokens a second of one engine; `one` sentence and a batch."""
    model, ids, most = inputs(folder)
    pad = model.config.pad
    source = torch.nn.utils.rnn.pad_sequence([torch.tensor(row) for row in ids], True, pad)
    run: Callable[[int], int]
    if engine == "regard":

        def run(size: int) -> int:
            return sum(len(best[0].tokens) + 1 for best in search_all(model, ids[:size], beam=BEAM))

    elif engine == "regard search":

        def run(size: int) -> int:
            return sum(len(best[0].tokens) + 1 for best in search(model, source[:size], beam=BEAM, max_tokens=most))

    elif engine == "transformers":
        import transformers

        transformers.logging.set_verbosity_error()
        with tempfile.TemporaryDirectory() as place:
            model.to_marian(place)
            theirs = transformers.MarianMTModel.from_pretrained(place).eval()

        def run(size: int) -> int:
            with torch.inference_mode():
                out = theirs.generate(
                    source[:size], attention_mask=source[:size].ne(pad).long(), num_beams=BEAM, max_new_tokens=most,
                    max_length=None,
                )  # fmt: skip
            return int(out[:, 1:].ne(pad).sum())

    else:
        import ctranslate2

        words = {name(token) if token != pad else "<pad>": token for token in range(model.config.vocabulary)}
        place = Path(tempfile.mkdtemp())
        model.to_marian(place / "marian")
        fast = converted(ctranslate2, place / "marian", place / "fast", engine.split()[1], words)
        shutil.rmtree(place)
        texts = [[name(token) for token in row] for row in ids]

        def run(size: int) -> int:
            found = fast.translate_batch(texts[:size], beam_size=BEAM, max_decoding_length=most, max_batch_size=BATCH)
            return sum(len(each.hypotheses[0]) + 1 for each in found)

    tokens = {size: run(size) for size in (1, BATCH)}
    taken = rounds({"one": lambda: run(1), "batch": lambda: run(BATCH)}, count)
    return {"one": taken["one"].least, "batch": tokens[BATCH] / taken["batch"].least}


def table(folder: Path | None, count: int) -> list[str]:
    """Each engine in a process of its own: CTranslate2's threads beside torch's make both slower."""
    found = {}
    for engine in ENGINES:
        given = ["--random"] if folder is None else ["--model", str(folder)]
        command = [sys.executable, __file__, *given, "--rounds", str(count), "--one", engine]
        printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        found[engine] = json.loads(printed.splitlines()[-1])
    return [
        "| | tokens/s | × transformers | one sentence |",
        "| --- | --- | --- | --- |",
        *(
            f"| {engine} | {each['batch']:,.0f} | {each['batch'] / found['transformers']['batch']:.2f} | "
            f"{each['one'] * 1e3:.0f} ms |"
            for engine, each in found.items()
        ),
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


BUSY = """
import json, sys
from measure import rounds
from translate_cpu import SENTENCES
from regard.translation.translator import Translator
translator = Translator.default()
page = " ".join(SENTENCES * 20)[:10_000].rpartition(".")[0] + "."
texts = {"one sentence": SENTENCES[0], "32 sentences": SENTENCES * 2, f"{len(page):,} characters": page}
taken = rounds({name: lambda text=text: translator.translate(text) for name, text in texts.items()}, int(sys.argv[1]))
print(json.dumps(taken))
"""


def beside_busy_processes(busy: int, count: int) -> list[str]:
    """Translations while other processes keep cores busy: as installed, and with one thread."""
    spin = f"import os\nwhile os.getppid() == {os.getpid()}: pass"  # to the end of this process, at most
    others = [subprocess.Popen([sys.executable, "-c", spin]) for _ in range(busy)]
    found = []
    try:
        for threads in ({}, {"OMP_NUM_THREADS": "1"}):
            there = os.environ | {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])} | threads
            command = [sys.executable, "-c", BUSY, str(count)]
            printed = subprocess.run(command, env=there, check=True, capture_output=True, text=True).stdout
            found.append(json.loads(printed.splitlines()[-1]))
    finally:
        for other in others:
            other.kill()
            other.wait()
    lines = ["| least (median) | as installed | 1 thread |", "| --- | --- | --- |"]
    for name_ in found[0]:
        cells = [f"{each[name_][0]:.2f} s ({each[name_][1]:.2f} s)" for each in found]
        lines.append(f"| {name_} | {' | '.join(cells)} |")
    return lines


LINES = """
import json, sys, time
from regard.translation.translator import Translator
way, path, most = sys.argv[1], sys.argv[2], int(sys.argv[3])
lines = open(path, encoding="utf-8").read().splitlines()[:most]
translator = Translator.default()
if way == "torch":
    from regard.translation.engine import Engine
    Engine.of = classmethod(lambda cls, model: None)
if way == "engine":
    from regard.translation.beam_search import search_all
    sources = [[*translator.words.encode(line), translator.words.end] for line in lines]
translator.translate("I am good.")
wall, cpu = time.perf_counter(), time.process_time()
if way == "engine":
    search_all(translator.model, sources, beam=4)
elif way == "lines":
    texts = [each.text for each in translator.translate_lines(lines)]
else:
    for start in range(0, len(lines), 512):
        texts = [each.text for each in translator.translate(lines[start : start + 512])]
print(json.dumps([time.perf_counter() - wall, time.process_time() - cpu]))
"""


def large_file(path: Path, most: int, before: Path | None, count: int) -> list[str]:
    """Lines a second of a large file, and of the processor's time: that is the same on a busy machine, nearly."""
    ways = {"torch's search": "torch", "`regard translate`": "lines", "the engine alone": "engine"}
    ways = ({"before": "before"} if before else {}) | ways
    taken: dict[str, list[list[float]]] = {name_: [] for name_ in ways}
    for _ in range(count):  # in turn, each in a process of its own
        for name_, way in ways.items():
            home = [str(before)] if way == "before" else []
            there = os.environ | {"PYTHONPATH": os.pathsep.join([*home, *sys.path])}
            command = [sys.executable, "-c", LINES, way, str(path), str(most)]
            printed = subprocess.run(command, env=there, check=True, capture_output=True, text=True).stdout
            taken[name_].append(json.loads(printed.splitlines()[-1]))
    least = {name_: [min(column) for column in zip(*rows, strict=True)] for name_, rows in taken.items()}
    size = min(most, len(path.read_text("utf-8").splitlines()))
    wall, cpu = next(iter(least.values()))
    return [
        "| | lines/s | × | lines in a second of one core | × |",
        "| --- | --- | --- | --- | --- |",
        *(
            f"| {name_} | {size / w:.0f} | {wall / w:.1f} | {size / c:.0f} | {cpu / c:.1f} |"
            for name_, (w, c) in least.items()
        ),
    ]


def main() -> None:
    """Print the table, and keep it if asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=SHIPPED, help="a folder; the model in the package without it")
    parser.add_argument("--random", action="store_true", help="random weights of 6 + 6 layers")
    parser.add_argument("--report", action="store_true", help="write benchmarks/reports/DATE-translate-cpu.md")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--busy", type=int, metavar="N", help="beside N busy processes, the model in the package")
    parser.add_argument("--lines", type=Path, metavar="FILE", help="translate the first lines of this file")
    parser.add_argument("--most", type=int, default=2000, help="so many of them")
    parser.add_argument("--before", type=Path, metavar="SRC", help="and with the package in this src/ folder")
    parser.add_argument("--one", choices=ENGINES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one is not None:
        print(json.dumps(one(options.one, None if options.random else options.model, options.rounds)))
        return
    if options.busy is not None:
        lines = beside_busy_processes(options.busy, options.rounds)
        how = f"Beside {options.busy} busy processes on {os.cpu_count()} cores; the model in the package, beam {BEAM}. "
        how += f"The best (and the median) of {options.rounds} rounds, taken in turn."
        _finish("Translating on a busy CPU", how, lines, f"translate-busy-{options.busy}", options.report)
        return
    if options.lines is not None:
        lines = large_file(options.lines, options.most, options.before, options.rounds)
        how = (
            f"{options.most:,} lines, the model in the package, beam {BEAM}, each in a process of its own; the best of "
        )
        how += f"{options.rounds} rounds, in turn. Load average at the end: {os.getloadavg()[0]:.1f} on "
        how += (
            f"{os.cpu_count()} cores. The engine alone gets all sentences at once, without facts, reading or writing."
        )
        _finish("Translating a large file", how, lines, "translate-lines", options.report)
        return
    model = None if options.random else options.model
    waited = ["", *waits()] if model == SHIPPED else []
    lines = table(model, options.rounds) + waited
    weights = "random weights (6 + 6 layers, width 384)"
    if model is not None:
        weights = "the model in the package" if model == SHIPPED else f"the model {model.name}"
    how = f"Batch {BATCH}, beam {BEAM}, {weights}, up to {TOKENS if model is None else 128} tokens each."
    best = f"Each engine in a process of its own, the best of {options.rounds} rounds; tokens of the best hypothesis, "
    best += "its end counted."
    best += f" Load average at the end: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores."
    _finish("Translating on a CPU", f"{how} {best}", lines, "translate-cpu", options.report)


def _finish(title: str, how: str, lines: list[str], name: str, report: bool) -> None:
    """Print the text, and keep it if asked."""
    text = f"# {title}\n\n{machine()}. {how}\n\n" + "\n".join(lines) + "\n"
    print(text)
    if report:
        path = Path(__file__).parent / "reports" / f"{date.today()}-{name}.md"
        given = [Path(word).name if word.startswith("/") else word for word in sys.argv[1:]]
        command = " ".join(["python", "benchmarks/translate_cpu.py", *given])
        path.write_text(f"{text}\nMade by `{command}`.\n")


if __name__ == "__main__":
    main()
