"""The search on a GPU, us and transformers' `generate`: 1,024 sentences, beam 4 and greedy, bfloat16 and float32.

python benchmarks/translate_gpu.py               on CUDA: the model in the package, sentences of tests/data
python benchmarks/translate_gpu.py --text FILE   the first 1,024 different lines of a file
python benchmarks/translate_gpu.py --static      transformers also with a static cache, compiled: may take minutes
python benchmarks/translate_gpu.py --tiny        on a CPU: random weights, 24 sentences, no graphs
python benchmarks/translate_gpu.py --profile     where our time goes: the parts of a search, then the kernels
python benchmarks/translate_gpu.py --report      and keep it in benchmarks/reports/

Where there is no sentencepiece, give the sentences as numbers: --write-ids FILE makes such a file, --ids FILE reads it.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import nullcontext
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

import torch
from measure import gpu, machine, rounds

import regard
from regard.translation import search, static_search
from regard.translation.beam_search import search_all
from regard.translation.hypotheses import longest_target
from regard.translation.static_search import StaticSearch
from regard.translation.translator import SHIPPED, Translator

DATA = Path(__file__).parents[1] / "tests" / "data"
SETTINGS = [(4, "bfloat16"), (4, "float32"), (1, "bfloat16"), (1, "float32")]  # beam, dtype
SIZES = {"cuda": (1024, 256), "cpu": (24, 8)}  # sentences of a batch of the peer's: the best counts
SOME = 64  # sentences that the search in Python steps translates too
STATIC = 240  # seconds for the peer with a static cache


def sentences(count: int) -> list[str]:
    """Different texts of one, two or three sentences, by the same seed each time."""
    names = ("pronouns.tsv", "neutral.txt", "documents.txt")
    lines = [line.split("\t")[0] for name in names for line in (DATA / name).read_text("utf-8").splitlines()]
    lines.remove("English")  # the head of a column
    draw, made = random.Random(0), dict[str, None]()
    while len(made) < count:
        made[" ".join(draw.sample(lines, draw.choice((1, 1, 2, 3))))] = None
    return list(made)


def inputs(options: argparse.Namespace) -> tuple[regard.Transformer, list[list[int]]]:
    """The model, and the ids of each sentence."""
    if options.tiny:
        torch.manual_seed(0)
        config = regard.TransformerConfig.tiny(200, width=32, heads=4, hidden=48, decoder_layers=1, positions=64)
        model = regard.Transformer(config).eval()
        with torch.no_grad():  # targets that end and do not loop
            for parameter in model.parameters():
                parameter.add_(0.1 * torch.randn_like(parameter))
            model.output_bias.normal_()[config.end] += 7.0
            model.embedding.weight.mul_(model.live)
        lengths = torch.randint(2, 12, (24,)).tolist()
        return model, [[*torch.randint(1, 199, (n,)).tolist(), 0] for n in lengths]
    model = regard.Transformer.load(options.model)
    if options.ids is not None:
        return model, json.loads(options.ids.read_text())[: options.sentences]
    words = Translator.load(options.model).words
    lines = sentences(options.sentences)
    if options.text is not None:
        lines = list(dict.fromkeys(options.text.read_text("utf-8").splitlines()))[: options.sentences]
    most = model.config.positions - 1
    return model, [[*words.encode(line)[:most], model.config.end] for line in lines]


# The engines: each returns the tokens of the best target of each sentence, without the end.


def ours(model: regard.Transformer, ids: list[list[int]]) -> Callable[[int, str], list[list[int]]]:
    """`search_all`; on a CPU what it does on a GPU."""
    device = model.embedding.weight.device

    def run(beam: int, dtype: str) -> list[list[int]]:
        half = torch.autocast(device.type, torch.bfloat16) if dtype == "bfloat16" else nullcontext()
        with half:
            if device.type == "cuda":
                found = search_all(model, ids, beam=beam)
            else:
                found = StaticSearch(model).search(model, ids, beam=beam)
        return [best[0].tokens for best in found]

    return run


def theirs(model: regard.Transformer, *, static: bool = False) -> Callable[..., list[list[int]]]:
    """transformers' `generate`, sources sorted by length; it too ends when it has as many targets as the beam."""
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    device, config = model.embedding.weight.device, model.config
    with tempfile.TemporaryDirectory() as place:
        model.to_marian(place)
        loaded = {
            name: transformers.MarianMTModel.from_pretrained(place, dtype=getattr(torch, name)).eval().to(device)
            for name in ("bfloat16", "float32")
        }

    @torch.inference_mode()
    def run(ids: list[list[int]], size: int, beam: int, dtype: str) -> list[list[int]]:
        found: dict[int, list[int]] = {}
        order = sorted(range(len(ids)), key=lambda n: len(ids[n]))
        for start in range(0, len(order), size):
            batch = order[start : start + size]
            rows = [torch.tensor(ids[n]) for n in batch]
            source = torch.nn.utils.rnn.pad_sequence(rows, True, config.pad).to(device)
            out = loaded[dtype].generate(
                source, attention_mask=source.ne(config.pad).long(), num_beams=beam, early_stopping=beam > 1,
                do_sample=False, max_new_tokens=longest_target(source.shape[1], config.positions - 1), max_length=None,
                **({"cache_implementation": "static"} if static else {}),
            )  # fmt: skip
            for n, row in zip(batch, out[:, 1:].tolist(), strict=True):
                found[n] = row[: row.index(config.end)] if config.end in row else [t for t in row if t != config.pad]
        return [found[n] for n in range(len(ids))]

    return run


