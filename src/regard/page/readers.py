"""What reads a text: `TranslatorReader`, `HuggingFaceReader`, and `RecordReader` for a saved record."""

from __future__ import annotations

import inspect
import math
import re
import time
from collections import OrderedDict
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from regard.drawing.terminal import percent
from regard.drawing.viewer import readable
from regard.errors import InputError
from regard.nn import FORMAT, Transformer, model_folder
from regard.page.inside import kept_inputs
from regard.page.readings import Part, Reading, joined, numbered
from regard.support import progress, some_of, threads
from regard.translation import Translation, Translator
from regard.watching import Entry, Record, watch
from regard.watching.capture.huggingface import load
from regard.watching.questions.atlas import roles
from regard.watching.questions.looks import key_side, query_side
from regard.watching.questions.sinks import find_sinks, named
from regard.watching.record.record import by_written_word
from regard.watching.record.tokens import Vocabulary
from regard.watching.see import find_model, require_room

__all__ = ["HuggingFaceReader", "ReadRequest", "Reader", "RecordReader", "TranslatorReader", "open_model"]

Event = dict[str, Any]

_SLICE = 4  # tokens that are written before another visitor's turn
_ROWS = 64  # rows of a long text on which the share of a sink is measured
_RECENT = 8  # texts whose parts are kept, so that another part of the same text opens at once
_TOKENS, _TEXT = 4096, 10_000  # tokens and characters of a record's text in an answer
_DOG = "A dog ate the food because it was hungry."
_ENGLISH = (
    _DOG,
    "A dog ate the food because it was delicious.",
    "The animal didn't cross the street because it was too tired.",
    "The animal didn't cross the street because it was too wide.",
)
_EXAMPLES = {
    "read": (_DOG, "The bank of the river was steeper than the bank was rich."),
    "generate": ("The capital of France is", "Once upon a time there was an old dog that"),
    "translate": (_DOG,),
}


@dataclass(frozen=True)
class ReadRequest:
    """A text to read, and how to change the model while it reads."""

    text: str
    new_tokens: int = 32
    part: int = 0  # which part of a long text
    hide: tuple[int, ...] = ()  # tokens of the text that no token may look at
    off: tuple[tuple[int, int], ...] = ()  # heads whose output is 0: (entry, head)


@runtime_checkable
class Reader(Protocol):
    """A model, and how it reads."""

    name: str
    task: str  # "translate", "read", "generate" or "record"
    languages: str = ""
    examples: Sequence[str] = ()
    heads: Mapping[str, tuple[int, int]] = {}  # of the encoder, by what they were taught: (layer, head)

    def read(self, request: ReadRequest) -> Iterator[Event]:
        """Slices of work, each with an event for the visitor; the last is {"parts": […], "open": the part to show}."""


