"""`effects`: what changes without each head, each layer or each span of a text, many variants in one batch."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from torch import Tensor, nn

from regard.drawing.html_table import html_table
from regard.drawing.terminal import percent, visible
from regard.errors import InputError
from regard.support import one_of, progress, whole
from regard.watching.capture.changes import Without
from regard.watching.capture.links import Link
from regard.watching.capture.passes import Seen
from regard.watching.capture.session import Watching
from regard.watching.questions.answers import Ranking
from regard.watching.questions.comparison import Inputs, Output, Subject, spelt
from regard.watching.questions.rankings import named_spans
from regard.watching.record.tokens import Place, Tokens, Vocabulary

if TYPE_CHECKING:
    from regard.drawing import Picture

__all__ = ["Effects", "Moved", "effects"]

_BY = ("head", "layer", "word", "sentence", "message")
_LINES, _ROWS, _NAME = 10, 20, 40  # printed at most, rows of a table in a notebook, cells of a name


class Moved(NamedTuple):
    """How far the output moved without one head, layer or span; and the probability of the answer, before and after."""

    name: str
    change: float  # in nats, or as a share of the length of a vector
    before: float | None = None
    after: float | None = None
    layer: int | None = None
    head: int | None = None


@dataclass(frozen=True, repr=False)
class Effects(Ranking[Moved]):
    """What each of many changes does to the output, the largest effect first.

    >>> print(Effects("without each word", (Moved("dog", 0.7, 0.5, 0.25),), "nats", "' hungry'"))
    without each word: how far the output moved
    dog   0.7 nats   ' hungry' 50 % → 25 %
    """

    about: str
    found: tuple[Moved, ...]
    unit: str  # "nats", or "" for a share of the length of a vector
    answer: str = ""  # the token whose probability is given

    def __str__(self) -> str:
        shown = [(visible(one.name, _NAME), self._size(one.change), self._answered(one)) for one in self[:_LINES]]
        width, size = (max((len(row[n]) for row in shown), default=0) for n in (0, 1))
        lines = [f"{name:<{width}}  {change:>{size}}   {answer}".rstrip() for name, change, answer in shown]
        more = [f"… and {len(self) - _LINES} more"] if len(self) > _LINES else []
        return "\n".join([f"{self.about}: how far the output moved", *lines, *more])

    def _size(self, change: float) -> str:
        return f"{change:.2g} nats" if self.unit else percent(change)

    def _answered(self, one: Moved) -> str:
        if one.before is None or one.after is None:
            return ""
        return f"{visible(self.answer, _NAME)} {percent(one.before)} → {percent(one.after)}"

    def _repr_html_(self) -> str:
        rows = [(one.name, self._size(one.change), one.before, one.after) for one in self[:_ROWS]]
        columns = ("without", "moved", f"{self.answer} before", "after")
        if all(one.before is None for one in self):
            rows, columns = [row[:2] for row in rows], columns[:2]  # type: ignore[misc,assignment]
        return html_table(rows, columns, caption=self.about, more=len(self) - _ROWS)

    def picture(self, title: str = "") -> Picture:
        """Heads as a map of layers and heads, anything else as bars."""
        from regard.drawing import bars, matrix

        unit = self.unit or "as a share of a vector's length"
        if not self.found or any(one.head is None for one in self):
            said = f"{self.about}: how far the output moved, {unit}."
            return bars({one.name: one.change for one in self[:_ROWS]}, title=title, caption=said)
        layers = sorted({one.layer for one in self if one.layer is not None})
        numbers = np.zeros((len(layers), 1 + max(one.head or 0 for one in self)))
        for one in self:
            numbers[layers.index(one.layer or 0), one.head or 0] += one.change
        largest = float(numbers.max()) or 1.0
        said = f"{self.about}: how far the output moved. 100 % is {self._size(largest)}."
        names = [f"layer {layer}" for layer in layers], [str(head) for head in range(numbers.shape[1])]
        return matrix(numbers / largest, *names, title=title, caption=said)


class _Variant(NamedTuple):
    name: str
    without: Without
    layer: int | None = None
    head: int | None = None


def effects(
    model: nn.Module,
    inputs: Inputs,
    by: str | Mapping[str, Any] = "head",
    *,
    at: Place | None = None,
    answer: str | int | None = None,
    layers: Collection[int] | None = None,
    kind: str | None = None,
    renormalise: bool = True,
    batch: int = 16,
    tokenizer: Any = None,
    tokens: Sequence[str] | None = None,
) -> Effects:
    """Run a model without each head in turn, and see what changes: so many at a time, as texts of one batch.

    `by`: "head", "layer", or a span of the text that no other token may see: each "word", "sentence" or chat "message",
    or {name: place, `Link`, heads by module, or a list of these}. `at`: the token whose prediction, or vector, is
    compared; by default the last one of a model that writes, all of any other. `answer`: the next token whose
    probability is given, by default the most probable one. `layers` and `kind` choose where heads are removed and
    spans hidden.

    >>> import torch, regard
    >>> class Layer(torch.nn.Module):
    ...     heads, kind, attend = 2, "encoder", staticmethod(regard.attention)
    ...     def forward(self, x):
    ...         return self.attend(x, x, x).transpose(1, 2).flatten(2)
    >>> found = effects(Layer(), torch.eye(3).expand(1, 2, 3, 3), by="word", at="it", tokens=["A", "dog", "it"])
    >>> [one.name for one in found]
    ['A', 'dog', 'it']
    """
    if isinstance(by, str):
        one_of("by", by, _BY)
    if whole("batch", batch) < 1:
        raise InputError(f"batch must be at least 1. Got {batch}.")
    subject = Subject(model, inputs, Vocabulary(tokenizer, tokens))
    options = {"logits_to_keep": 1} if at is None and _keeps_last(model, subject) else {}
    plain = subject.changed()
    with plain:
        before = subject.run(options)
    if len(before.tensor) != 1:
        raise InputError(f"effects compares variants of one text. Got a batch of {len(before.tensor)}.")
    variants = _variants(by, plain, layers, kind)
    compare = _Comparison(before, plain, at, answer, tokenizer)
    found: list[Moved] = []
    with progress("comparing", total=len(variants)) as advance:
        for start in range(0, len(variants), batch):
            some = variants[start : start + batch]
            changed = subject.changed(len(some))
            for text, variant in enumerate(some):
                changed.changes.add(variant.without, renormalise=renormalise, text=text)
            with changed:
                after = subject.run(options, functools.partial(_repeated, count=len(some)))
            for variant, moved in zip(some, compare(after), strict=True):
                found.append(Moved(variant.name, *moved, variant.layer, variant.head))
            advance(len(some))
    about = f"without each {by}" if isinstance(by, str) else f"without each of {len(variants)}"
    ranked = tuple(sorted(found, key=lambda one: -one.change))
    return Effects(about, ranked, "nats" if before.logits else "", compare.answer)


def _keeps_last(model: nn.Module, subject: Subject) -> bool:
    """Whether the model writes text and can give the logits of its last token only."""
    return "logits_to_keep" in inspect.signature(model.forward).parameters and "logits_to_keep" not in subject.kwargs


def _repeated(given: Any, count: int) -> Any:
    if not isinstance(given, Tensor) or given.dim() == 0:
        return given
    if given.shape[0] != 1:
        raise InputError(f"effects compares variants of one text: inputs (1, …). Got {tuple(given.shape)}.")
    return given.repeat_interleave(count, 0)


# The variants


def _variants(
    by: str | Mapping[str, Any], plain: Watching, layers: Collection[int] | None, kind: str | None
) -> list[_Variant]:
    chosen = {
        name: seen
        for name, seen in plain.seen.items()
        if "#" not in name and kind in (None, seen.kind) and (layers is None or seen.layer in layers)
    }
    if not chosen:
        raise InputError(f"no attention of layers = {layers}, kind = {kind} was seen.")
    if by == "head":
        return [
            _Variant(f"{_called(name, seen, chosen)} head {head}", {name: [head]}, seen.layer, head)
            for name, seen in chosen.items()
            for head in range(seen.heads)
        ]
    if by == "layer":
        return [
            _Variant(_called(name, seen, chosen), {name: range(seen.heads)}, seen.layer)
            for name, seen in chosen.items()
        ]
    if not isinstance(by, str):
        spans = {name: (given if isinstance(given, range) else range(*given) if isinstance(given, tuple) else given)
                 for name, given in by.items()}  # fmt: skip
        return [
            _Variant(name, given if not isinstance(given, str | int | range) else _hidden(given, chosen, layers, kind))
            for name, given in spans.items()
        ]
    keys = next(iter(chosen.values())).sides[1][0]
    if not keys.named:
        raise InputError(f"the words of the text are not known: give tokenizer=… or tokens=[…], or spans. Got {by!r}.")
    return [_Variant(name, _hidden(span, chosen, layers, kind)) for name, span in named_spans(keys, by).items()]


def _called(name: str, seen: Seen, chosen: Mapping[str, Seen]) -> str:
    """A layer by its number, and by its kind where there are several."""
    kinds = {other.kind for other in chosen.values()}
    alike = [other for other, each in chosen.items() if (each.layer, each.kind) == (seen.layer, seen.kind)]
    if len(alike) > 1:  # a vision tower and a language model, say
        return name
    return f"layer {seen.layer}" if len(kinds) == 1 else f"{seen.kind}, layer {seen.layer}"


def _hidden(place: Place, chosen: Mapping[str, Seen], layers: Collection[int] | None, kind: str | None) -> list[Link]:
    """Links that hide a place from all tokens outside of it; in cross-attention, from all."""
    seen = next(iter(chosen.values()))
    where: dict[str, Any] = {"layers": layers, "kind": kind}
    if seen.kind == "cross":
        return [Link(None, place, **where)]
    found: list[Link] = []
    for span in seen.sides[1][0].find_all(place):
        found += [Link(slice(0, span.start), span, **where)] if span.start else []
        found.append(Link(slice(span.stop, None), span, **where))
    return found


# The comparison


class _Comparison:
    """How far each variant moved from the plain output; with logits, what it did to the probability of the answer."""

    def __init__(self, before: Output, plain: Watching, at: Place | None, answer: str | int | None, tokenizer: Any):
        count = before.tensor.shape[1]
        self._rows = _rows(at, plain, count)
        self._logits, self.answer = before.logits, ""
        self._before = before.tensor[:, self._rows].float()
        if before.logits:
            self._before = self._before.log_softmax(-1)
            self._token = _token(answer, self._before[0, -1], tokenizer)
            self.answer = spelt(tokenizer, self._token)
        elif answer is not None:
            raise InputError(f"the model predicts no tokens, so that none has a probability. Got answer = {answer!r}.")

    def __call__(self, after: Output) -> list[tuple[float, float | None, float | None]]:
        changed = after.tensor[:, self._rows].float()
        if not self._logits:
            moved = (changed - self._before).norm(dim=-1) / self._before.norm(dim=-1).clamp_min(1e-12)
            return [(share, None, None) for share in moved.mean(-1).tolist()]
        changed = changed.log_softmax(-1)
        nats = (self._before.exp() * (self._before - changed)).sum(-1).mean(-1).clamp_min(0.0)
        was = float(self._before[0, -1, self._token].exp())
        now = changed[:, -1, self._token].exp().tolist()
        return [(far, was, one) for far, one in zip(nats.tolist(), now, strict=True)]


def _rows(at: Place | None, plain: Watching, count: int) -> list[int]:
    """The places of the output that are compared."""
    writes = any(seen.kind == "decoder" for seen in plain.seen.values())
    if at is None:
        return [count - 1] if writes else list(range(count))
    tokens: Tokens | None = None if plain.tokens is None else plain.tokens[0]
    if tokens is None or len(tokens) != count:
        tokens = Tokens.numbered(count)
    return list(tokens.find(at))


def _token(answer: str | int | None, before: Tensor, tokenizer: Any) -> int:
    if answer is None:
        return int(before.argmax())
    if isinstance(answer, str):
        if tokenizer is None:
            raise InputError(f"answer = {answer!r} needs a tokenizer; or give the id of a token.")
        ids = list(tokenizer.encode(answer, add_special_tokens=False))
        if not ids:
            raise InputError(f"answer must be a token. Got {answer!r}.")
        return int(ids[0])
    number = whole("answer", answer)
    if not 0 <= number < len(before):
        raise InputError(f"answer is the id of a token, from 0 to {len(before) - 1}. Got {number}.")
    return number