def one(engine: str, options: argparse.Namespace) -> dict[str, Any]:
    """The times of one engine, and what it found."""
    device = "cpu" if options.tiny else "cuda"
    model, ids = inputs(options)
    model = model.to(device)
    if engine == "regard":
        return time_us(model, ids, options.rounds)
    return time_them(model, ids, options.rounds, engine == "static")


def time_us(model: regard.Transformer, ids: list[list[int]], count: int) -> dict[str, Any]:
    """Each setting in rounds, after two in which the steps are recorded."""
    run = ours(model, ids)
    found: dict[str, Any] = {f"{beam} {dtype}": timed(partial(run, beam, dtype), count) for beam, dtype in SETTINGS}
    found["definition"] = definition(model, ids, found["4 float32"]["said"])
    return found


def time_them(model: regard.Transformer, ids: list[list[int]], count: int, static: bool) -> dict[str, Any]:
    """Each setting and batch size as ours: the same sentences, the same rounds, after two; the best size counts."""
    run, found = theirs(model, static=static), {}
    sizes = SIZES[model.embedding.weight.device.type]
    for beam, dtype in SETTINGS:
        tried = {size: timed(partial(run, ids, size, beam, dtype), count) for size in sizes[: 1 if static else None]}
        best = min(tried, key=lambda size: tried[size]["seconds"])
        speeds = {size: [speed(each), speed(each, "first")] for size, each in tried.items()}
        found[f"{beam} {dtype}"] = tried[best] | {"size": best, "speeds": speeds}
    return found


def timed(run: Callable[[], list[list[int]]], count: int) -> dict[str, Any]:
    """Seconds of the first time, and of the rounds after it and one more."""
    start = time.perf_counter()
    said = run()
    first = time.perf_counter() - start
    taken = rounds({"": run}, count)[""]
    found = {"seconds": taken.least, "median": taken.median, "first": first, "said": said}
    return found | ({"GiB": torch.cuda.max_memory_allocated() / 2**30} if torch.cuda.is_available() else {})