class TranslatorReader(Reader):
    """A translator of regard's own: the translation, and the attention of each sentence.

    >>> reader = TranslatorReader(Translator.default(), "ours")
    >>> events = list(reader.read(ReadRequest("I am hungry.")))
    >>> events[1]["written"], events[-1]["open"].reading.entry(0).kind
    ("J'ai faim.", 'encoder')
    """

    task = "translate"

    def __init__(self, translator: Translator, name: str):
        self.translator, self.name, self.languages = translator, name, translator.languages
        self._english = self.languages.startswith("en-")
        self.examples, self.heads = _ENGLISH if self._english else (), translator.heads
        config = translator.model.config
        # In the order in which a record has them.
        self._entries = [f"encoder.layers.{n}.attention" for n in range(config.encoder_layers)]
        for n in range(config.decoder_layers):
            self._entries += [f"decoder.layers.{n}.attention", f"decoder.layers.{n}.cross"]
        self._recent: OrderedDict[str, list[Part]] = OrderedDict()

    def read(self, request: ReadRequest) -> Iterator[Event]:
        """Read a text, sentence by sentence where a paragraph is too long for the model; changes concern one part."""
        start = time.perf_counter()
        text = re.sub(r"(?<!\n)\n(?!\n)", " ", request.text)  # lines of a paragraph are read together
        for entry, head in request.off:
            if not (0 <= entry < len(self._entries) and 0 <= head < self.translator.model.config.heads):
                raise InputError(f"the model has no head {head} of entry {entry} to switch off.")
        off = _by_module(request.off, self._entries)
        parts = self._recent.get(text) if request.part or request.hide or off else None
        if parts is not None:
            yield {"progress": "reading again", "share": 0.1}
        else:
            parts = yield from self._translate(text)
        if not request.part < len(parts):
            raise InputError(f"the text has parts from 0 to {len(parts) - 1}. Got {request.part}.")
        part = parts[request.part]
        if part.about is None and part.reading is None:  # the whole text
            seen = []
            for n, each in enumerate(parts[:-1]):
                seen.append(list(each.about.watch(without={}).values()))
                yield {"progress": "looking at the whole text", "share": round(n / len(parts), 3)}
            part.open = partial(_open_whole, parts[:-1], text, seen)
        if request.hide or off:
            if part.about is None:
                raise InputError("words and heads are switched off in one sentence at a time: choose a sentence.")
            part = self._changed(part, request.hide, off)
            parts = [part]
        if part.reading is None:
            part.opened().took = time.perf_counter() - start
        yield {"parts": parts, "open": part}

    def _translate(self, text: str) -> Generator[Event, None, list[Part]]:
        """Translate a text into its parts."""
        yield {"progress": "translating", "share": 0.0}
        parts: list[Part] = []
        sentences: list[tuple[str, str]] = []
        written, characters = "", 0
        for translation in self.translator.stream(text):
            written, characters = written + translation.text, characters + len(translation.source)
            is_read = bool(translation.sentences and translation.tokens)
            if is_read:
                parts.append(Part(partial(self._open, translation), about=translation))
                sentences.append((translation.source.strip(), translation.text.strip()))
            share = round(0.9 * min(characters / max(len(text), 1), 1), 3)
            yield {"written": written, "share": share} | ({"sentence": sentences[-1]} if is_read else {})
        if not parts:
            raise InputError("there is nothing to look at: no word of the text was translated.")
        if len(parts) > 1:
            parts.append(Part(partial(_open_whole, parts[:], text)))
        self._recent[text] = numbered(parts, sentences)
        while len(self._recent) > _RECENT:
            self._recent.popitem(last=False)
        return parts

    def _changed(self, part: Part, hide: Sequence[int], off: Mapping[str, Sequence[int]]) -> Part:
        """Translate a part again, with tokens hidden and heads off."""
        before: Translation = part.about
        with _hidden(self.translator.model, hide), _without(self.translator.model, off):
            (after,) = self.translator.translate([before.source])
        note = ""
        if after.text.strip() != before.text.strip():
            # The usual search computes in int8, a changed model in float32, which alone can change a translation.
            with watch(self.translator.model, keep=()):  # computes in float32
                same = self.translator.translate(before.source).text.strip()
            if same != before.text.strip():
                note = f"Computed in float32, as here, the translation without the change is “{same}”."
        if not after.tokens:
            raise InputError("with this change the model writes nothing: change less.")
        return Part(partial(self._open, after, hide, off, note), about=after, place=part.place)

    def _open(
        self, translation: Translation, hide: Sequence[int] = (), off: Mapping[str, Sequence[int]] | None = None,
        note: str = "",
    ) -> Reading:  # fmt: skip
        off, model = off or {}, self.translator.model
        with _hidden(model, hide):
            with _without(model, off):
                sure = translation.confidence
            with kept_inputs(model, off, self.translator.tokenizer) as inside:
                entries = list(translation.watch(without=off).values())
        foreign = self._english and not translation.looks_english
        english = "This does not look like English, which is what the model reads." if foreign else ""
        head = self.translator.note if "it" in translation.source_words else ""
        return Reading(
            entries, text=translation.source, written=translation.text.strip(),
            confidence=round(sure, 4) if math.isfinite(sure) else None,
            note=_joined(english, head, _note_on_sinks(entries)), roles=roles(entries), inside=inside,
            more={"changed": note} if note else None,
        )  # fmt: skip


