"""`effect`: what changes in a model's output, in its next tokens and in its answer without some heads or links."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from itertools import islice, product, zip_longest
from typing import Any, NamedTuple

import numpy as np
import torch
from rich.text import Text
from torch import Tensor, nn

from regard.drawing import Picture, bars, curves, lines, matrix
from regard.drawing.svg import Canvas, measure
from regard.drawing.terminal import html_table, percent, told_apart, visible
from regard.errors import InputError
from regard.nn import Transformer
from regard.support import Float, one_of, progress, some_of, whole
from regard.watching.capture.activations import PARTS, Activation, Activations, Replacement, Run
from regard.watching.capture.links import Link, Seen, Without
from regard.watching.capture.session import Watching
from regard.watching.questions.estimates import FROZEN, Joined, Slopes, Variant, graph_of_activations, wide
from regard.watching.questions.looks import Answer, Span, named_spans
from regard.watching.questions.why import run_again, spelt, token_id
from regard.watching.record.record import Record
from regard.watching.record.reductions import Keep
from regard.watching.record.tokens import Place, Tokens, Vocabulary

By = str | Sequence[str] | Mapping[str, Any]
Inputs = Tensor | Mapping[str, Any] | Sequence[Any]
Source = Record | Sequence[Record]
_NEXT = 5  # next tokens that are listed
_BARS = 40  # tokens up to which each has a bar
_WIDTH, _NAME = 24, 40  # terminal cells of a token in a table, of a name
_ANSWER = 300  # characters of an answer
_PARTS = {"head": "output", "layer": "output"} | {part: part for part in PARTS[1:]}  # what changes of a head
_BY = (*_PARTS, "link", "word", "sentence", "message")
_LINES, _ROWS = 10, 20  # at most: printed lines, rows of a table in a notebook or picture
_BAR = 150.0  # pixels of the largest bar of a picture


@dataclass(frozen=True, eq=False, repr=False)
class Effect:
    """A model's output before and after a change: logits, or hidden states where it has none.

    Printed, it says what was changed, how far the output moved, which next tokens gained and lost, and what the model
    wrote; in a notebook it is a table.
    """

    before: Float[Tensor, "batch tokens width"]
    after: Float[Tensor, "batch tokens width"]
    logits: bool
    changes: tuple[str, ...] = ()  # a sentence for each change
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
        return _distance(self.before, self.after, logits=True)

    @property
    def moves(self) -> Float[Tensor, "batch tokens"]:
        """How far the vector of each token moved, as a share of its length."""
        return _distance(self.before, self.after, logits=False)

    def moved(self, position: int | None = None, sequence: int = 0, k: int = _NEXT) -> list[tuple[int, float, float]]:
        """Return the next tokens that changed most at one position: (token id, probability before, after)."""
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
            lines += _aligned([(self._place(), "before", "after"), *rows])
        if self.answers is not None:
            before, after = (visible(texts[0], _ANSWER) for texts in self.answers)
            lines += [f"before: {before}", f"after:  {after if after != before else 'the same'}"]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return str(self)

    def _summary(self) -> str:
        mean = float((self.divergence if self.logits else self.moves).mean())
        moved = f"predictions by {mean:.3g} nats a token" if self.logits else f"a vector by {percent(mean)}"
        return f"the output changed by {self.difference:.3g} at most, {moved}"

    def _place(self) -> str:
        """Return the word after which the next tokens come; the output may have the last tokens only."""
        if self.tokens is None or not self.tokens[0].named:
            return "next token"
        outputs, tokens = self.before.shape[1], self.tokens[0]
        place = len(tokens) - outputs + self.position % outputs
        known = 0 <= place < len(tokens)
        return f'after "{visible(tokens.word_at(place).text, _WIDTH - 8)}"' if known else "next token"

    def _repr_html_(self) -> str:
        caption = "; ".join([*self.changes, self._summary()])
        moved = self.moved(k=2 * _NEXT) if self.logits else []
        rows = [(spelt(self.tokenizer, n), before, after) for n, before, after in moved]
        table = html_table(rows, (self._place(), "before", "after") if self.logits else (), caption=caption)
        if self.answers is not None:
            answers = [(name, texts[0]) for name, texts in zip(("before", "after"), self.answers, strict=True)]
            table += html_table(answers, ("", "what it wrote"))
        return table

    def picture(self, sequence: int = 0, title: str = "") -> Picture:
        """Draw how far each token moved: its prediction, in nats, or its vector, as a share of its length.

        >>> import torch
        >>> print(Effect(torch.ones(1, 2, 3), torch.tensor([[[1.0, 1, 1], [1, 1, 0.5]]]), logits=False).picture())
        0  0
        1  ━━━━━━━━━━━━━━━━━━━━━━━━ 0.289
        How far each vector moved, as a share of its length.
        """
        moved = (self.divergence if self.logits else self.moves)[sequence].double().cpu().numpy()
        what = "prediction moved, in nats" if self.logits else "vector moved, as a share of its length"
        caption = " ".join([f"How far each {what}.", *(f"{change}." for change in self.changes)])
        if len(moved) > _BARS:
            return curves({"moved": (np.arange(len(moved)), moved)}, title=title, caption=caption)
        names: Sequence[str] = [str(n) for n in range(len(moved))]
        if self.tokens is not None and self.tokens[0].named and len(self.tokens[0]) >= len(moved):
            tokens = self.tokens[0]
            spelling = [tokens[n].lstrip("Ġ▁") if len(w.tokens) > 1 else w.text for w in tokens.words for n in w.tokens]
            names = told_apart(spelling[-len(moved) :])
        return bars(dict(zip(names, moved.tolist(), strict=True)), title=title, caption=caption)


def _distance(before: Tensor, after: Tensor, logits: bool) -> Float[Tensor, "batch tokens"]:
    """Return how far each prediction moved, in nats, or each vector, as a share of its length."""
    before, after = before.float(), after.float()
    if logits:
        before, after = before.log_softmax(-1), after.log_softmax(-1)
        return (before.exp() * (before - after)).sum(-1).clamp_min(0.0)
    moved: Tensor = (after - before).norm(dim=-1) / before.norm(dim=-1).clamp_min(1e-12)
    return moved


def effect(
    model: nn.Module,
    inputs: Inputs,
    *,
    without: Without | None = None,
    steer: Mapping[Link, float] | None = None,
    instead: Mapping[Activation | str, Source] | None = None,
    renormalise: bool = True,
    tokenizer: Any = None,
    tokens: Sequence[str] | Sequence[Sequence[str]] | None = None,
    generate: int | Mapping[str, Any] | None = None,
) -> Effect:
    """Compare a model's output with its output without some heads or links, or with activations of another run.

    Args:
        model: The model.
        inputs: A tensor, a dict of keyword arguments, or several arguments in a row.
        without: The heads or links to remove, as in `watch`.
        steer: Links and what is added to their scores, as in `watch`.
        instead: Each `Activation`, or name of a module, with the record of a run (of any text, by any model with such
            modules) whose activation it gets at each token; or with a list of records, for the mean over all tokens.
        renormalise: Whether the weights that remain in a row are normalized to 1 again.
        tokenizer: Names the tokens, as in `watch`.
        tokens: Names the tokens without a tokenizer.
        generate: Also compare what the model writes: how many tokens, or options of its `generate`.

    >>> import torch, regard
    >>> class Layer(torch.nn.Module):
    ...     heads, kind, attend = 1, "encoder", staticmethod(regard.attention)
    ...     def forward(self, x):
    ...         return self.attend(x, x, x)[:, 0]
    >>> effect(Layer(), torch.eye(4)[None, None], without=regard.Link("it", "dog"), tokens=["A", "dog", "ate", "it"])
    it → dog is cut: the other weights are normalised to 1 again
    the output changed by 0.215 at most, a vector by 12.2 %
    """
    subject = _Subject(model, inputs, Vocabulary(tokenizer, tokens))
    plain, watching = subject.changed(), subject.changed()
    with plain if instead else nullcontext():
        before, logits = subject.run()
    watching.changes.add(without, steer, renormalise)
    for replacements, said in subject.replaced(instead or {}, plain.seen):
        watching.changes.replace(replacements, said)
    with watching:
        after, _ = subject.run()
    answers = None
    if generate is not None:
        options = {"max_new_tokens": generate} if isinstance(generate, int) else dict(generate)
        first = subject.generate(options, tokenizer)
        with watching:
            answers = first, subject.generate(options, tokenizer)
    position = subject.last_token(before)
    return Effect(before, after, logits, tuple(watching.changes), watching.tokens, tokenizer, position, answers)


def activations(source: Source, modules: Sequence[str] = ()) -> Activations:
    """Return the activations of the run of a record, or their mean over several records; these models run again."""
    runs: list[Run] = []
    for record in source if isinstance(source, list | tuple) else [source]:
        if not isinstance(record, Record):
            raise InputError(f"activations come from a Record, or a list of records. Got {type(record).__name__}.")
        runs.append(Run(modules))
        with torch.no_grad():
            runs[-1].seen = run_again(record, listener=runs[-1]).seen
    if not runs:
        raise InputError("a mean over texts takes at least one record. Got an empty list.")
    return Activations(runs, mean=not isinstance(source, Record))


class _Subject:
    """A model and its inputs, run repeatedly with changes."""

    def __init__(self, model: nn.Module, inputs: Inputs, vocabulary: Vocabulary):
        if not isinstance(model, nn.Module):
            raise InputError(f"effect takes a torch module. Got {type(model).__name__}.")
        self.model, self._vocabulary = model, vocabulary
        self.kwargs = dict(inputs) if isinstance(inputs, Mapping) else {}  # a tokenizer returns a mapping
        self.args = (inputs,) if isinstance(inputs, Tensor) else () if self.kwargs else tuple(inputs)

    def changed(self, texts: int = 1) -> Watching:
        """Return a `with` block that changes the model and records nothing; each text is there `texts` times."""
        return Watching(self.model, self._vocabulary.repeated(texts), Keep(()))

    def heard(self, *replacements: Iterable[tuple[str, Replacement]]) -> Activations:
        """Return the activations of the model, while some of them are replaced."""
        watching, run = self.changed(), Run()
        watching.changes.listener = run
        for each in replacements:
            watching.changes.replace(each)
        with watching:
            self.run()
        run.seen = watching.seen
        return Activations([run])

    def replaced(
        self, instead: Mapping[Activation | str, Source], here: Mapping[str, Seen]
    ) -> Iterator[tuple[Iterable[tuple[str, Replacement]], str]]:
        """Yield what takes the place of activations, and a sentence for each of them."""
        for key, source in instead.items():
            what = Activation(key) if isinstance(key, str) else key
            if not isinstance(what, Activation):
                raise InputError(f"instead takes an Activation, or the name of a module. Got {type(what).__name__}.")
            taken, into = activations(source, [what.part] if what.part not in PARTS else []), what.into
            replacements = taken.replacements(replace(what, into=None), here)
            if into is not None:  # all other heads as they were, while the change reaches the receiver
                frozen = self.heard().replacements(Activation(), here)
                replacements = self.heard(frozen, replacements).replacements(into, here)
            yield replacements, f"{what}{',' * (into is not None)} is {taken}"

    def run(
        self, options: Mapping[str, Any] | None = None, copies: int = 1, differentiable: bool = False
    ) -> tuple[Tensor, bool]:
        """Return the output (batch, tokens, width) and whether it is logits; `copies`: of one text, in a batch."""

        def copied(x: Any) -> Any:
            if copies == 1 or not isinstance(x, Tensor) or x.dim() == 0:
                return x
            if x.shape[0] != 1:
                raise InputError(f"effects compares variants of one text: inputs (1, …). Got {tuple(x.shape)}.")
            return x.repeat_interleave(copies, 0)

        with nullcontext() if differentiable else torch.no_grad():
            kwargs = {name: copied(x) for name, x in self.kwargs.items()} | dict(options or {})
            output = self.model(*map(copied, self.args), **kwargs)
        tensor, logits = output, isinstance(self.model, Transformer)
        if not isinstance(output, Tensor):
            names = [n for n in ("logits", "last_hidden_state") if isinstance(getattr(output, n, None), Tensor)]
            if not names:
                raise InputError(f"effect reads logits or last_hidden_state. Got {type(output).__name__}.")
            tensor, logits = getattr(output, names[0]), names[0] == "logits"
        tensor = tensor[:, None] if tensor.dim() == 2 else tensor
        return (tensor if differentiable else tensor.detach()).flatten(1, -2), logits

    def generate(self, options: Mapping[str, Any], tokenizer: Any) -> tuple[str, ...]:
        """Return what the model writes: the most probable token each time, unless the options say otherwise."""
        if not hasattr(self.model, "generate"):
            raise InputError(f"{type(self.model).__name__} has no generate: its answer cannot be compared.")
        kwargs = {name: x for name, x in self.kwargs.items() if name not in ("labels", "decoder_input_ids")}
        with torch.no_grad():
            write: Any = self.model.generate
            ids = write(*self.args, **kwargs, **{"do_sample": False, "num_beams": 1} | dict(options))
        written = getattr(ids, "sequences", ids)
        prompt = kwargs.get("input_ids", self.args[0] if self.args else None)
        begin = 0 if prompt is None else prompt.shape[1]
        if getattr(getattr(self.model, "config", None), "is_encoder_decoder", False):
            begin = 1  # the token that starts the decoder
        written = written[:, begin:]
        if hasattr(tokenizer, "batch_decode"):
            return tuple(tokenizer.batch_decode(written, skip_special_tokens=True))
        return tuple(" ".join(map(str, row)) for row in written.tolist())

    def last_token(self, output: Tensor) -> int:
        """Return the place of the last token of the first text that is not padding."""
        mask = self.kwargs.get("attention_mask")
        fits = isinstance(mask, Tensor) and mask.dim() == 2 and mask.shape[1] == output.shape[1] and bool(mask[0].any())
        return int(mask[0].nonzero()[-1]) if fits and mask is not None else output.shape[1] - 1


# Each head, layer or span in turn


class Moved(NamedTuple):
    """A change, how far the output moved by it, and the probability of the answer before and after; None: not run."""

    name: str
    change: float | None = None  # in nats, or as a share of the length of a vector
    before: float | None = None
    after: float | None = None
    layer: int | None = None
    head: int | None = None
    estimate: float | None = None  # of `true`
    true: float | None = None  # how far the log-probability of the answer moved, or the difference of two logits
    start: str = ""  # of a link: the words that look
    end: str = ""  # and the words that are looked at


@dataclass(frozen=True, repr=False)
class Effects(Answer[Moved]):
    """What each of many changes does to the output, the largest effect, or the largest estimate, first.

    Without a head that carries the answer, its log-probability falls: `estimate` and `true` are negative.

    >>> print(Effects("without each word", (Moved("dog", 0.7, 0.5, 0.25),), "nats", "' hungry'"))
    without each word: how far the output moved
             moved  ' hungry' before  after
    dog   0.7 nats              50 %   25 %
    >>> items = Moved("layer 5 head 0", estimate=-2.5, true=-2.0), Moved("layer 1 head 3", estimate=0.5)
    >>> print(Effects("without each head", items, "nats", "' hungry'"))  # doctest: +ELLIPSIS
    without each head: how far ' hungry' moved, in nats
                    estimate   true
    layer 5 head 0     -2.50  -2.00
    layer 1 head 3     +0.50
    An estimate takes the model after the change as linear. ...
    """

    about: str
    items: tuple[Moved, ...]
    unit: str  # "nats", or "" for a share of the length of a vector
    answer: str = ""  # the token whose probability is compared
    words: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())  # of the links: their starts, their ends

    @property
    def correlation(self) -> float | None:
        """The correlation (Pearson) of estimates and true effects, where at least three were run and they differ."""
        pairs = np.array([(each.estimate, each.true) for each in self if None not in (each.estimate, each.true)])
        if len(pairs) < 3 or not pairs.std(0).all():
            return None
        return float(np.corrcoef(pairs.T)[0, 1])

    @property
    def _estimated(self) -> bool:
        return any(each.estimate is not None for each in self)

    def __str__(self) -> str:
        title, *notes = self._caption
        columns, *rows = self._table(_LINES)
        more = [f"… and {len(self) - _LINES:,} more"] if len(self) > _LINES else []
        return "\n".join([title, *_aligned([columns, *rows]), *more, *notes])

    def _repr_html_(self) -> str:
        columns, *rows = self._table(_ROWS)
        return html_table(rows, columns, caption=". ".join(self._caption), more=len(self) - _ROWS)

    @property
    def _caption(self) -> list[str]:
        """What the numbers are; of estimates, how good those are that were run, and what they leave out."""
        if not self._estimated:
            return [f"{self.about}: how far the output moved"]
        correlation, count = self.correlation, sum(each.true is not None for each in self)
        checked = [] if correlation is None else [f"Correlation of the {count} that were run: {correlation:.2f}"]
        return [f"{self.about}: how far {visible(self.answer, _NAME)} moved, in nats", *checked, FROZEN]

    def _table(self, count: int) -> list[tuple[str, ...]]:
        """Return the names of the columns, and the rows of the first items."""
        if self._estimated:
            rows = [(each.name, _signed(each.estimate), _signed(each.true)) for each in self[:count]]
            return [("", "estimate", "true"), *rows]
        columns = ("", "moved", f"{visible(self.answer, _NAME)} before", "after")
        shown = [(each.name, self._size(each.change), _share(each.before), _share(each.after)) for each in self[:count]]
        return [row[: 4 if any(each.before is not None for each in self) else 2] for row in (columns, *shown)]

    def _size(self, change: float | None) -> str:
        return "" if change is None else f"{change:.2g} nats" if self.unit else percent(change)

    def picture(self, title: str = "") -> Picture:
        """Draw heads as a map of layers and heads, anything else as bars; of estimates, links over the words too."""
        caption = ". ".join(self._caption)
        if self._estimated:
            return self._beside_estimates(title, caption)
        changes = {each.name: each.change or 0.0 for each in self}
        if not self.items or any(each.head is None for each in self):
            caption += f", {self.unit}." if self.unit else ", as a share of a vector's length."
            return bars(dict(islice(changes.items(), _ROWS)), title=title, caption=caption)
        layers = sorted({each.layer for each in self if each.layer is not None})
        numbers = np.zeros((len(layers), 1 + max(each.head or 0 for each in self)))
        for each in self:
            numbers[layers.index(each.layer or 0), each.head or 0] += each.change or 0.0
        largest = float(numbers.max()) or 1.0
        names = [f"layer {layer}" for layer in layers], [str(head) for head in range(numbers.shape[1])]
        return matrix(numbers / largest, *names, title=title, caption=f"{caption}. 100 % is {self._size(largest)}.")

    def _beside_estimates(self, title: str, caption: str) -> Picture:
        """Draw the links that were run over the words, and below them each change: its estimate, and as it is."""
        shown = [each for each in self if each.true is not None][:_ROWS] or self[:_ROWS]
        numbers = np.array([(each.estimate, each.true) for each in shown], float)  # None: nan
        weights = np.zeros([len(side) for side in self.words])
        for each, number in zip(shown, numbers, strict=True):
            if each.start:
                place = self.words[0].index(each.start), self.words[1].index(each.end)
                weights[place] = abs(number[np.isfinite(number)][-1])
        layout = "arcs" if self.words[0] == self.words[1] else "rows"
        above = lines(weights / weights.max(), *self.words, layout=layout) if weights.any() else None
        largest = np.nanmax(np.abs(numbers), initial=1e-9)

        def draw(canvas: Canvas) -> None:
            if above is not None:
                above.draw(canvas)
            theme, top = canvas.theme, canvas.height + 26
            zero = max((measure(each.name, 13) for each in shown), default=0.0) + 24 + _BAR
            for n, word in enumerate(("estimate", "true")):
                left, colour = zero - _BAR + 84 * n, theme.colours[1 - n]
                canvas.rect(left, top - 10, 12, 8, fill=colour)
                canvas.text(left + 17, top - 2, word, 12, fill=theme.muted)
                for row, x in enumerate(np.nan_to_num(numbers[:, n]) / largest * _BAR):
                    about = f"{shown[row].name}, {word}: {numbers[row, n]:+.3g}"
                    canvas.rect(zero + min(x, 0), top + 14 + 26 * row + 9 * n, abs(x), 8, fill=colour, title=about)
            for row, each in enumerate(shown):
                canvas.text(zero - _BAR - 12, top + 27 + 26 * row, each.name, 13, anchor="end")
                words = _signed(each.true) or _signed(each.estimate)
                canvas.text(zero + _BAR + 10, top + 27 + 26 * row, words, 12, fill=theme.muted)
            canvas.line(zero, top + 8, zero, top + 14 + 26 * len(shown), theme.muted)

        return Picture("estimates", {"numbers": numbers}, draw, lambda _: Text(str(self)), title, caption)


def _signed(number: float | None) -> str:
    return "" if number is None else f"{number:+.2f}"


def _share(share: float | None) -> str:
    return "" if share is None else percent(share)


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows of cells as lines: names on the left, numbers right-aligned."""
    names, *columns = zip(*([visible(cell, _NAME) for cell in row] for row in rows), strict=True)
    sides = [[f"{cell:<{max(map(len, names))}}" for cell in names]]
    sides += [[f"{cell:>{max(map(len, column))}}" for cell in column] for column in columns]
    return ["  ".join(cells).rstrip() for cells in zip(*sides, strict=True)]


