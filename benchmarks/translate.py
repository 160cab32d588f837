"""The search beside its peers with the same weights and sentences, each engine in a process of its own.

python benchmarks/translate.py            the model in the package; on a GPU 1,024 sentences, on a CPU 128, 32 and one
python benchmarks/translate.py --report   and keep the tables in benchmarks/reports/
python benchmarks/translate.py --tiny     random weights and 24 sentences: what a test runs
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from functools import partial
from typing import Any

import torch
from measure import GPU, ROOT, Times, arguments, attempt, in_process, rounds, run, table

import regard
from regard.translation import search
from regard.translation.searching import search_all
from regard.translation.searching.definition import longest_target
from regard.translation.searching.gpu import StaticSearch
from regard.translation.translator import SHIPPED, Translator

DATA = ROOT / "tests" / "data"
Ids = list[list[int]]
Engine = Callable[[Ids], Ids]  # ids of sentences to those of their best targets, without the end
SETTINGS = [(4, "bfloat16"), (4, "float32"), (1, "bfloat16"), (1, "float32")]  # beam, dtype; on a CPU the second
PEERS = ["transformers", "transformers, static cache, compiled"] if GPU else [
    "transformers", "CTranslate2 float32", "CTranslate2 int8"
]  # fmt: skip
OWN = ["regard"] if GPU else ["regard", "regard, our search in torch"]
COUNT = 3
THREADS = torch.get_num_threads()  # CTranslate2 changes it
SOME = 64  # sentences that the search in Python steps translates too
COMPILING = 150  # seconds after which a peer that compiles begins no other setting; it is ended after half more


def sentences(count: int) -> list[str]:
    """Different texts of one, two or three sentences, the same ones each time."""
    names = ("pronouns.tsv", "neutral.txt", "documents.txt")
    lines = [line.split("\t")[0] for name in names for line in (DATA / name).read_text("utf-8").splitlines()]
    lines.remove("English")  # the head of a column
    draw, made = random.Random(0), dict[str, None]()
    while len(made) < count:
        made[" ".join(draw.sample(lines, draw.choice((1, 1, 2, 3))))] = None
    return list(made)


def inputs(tiny: bool) -> tuple[regard.Transformer, Ids]:
    """The model, and the ids of sentences of which no two are the same: ours would translate equal ones once."""
    if tiny:
        torch.manual_seed(0)
        config = regard.TransformerConfig.tiny(200, width=32, heads=4, hidden=48, decoder_layers=1, positions=64)
        model = regard.Transformer(config).eval()
        with torch.no_grad():  # targets that end and do not loop
            for parameter in model.parameters():
                parameter.add_(0.1 * torch.randn_like(parameter))
            model.output_bias.normal_()[config.end] += 7.0
            model.embedding.weight.mul_(model.live)
        ids = [[*torch.randint(1, 199, (n,)).tolist(), 0] for n in torch.randint(2, 12, (24,)).tolist()]
    else:
        translator = Translator.load(SHIPPED)
        model, words = translator.model, translator.words
        most = model.config.positions - 1
        ids = [[*words.encode(line)[:most], model.config.end] for line in sentences(1024 if GPU else 128)]
    if len(set(map(tuple, ids))) < len(ids):
        raise ValueError("two of the sentences are the same")
    return model.to("cuda" if GPU else "cpu"), ids


# The engines


def padded(model: regard.Transformer, ids: Ids) -> torch.Tensor:
    rows = torch.nn.utils.rnn.pad_sequence([torch.tensor(row) for row in ids], True, model.config.pad)
    return rows.to(model.embedding.weight.device)


def ours(model: regard.Transformer, beam: int, dtype: str) -> Engine:
    """What `Translator` runs."""

    def run(ids: Ids) -> Ids:
        half = torch.autocast("cuda", torch.bfloat16) if dtype == "bfloat16" else nullcontext()
        with half:
            return [best[0].tokens for best in search_all(model, ids, beam=beam)]

    return run


def ours_in_torch(model: regard.Transformer, beam: int) -> Engine:
    """The search for a GPU, on a CPU: it runs where CTranslate2 cannot."""
    fixed = StaticSearch(model)
    return lambda ids: [best[0].tokens for best in fixed.search(model, ids, beam=beam)]


def transformers(model: regard.Transformer, beam: int, dtype: str, size: int, *, static: bool = False) -> Engine:
    """`generate` with sources sorted by length, so many at a time; like ours it ends with `beam` targets.

    With a static cache `generate` itself compiles a greedy step; that of a beam search it does not, so it is done here.
    """
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    config = model.config
    with tempfile.TemporaryDirectory() as place:
        model.to_marian(place)
        loaded = transformers.MarianMTModel.from_pretrained(place, dtype=getattr(torch, dtype)).eval()
    loaded = loaded.to(model.embedding.weight.device)
    more = {"cache_implementation": "static"} if static else {}
    if static and beam > 1:
        loaded.forward = torch.compile(loaded.forward)

    @torch.inference_mode()
    def run(ids: Ids) -> Ids:
        found: dict[int, list[int]] = {}
        order = sorted(range(len(ids)), key=lambda n: len(ids[n]))
        for start in range(0, len(order), size):
            batch = order[start : start + size]
            source = padded(model, [ids[n] for n in batch])
            most = longest_target(source.shape[1], config.positions - 1)
            out = loaded.generate(
                source, attention_mask=source.ne(config.pad).long(), num_beams=beam, early_stopping=beam > 1,
                do_sample=False, max_new_tokens=most, max_length=None, **more,
            )  # fmt: skip
            for n, row in zip(batch, out[:, 1:].tolist(), strict=True):
                found[n] = row[: row.index(config.end)] if config.end in row else [t for t in row if t != config.pad]
        return [found[n] for n in range(len(ids))]

    return run


def ctranslate2(model: regard.Transformer, beam: int, kind: str, workers: int, size: int) -> Engine:
    """The model as CTranslate2's own converter makes it; so many batches side by side, of so many sentences."""
    import ctranslate2

    pad, end = model.config.pad, model.config.end
    words = {{pad: "<pad>", end: "</s>", 1: "<unk>"}.get(n, f"t{n}"): n for n in range(model.config.vocabulary)}
    names = {number: word for word, number in words.items()}

    class Tokenizer:
        unk_token, eos_token, pad_token, bos_token = "<unk>", "</s>", "<pad>", None

        def get_vocab(self) -> dict[str, int]:
            return words

    class Converter(ctranslate2.converters.TransformersConverter):
        def load_tokenizer(self, *_: Any, **__: Any) -> Tokenizer:
            return Tokenizer()

    with tempfile.TemporaryDirectory() as place:
        model.to_marian(f"{place}/marian")
        Converter(f"{place}/marian").convert(f"{place}/fast", quantization=kind)
        fast = ctranslate2.Translator(
            f"{place}/fast", device="cpu", inter_threads=workers, intra_threads=THREADS // workers, compute_type=kind
        )

    def run(ids: Ids) -> Ids:
        texts = [[names[token] for token in row] for row in ids]
        most = longest_target(max(map(len, ids)), model.config.positions - 1)
        found = fast.translate_batch(texts, beam_size=beam, max_decoding_length=most, max_batch_size=size)
        return [[words[word] for word in each.hypotheses[0]] for each in found]

    return run


