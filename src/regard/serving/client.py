"""`record`: the record of a request, from the processes of vLLM; and `Endpoint`, the same over HTTP."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from regard.errors import InputError, RegardError, WatchError
from regard.serving.plugin import check_version
from regard.serving.requests import to_bytes
from regard.watching.record.entries import Entry
from regard.watching.record.record import Record
from regard.watching.record.storage import tensors_by_head, with_tensors
from regard.watching.record.tokens import Vocabulary


def record(llm: Any, request_id: str, *, tokenizer: Any = None) -> Record:
    """Return the record of a request that was made with `SamplingParams(extra_args={"regard": True})`.

    A running request has the rows of the tokens so far. The last token that a model wrote has no row: the model has not
    read it.

    Args:
        llm: vLLM's `LLM`.
        request_id: the name of the request.
        tokenizer: names the tokens; by default the model's tokenizer.
    """
    check_version()
    if tokenizer is None and not llm.model_config.skip_tokenizer_init:
        tokenizer = llm.get_tokenizer()
    return read(llm.collective_rpc("regard_record", args=(request_id,)), tokenizer=tokenizer)


def requests_seen(llm: Any) -> list[str]:
    """List the requests that have a record, the oldest first, by their names in vLLM's processes."""
    check_version()
    names: list[str] = llm.collective_rpc("regard_requests")[0]
    return names


def read(answers: Sequence[bytes | str], *, tokenizer: Any = None) -> Record:
    """Build the record from the answers of the processes, for an `AsyncLLM`, whose calls must be awaited.

    `regard.serving.read(await engine.collective_rpc("regard_record", args=(request_id,)))`
    """
    parts = [_open(answer) for answer in answers]
    if not parts:
        raise InputError("answers must have at least one answer. Got none: no process of vLLM answered.")
    entries: dict[str, Entry] = {}
    for part in parts:  # pipeline parallel: other layers; tensor parallel: other heads
        for name, entry in part.items():
            entries[name] = entry if name not in entries else _beside(entries[name], entry)
    vocabulary = Vocabulary(tokenizer)
    named = {name: _named(entry, vocabulary) for name, entry in entries.items()}
    return Record([named], unseen=tuple(dict.fromkeys(name for part in parts for name in part.unseen)))


def _open(answer: bytes | str) -> Record:
    if isinstance(answer, str):
        raise WatchError(answer)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "record.safetensors"
        path.write_bytes(answer)
        return Record.open(path)


def _named(entry: Entry, vocabulary: Vocabulary) -> Entry:
    tokens = None if entry.ids is None else vocabulary.read(entry.ids)
    same = entry.key_ids is entry.ids or entry.shape[2] == entry.shape[3]
    key_tokens = tokens if same or entry.key_ids is None else vocabulary.read(entry.key_ids)
    return replace(entry, tokens=tokens, key_tokens=key_tokens)


def _beside(first: Entry, second: Entry) -> Entry:
    """Join the heads of two ranks in one entry."""
    others = tensors_by_head(second)
    pairs = {name: (tensor, others[name][0], axis) for name, (tensor, axis) in tensors_by_head(first).items()}
    return with_tensors(first, {name: torch.cat([a, b], axis) for name, (a, b, axis) in pairs.items()}, shard=None)


class Endpoint:
    """The route GET /v1/regard/ID of `vllm serve` (entry point `vllm.endpoint_plugins`): a record as a file.

    vLLM adds the routes of the plugins that VLLM_PLUGINS names: `VLLM_PLUGINS=regard vllm serve …`. Below /v1 it asks
    for its API key, if it has one. `Record.open` reads the file.
    """

    name = "regard"
    required_tasks = ("generate",)

    def attach_router(self, app: Any) -> None:
        """Add the route to the server."""
        app.add_route("/v1/regard/{request_id}", _answer, methods=["GET"])

    async def init_state(self, engine_client: Any, state: Any, args: Any) -> None:
        """Keep the client that can call vLLM's processes."""
        state.regard_engine = engine_client


async def _answer(request: Any) -> Any:
    from starlette.responses import JSONResponse, Response

    engine, name = request.app.state.regard_engine, request.path_params["request_id"]
    answers = await engine.collective_rpc("regard_record", args=(name,))
    try:
        record = read(answers)
    except RegardError as error:
        return JSONResponse({"error": {"message": str(error), "type": "not_found", "code": 404}}, status_code=404)
    return Response(to_bytes(record), media_type="application/octet-stream")