def effects(
    model: nn.Module,
    inputs: Inputs,
    by: By = "head",
    *,
    at: Place | None = None,
    answer: str | int | tuple[str | int, str | int] | None = None,
    instead: Source | None = None,
    spans: str | Mapping[str, Span] = "word",
    layers: Collection[int] | None = None,
    kind: str | None = None,
    renormalise: bool = True,
    estimate: bool = False,
    check: int = 10,
    batch: int = 16,
    tokenizer: Any = None,
    tokens: Sequence[str] | None = None,
) -> Effects:
    """Compare a model's output with its output without each head in turn, or without each layer, span or link.

    Args:
        model: The model.
        inputs: Of one text, as in `effect`.
        by: "head", "layer", a "link" between two spans, or a span of the text that no other token may see: each "word",
            "sentence" or chat "message"; with `instead` also the "query", "key", "value" or "pattern" of each head.
            Several of these, as in ("head", "link"); or {name: place, `Link`, heads by module, or a list of these}.
        at: The token whose prediction, or vector, is compared; by default the last one of a model that writes, all
            tokens of any other.
        answer: The next token whose probability is compared; by default the most probable. A pair of tokens: the first
            against the second.
        instead: A record, or several for their mean: heads and layers get the activations of that run, not 0.
        spans: What links join: each "word", "sentence" or "message", or spans by name, as in `record.spans`.
        layers: The layers where heads are changed and spans hidden; by default all.
        kind: The kind of attention there: "encoder", "decoder" or "cross".
        renormalise: Whether the weights that remain in a row are normalized to 1 again.
        estimate: Estimate all changes of heads, layers and links from the gradient of one run, which takes the model
            after the change as linear, and run those with the largest estimates only.
        check: How many are run then.
        batch: How many changes run at once, as texts of one batch.
        tokenizer: Names the tokens, as in `watch`.
        tokens: Names the tokens without a tokenizer.

    >>> import torch, regard
    >>> class Layer(torch.nn.Module):
    ...     heads, kind, attend = 2, "encoder", staticmethod(regard.attention)
    ...     def forward(self, x):
    ...         return self.attend(x, x, x).transpose(1, 2).flatten(2)
    >>> words = effects(Layer(), torch.eye(3).expand(1, 2, 3, 3), by="word", at="it", tokens=["A", "dog", "it"])
    >>> [each.name for each in words]
    ['A', 'dog', 'it']
    """
    names = _names(by, instead)
    if whole("batch", batch) < 1 or whole("check", check) < 0:
        raise InputError(f"batch must be at least 1, and check at least 0. Got {batch} and {check}.")
    if estimate and not (names and {*names} <= {*_PARTS, "link"}):
        raise InputError(f"estimates are of heads, their parts, layers and links. Got by = {by!r}.")
    if estimate and getattr(model, "training", False):
        raise InputError("the model is in training mode, in which dropout makes each run another: model.eval().")
    subject = _Subject(model, inputs, Vocabulary(tokenizer, tokens))
    source = None if instead is None else activations(instead)
    keeps_last = "logits_to_keep" in inspect.signature(model.forward).parameters
    options = {"logits_to_keep": 1} if at is None and keeps_last and "logits_to_keep" not in subject.kwargs else {}
    plain = subject.changed()
    slopes = plain.changes.listener = Slopes(model, renormalise) if estimate else None
    with plain, graph_of_activations(model, plain.may_attend) if estimate else nullcontext():
        output, logits = subject.run(options, differentiable=estimate)
    if len(output) != 1:
        raise InputError(f"effects compares variants of one text. Got a batch of {len(output)}.")
    if (answer is not None or estimate) and not logits:
        raise InputError(f"the model predicts no tokens, so no token has a probability. Got answer = {answer!r}.")
    modules = _chosen(plain.seen, layers, kind)
    sides = {seen.kind: seen.sides for seen in modules.values()} if "link" in names else {}
    joined = {kind: (_spans(side[0][0], spans), _spans(side[1][0], spans)) for kind, side in sides.items()}
    variants = [each for name in names or (by,) for each in _variants(name, modules, joined, layers, kind)]
    places = _compared(at, plain, output.shape[1])

    def outputs(some: Sequence[Variant]) -> Iterator[Float[Tensor, "places width"]]:
        """Yield the output with each change."""
        with progress("comparing", total=len(some)) as advance:
            for start in range(0, len(some), batch):
                now = some[start : start + batch]
                changed = subject.changed(len(now))
                for text, variant in enumerate(now):
                    if source is None:
                        changed.changes.add(variant.without, renormalise=renormalise, text=text)
                        continue
                    for name in plain.seen:
                        if name.partition("#")[0] == variant.module:
                            those = source.of_heads(name, Activation(variant.part), variant.heads, plain.seen)
                            changed.changes.replace((name, each._replace(text=text)) for each in those)
                with changed:
                    after, _ = subject.run(options, copies=len(now))
                yield from after[:, places].to(wide(after.dtype))
                advance(len(now))

    before = output.detach()[:, places].to(wide(output.dtype))
    tokens_of_answer = answer if isinstance(answer, tuple) else (answer,)
    if len(tokens_of_answer) not in (1, 2):
        raise InputError(f"answer is a token or two: the first against the second. Got {answer!r}.")
    top = int(before[0, -1].argmax())
    ids = [top if each is None else token_id(each, before.shape[-1], tokenizer) for each in tokens_of_answer]

    def odds(logits: Tensor) -> Tensor:
        """Return the log-probability of the answer, or the difference of the logits of two."""
        return logits.log_softmax(-1)[ids[0]] if len(ids) == 1 else logits[ids[0]] - logits[ids[1]]

    def share(logits: Tensor) -> float:
        """Return the probability of the answer, or of the first of two against the second."""
        return float(odds(logits).exp() if len(ids) == 1 else odds(logits).sigmoid())

    estimates: Sequence[float | None] = [None] * len(variants)
    if slopes is not None:
        estimates = slopes.backward(
            lambda: odds(output[0, places[-1]].to(before)), plain.seen, modules, variants, source, joined
        )
    pairs = sorted(zip(variants, estimates, strict=True), key=lambda pair: -abs(pair[1] or 0.0))
    moved = []
    afters = outputs([each for each, _ in pairs[: check if estimate else None]])
    for (each, amount), after in zip_longest(pairs, afters):
        item = Moved(each.name, None, None, None, each.layer, each.head, amount, None, *each.link[1:])
        if logits:
            item = item._replace(before=share(before[0, -1]))
        if after is not None:
            item = item._replace(change=float(_distance(before, after[None], logits).mean()))
        if after is not None and logits:
            item = item._replace(after=share(after[-1]), true=float(odds(after[-1]) - odds(before[0, -1])))
        moved.append(item)
    if not estimate:
        moved.sort(key=lambda each: -(each.change or 0.0))
    what = " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:]))) or f"of {len(variants)}"
    about = f"without each {what}" if source is None else f"each {what} replaced by {source}"
    spelled = " against ".join(spelt(tokenizer, n) for n in ids) if logits else ""
    words = (tuple(dict.fromkeys(name for pair in joined.values() for name in pair[n])) for n in (0, 1))
    return Effects(about, tuple(moved), "nats" if logits else "", spelled, (next(words), next(words)))


