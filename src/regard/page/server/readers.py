"""What reads a text: `Reader`, and the one for translators of regard's own."""

from __future__ import annotations

import math
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from regard.drawing.terminal import percent
from regard.errors import InputError
from regard.nn import MultiHeadAttention, Transformer
from regard.page.server.inside import kept_inputs
from regard.page.server.readings import Part, Reading
from regard.translation import Translation, Translator
from regard.watching import Entry
from regard.watching.questions.atlas import roles
from regard.watching.questions.looks import key_side
from regard.watching.questions.sinks import find_sinks, named

__all__ = ["Asked", "Reader", "TranslatorReader", "note_on_sinks"]

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
