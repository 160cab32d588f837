"""`effect`: what changes in a model's output, in its next tokens and in its answer without some heads or links."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from regard.drawing.terminal import html_table, percent, told_apart, visible
from regard.errors import InputError
from regard.nn import Transformer
from regard.support import Float, one_of, progress, whole
from regard.watching.capture.links import Link, Seen, Without
from regard.watching.capture.session import Watching
from regard.watching.questions.looks import Answer, named_spans
from regard.watching.record.reductions import Keep
from regard.watching.record.tokens import Place, Tokens, Vocabulary

if TYPE_CHECKING:
    from regard.drawing import Picture

__all__ = ["Effect", "Effects", "Inputs", "Moved", "Output", "Subject", "effect", "effects", "words_of"]

Inputs = Tensor | Mapping[str, Any] | Sequence[Any]
_NEXT = 5  # next tokens that are listed
_BARS = 40  # tokens up to which each has a bar
_WIDTH = 24  # cells of a token in a table
_ANSWER = 300  # of an answer


@dataclass(frozen=True, eq=False, repr=False)
class Effect:
    """A model's output before and after a change: logits, or hidden states where it has none.

    Printed, it says what was changed, how far the output moved, which next tokens gained and lost, and what the model
    wrote; in a notebook it is a table.
    """

    before: Float[Tensor, "batch tokens width"]
    after: Float[Tensor, "batch tokens width"]
    logits: bool
    changes: tuple[str, ...] = ()  # what was changed: a sentence for each
    tokens: Sequence[Tokens] | None = None  # of the text, if they are known
    tokenizer: Any = None
    position: int = -1  # the token whose prediction is listed
    answers: tuple[tuple[str, ...], tuple[str, ...]] | None = None  # before and after, one for each text

    @property
    def difference(self) -> float:
        """The largest change of any number."""
        return float((self.after - self.before).abs().max())

    @property
    def divergence(self) -> Float[Tensor, "batch tokens"]:
        """How far the predictions moved at each token: Σ p log(p / p'), in nats."""
        if not self.logits:
            raise InputError("only a model that predicts tokens has a divergence. Use .moves.")
        before, after = self.before.float().log_softmax(-1), self.after.float().log_softmax(-1)
        return (before.exp() * (before - after)).sum(-1).clamp_min(0.0)

    @property
    def moves(self) -> Float[Tensor, "batch tokens"]:
        """How far the vector of each token moved, as a share of its length."""
        before = self.before.float()
        moved: Tensor = (self.after.float() - before).norm(dim=-1) / before.norm(dim=-1).clamp_min(1e-12)
        return moved

    def moved(self, position: int | None = None, sequence: int = 0, k: int = _NEXT) -> list[tuple[int, float, float]]:
        """(token id, probability before, after) of the next tokens that changed most at one position."""
        if not self.logits:
            raise InputError("only a model that predicts tokens has probabilities. Use .moves.")
        place = self.position if position is None else position
        before, after = (x[sequence, place].float().softmax(-1) for x in (self.before, self.after))
        ids = (after - before).abs().topk(min(k, len(before))).indices
        return [(int(n), float(before[n]), float(after[n])) for n in ids]

    def __str__(self) -> str:
        lines = [*self.changes, self._summary()]
        if self.logits:
            rows = [(visible(spelt(self.tokenizer, n), _WIDTH), percent(a), percent(b)) for n, a, b in self.moved()]
            width = max(len(name) for name in (self._asked(), *(row[0] for row in rows)))
            lines.append(f"{self._asked():<{width}}  {'before':>8} {'after':>8}")
            lines += [f"{token:<{width}}  {before:>8} {after:>8}" for token, before, after in rows]
        if self.answers is not None:
            before, after = (visible(texts[0], _ANSWER) for texts in self.answers)
            lines += [f"before: {before}", f"after:  {after if after != before else 'the same'}"]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return str(self)

    def _summary(self) -> str:
        if self.logits:
            return (
                f"the output changed by {self.difference:.3g} at most, predictions by "
                f"{float(self.divergence.mean()):.3g} nats a token"
            )
        return f"the output changed by {self.difference:.3g} at most, a vector by {percent(float(self.moves.mean()))}"

    def _asked(self) -> str:
        """What the next tokens come after."""
        word = self._word(self.position)
        return f'after "{visible(word, _WIDTH - 8)}"' if word else "next token"

    def _word(self, position: int) -> str:
        """The word at a place of the output, which may have the last tokens only."""
        if self.tokens is None or not self.tokens[0].named:
            return ""
        outputs, tokens = self.before.shape[1], self.tokens[0]
        place = len(tokens) - outputs + position % outputs
        return tokens.word_at(place).text if 0 <= place < len(tokens) else ""

    def _repr_html_(self) -> str:
        caption = "; ".join([*self.changes, self._summary()])
        table = html_table([], caption=caption)
        if self.logits:
            rows = [(spelt(self.tokenizer, n), before, after) for n, before, after in self.moved(k=2 * _NEXT)]
            table = html_table(rows, (self._asked(), "before", "after"), caption=caption)
        if self.answers is not None:
            answers = [(name, texts[0]) for name, texts in zip(("before", "after"), self.answers, strict=True)]
            table += html_table(answers, ("", "what it wrote"))
        return table

    def picture(self, sequence: int = 0, title: str = "") -> Picture:
        """How far each token moved: its prediction, in nats, or its vector, as a share of its length.

        >>> import torch
        >>> print(Effect(torch.ones(1, 2, 3), torch.tensor([[[1.0, 1, 1], [1, 1, 0.5]]]), logits=False).picture())
        0  0
        1  ━━━━━━━━━━━━━━━━━━━━━━━━ 0.289
        How far each vector moved, as a share of its length.
        """
        from regard.drawing import bars, curves

        moved = (self.divergence if self.logits else self.moves)[sequence].double().cpu().numpy()
        what = "prediction moved, in nats" if self.logits else "vector moved, as a share of its length"
        caption = " ".join([f"How far each {what}.", *(f"{said}." for said in self.changes)])
        if len(moved) > _BARS:
            return curves({"moved": (np.arange(len(moved)), moved)}, title=title, caption=caption)
        return bars(dict(zip(self._names(len(moved)), moved.tolist(), strict=True)), title=title, caption=caption)

    def _names(self, count: int) -> list[str]:
        """A name for each place; a repeated word by its number too."""
        if self.tokens is None or not self.tokens[0].named or len(self.tokens[0]) < count:
            return [str(n) for n in range(count)]
        return list(told_apart(words_of(self.tokens[0])[-count:]))


def words_of(tokens: Tokens) -> list[str]:
    """A name for each token: its word, and its own spelling where the word has several tokens."""
    names = []
    for word in tokens.words:
        alone = word.stop - word.start == 1
        names += [word.text if alone else tokens[place].lstrip("Ġ▁") for place in word.tokens]
    return names


def spelt(tokenizer: Any, number: int) -> str:
    """A token id as text."""
    if tokenizer is None:
        return f"token {number}"
    if hasattr(tokenizer, "decode"):
        return repr(str(tokenizer.decode([number])))
    return str(tokenizer.convert_ids_to_tokens([number])[0])


def effect(
    model: nn.Module,
    inputs: Inputs,
    *,
    without: Without | None = None,
    steer: Mapping[Link, float] | None = None,
    renormalise: bool = True,
    tokenizer: Any = None,
    tokens: Sequence[str] | Sequence[Sequence[str]] | None = None,
    generate: int | Mapping[str, Any] | None = None,
) -> Effect:
    """Run a model as it is and without some heads or links, or with links steered: what does that change?

    `inputs` are the model's: a tensor, a dict of keyword arguments, or several in a row. The rest is as in `watch`.
    `generate`: also what it writes, so many tokens, or options of its `generate`.

    >>> import torch, regard
    >>> class Layer(torch.nn.Module):
    ...     heads, kind, attend = 1, "encoder", staticmethod(regard.attention)
    ...     def forward(self, x):
    ...         return self.attend(x, x, x)[:, 0]
    >>> effect(Layer(), torch.eye(4)[None, None], without=regard.Link("it", "dog"), tokens=["A", "dog", "ate", "it"])
    it → dog is cut: the other weights are normalised to 1 again
    the output changed by 0.215 at most, a vector by 12.2 %
    """
    subject = Subject(model, inputs, Vocabulary(tokenizer, tokens))
    before = subject.run()
    watching = subject.changed()
    watching.changes.add(without, steer, renormalise)
    with watching:
        after = subject.run()
    answers = None
    if generate is not None:
        options = {"max_new_tokens": generate} if isinstance(generate, int) else dict(generate)
        first = subject.generate(options, tokenizer)
        with watching:
            answers = first, subject.generate(options, tokenizer)
    return Effect(
        before.tensor, after.tensor, before.logits, tuple(watching.changes), watching.tokens, tokenizer,
        subject.last_token(before.tensor), answers,
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Output:
    """What a model gave: logits or hidden states."""

    tensor: Float[Tensor, "batch tokens width"]
    logits: bool


class Subject:
    """A model and its inputs, run again and again with changes."""

    def __init__(self, model: nn.Module, inputs: Inputs, vocabulary: Vocabulary):
        if not isinstance(model, nn.Module):
            raise InputError(f"effect takes a torch module. Got {type(model).__name__}.")
        self.model, self._vocabulary = model, vocabulary
        self.args: tuple[Any, ...] = ()
        self.kwargs: dict[str, Any] = {}
        if isinstance(inputs, Tensor):
            self.args = (inputs,)
        elif isinstance(inputs, Mapping):  # what a tokenizer returns is one
            self.kwargs = dict(inputs)
        else:
            self.args = tuple(inputs)

    def changed(self, texts: int = 1) -> Watching:
        """The model in a `with` block that changes it and records nothing; each of its texts so many times in a row."""
        return Watching(self.model, self._vocabulary.repeated(texts), Keep(()))

    def run(
        self, options: Mapping[str, Any] | None = None, repeat: Callable[[Any], Any] = lambda given: given
    ) -> Output:
        """What the model gives; `repeat` is applied to each of its inputs."""
        with torch.no_grad():
            args, kwargs = [repeat(given) for given in self.args], {n: repeat(x) for n, x in self.kwargs.items()}
            return self._output(self.model(*args, **kwargs | dict(options or {})))

    def generate(self, options: Mapping[str, Any], tokenizer: Any) -> tuple[str, ...]:
        """What the model writes: the most probable token each time, unless the options say otherwise."""
        if not hasattr(self.model, "generate"):
            raise InputError(f"{type(self.model).__name__} has no generate: its answer cannot be compared.")
        given = {name: x for name, x in self.kwargs.items() if name not in ("labels", "decoder_input_ids")}
        with torch.no_grad():
            write: Any = self.model.generate
            ids = write(*self.args, **given, **{"do_sample": False, "num_beams": 1} | dict(options))
        written = getattr(ids, "sequences", ids)
        prompt = given.get("input_ids", self.args[0] if self.args else None)
        begun = 0 if prompt is None else prompt.shape[1]
        if getattr(getattr(self.model, "config", None), "is_encoder_decoder", False):
            begun = 1  # the token that starts the decoder
        written = written[:, begun:]
        if hasattr(tokenizer, "batch_decode"):
            return tuple(tokenizer.batch_decode(written, skip_special_tokens=True))
        return tuple(" ".join(map(str, row)) for row in written.tolist())

    def last_token(self, output: Tensor) -> int:
        """The place of the last token of the first text that is not padding."""
        mask = self.kwargs.get("attention_mask")
        fits = isinstance(mask, Tensor) and mask.dim() == 2 and mask.shape[1] == output.shape[1] and bool(mask[0].any())
        return int(mask[0].nonzero()[-1]) if fits and mask is not None else output.shape[1] - 1

    def _output(self, output: Any) -> Output:
        found, logits = output, isinstance(self.model, Transformer)
        if not isinstance(output, Tensor):
            names = [n for n in ("logits", "last_hidden_state") if isinstance(getattr(output, n, None), Tensor)]
            if not names:
                raise InputError(f"effect reads logits or last_hidden_state. Got {type(output).__name__}.")
            found, logits = getattr(output, names[0]), names[0] == "logits"
        found = found[:, None] if found.dim() == 2 else found
        return Output(found.detach().flatten(1, -2), logits)


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
class Effects(Answer[Moved]):
    """What each of many changes does to the output, the largest effect first.

    >>> print(Effects("without each word", (Moved("dog", 0.7, 0.5, 0.25),), "nats", "' hungry'"))
    without each word: how far the output moved
    dog   0.7 nats   ' hungry' 50 % → 25 %
    """

    about: str
    items: tuple[Moved, ...]
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
        if not self.items or any(one.head is None for one in self):
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