def _names(by: By, instead: Source | None) -> tuple[str, ...]:
    """Return the words that say what changes, checked; none for a mapping."""
    names = (by,) if isinstance(by, str) else () if isinstance(by, Mapping) else tuple(by)
    for name in names:
        one_of("by", name, _BY)
        if name in PARTS and instead is None:
            raise InputError(f"by = {name!r} needs another run: instead=record. Without it, heads are removed.")
    if instead is not None and not (names and set(names) <= {*_PARTS}):
        raise InputError(f"instead is for by = {some_of([*_PARTS])}. Got by = {by!r}.")
    return names


def _chosen(seen: Mapping[str, Seen], layers: Collection[int] | None, kind: str | None) -> dict[str, Seen]:
    """Return the attention modules of these layers and this kind."""
    modules = {
        name: each
        for name, each in seen.items()
        if "#" not in name and kind in (None, each.kind) and (layers is None or each.layer in layers)
    }
    if not modules:
        raise InputError(f"no attention of layers = {layers}, kind = {kind} was seen.")
    return modules


def _spans(side: Tokens, by: Any) -> dict[str, range]:
    """Return spans by name, where the words are known."""
    if isinstance(by, str) and not side.named:
        raise InputError(f"the words of the text are not known: give tokenizer=… or tokens=[…], or spans. Got {by!r}.")
    return named_spans(side, by)


