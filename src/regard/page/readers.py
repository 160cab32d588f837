"""What reads a text: `Reader`, and the one for translators of regard's own."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import torch
from torch import Tensor

from regard.drawing.terminal import percent
from regard.errors import InputError
from regard.nn import MultiHeadAttention, Transformer
from regard.page.inside import kept_inputs
from regard.page.readings import Part, Reading
from regard.translation import Translation, Translator
from regard.watching import Entry
from regard.watching.rankings import key_side
from regard.watching.roles import roles
from regard.watching.sinks import find_sinks, named

__all__ = ["Asked", "Reader", "TranslatorReader", "note_on_sinks"]

Event = dict[str, Any]

_ROWS = 64  # of a long text, on which the share of a sink is measured


@dataclass(frozen=True)
class Asked:
    """A text to read, and what to change meanwhile."""

    text: str
    new_tokens: int
    hide: tuple[int, ...] = ()  # tokens of the text that nobody may look at
    off: tuple[tuple[int, int], ...] = ()  # heads that give nothing: (entry, head)


class Reader(Protocol):
    """A model, and how it reads."""

    name: str
    task: str  # "translate", "read" or "generate"
    languages: str
    examples: Sequence[str]

    def read(self, asked: Asked) -> Iterator[Event]:
        """Slices of work, each with an event for the visitor; the last is {"parts": […]}, of which the first is open."""


class TranslatorReader:
    """A translator of regard's own: the translation, and the attention of each sentence."""

    task = "translate"

    def __init__(self, translator: Translator, name: str):
        self.translator, self.name, self.languages = translator, name, translator.languages
        english = self.languages.startswith("en-")
        self.examples: Sequence[str] = _EXAMPLES if english else ()
        config = translator.model.config
        # In the order in which a record has them.
        self._entries = [f"encoder.layers.{n}.attention" for n in range(config.encoder_layers)]
        for n in range(config.decoder_layers):
            self._entries += [f"decoder.layers.{n}.attention", f"decoder.layers.{n}.cross"]

    def read(self, asked: Asked) -> Iterator[Event]:
        """Sentence by sentence where a paragraph is too long for the model."""
        start = time.perf_counter()
        text = re.sub(r"(?<!\n)\n(?!\n)", " ", asked.text)  # lines of a paragraph are read together
        off = self._off(asked.off)
        yield {"progress": "translating", "share": 0.0}
        stream, parts, written, read = self.translator.stream(text), [], "", 0
        while True:
            with changed(self.translator.model, asked.hide, off):  # not between two slices: other jobs come there
                translation = next(stream, None)
            if translation is None:
                break
            written, read = written + translation.text, read + len(translation.source)
            if translation.sentences and translation.tokens:
                parts.append(Part(partial(self._open, translation, asked.hide, off)))
            yield {"written": written, "share": round(min(0.9 * read / max(len(text), 1), 0.9), 3)}
        if not parts:
            raise InputError("there is nothing to look at: no word of the text was translated.")
        if len(parts) > 1 and asked.hide:
            raise InputError("tokens can be hidden in one sentence at a time: give it alone.")
        first = parts[0].open()
        first.took = time.perf_counter() - start
        parts[0].reading = first
        yield {"parts": parts}

    def _open(self, translation: Translation, hide: Sequence[int], off: Mapping[str, Sequence[int]]) -> Reading:
        start = time.perf_counter()
        with changed(self.translator.model, hide, off):
            confidence = translation.confidence
            with kept_inputs(self.translator.model, off) as inside:
                entries = list(translation.watch().values())
        note = note_on_sinks(entries)
        if self.languages.startswith("en-") and not translation.looks_english:
            note = f"This does not look like English, which is what the model reads. {note}".strip()
        return Reading(
            entries, text=translation.source, written=translation.text.strip(), confidence=round(confidence, 4),
            note=note, took=time.perf_counter() - start, roles=roles(entries), inside=inside,
        )  # fmt: skip

    def _off(self, heads: Sequence[tuple[int, int]]) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for entry, head in heads:
            if not (0 <= entry < len(self._entries) and 0 <= head < self.translator.model.config.heads):
                raise InputError(f"the model has no head {head} of entry {entry} to switch off.")
            found.setdefault(self._entries[entry], []).append(head)
        return found


_EXAMPLES = (
    "A dog ate the food because it was hungry.",
    "The old woman gave her son a book, and he read it at once.",
    "I did not see the man who sold you the car.",
)


@contextmanager
def changed(model: Transformer, hide: Sequence[int], off: Mapping[str, Sequence[int]]) -> Iterator[None]:
    """Meanwhile no query sees these tokens of the source, and these heads give nothing."""
    attentions = {name: m for name, m in model.named_modules() if isinstance(m, MultiHeadAttention)}
    before = {name: attentions[name].attend for name in off}
    try:
        for name, heads in off.items():
            attentions[name].attend = partial(_without, before[name], torch.tensor(heads))
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


def note_on_sinks(entries: Sequence[Entry], sequence: int = 0) -> str:
    """What rests on attention sinks, for each kind of attention, in words."""
    said = []
    for kind in dict.fromkeys(entry.kind for entry in entries):
        alike = [e for e in entries if e.kind == kind]
        alike = [e for e in alike if e.shape[2:] == alike[0].shape[2:]]
        keys = key_side(alike[0], sequence)
        sinks = find_sinks(alike, keys, sequence)
        step = max(alike[0].shape[2] // _ROWS, 1)
        rows = [entry.matrix.part[sequence, :, ::step] for entry in alike]
        shares = [sum(float(r.part[..., s : s + 1].to_dense().mean()) for r in rows) / len(rows) for s in sinks]
        said += [f"{percent(a.weight)} of {kind} attention rests on {a.name}." for a in named(sinks, shares, keys)]
    return " ".join(said)
