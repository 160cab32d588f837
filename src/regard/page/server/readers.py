"""What reads a text: `TranslatorReader`, `HuggingFaceReader`, and `RecordReader` for a saved record."""

from __future__ import annotations

import inspect
import math
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from regard.drawing.terminal import percent
from regard.drawing.viewer import readable
from regard.errors import InputError
from regard.nn import FORMAT, MultiHeadAttention, Transformer, model_folder
from regard.page.server.inside import kept_inputs
from regard.page.server.readings import Part, Reading
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

__all__ = ["Asked", "HuggingFaceReader", "Reader", "RecordReader", "TranslatorReader", "note_on_sinks", "open_model"]

Event = dict[str, Any]

_ROWS = 64  # of a long text, on which the share of a sink is measured
_RECENT = 8  # texts whose parts are remembered, so that another part of one is there at once
_EXAMPLES = (
    "A dog ate the food because it was hungry.",
    "The old woman gave her son a book, and he read it at once.",
    "I did not see the man who sold you the car.",
)


@dataclass(frozen=True)
class Asked:
    """A text to read, and what to change meanwhile."""

    text: str
    new_tokens: int = 32
    part: int = 0  # of a long text, which of its parts to look at
    hide: tuple[int, ...] = ()  # tokens of the text that nobody may look at
    off: tuple[tuple[int, int], ...] = ()  # heads that give nothing: (entry, head)


@runtime_checkable
class Reader(Protocol):
    """A model, and how it reads."""

    name: str
    task: str  # "translate", "read", "generate" or "record"
    languages: str
    examples: Sequence[str]

    def read(self, asked: Asked) -> Iterator[Event]:
        """Slices of work, each with an event for the visitor; the last is {"parts": […], "open": the one in use}."""


class TranslatorReader:
    """A translator of regard's own: the translation, and the attention of each sentence.

    >>> reader = TranslatorReader(Translator.default(), "ours")
    >>> events = list(reader.read(Asked("I am hungry.")))
    >>> events[1]["written"], events[-1]["open"].reading.entry(0).kind
    ("J'ai faim.", 'encoder')
    """

    task = "translate"

    def __init__(self, translator: Translator, name: str):
        self.translator, self.name, self.languages = translator, name, translator.languages
        self._english = self.languages.startswith("en-")
        self.examples: Sequence[str] = _EXAMPLES if self._english else ()
        config = translator.model.config
        # In the order in which a record has them.
        self._entries = [f"encoder.layers.{n}.attention" for n in range(config.encoder_layers)]
        for n in range(config.decoder_layers):
            self._entries += [f"decoder.layers.{n}.attention", f"decoder.layers.{n}.cross"]
        self._recent: OrderedDict[str, list[Part]] = OrderedDict()

    def read(self, asked: Asked) -> Iterator[Event]:
        """Sentence by sentence where a paragraph is too long for the model; changes are made to one of them."""
        start = time.perf_counter()
        text = re.sub(r"(?<!\n)\n(?!\n)", " ", asked.text)  # lines of a paragraph are read together
        off = self._off(asked.off)
        parts = self._recent.get(text) if asked.part or asked.hide or off else None
        if parts is not None:
            yield {"progress": "reading again", "share": 0.1}
        else:
            parts = yield from self._translate(text)
        if not asked.part < len(parts):
            raise InputError(f"the text has parts from 0 to {len(parts) - 1}. Got {asked.part}.")
        part = parts[asked.part]
        if asked.hide or off:
            changed_part = self._changed(part, asked.hide, off)
            changed_part.place, parts = part.place, [changed_part]
            part = changed_part
        if part.reading is None:
            part.reading = part.open()
            part.reading.took = time.perf_counter() - start
        yield {"parts": parts, "open": part}

    def _translate(self, text: str) -> Generator[Event, None, list[Part]]:
        """The parts of a text, translated."""
        yield {"progress": "translating", "share": 0.0}
        parts: list[Part] = []
        written, read = "", 0
        for translation in self.translator.stream(text):
            written, read = written + translation.text, read + len(translation.source)
            if translation.sentences and translation.tokens:
                parts.append(Part(partial(self._open, translation), about=translation))
            yield {"written": written, "share": round(0.9 * min(read / max(len(text), 1), 1), 3)}
        if not parts:
            raise InputError("there is nothing to look at: no word of the text was translated.")
        for n, part in enumerate(parts if len(parts) > 1 else ()):
            part.place = {"index": n, "count": len(parts), "ids": [each.id for each in parts]}
        self._recent[text] = parts
        while len(self._recent) > _RECENT:
            self._recent.popitem(last=False)
        return parts

    def _changed(self, part: Part, hide: Sequence[int], off: Mapping[str, Sequence[int]]) -> Part:
        """A part of a text translated anew, with tokens hidden and heads off."""
        before: Translation = part.about
        with changed(self.translator.model, hide, off):
            (after,) = self.translator.translate([before.source])
        note = ""
        if after.text.strip() != before.text.strip():
            # The usual search computes in int8, a changed model in float32: a difference may come from that alone.
            with changed(self.translator.model, (), {self._entries[0]: ()}):
                same = self.translator.translate(before.source).text.strip()
            if same != before.text.strip():
                note = f"Computed in float32, as here, the translation without the change is “{same}”."
        if not after.tokens:
            raise InputError("with this change the model writes nothing: change less.")
        return Part(partial(self._open, after, hide, off, note), about=after)

    def _open(
        self, translation: Translation, hide: Sequence[int] = (), off: Mapping[str, Sequence[int]] | None = None,
        note: str = "",
    ) -> Reading:  # fmt: skip
        start, off = time.perf_counter(), off or {}
        with changed(self.translator.model, hide, off):
            sure = translation.confidence
            confidence = round(sure, 4) if math.isfinite(sure) else None
            with kept_inputs(self.translator.model, off) as inside:
                # A copy, for a translation keeps its record as long as it lives, and this one lives on in its part.
                entries = list(replace(translation).watch().values())
        foreign = self._english and not translation.looks_english
        english = "This does not look like English, which is what the model reads." if foreign else ""
        head = self.translator.note if {"it", "dog"} <= set(translation.source_words) else ""
        return Reading(
            entries, text=translation.source, written=translation.text.strip(), confidence=confidence,
            note=" ".join(filter(None, (english, head, note_on_sinks(entries)))), took=time.perf_counter() - start,
            roles=roles(entries), inside=inside, more={"changed": note} if note else None,
        )  # fmt: skip

    def _off(self, heads: Sequence[tuple[int, int]]) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for entry, head in heads:
            if not (0 <= entry < len(self._entries) and 0 <= head < self.translator.model.config.heads):
                raise InputError(f"the model has no head {head} of entry {entry} to switch off.")
            found.setdefault(self._entries[entry], []).append(head)
        return found