def _open_whole(parts: Sequence[Part], text: str, seen: Sequence[Sequence[Entry]] = ()) -> Reading:
    """All sentences of a text as one reading."""
    entries = joined(seen or [list(part.about.watch(without={}).values()) for part in parts])
    note = "The model reads one sentence at a time: a word looks only at words of its own sentence."
    written = "\n".join(part.about.text.strip() for part in parts)
    return Reading(entries, text=text, written=written, note=note, roles=roles(entries))


@contextmanager
def _hidden(model: Transformer, hide: Sequence[int]) -> Iterator[None]:
    """Hide tokens of the source from all queries of a Transformer."""
    original = model.enter

    def enter(source: Tensor) -> tuple[Tensor, Tensor]:
        x, visible = original(source)
        return x, _require_visible(visible, hide)

    if hide:
        model.enter = enter  # type: ignore[method-assign]
    try:
        yield
    finally:
        if hide:
            del model.enter


def _require_visible(visible: Tensor, hide: Sequence[int]) -> Tensor:
    """Return a mask (1, tokens) without the hidden tokens, of which at least one other must remain."""
    texts, count = visible.shape
    if texts > 1 or not all(0 <= token < count for token in hide):
        raise InputError(f"hide must name tokens from 0 to {count - 1} of one text. Got {list(hide)}.")
    visible = visible.clone()
    visible[:, list(hide)] = 0
    if not visible.any():
        raise InputError("all tokens are hidden: show at least one.")
    return visible


def _without(model: nn.Module, off: Mapping[str, Sequence[int]]) -> AbstractContextManager[Any]:
    """Run a model without some heads."""
    return watch(model, keep=(), without=off) if off else nullcontext()


def _by_module(off: Sequence[tuple[int, int]], names: Sequence[str]) -> dict[str, list[int]]:
    """Return heads (entry, head) as `watch(without=…)` takes them."""
    heads: dict[str, list[int]] = {}
    for entry, head in off:
        if not 0 <= entry < len(names):
            raise InputError(f"the model has no entry {entry} with heads to switch off.")
        if "#" in names[entry]:
            raise InputError(
                "this model has one module for several layers: a head of one layer alone cannot be switched off."
            )
        heads.setdefault(names[entry], []).append(head)
    return heads


