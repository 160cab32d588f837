"""What `regard see` says: a question to a record, and its answers as text, JSON or a picture."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from regard.errors import InputError
from regard.watching.heads import Head, Heads
from regard.watching.huggingface import load
from regard.watching.looks import Look, Looks
from regard.watching.record import Record
from regard.watching.session import watch

if TYPE_CHECKING:
    from regard.drawing import Picture

__all__ = ["Question", "drawn", "run", "told"]

_WRITTEN = 64  # tokens that a translator writes at most
_HEADS, _LOOKS = 10, 8  # of each answer


@dataclass(frozen=True)
class Question:
    """What is asked of a record: from a word, to a word, both or neither; in one layer, head or kind, or in all."""

    start: str | None = None
    end: str | None = None
    layer: int | None = None
    head: int | None = None
    kind: str | None = None

    def answers(self, record: Record) -> dict[str, Looks | Heads]:
        """The answers, each under its name."""
        where: dict[str, Any] = {"layer": self.layer, "head": self.head, "kind": self.kind}
        if self.start is not None and self.end is not None:
            chosen = record.at(**where)
            heads = chosen.heads(self.start, self.end)
            best = heads[0]
            found: dict[str, Looks | Heads] = {"heads": heads}
            one = chosen.at(layer=best.layer, head=best.head)
            return found | {f"layer {best.layer} head {best.head} looks at": one.looks(self.start)}
        if self.start is not None:
            return {"looks at": record.looks(self.start, **where)}
        if self.end is not None:
            return {"is looked at by": record.looked_at(self.end, **where)}
        entry = next(iter(record.at(**where).values()))
        words = entry.tokens[0].words if entry.tokens is not None else ()
        return {f"{n} {word.text}": record.looks(word.tokens, **where) for n, word in enumerate(words)}


def drawn(record: Record, question: Question, drawing: str, title: str) -> Picture:
    """The same as a picture; in lines and flows, the word that is asked from stands out."""
    _one_kind(record, question)
    word = question.start if drawing in ("lines", "flow") else None
    where: dict[str, Any] = {"layer": question.layer, "head": question.head, "kind": question.kind}
    return record.picture(drawing, word=word, title=title, **where)


def told(record: Record, question: Question, text: str, *, as_json: bool = False, target: str | None = None) -> str:
    """The answers of a record of `text`, and of the `target` it was translated to, as lines or as JSON."""
    _one_kind(record, question)
    answers = question.answers(record)
    name = type(record.model).__name__
    if as_json:
        known = {"text": text, "model": name} | ({} if target is None else {"translation": target})
        return json.dumps(known | {"answers": _plain(answers)}, indent=1)
    where = [f"{name} {n}" for name, n in (("layer", question.layer), ("head", question.head)) if n is not None]
    chosen = record.at(kind=question.kind)
    heads = sum(entry.shape[1] for entry in chosen.values())
    kind = f"{question.kind}, " if question.kind is not None else ""
    title = f"{name}, {kind}{', '.join(where) or f'all {heads} heads of {len(chosen)} layers'}"
    title = title if target is None else f"→ {target}\n{title}"
    return "\n".join([title, *(_line(name, answer) for name, answer in answers.items())])


def _line(name: str, answer: Looks | Heads) -> str:
    """An answer after its name, where it does not speak for itself."""
    if isinstance(answer, Heads) or name.split(" ")[0].isdigit():
        return str(answer)
    return f"{name}: {answer}"


def _one_kind(record: Record, question: Question) -> None:
    kinds = sorted({entry.kind for entry in record.values()})
    if question.kind is None and len(kinds) > 1:
        raise InputError(f"this model has attention of several kinds: choose --kind {' or --kind '.join(kinds)}.")


def run(model: str | Path, text: str) -> Record:
    """What a Hugging Face model on this machine does with a text."""
    network, tokenizer = load(model)
    read = tokenizer(text, return_tensors="pt")
    inputs: dict[str, Tensor] = {name: read[name] for name in ("input_ids", "attention_mask") if name in read}
    if not inputs["input_ids"].numel():
        raise InputError("the text is empty.")
    translates = bool(getattr(getattr(network, "config", None), "is_encoder_decoder", False))
    with torch.no_grad(), watch(network, tokenizer=tokenizer) as record:
        if translates:
            network.generate(**inputs, max_new_tokens=_WRITTEN, num_beams=1, do_sample=False)  # type: ignore[operator]
        else:
            network(**inputs)
    return record


def _plain(answers: dict[str, Looks | Heads]) -> list[dict[str, Any]]:
    found = []
    for name, answer in answers.items():
        if isinstance(answer, Heads):
            items: list[Head] | list[Look] = list(answer[:_HEADS])
            found.append({"question": answer.about, "heads": [item._asdict() for item in items]})
        else:
            items = list(answer[:_LOOKS])
            found.append({"question": name, "word": answer.word, "looks": [item._asdict() for item in items]})
    return found