def engines(
    name: str, model: regard.Transformer, beam: int, dtype: str, count: int
) -> Iterable[tuple[str, Callable[[], Engine]]]:
    """Each way to set an engine up for so many sentences, in words; the fastest counts."""
    if name == "regard":
        yield "", partial(ours, model, beam, dtype)
    elif name == OWN[-1]:
        yield "", partial(ours_in_torch, model, beam)
    elif name.startswith("transformers"):
        static = name != "transformers"
        for size in sorted({min(count, size) for size in ((1024,) if static else (1024, 256) if GPU else (64, 16))}):
            yield f"batches of {size}", partial(transformers, model, beam, dtype, size, static=static)
    else:
        workers = {1, THREADS} if count > 1 else {1}
        for w in sorted(workers):
            for size in sorted({min(-(-count // w), size) for size in (8, 16, 32)}):
                how = f"{w} × {THREADS // w} threads, batches of {size}"
                yield how, partial(ctranslate2, model, beam, name.split()[1], w, size)


# The times


def one(name: str, tiny: bool) -> dict[str, Any]:
    """Of one engine, by its setting: the best times, how it was set up, and what it found."""
    model, ids = inputs(tiny)
    cases = [(f"{beam} {dtype}", beam, dtype, ids) for beam, dtype in SETTINGS]
    if not GPU:
        cases = [(str(n), *SETTINGS[1], ids[:n]) for n in sorted({1, min(32, len(ids)), len(ids)})]
    found, began = {}, time.perf_counter()
    for key, beam, dtype, some in cases:
        if "compiled" in name and time.perf_counter() - began > COMPILING:
            found[key] = {"failed": f"not reached in {COMPILING} s"}
            continue
        made = dict(engines(name, model, beam, dtype, len(some)))
        tried = {}
        for how, make in made.items():
            torch.compiler.reset()
            few = 1 if tiny or (not GPU and len(made) > 1) else COUNT
            tried[how] = attempt(f"{name}, {key}, {how}", lambda m=make, s=some, n=few: timed(m(), s, n))
        known = {how: each for how, each in tried.items() if not isinstance(each, str)}
        if known:
            best = min(known, key=lambda how: known[how]["median"])
            if not tiny and not GPU and len(made) > 1:  # CPU: once to choose, then the chosen one
                known[best] = timed(made[best](), some, COUNT)
            found[key] = known[best] | {"how": best}
        else:
            found[key] = {"failed": next(iter(tried.values()))}
        print(key, {k: v for k, v in found[key].items() if k != "said"}, file=sys.stderr, flush=True)
    if name == "regard":
        key = "4 float32" if GPU else str(len(ids))
        some = range(0, len(ids), max(len(ids) // SOME, 1))
        by_steps = search(model, padded(model, [ids[n] for n in some]), beam=4)
        found["definition"] = same([best[0].tokens for best in by_steps], [found[key]["said"][n] for n in some])
    return found


def timed(run: Engine, ids: Ids, count: int) -> dict[str, Any]:
    start = time.perf_counter()
    said = run(ids)
    first = time.perf_counter() - start
    taken: Times = rounds({"": lambda: run(ids)}, count, warm=int(GPU))[""]  # the second time graphs are recorded
    return {"median": taken.median, "least": taken.least, "first": first, "peak": taken.peak, "said": said}


def same(these: Ids, those: Ids) -> float:
    return sum(one == other for one, other in zip(these, those, strict=True)) / len(these)


def speed(each: dict[str, Any], seconds: str = "median") -> float:
    return sum(len(tokens) + 1 for tokens in each["said"]) / each[seconds]


def engines_table(tiny: bool) -> list[str]:
    """A line for each engine and setting; speeds of regard over those of the engine."""
    found: dict[str, Any] = {}
    for name in [*OWN, *PEERS]:
        limit = 1.5 * COMPILING if "compiled" in name else None
        found[name] = attempt(name, lambda n=name, s=limit: in_process("--one", n, *["--tiny"] * tiny, limit=s))
    mine = found["regard"]
    definition = mine.pop("definition")
    rows = []
    for key in mine:
        for name, settings in found.items():
            label = f"{key} sentence{'s' * (key != '1')}"
            if GPU:
                beam, dtype = key.split()
                label = f"{'greedy' if beam == '1' else f'beam {beam}'}, {dtype}"
            each = settings if isinstance(settings, str) else settings[key].get("failed") or settings[key]
            if isinstance(each, str):
                rows.append([label, name, each])
                continue
            told = f"{name}{', ' * bool(each['how'])}{each['how']}"
            cells = [f"{speed(each):,.0f} ({speed(each, 'least'):,.0f})", f"{each['median'] * 1e3:,.0f} ms"]
            cells += [
                "" if name == "regard" else f"{speed(mine[key]) / speed(each):.2f} ×",
                f"{same(mine[key]['said'], each['said']):.0%}",
            ]
            rows.append([label, told, *cells, f"{each['first']:.2f} s", *([f"{each['peak']:.1f} GiB"] if GPU else [])])
    columns = ["", "engine", "tokens/s, median (greatest)", "median", "regard is", "same best as regard", "first time"]
    about = (
        f"The search in Python steps finds the same best target as regard in float32 for {definition:.1%} of {SOME}."
    )
    return [*table([*columns, *(["GPU memory"] if GPU else [])], rows), "", about]


def keyboard() -> list[str]:
    """What somebody waits for: the command, and the next sentence in a program."""
    text = "My sister works in a hospital near the old station."
    translator = Translator.default()
    calls: dict[str, Callable[[], Any]] = {
        "`import torch`": lambda: subprocess.run([sys.executable, "-c", "import torch"], check=True),
        "`regard translate` of a sentence": lambda: subprocess.run(
            [sys.executable, "-m", "regard", "translate", text], check=True, capture_output=True
        ),
        "each next sentence": lambda: translator.translate(text),
    }
    return table(["", "median (least)"], [[name, times.ms()] for name, times in rounds(calls, COUNT).items()])


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--tiny", action="store_true", help="random weights, 24 sentences")
    parser.add_argument("--one", choices=[*OWN, *PEERS], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(one(options.one, options.tiny)))
        return
    sections: dict[str, Callable[[], list[str]]] = {"Engines": lambda: engines_table(options.tiny)}
    if not GPU and not options.tiny:
        sections["Keyboard"] = keyboard
    lengths = sorted(map(len, inputs(options.tiny)[1]))
    how = (
        f"{len(lengths):,} sentences, no two the same, of {lengths[0]} to {lengths[-1]} tokens (median "
        f"{lengths[len(lengths) // 2]}), from lists of ids to lists of ids, with the model in the package"
        f"{'' if GPU else ', beam 4'}. Each engine in a process of its own, with the fastest of the settings tried. "
        "Tokens are those of the best targets, their end counted."
    )
    run(f"Translating on a {'GPU' if GPU else 'CPU'}", how, sections, "translation", options)


if __name__ == "__main__":
    main()