def _note_on_sinks(entries: Sequence[Entry]) -> str:
    """Say what share of attention rests on attention sinks, for each kind of attention."""
    notes = []
    for kind in dict.fromkeys(entry.kind for entry in entries):
        alike = [e for e in entries if e.kind == kind]
        alike = [e for e in alike if e.shape[2:] == alike[0].shape[2:]]
        keys = key_side(alike[0])
        sinks = find_sinks(alike, keys)
        step = max(alike[0].shape[2] // _ROWS, 1)
        rows = [entry.matrix.part[0, :, ::step] for entry in alike]
        shares = [sum(float(r.part[..., s : s + 1].to_dense().mean()) for r in rows) / len(rows) for s in sinks]
        notes += [f"{percent(a.weight)} of {kind} attention rests on {a.name}." for a in named(sinks, shares, keys)]
    return " ".join(notes)


def _joined(*notes: str) -> str:
    return " ".join(filter(None, notes))


def _unseen(record: Record) -> str:
    return f"Not seen: {some_of(record.unseen)}." if record.unseen else ""


class HuggingFaceReader(Reader):
    """A model of transformers: an encoder, a model that continues a text, or one that writes another text."""

    def __init__(self, network: nn.Module, tokenizer: Any, name: str):
        self.network, self.tokenizer, self.name = network, tokenizer, name
        config: Any = getattr(network, "config", None)
        self._pair = bool(getattr(config, "is_encoder_decoder", False))
        writes = bool(getattr(network, "can_generate", bool)())
        self.task = "translate" if self._pair else "generate" if writes else "read"
        self.examples = _EXAMPLES[self.task]
        self._size = sum(parameter.numel() for parameter in network.parameters())
        self._takes = frozenset(inspect.signature(network.forward).parameters)
        self._names: list[str] = []  # of the entries, as in the last record

    def read(self, request: ReadRequest) -> Iterator[Event]:
        """Read the text; a model that writes does so token by token, and then reads its text once more."""
        start = time.perf_counter()
        if request.part:
            raise InputError(f"the text has one part, number 0. Got {request.part}.")
        encoded = self.tokenizer(request.text, return_tensors="pt")
        ids = encoded["input_ids"]
        if not ids.numel():
            raise InputError("the text is empty: type a sentence.")
        require_room(self.network, ids.shape[1] + (request.new_tokens if self.task == "generate" else 0))
        visible = encoded["attention_mask"] if "attention_mask" in encoded else torch.ones_like(ids)
        visible = _require_visible(visible, request.hide)
        if request.off and not self._names:
            with self._working(ids.shape[1]), watch(self.network) as record:
                self._forward(ids, visible, None)
            self._names = list(record)
        off = _by_module(request.off, self._names)
        yield {"progress": "reading", "share": 0.1}
        new: list[int] = []
        if self.task == "generate":
            for token in self._continue(ids, visible, request.new_tokens, off):
                new.append(token)
                if len(new) % _SLICE == 0 or len(new) == 1:
                    yield {"written": self._text(new), "share": round(0.1 + 0.8 * len(new) / request.new_tokens, 3)}
        elif self._pair:
            new = self._rewrite(ids, visible, request.new_tokens, off)
            yield {"written": self._text(new), "share": 0.8}
        reading = self._look(request.text, ids, visible, new, off)
        reading.took = time.perf_counter() - start
        part = Part(lambda: reading, reading=reading)
        yield {"parts": [part], "open": part}

    # Writing

    def _continue(self, ids: Tensor, visible: Tensor, most: int, off: Mapping[str, Sequence[int]]) -> Iterator[int]:
        """Append the most probable token, again and again, until an end."""
        cache, step, seen = None, ids, visible
        ends = getattr(getattr(self.network, "generation_config", None), "eos_token_id", None)
        for n in range(most):
            with self._working(step.shape[1]), _without(self.network, off):
                output = self.network(
                    input_ids=step, attention_mask=seen, past_key_values=cache, use_cache=True,
                    **self._options(ids.shape[1] + n, step.shape[1], seen),
                )  # fmt: skip
            token = int(output.logits[0, -1].argmax())
            cache = output.past_key_values
            yield token
            if token == ends or (isinstance(ends, list) and token in ends):
                return
            step = torch.tensor([[token]])
            seen = torch.cat([seen, torch.ones_like(seen[:, :1])], 1)

    def _rewrite(self, ids: Tensor, visible: Tensor, most: int, off: Mapping[str, Sequence[int]]) -> list[int]:
        """Return what an encoder-decoder writes by its own rules, from the start token of its decoder on."""
        with self._working(ids.shape[1] + most), _without(self.network, off):
            output = self.network.generate(  # type: ignore[operator]
                input_ids=ids, attention_mask=visible, max_new_tokens=max(most, 1), num_beams=1, do_sample=False
            )
        written: list[int] = output[0].tolist()
        return written

    def _text(self, ids: Sequence[int]) -> str:
        text: str = self.tokenizer.decode(ids, skip_special_tokens=True)
        return text

    # Looking

    def _look(
        self, text: str, ids: Tensor, visible: Tensor, new: Sequence[int], off: Mapping[str, Sequence[int]]
    ) -> Reading:
        """Watch one pass over the text and what was written."""
        target = torch.tensor([new[:-1]]) if self._pair else None
        whole = ids if self._pair else torch.cat([ids, torch.tensor([new], dtype=ids.dtype)], 1)
        seen = torch.cat([visible, visible.new_ones(1, whole.shape[1] - ids.shape[1])], 1)
        watching = watch(self.network, tokenizer=self.tokenizer, without=off)
        with self._working(whole.shape[1] + len(new)), watching as record:
            self._forward(whole, seen, target)
        if self._pair:
            written = Vocabulary(self.tokenizer).read(torch.tensor([new[1:]]))
            record = record if written is None else by_written_word(record, written)
        entries = list(record.values())
        self._names = [entry.name for entry in entries]
        return Reading(
            entries, text=text, written=self._text(new) if new else None, roles=roles(entries),
            note=_joined(_note_on_sinks(entries), _unseen(record)),
            more={"prompt": ids.shape[1]} if self.task == "generate" else None,
        )  # fmt: skip

    def _forward(self, ids: Tensor, visible: Tensor, target: Tensor | None) -> None:
        options = self._options(ids.shape[1], ids.shape[1], visible)
        if self._pair:
            start = getattr(self.network.config, "decoder_start_token_id", 0) or 0  # type: ignore[union-attr]
            options["decoder_input_ids"] = torch.tensor([[start]]) if target is None else target
        if "use_cache" in self._takes:
            options["use_cache"] = False
        self.network(input_ids=ids, attention_mask=visible, **options)

    def _options(self, tokens: int, new: int, visible: Tensor) -> dict[str, Any]:
        """Return further arguments: positions where tokens are hidden, as some models count visible tokens only."""
        options: dict[str, Any] = {"logits_to_keep": 1} if "logits_to_keep" in self._takes else {}
        if not (bool(visible.all()) or self._pair or "position_ids" not in self._takes):
            options["position_ids"] = torch.arange(tokens - new, tokens)[None]
        return options

    @contextmanager
    def _working(self, tokens: int) -> Iterator[None]:
        """Compute without gradients, in as many threads as the work is worth."""
        with torch.no_grad(), threads(tokens * self._size):
            yield


class RecordReader(Reader):
    """A record from a file, whose texts were read when it was made."""

    task = "record"

    def __init__(self, record: Record, name: str):
        self.name, self._record = name, record
        if not len(record):
            raise InputError(f"{name} has no attention in it.")
        reduced = [entry.name for entry in record.values() if entry.call is None]
        if reduced:
            raise InputError(
                f"{name} keeps only reductions of {some_of(reduced)}, no queries and keys to zoom into. Watch with "
                'keep="matrix", and save that record.'
            )
        count = min(entry.shape[0] for entry in record.values())
        self.parts = numbered([Part(partial(self._open, sequence)) for sequence in range(count)])

    def read(self, request: ReadRequest) -> Iterator[Event]:
        """Raise: a record cannot read another text."""
        raise InputError("this page shows a record: its text was read when it was made.")
        yield {}

    def _open(self, sequence: int) -> Reading:
        entries = [entry.text(sequence) for entry in self._record.values()]
        side = query_side(entries[0])
        text = "".join(readable(side[:_TOKENS])).strip()[:_TEXT] if side.named else ""
        note = _joined(_note_on_sinks(entries), _unseen(self._record))
        return Reading(entries, text=text, note=note, roles=roles(entries))


def open_model(name: str | None, *, trust_remote_code: bool = False) -> TranslatorReader | HuggingFaceReader:
    """Return the reader of a model: ours, a folder, a GGUF file, or a model of Hugging Face by its name."""
    if name is None:
        return TranslatorReader(Translator.default(), "English to French: the translator in this package")
    path = find_model(name)
    title = path.name if Path(name).exists() else name
    if (path / "config.json").is_file():
        config = model_folder.read_config(path)
        if config.get("format") == FORMAT or config.get("model_type") == "marian":
            return TranslatorReader(Translator.load(path), title)
    with progress("loading the model"):
        network, tokenizer = load(path, trust_remote_code=trust_remote_code)
    return HuggingFaceReader(network, tokenizer, title)