@contextmanager
def changed(model: Transformer, hide: Sequence[int], off: Mapping[str, Sequence[int]]) -> Iterator[None]:
    """Meanwhile no query sees these tokens of the source, and these heads give nothing."""
    attentions = {name: m for name, m in model.named_modules() if isinstance(m, MultiHeadAttention)}
    before = {name: attentions[name].attend for name in off}
    try:
        for name, heads in off.items():
            attentions[name].attend = partial(_without, before[name], torch.tensor(heads, dtype=torch.long))
        if hide:
            model.enter = partial(_enter_hidden, model.enter, hide)  # type: ignore[method-assign]
        yield
    finally:
        for name, attend in before.items():
            attentions[name].attend = attend
        if hide:
            del model.enter


def _without(attend: Callable[..., Tensor], heads: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    return attend(*args, **kwargs).index_fill(1, heads, 0.0)


def _enter_hidden(enter: Callable[[Tensor], tuple[Tensor, Tensor]], hide: Sequence[int], source: Tensor) -> Any:
    x, visible = enter(source)
    if len(source) > 1 or not all(0 <= token < source.shape[1] for token in hide):
        raise InputError(f"the text has tokens from 0 to {source.shape[1] - 1}: one that is to be hidden is not there.")
    visible = visible.clone()
    visible[:, list(hide)] = False
    if not visible.any():
        raise InputError("all tokens are hidden: leave one.")
    return x, visible


def note_on_sinks(entries: Sequence[Entry]) -> str:
    """What rests on attention sinks, for each kind of attention, in words."""
    said = []
    for kind in dict.fromkeys(entry.kind for entry in entries):
        alike = [e for e in entries if e.kind == kind]
        alike = [e for e in alike if e.shape[2:] == alike[0].shape[2:]]
        keys = key_side(alike[0])
        sinks = find_sinks(alike, keys)
        step = max(alike[0].shape[2] // _ROWS, 1)
        rows = [entry.matrix.part[0, :, ::step] for entry in alike]
        shares = [sum(float(r.part[..., s : s + 1].to_dense().mean()) for r in rows) / len(rows) for s in sinks]
        said += [f"{percent(a.weight)} of {kind} attention rests on {a.name}." for a in named(sinks, shares, keys)]
    return " ".join(said)


_SLICE = 4  # tokens that are written before another visitor's turn
_TOKENS, _TEXT = 4096, 10_000  # tokens, characters of a record's text in an answer
_EXAMPLES_OF = {
    "read": ("A dog ate the food because it was hungry.", "The bank of the river was steeper than the bank was rich."),
    "generate": ("The capital of France is", "Once upon a time there was an old dog that"),
    "translate": ("A dog ate the food because it was hungry.",),
}


class HuggingFaceReader:
    """A model of transformers: one that reads, one that writes on, or one that writes another text."""

    languages = ""

    def __init__(self, network: nn.Module, tokenizer: Any, name: str):
        self.network, self.tokenizer, self.name = network, tokenizer, name
        config: Any = getattr(network, "config", None)
        self._pair = bool(getattr(config, "is_encoder_decoder", False))
        writes = bool(getattr(network, "can_generate", bool)())
        self.task = "translate" if self._pair else "generate" if writes else "read"
        self.examples: Sequence[str] = _EXAMPLES_OF[self.task]
        self._size = sum(parameter.numel() for parameter in network.parameters())
        self._takes = frozenset(inspect.signature(network.forward).parameters)
        self._names: list[str] = []  # of the entries, as in the last record

    def read(self, asked: Asked) -> Iterator[Event]:
        """The text read; where the model writes, token by token, it is read once more with what was written."""
        start = time.perf_counter()
        if asked.part:
            raise InputError(f"the text has one part, number 0. Got {asked.part}.")
        encoded = self.tokenizer(asked.text, return_tensors="pt")
        ids = encoded["input_ids"]
        if not ids.numel():
            raise InputError("the text is empty: type a sentence.")
        require_room(self.network, ids.shape[1] + (asked.new_tokens if self.task == "generate" else 0))
        visible = encoded["attention_mask"].clone() if "attention_mask" in encoded else torch.ones_like(ids)
        if not all(0 <= token < ids.shape[1] for token in asked.hide):
            raise InputError(
                f"the text has tokens from 0 to {ids.shape[1] - 1}: one that is to be hidden is not there."
            )
        visible[:, list(asked.hide)] = 0
        if not visible.any():
            raise InputError("all tokens are hidden: leave one.")
        if asked.off and not self._names:
            with self._working(ids.shape[1]), watch(self.network) as record:
                self._forward(ids, visible, None)
            self._names = list(record)
        off = self._off(asked.off)
        yield {"progress": "reading", "share": 0.1}
        new: list[int] = []
        if self.task == "generate":
            for token in self._write_on(ids, visible, asked.new_tokens, off):
                new.append(token)
                if len(new) % _SLICE == 0 or len(new) == 1:
                    yield {"written": self._text(new), "share": round(0.1 + 0.8 * len(new) / asked.new_tokens, 3)}
        elif self._pair:
            new = self._rewrite(ids, visible, asked.new_tokens, off)
            yield {"written": self._text(new), "share": 0.8}
        reading = self._look(asked.text, ids, visible, new, off)
        reading.took = time.perf_counter() - start
        part = Part(lambda: reading, reading=reading)
        yield {"parts": [part], "open": part}

    # Writing

    def _write_on(self, ids: Tensor, visible: Tensor, most: int, off: Mapping[str, Sequence[int]]) -> Iterator[int]:
        """The most probable token, again and again, until an end."""
        cache, step, seen = None, ids, visible
        ends = self._ends()
        for n in range(most):
            with self._working(step.shape[1]), self._without(off):
                more = {"logits_to_keep": 1} if "logits_to_keep" in self._takes else {}
                places = self._places(ids.shape[1] + n, step.shape[1], seen)
                given = self.network(
                    input_ids=step, attention_mask=seen, past_key_values=cache, use_cache=True, **places, **more
                )
            token = int(given.logits[0, -1].argmax())
            cache = given.past_key_values
            yield token
            if token in ends:
                return
            step = torch.tensor([[token]])
            seen = torch.cat([seen, torch.ones_like(seen[:, :1])], 1)

    def _rewrite(self, ids: Tensor, visible: Tensor, most: int, off: Mapping[str, Sequence[int]]) -> list[int]:
        """What a model of two texts writes, with the start of its decoder: by its own rules, which are many."""
        with self._working(ids.shape[1] + most), self._without(off):
            found = self.network.generate(  # type: ignore[operator]
                input_ids=ids, attention_mask=visible, max_new_tokens=max(most, 1), num_beams=1, do_sample=False
            )
        written: list[int] = found[0].tolist()
        return written

    def _ends(self) -> frozenset[int]:
        ends = getattr(getattr(self.network, "generation_config", None), "eos_token_id", None)
        return frozenset() if ends is None else frozenset([ends] if isinstance(ends, int) else ends)

    def _text(self, ids: Sequence[int]) -> str:
        text: str = self.tokenizer.decode(ids, skip_special_tokens=True)
        return text

    # Looking

    def _look(
        self, text: str, ids: Tensor, visible: Tensor, new: Sequence[int], off: Mapping[str, Sequence[int]]
    ) -> Reading:
        """One pass over all of it, watched."""
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
        unseen = f"Not seen: {some_of(record.unseen)}." if record.unseen else ""
        return Reading(
            entries, text=text, written=self._text(new) if new else None, roles=roles(entries),
            note=" ".join(filter(None, (note_on_sinks(entries), unseen))),
            more={"prompt": ids.shape[1]} if self.task == "generate" else None,
        )  # fmt: skip

    def _forward(self, ids: Tensor, visible: Tensor, target: Tensor | None) -> None:
        more: dict[str, Any] = {"logits_to_keep": 1} if "logits_to_keep" in self._takes else {}
        more |= self._places(ids.shape[1], ids.shape[1], visible)
        if self._pair:
            start = getattr(self.network.config, "decoder_start_token_id", 0) or 0  # type: ignore[union-attr]
            more["decoder_input_ids"] = torch.tensor([[start]]) if target is None else target
        if "use_cache" in self._takes:
            more["use_cache"] = False
        self.network(input_ids=ids, attention_mask=visible, **more)

    def _places(self, tokens: int, new: int, visible: Tensor) -> dict[str, Tensor]:
        """Positions, where tokens are hidden: some models count only those that are not."""
        if bool(visible.all()) or self._pair or "position_ids" not in self._takes:
            return {}
        return {"position_ids": torch.arange(tokens - new, tokens)[None]}

    def _off(self, heads: Sequence[tuple[int, int]]) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for entry, head in heads:
            if not 0 <= entry < len(self._names):
                raise InputError(f"the model has no entry {entry} whose heads could be off.")
            if "#" in self._names[entry]:
                raise InputError("this model has one module for several layers: a head of one of them cannot be off.")
            found.setdefault(self._names[entry], []).append(head)
        return found

    def _without(self, off: Mapping[str, Sequence[int]]) -> Any:
        return watch(self.network, keep="entropy", without=off) if off else nullcontext()

    @contextmanager
    def _working(self, tokens: int) -> Iterator[None]:
        """No gradients, and as many threads as it is worth."""
        with torch.no_grad(), threads(tokens * self._size):
            yield


class RecordReader:
    """A record from a file: nothing is read, everything is looked at."""

    task, languages = "record", ""
    examples: Sequence[str] = ()

    def __init__(self, record: Record, name: str):
        self.name = name
        self._entries = list(record.values())
        self._unseen = record.unseen
        if not self._entries:
            raise InputError(f"{name} has no attention in it.")
        reduced = [entry.name for entry in self._entries if entry.call is None]
        if reduced:
            raise InputError(
                f"{name} keeps only reductions of {some_of(reduced)}, no queries and keys to zoom into. Watch with "
                'keep="matrix", and save that record.'
            )
        count = min(entry.shape[0] for entry in self._entries)
        self.parts = [Part(partial(self._open, sequence)) for sequence in range(count)]
        for n, part in enumerate(self.parts if count > 1 else ()):
            part.place = {"index": n, "count": count, "ids": [each.id for each in self.parts]}

    def read(self, asked: Asked) -> Iterator[Event]:
        """Nothing: the text of a record is read already."""
        raise InputError("this page shows a record: its text was read when it was made.")
        yield {}

    def _open(self, sequence: int) -> Reading:
        start = time.perf_counter()
        unseen = f"Not seen: {some_of(self._unseen)}." if self._unseen else ""
        entries = [entry.text(sequence) for entry in self._entries]
        note = " ".join(filter(None, (note_on_sinks(entries), unseen)))
        side = query_side(entries[0])
        text = "".join(readable(side[:_TOKENS])).strip()[:_TEXT] if side.named else ""
        found = Reading(entries, text=text, note=note, roles=roles(entries))
        found.took = time.perf_counter() - start
        return found


def open_model(name: str | None, *, trust_remote_code: bool = False) -> TranslatorReader | HuggingFaceReader:
    """The reader of a model: ours, one in a folder or a GGUF file, or one that is found by its name."""
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
