"""`Activation`: what a model computes inside, such as the values of a head, and takes from another run instead."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from regard.errors import InputError
from regard.support import Float, Int, some_of
from regard.watching.capture.links import END, described, described_place, numbers_of, place_of
from regard.watching.record.tokens import Place, Tokens

if TYPE_CHECKING:
    from regard.watching.capture.calls import AttentionCall
    from regard.watching.capture.links import Seen

PARTS = ("output", "query", "key", "value", "pattern")


@dataclass(frozen=True)
class Activation:
    """A part of some heads, or the output of a module: what `effect` can take from another run.

    Args:
        part: "output" of the heads, before they are mixed; their "query", "key" or "value"; their "pattern", which is
            queries and keys at once; or the name of a module, for its output.
        layers: only these layers: a number or several; -1 is the last.
        heads: only these heads: a number or several.
        tokens: only of these tokens: a word, the number of a token, a range or a slice.
        source: the tokens of the other run whose activation they get; by default those of the same numbers.
        kind: only "encoder", "decoder" or "cross".
        into: the activation that alone learns of the change: the "query", "key" or "value" of later heads.

    >>> print(Activation("value", layers=3, heads=[1, 2]), "|", Activation("model.layers.3.mlp", tokens="dog"))
    value of layer 3, heads 1, 2 | output of model.layers.3.mlp at dog
    >>> print(Activation(layers=3, heads=1, into=Activation("query", layers=5, heads=0)))
    output of layer 3, head 1, into the query of layer 5, head 0
    """

    part: str = "output"
    layers: Any = None  # int | Collection[int] | None; stored as a tuple
    heads: Any = None
    tokens: Any = None  # Place | slice | None
    source: Any = None
    kind: str | None = None
    into: Activation | None = None

    def __post_init__(self) -> None:
        for name, read in (("tokens", place_of), ("source", place_of), ("layers", numbers_of), ("heads", numbers_of)):
            object.__setattr__(self, name, read(name, getattr(self, name)))
        if self.part not in PARTS and (self.layers, self.heads, self.kind, self.into) != (None,) * 4:
            raise InputError(f"layers, heads, kind and into are for {some_of(PARTS)}. Got the module {self.part!r}.")
        if self.into is not None and self.into.part not in ("query", "key", "value"):
            raise InputError(f'into is the "query", "key" or "value" of later heads. Got {self.into.part!r}.')
        if self.part == "pattern" and (self.tokens, self.source) != (None, None):
            raise InputError("a pattern is taken as a whole, without tokens. Of some rows take the query.")

    def __str__(self) -> str:
        where = ", ".join(filter(None, (described("layer", self.layers), described("head", self.heads), self.kind)))
        name = f"{self.part} of {where or 'all heads'}" if self.part in PARTS else f"output of {self.part}"
        name += "" if self.tokens is None else f" at {described_place(self.tokens)}"
        return name if self.into is None else f"{name}, into the {self.into}"


class Replacement(NamedTuple):
    """Numbers for some heads and tokens of a text of a batch."""

    part: str
    heads: Int[Tensor, " heads"]
    tokens: Int[Tensor, " tokens"]  # positions in the row, padding included
    numbers: Float[Tensor, "heads tokens_or_one width"]
    length: int  # how many tokens the text has
    text: int | None  # of the batch; None: all

    def put(self, x: Float[Tensor, "batch heads tokens width"], first: int = 0) -> Tensor:
        """Return x with these numbers; `first` is the position of its first token."""
        numbers = self.numbers.to(x)
        whole = (1, len(self.heads), len(self.tokens)) == x.shape[:3]
        if self.text is None and whole and int(self.tokens[0]) == first:  # all of it: no copy
            return numbers.expand_as(x[0])[None]
        there = (self.tokens >= first) & (self.tokens < first + x.shape[2])
        texts: Any = slice(None) if self.text is None else self.text
        x = x.clone()
        x[texts, self.heads[:, None], self.tokens[there] - first] = (
            numbers if numbers.shape[1] == 1 else numbers[:, there]
        )
        return x


def put(replacements: Sequence[Replacement], part: str, x: Tensor, first: int = 0) -> Tensor:
    """Return a part of a call with the numbers that replace it; `first` is the position of its first token."""
    for each in replacements:
        x = each.put(x, first) if each.part == part else x
    return x


def put_inputs(replacements: Sequence[Replacement], call: AttentionCall, value: Tensor) -> tuple[AttentionCall, Tensor]:
    """Return a call and its values with the queries, keys and values that are replaced."""
    key, group = call.key, call.query.shape[1] // call.key.shape[1]
    if group > 1 and any(each.part in ("key", "value") for each in replacements):  # the heads of a group may differ
        key, value = key.repeat_interleave(group, 1), value.repeat_interleave(group, 1)
    query = put(replacements, "query", call.query, call.queries.start)
    key, value = (put(replacements, part, x, call.keys.start) for part, x in (("key", key), ("value", value)))
    return (replace(call, query=query, key=key) if replacements else call), value


class Run:
    """Hears what a running model computes: its attention calls, and the outputs of some modules."""

    def __init__(self, modules: Sequence[str] = ()):
        self.modules = modules
        self.seen: Mapping[str, Seen] = {}  # of the attention modules, once the run has ended
        self.parts: dict[str, dict[str, Tensor]] = {}  # by module: (batch, heads, tokens, width)

    def __call__(self, name: str, call: AttentionCall | None, value: Tensor, output: Tensor) -> Tensor:
        """Keep an attention call, or the output of another module."""
        if call is not None and call.shard is not None:
            raise InputError(f"{name} has heads on other ranks, and activations are taken from all heads of a module.")
        if call is not None:
            parts = {"query": call.query, "key": call.key, "value": value, "output": output}
            self.parts.setdefault(name, {}).update({part: x.detach() for part, x in parts.items()})
        elif name in self.parts.setdefault(name, {}):
            raise InputError(f"{name} runs several times, so its output is not one activation.")
        else:
            self.parts[name][name] = output.detach()[:, None]
        return output

    def of(self, name: str, part: str, heads: Tensor, text: int, rows: Tensor) -> Float[Tensor, "heads tokens width"]:
        """Return a part of some heads at some positions of a text; of a key or value, that of their group."""
        x = self.parts[part if part not in PARTS else name][part][text]
        group = self.parts[name]["query"].shape[1] // len(x) if part in PARTS else 1
        x = x if group == 1 and len(heads) == len(x) else x[heads // group]
        return x if len(rows) == x.shape[1] else x[:, rows]


class Activations:
    """The activations of a run of a model or, of several runs, their mean over all tokens."""

    def __init__(self, runs: Sequence[Run], mean: bool = False):
        self._runs, self._mean = runs, mean

    def __str__(self) -> str:
        texts = sum(len(next(iter(run.seen.values())).sides[0]) for run in self._runs)
        return f"the mean over {texts} text{'s' * (texts != 1)}" if self._mean else "that of another run"

    def replacements(self, what: Activation, here: Mapping[str, Seen]) -> Iterator[tuple[str, Replacement]]:
        """Yield what replaces an activation, by module, in a run of which `here` is known."""
        first = self._runs[0]
        if what.part in PARTS:
            names = [name for name, seen in here.items() if _has(what, seen, here)]
        elif what.part not in first.parts:
            raise InputError(f"{what.part!r} is none of {some_of(PARTS)}, and no module of the other run.")
        else:  # it has the tokens of an attention with as many
            length = first.parts[what.part][what.part].shape[2]
            names = [name for name in first.seen if first.parts[name]["query"].shape[2] == length][:1]
        if not names:
            raise InputError(f"no attention for the {what} was seen.")
        for name in names:
            every = range(here[name].heads if what.part in PARTS else 1)
            heads = every if what.heads is None else what.heads
            if not set(heads) <= set(every):
                raise InputError(f"{name} has {len(every)} heads, numbered from 0. Got {list(heads)} in {what}.")
            for text in range(len(here[name].sides[0])):
                for each in self.of_heads(name, what, heads, here, text):
                    yield name if what.part in PARTS else what.part, each

    def of_heads(
        self, name: str, what: Activation, heads: Sequence[int], here: Mapping[str, Seen], text: int = 0
    ) -> list[Replacement]:
        """Return what replaces an activation of heads of a module in one text of a run."""
        if what.part == "pattern":
            sides = (self.of_heads(name, Activation(part), heads, here, text) for part in ("query", "key"))
            return [each for side in sides for each in side]
        if any(name not in run.seen for run in self._runs):
            raise InputError(f"the other run has no attention called {name}. It has {some_of([*self._runs[0].seen])}.")
        keys, chosen = what.part in ("key", "value"), torch.tensor([*heads])
        side, theirs = here[name].sides[keys], [run.seen[name].sides[keys] for run in self._runs]
        numbers = _numbers(side[text], what.tokens)
        if self._mean:
            tokens = [
                run.of(name, what.part, chosen, n, _rows(each, range(len(each))))
                for run, texts in zip(self._runs, theirs, strict=True)
                for n, each in enumerate(texts)
            ]
            found = torch.cat(tokens, 1).double().mean(1, keepdim=True)
        else:
            if len(theirs[0]) not in (1, len(side)):
                raise InputError(f"the other run must have 1 text, or {len(side)} as here. It has {len(theirs[0])}.")
            source = text if len(theirs[0]) > 1 else 0
            there, whole = theirs[0][source], what.tokens is None and what.source is None
            others = numbers if what.source is None else _numbers(there, what.source)
            counts = (len(side[text]), len(there)) if whole else (len(numbers), len(others))
            if counts[0] != counts[1] or not (whole or max(others) < len(there)):
                raise InputError(
                    f"the {what} must have as many tokens in both runs. Here are {counts[0]}, there {counts[1]}. "
                    "Choose them: Activation(…, tokens=…, source=…)."
                )
            found = self._runs[0].of(name, what.part, chosen, source, _rows(there, others))
        only = None if len(side) == 1 else text
        return [Replacement(what.part, chosen, _rows(side[text], numbers), found, len(side[text]), only)]


def _has(what: Activation, seen: Seen, here: Mapping[str, Seen]) -> bool:
    """Whether a module is of the layers and the kind of an activation."""
    count = 1 + max(each.layer for each in here.values() if each.kind == seen.kind)
    layers = {seen.layer, seen.layer - count} if what.layers is None else what.layers
    return what.kind in (None, seen.kind) and not {seen.layer, seen.layer - count}.isdisjoint(layers)


def _numbers(side: Tokens, place: Place | None) -> Sequence[int]:
    if place is None or (isinstance(place, range) and place.stop >= END):
        return range(0 if place is None else place.start, len(side))
    return [token for match in side.find_all(place) for token in match]


def _rows(side: Tokens, numbers: Sequence[int]) -> Int[Tensor, " tokens"]:
    """Return where these tokens lie in the row, with padding."""
    row = torch.cat([torch.arange(run.start, run.stop) for run in side.in_row(range(len(side)))])
    return row if len(numbers) == len(row) else row[[*numbers]]