def definition(model: regard.Transformer, ids: list[list[int]], said: list[list[int]]) -> float:
    """The share of some sentences for which the search in Python steps finds the same target, in float32."""
    some = range(0, len(ids), max(len(ids) // SOME, 1))
    rows = [torch.tensor(ids[n]) for n in some]
    source = torch.nn.utils.rnn.pad_sequence(rows, True, model.config.pad).to(model.embedding.weight.device)
    return same([best[0].tokens for best in search(model, source, beam=4)], [said[n] for n in some])


def same(these: list[list[int]], those: list[list[int]]) -> float:
    return sum(one == other for one, other in zip(these, those, strict=True)) / len(these)


def speed(each: dict[str, Any], of: str = "seconds") -> float:
    return sum(len(tokens) + 1 for tokens in each["said"]) / each[of]


def table(options: argparse.Namespace) -> list[str]:
    """Each engine in a process of its own."""
    found: dict[str, dict[str, Any]] = {}
    for engine in ["regard", "transformers", *(["static"] if options.static else [])]:
        with tempfile.TemporaryDirectory() as place:
            out = Path(place) / "found.json"
            command = [sys.executable, __file__, *sys.argv[1:], "--one", engine, "--out", str(out)]
            try:
                subprocess.run(command, check=True, timeout=STATIC if engine == "static" else None)
                found[engine] = json.loads(out.read_text())
            except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
                if engine != "static":
                    raise
                print(f"transformers with a static cache: {error}", file=sys.stderr)
    us, them = found["regard"], found["transformers"]
    lines = [
        "| | regard, tokens/s | transformers, tokens/s | × | × its best dtype | same best | first time | GPU memory |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for beam, dtype in SETTINGS:
        name = f"{beam} {dtype}"
        mine, other = us[name], them[name]
        fastest = max(speed(them[f"{beam} {kind}"]) for kind in ("bfloat16", "float32"))
        cells = [
            f"{'greedy' if beam == 1 else f'beam {beam}'}, {dtype}", f"{speed(mine):,.0f}",
            f"{speed(other):,.0f} (batch {other['size']})", f"{speed(mine) / speed(other):.1f}",
            f"{speed(mine) / fastest:.1f}",
            f"{same(mine['said'], other['said']):.1%}", f"{mine['first']:.2f} s",
            f"{mine['GiB']:.1f} GiB" if "GiB" in mine else "",
        ]  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    lines += [
        "",
        f"In float32 and with beam 4, the search in Python steps finds the same target for {us['definition']:.1%} of "
        f"{SOME} of them; in bfloat16, {same(us['4 bfloat16']['said'], us['4 float32']['said']):.1%} of the best "
        "targets are those of float32.",
    ]
    tried = []
    for name, each in them.items():
        sizes = [f"{size}: {least:,.0f} ({first:,.0f})" for size, (least, first) in each["speeds"].items()]
        tried.append(f"{name}: {', '.join(sizes)}")
    lines += ["", f"transformers by batch size, and the first time in brackets, in tokens/s: {'; '.join(tried)}."]
    if "static" in found:
        speeds = [f"{name}: {speed(each):,.0f} tokens/s" for name, each in found["static"].items()]
        lines += ["", f"transformers with a static cache, compiled, batch {SIZES['cuda'][0]}: {'; '.join(speeds)}."]
    return lines


def profile(options: argparse.Namespace) -> None:
    """Print what our search takes in bfloat16, with and without its own kernels, and where the time goes."""
    model, ids = inputs(options)
    model = model.to("cpu" if options.tiny else "cuda")
    run, wait = ours(model, ids), (lambda: None) if options.tiny else torch.cuda.synchronize
    kernels, said = static_search._own_kernels, {}
    for name, choice in (("without our kernels", lambda *_: None), ("with them", kernels)):
        static_search._own_kernels = choice
        static_search._made.clear()
        for beam in (4, 1):
            for _ in range(2):  # graphs are recorded
                run(beam, "bfloat16")
            least = rounds({"": lambda beam=beam: (run(beam, "bfloat16"), wait())}, 2 * options.rounds)[""].least
            said[name, beam] = run(beam, "bfloat16")
            tokens = sum(len(best) + 1 for best in said[name, beam])
            print(f"beam {beam}, {name}: {least * 1e3:.1f} ms, {tokens / least:,.0f} tokens/s", flush=True)
    for beam in (4, 1):
        pairs = zip(said["without our kernels", beam], said["with them", beam], strict=True)
        print(f"beam {beam}: the same best target for {sum(a == b for a, b in pairs):,} of {len(ids):,}")
    parts = ("_refresh", "_begin", "_advance", "_run", "search")
    whole = {name: getattr(StaticSearch, name) for name in parts}
    for beam in (4, 1):
        for _ in range(3):
            run(beam, "bfloat16")
        taken, calls = dict.fromkeys(parts, 0.0), dict.fromkeys(parts, 0)

        def timed(name: str, taken: dict[str, float] = taken, calls: dict[str, int] = calls) -> Callable[..., Any]:
            def call(*args: Any, **kwargs: Any) -> Any:
                wait()
                start = time.perf_counter()
                result = whole[name](*args, **kwargs)
                wait()
                taken[name] += time.perf_counter() - start
                calls[name] += 1
                return result

            return call

        for name in parts:
            setattr(StaticSearch, name, timed(name))
        run(beam, "bfloat16")
        for name, function in whole.items():
            setattr(StaticSearch, name, function)
        print(f"beam {beam}, waiting for the GPU after each part:")
        print("\n".join(f"    {name} {taken[name] * 1e3:.1f} ms, {calls[name]} times" for name in parts))
        with torch.profiler.profile() as found:
            run(beam, "bfloat16")
        by = "self_cpu_time_total" if options.tiny else "self_device_time_total"
        print(found.key_averages().table(sort_by=by, row_limit=30, max_name_column_width=90))


def main() -> None:
    """Print the table, and keep it if asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=SHIPPED, help="a folder; the model in the package without it")
    parser.add_argument("--sentences", type=int, default=1024)
    parser.add_argument("--text", type=Path, metavar="FILE", help="translate the first different lines of this file")
    parser.add_argument("--ids", type=Path, metavar="FILE", help="sentences as lists of numbers, in JSON")
    parser.add_argument("--write-ids", type=Path, metavar="FILE", help="write such a file, and end")
    parser.add_argument("--static", action="store_true", help="transformers also with a static cache, compiled")
    parser.add_argument("--tiny", action="store_true", help="on a CPU, in a minute")
    parser.add_argument("--profile", action="store_true", help="where our time goes")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--report", action="store_true", help="write benchmarks/reports/DATE-translate-gpu.md")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.write_ids is not None:
        options.write_ids.write_text(json.dumps(inputs(options)[1]))
        return
    if options.one is not None:
        options.out.write_text(json.dumps(one(options.one, options)))
        return
    if options.profile:
        profile(options)
        return
    lines = table(options)
    _, ids = inputs(options)
    lengths = sorted(map(len, ids))
    import transformers

    weights = "the model in the package" if options.model == SHIPPED else f"the model {options.model.name}"
    sizes = ", ".join(map(str, SIZES["cpu" if options.tiny else "cuda"]))
    text = "# Translating on a GPU\n\n"
    text += f"{machine() if options.tiny else gpu()}, transformers {transformers.__version__}. "
    text += f"{len(ids):,} different sentences of {lengths[0]} to {lengths[-1]} tokens (median "
    text += f"{lengths[len(ids) // 2]}), from lists of ids to lists of ids; "
    text += f"{'random weights' if options.tiny else weights}. Each engine in a process of its own, both the best of "
    text += f"{options.rounds} rounds after two, theirs at the best of the batch sizes {sizes}. "
    text += "Tokens are those of the best targets, their end counted.\n\n"
    text += "\n".join(lines) + "\n"
    print(text)
    if options.report:
        path = Path(__file__).parent / "reports" / f"{date.today()}-translate-gpu.md"
        given = [Path(word).name if word.startswith("/") else word for word in sys.argv[1:]]
        path.write_text(f"{text}\nMade by `{' '.join(['python', 'benchmarks/translate_gpu.py', *given])}`.\n")


if __name__ == "__main__":
    main()
