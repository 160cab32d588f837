"""What `regard see` runs: a question to a record, and its answers as text, JSON or a picture."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from regard.errors import InputError
from regard.support import require_text, some_of
from regard.watching.huggingface import load
from regard.watching.rankings import Heads, Looks
from regard.watching.record import Record
from regard.watching.session import watch

if TYPE_CHECKING:
    from regard.drawing import Picture

__all__ = ["Question", "describe", "draw", "watch_text"]

_NEW_TOKENS = 64  # that a translator writes, at most
_HEADS, _LOOKS = 10, 8  # of each answer, in JSON


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
            selection = record.at(**where)
            heads = selection.heads(self.start, self.end)
            best = heads[0]
            looks = selection.at(layer=best.layer, head=best.head).looks(self.start)
            return {"heads": heads, f"layer {best.layer} head {best.head} looks at": looks}
        if self.start is not None:
            return {"looks at": record.looks(self.start, **where)}
        if self.end is not None:
            return {"is looked at by": record.looked_at(self.end, **where)}
        entry = next(iter(record.at(**where).values()))
        words = entry.tokens[0].words if entry.tokens is not None else ()
        return {f"{n} {word.text}": record.looks(word.tokens, **where) for n, word in enumerate(words)}


def draw(record: Record, question: Question, drawing: str, title: str) -> Picture:
    """The same as a picture; in lines and flows, the word that the question starts from stands out."""
    _require_one_kind(record, question)
    word = question.start if drawing in ("lines", "flow") else None
    where: dict[str, Any] = {"layer": question.layer, "head": question.head, "kind": question.kind}
    return record.picture(drawing, word=word, title=title, **where)


def describe(record: Record, question: Question, text: str, *, as_json: bool = False, target: str | None = None) -> str:
    """The answers as lines or as JSON; `target` is the translation of `text`, if the model translates."""
    _require_one_kind(record, question)
    answers = question.answers(record)
    name = type(record.model).__name__
    if as_json:
        about = {"text": text, "model": name} | ({} if target is None else {"translation": target})
        missing = {"unseen": list(record.unseen)} if record.unseen else {}
        return json.dumps(about | {"answers": _to_json(answers)} | missing, indent=1)
    where = [f"{name} {n}" for name, n in (("layer", question.layer), ("head", question.head)) if n is not None]
    entries = record.at(kind=question.kind)
    heads = sum(entry.shape[1] for entry in entries.values())
    kind = f"{question.kind}, " if question.kind is not None else ""
    title = f"{name}, {kind}{', '.join(where) or f'all {heads} heads of {len(entries)} layers'}"
    title = title if target is None else f"→ {target}\n{title}"
    lines = [title, *(_line(name, answer) for name, answer in answers.items())]
    return "\n".join([*lines, f"Not seen: {some_of(record.unseen)}."] if record.unseen else lines)


def _line(name: str, answer: Looks | Heads) -> str:
    """An answer after its name, unless it contains the name itself."""
    if isinstance(answer, Heads) or name.split(" ")[0].isdigit():
        return str(answer)
    return f"{name}: {answer}"


def _require_one_kind(record: Record, question: Question) -> None:
    kinds = sorted({entry.kind for entry in record.values()})
    if question.kind is None and len(kinds) > 1:
        raise InputError(f"this model has attention of several kinds: choose --kind {' or --kind '.join(kinds)}.")


def watch_text(model: str | Path, text: str, *, trust_remote_code: bool = False) -> Record:
    """The record of a Hugging Face model, from a path on this machine, on a text."""
    require_text("the text", text)
    network, tokenizer = load(model, trust_remote_code=trust_remote_code)
    encoded = tokenizer(text, return_tensors="pt")
    inputs: dict[str, Tensor] = {name: encoded[name] for name in ("input_ids", "attention_mask") if name in encoded}
    if not inputs["input_ids"].numel():
        raise InputError("the text is empty.")
    translates = bool(getattr(getattr(network, "config", None), "is_encoder_decoder", False))
    with torch.no_grad(), watch(network, tokenizer=tokenizer) as record:
        if translates:
            network.generate(**inputs, max_new_tokens=_NEW_TOKENS, num_beams=1, do_sample=False)  # type: ignore[operator]
        else:
            network(**inputs)
    return record


def _to_json(answers: dict[str, Looks | Heads]) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    for name, answer in answers.items():
        if isinstance(answer, Heads):
            items.append({"question": answer.about, "heads": [head._asdict() for head in answer[:_HEADS]]})
        else:
            looks = [look._asdict() for look in answer[:_LOOKS]]
            items.append({"question": name, "word": answer.word, "looks": looks})
    return items
