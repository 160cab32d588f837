"""A route for the server of `vllm serve` (entry point `vllm.endpoint_plugins`): the record of a request, as a file.

vLLM adds routes only of plugins that are named: `VLLM_PLUGINS=regard vllm serve …`. Then GET /v1/regard/ID gives what
`Record.open` reads; below /v1, vLLM asks for its API key where there is one.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from regard.errors import RegardError
from regard.serving.client import read

__all__ = ["Endpoint"]


class Endpoint:
    """What vLLM asks of a plugin with routes."""

    name = "regard"
    required_tasks = ("generate",)

    def attach_router(self, app: Any) -> None:
        """Add the route."""
        app.add_route("/v1/regard/{request_id}", _answer, methods=["GET"])

    async def init_state(self, engine_client: Any, state: Any, args: Any) -> None:
        """Remember who can ask the processes."""
        state.regard_engine = engine_client


async def _answer(request: Any) -> Any:
    from starlette.responses import JSONResponse, Response

    engine, name = request.app.state.regard_engine, request.path_params["request_id"]
    answers = await engine.collective_rpc("regard_record", args=(name,))
    try:
        record = read(answers)
    except RegardError as error:
        return JSONResponse({"error": {"message": str(error), "type": "not_found", "code": 404}}, status_code=404)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "record.safetensors"
        record.save(path)
        return Response(path.read_bytes(), media_type="application/octet-stream")