def _variants(
    by: Any, modules: Mapping[str, Seen], joined: Joined, layers: Collection[int] | None, kind: str | None
) -> Iterator[Variant]:
    """Yield what to compare."""
    several_kinds = len({seen.kind for seen in modules.values()}) > 1
    alike = Counter((seen.layer, seen.kind) for seen in modules.values())  # in a vision tower and a language model
    part = _PARTS.get(by, "") if isinstance(by, str) else ""
    for name, seen in modules.items() if part else ():
        label = name if alike[seen.layer, seen.kind] > 1 else f"{f'{seen.kind}, ' * several_kinds}layer {seen.layer}"
        if by == "layer":
            yield Variant(label, seen.layer, None, name, "output", range(seen.heads), {name: range(seen.heads)})
            continue
        for head in range(seen.heads):
            words = f"{label} head {head}" + f" {by}" * (by != "head")
            yield Variant(words, seen.layer, head, name, part, [head], {name: [head]})
    for each, (starts, ends) in joined.items() if by == "link" else ():
        for (start, row), (end, column) in product(starts.items(), ends.items()):
            if each == "cross" or column.start < row.start or (each == "encoder" and column != row):
                link = Link(row, column, layers=layers, kind=each)
                label = f"{f'{each}, ' * several_kinds}{start} → {end}"
                yield Variant(label, without=link, link=(each, start, end))
    if part or by == "link":
        return
    first = next(iter(modules.values()))
    keys, is_cross = first.sides[1][0], first.kind == "cross"
    for name, place in (_spans(keys, by) if isinstance(by, str) else by).items():
        place = range(*place) if isinstance(place, tuple) else place
        if isinstance(place, str | int | range):
            place = [Link(*ends, layers=layers, kind=kind) for ends in _ends(place, keys, is_cross)]
        yield Variant(name, without=place)


def _ends(place: Place, keys: Tokens, is_cross: bool) -> Iterator[tuple[slice | None, Place]]:
    """Yield the links that hide a place from all tokens outside of it; in cross-attention, from all."""
    if is_cross:
        yield None, place
        return
    for span in keys.find_all(place):
        if span.start:
            yield slice(0, span.start), span
        yield slice(span.stop, None), span


def _compared(at: Place | None, plain: Watching, count: int) -> list[int]:
    """Return the places of the output that are compared."""
    if at is None:
        writes = any(seen.kind == "decoder" for seen in plain.seen.values())
        return [count - 1] if writes else list(range(count))
    tokens: Tokens | None = None if plain.tokens is None else plain.tokens[0]
    if tokens is None or len(tokens) != count:
        tokens = Tokens.numbered(count)
    return list(tokens.find(at))
