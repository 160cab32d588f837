"""`effect`: what changes in a model's output, in its next tokens and in its answer without some heads or links."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from regard.drawing import Picture, bars, curves, matrix
from regard.drawing.terminal import html_table, percent, told_apart, visible
from regard.errors import InputError
from regard.nn import Transformer
from regard.support import Float, one_of, progress, whole
from regard.watching.capture.links import Link, Without
from regard.watching.capture.session import Watching
from regard.watching.questions.looks import Answer, named_spans
from regard.watching.record.reductions import Keep
from regard.watching.record.tokens import Place, Tokens, Vocabulary

Inputs = Tensor | Mapping[str, Any] | Sequence[Any]
_NEXT = 5  # next tokens that are listed
_BARS = 40  # tokens up to which each has a bar
_WIDTH, _NAME = 24, 40  # terminal cells of a token in a table, of a name
_ANSWER = 300  # characters of an answer
_BY = ("head", "layer", "word", "sentence", "message")
_LINES, _ROWS = 10, 20  # at most: printed lines, rows of a table in a notebook


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
            rows.insert(0, (self._place(), "before", "after"))
            width = max(len(row[0]) for row in rows)
            lines += [f"{token:<{width}}  {before:>8} {after:>8}" for token, before, after in rows]
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


def spelt(tokenizer: Any, number: int) -> str:
    """Return a token id as text."""
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
    """Compare a model's output with its output without some heads or links, or with links steered.

    Args:
        model: The model.
        inputs: A tensor, a dict of keyword arguments, or several arguments in a row.
        without: The heads or links to remove, as in `watch`.
        steer: Links and what is added to their scores, as in `watch`.
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
    before, logits = subject.run()
    watching = subject.changed()
    watching.changes.add(without, steer, renormalise)
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

    def run(self, options: Mapping[str, Any] | None = None, copies: int = 1) -> tuple[Tensor, bool]:
        """Return the output (batch, tokens, width) and whether it is logits; `copies`: of one text, in a batch."""

        def copied(x: Any) -> Any:
            if copies == 1 or not isinstance(x, Tensor) or x.dim() == 0:
                return x
            if x.shape[0] != 1:
                raise InputError(f"effects compares variants of one text: inputs (1, …). Got {tuple(x.shape)}.")
            return x.repeat_interleave(copies, 0)

        with torch.no_grad():
            kwargs = {name: copied(x) for name, x in self.kwargs.items()} | dict(options or {})
            output = self.model(*map(copied, self.args), **kwargs)
        tensor, logits = output, isinstance(self.model, Transformer)
        if not isinstance(output, Tensor):
            names = [n for n in ("logits", "last_hidden_state") if isinstance(getattr(output, n, None), Tensor)]
            if not names:
                raise InputError(f"effect reads logits or last_hidden_state. Got {type(output).__name__}.")
            tensor, logits = getattr(output, names[0]), names[0] == "logits"
        tensor = tensor[:, None] if tensor.dim() == 2 else tensor
        return tensor.detach().flatten(1, -2), logits

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
    """How far the output moved without one head, layer or span; and the probability of the answer, before and after."""

    name: str
    change: float = 0.0  # in nats, or as a share of the length of a vector
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
    answer: str = ""  # the token whose probability is compared

    def __str__(self) -> str:
        shown = [(visible(each.name, _NAME), self._size(each.change), self._answer(each)) for each in self[:_LINES]]
        width, size = (max((len(row[n]) for row in shown), default=0) for n in (0, 1))
        lines = [f"{name:<{width}}  {change:>{size}}   {answer}".rstrip() for name, change, answer in shown]
        more = [f"… and {len(self) - _LINES} more"] if len(self) > _LINES else []
        return "\n".join([f"{self.about}: how far the output moved", *lines, *more])

    def _size(self, change: float) -> str:
        return f"{change:.2g} nats" if self.unit else percent(change)

    def _answer(self, each: Moved) -> str:
        if each.before is None or each.after is None:
            return ""
        return f"{visible(self.answer, _NAME)} {percent(each.before)} → {percent(each.after)}"

    def _repr_html_(self) -> str:
        columns = ("without", "moved", f"{self.answer} before", "after")
        count = 2 if all(each.before is None for each in self) else 4
        rows = [(each.name, self._size(each.change), each.before, each.after)[:count] for each in self[:_ROWS]]
        return html_table(rows, columns[:count], caption=self.about, more=len(self) - _ROWS)

    def picture(self, title: str = "") -> Picture:
        """Draw heads as a map of layers and heads, anything else as bars."""
        caption = f"{self.about}: how far the output moved"
        if not self.items or any(each.head is None for each in self):
            caption += f", {self.unit}." if self.unit else ", as a share of a vector's length."
            return bars({each.name: each.change for each in self[:_ROWS]}, title=title, caption=caption)
        layers = sorted({each.layer for each in self if each.layer is not None})
        numbers = np.zeros((len(layers), 1 + max(each.head or 0 for each in self)))
        for each in self:
            numbers[layers.index(each.layer or 0), each.head or 0] += each.change
        largest = float(numbers.max()) or 1.0
        names = [f"layer {layer}" for layer in layers], [str(head) for head in range(numbers.shape[1])]
        return matrix(numbers / largest, *names, title=title, caption=f"{caption}. 100 % is {self._size(largest)}.")


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
    """Compare a model's output with its output without each head in turn, or without each layer or span.

    Args:
        model: The model.
        inputs: Of one text, as in `effect`.
        by: "head", "layer", or a span of the text that no other token may see: each "word", "sentence" or chat
            "message"; or {name: place, `Link`, heads by module, or a list of these}.
        at: The token whose prediction, or vector, is compared; by default the last one of a model that writes, all
            tokens of any other.
        answer: The next token whose probability is compared; by default the most probable.
        layers: The layers where heads are removed and spans hidden; by default all.
        kind: The kind of attention there: "encoder", "decoder" or "cross".
        renormalise: Whether the weights that remain in a row are normalized to 1 again.
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
    if isinstance(by, str):
        one_of("by", by, _BY)
    if whole("batch", batch) < 1:
        raise InputError(f"batch must be at least 1. Got {batch}.")
    subject = _Subject(model, inputs, Vocabulary(tokenizer, tokens))
    keeps_last = "logits_to_keep" in inspect.signature(model.forward).parameters
    options = {"logits_to_keep": 1} if at is None and keeps_last and "logits_to_keep" not in subject.kwargs else {}
    plain = subject.changed()
    with plain:
        output, logits = subject.run(options)
    if len(output) != 1:
        raise InputError(f"effects compares variants of one text. Got a batch of {len(output)}.")
    if answer is not None and not logits:
        raise InputError(f"the model predicts no tokens, so no token has a probability. Got answer = {answer!r}.")
    variants = list(_variants(by, plain, layers, kind))
    places = _compared(at, plain, output.shape[1])
    before = output[:, places].float()
    token = _token(answer, before[0, -1], tokenizer) if logits else 0
    probability = float(before[0, -1].softmax(-1)[token]) if logits else None
    moved: list[Moved] = []
    with progress("comparing", total=len(variants)) as advance:
        for start in range(0, len(variants), batch):
            some = variants[start : start + batch]
            changed = subject.changed(len(some))
            for text, (_, without) in enumerate(some):
                changed.changes.add(without, renormalise=renormalise, text=text)
            with changed:
                after, _ = subject.run(options, copies=len(some))
            after = after[:, places].float()
            changes = _distance(before, after, logits).mean(-1).tolist()
            now = after[:, -1].softmax(-1)[:, token].tolist() if logits else [None] * len(some)
            for (each, _), change, after_it in zip(some, changes, now, strict=True):
                moved.append(each._replace(change=change, before=probability, after=after_it))
            advance(len(some))
    about = f"without each {by}" if isinstance(by, str) else f"without each of {len(variants)}"
    moved.sort(key=lambda each: -each.change)
    return Effects(about, tuple(moved), "nats" if logits else "", spelt(tokenizer, token) if logits else "")


def _variants(
    by: str | Mapping[str, Any], plain: Watching, layers: Collection[int] | None, kind: str | None
) -> Iterator[tuple[Moved, Without]]:
    """Yield what to compare: a name with a layer and head, if any, and what the model runs without."""
    modules = {
        name: seen
        for name, seen in plain.seen.items()
        if "#" not in name and kind in (None, seen.kind) and (layers is None or seen.layer in layers)
    }
    if not modules:
        raise InputError(f"no attention of layers = {layers}, kind = {kind} was seen.")
    several_kinds = len({seen.kind for seen in modules.values()}) > 1
    alike = Counter((seen.layer, seen.kind) for seen in modules.values())  # in a vision tower and a language model
    names = {
        name: name if alike[seen.layer, seen.kind] > 1 else f"{f'{seen.kind}, ' * several_kinds}layer {seen.layer}"
        for name, seen in modules.items()
    }
    if by == "layer":
        for name, seen in modules.items():
            yield Moved(names[name], layer=seen.layer), {name: range(seen.heads)}
    elif by == "head":
        for name, seen in modules.items():
            for head in range(seen.heads):
                yield Moved(f"{names[name]} head {head}", layer=seen.layer, head=head), {name: [head]}
    else:
        first = next(iter(modules.values()))
        keys, is_cross = first.sides[1][0], first.kind == "cross"
        if isinstance(by, str) and not keys.named:
            raise InputError(
                f"the words of the text are not known: give tokenizer=… or tokens=[…], or spans. Got {by!r}."
            )
        for name, place in (named_spans(keys, by) if isinstance(by, str) else by).items():
            place = range(*place) if isinstance(place, tuple) else place
            if isinstance(place, str | int | range):
                place = [Link(*ends, layers=layers, kind=kind) for ends in _ends(place, keys, is_cross)]
            yield Moved(name), place


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


def _token(answer: str | int | None, before: Tensor, tokenizer: Any) -> int:
    """Return the id of the answer; by default of the most probable token."""
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
