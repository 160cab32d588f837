"""`effect`: what changes in a model's output, in its next tokens and in its answer without some heads or links."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.drawing.html_table import html_table
from regard.drawing.terminal import percent, told_apart, visible
from regard.errors import InputError
from regard.nn import Transformer
from regard.support import Float
from regard.watching.capture.changes import Without
from regard.watching.capture.links import Link
from regard.watching.capture.session import Watching
from regard.watching.record.reductions import Keep
from regard.watching.record.tokens import Tokens, Vocabulary

if TYPE_CHECKING:
    from regard.drawing import Picture

__all__ = ["Effect", "Inputs", "Output", "Subject", "effect", "words_of"]

Inputs = Tensor | Mapping[str, Any] | Sequence[Any]
_ROWS = 5  # next tokens that are listed
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

    def moved(self, position: int | None = None, sequence: int = 0, k: int = _ROWS) -> list[tuple[int, float, float]]:
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
            rows = [(spelt(self.tokenizer, n), before, after) for n, before, after in self.moved(k=2 * _ROWS)]
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
