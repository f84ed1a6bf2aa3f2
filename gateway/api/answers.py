"""Answers of the HTTP API: JSON values, and one form for every refusal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from starlette.exceptions import HTTPException
from starlette.responses import Response

from gateway.base.errors import for_chat

if TYPE_CHECKING:
    from starlette.requests import Request

HEADERS: Final = {"cache-control": "no-store", "x-content-type-options": "nosniff"}
"""Headers of every answer."""
OPENAI: Final = "/v1/"
"""Below this path errors have OpenAI's form."""
FIRST_ERROR: Final = 400
"""From this status on, an answer ends its connection, so that what is left of the request's body is not waited for."""
_SERVERS = 500
_REASONS = {404: "not-found", 408: "too-slow", 503: "not-now"}


def json_answer(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return ``value`` as JSON. Lone surrogates, which UTF-8 cannot hold, become question marks, and numbers that JSON lacks null."""
    from gateway.base.strict_json import written

    body = written(value).encode("utf-8", "replace")
    return Response(body, status, {**HEADERS, **closing(status), **(headers or {})}, "application/json")


def closing(status: int) -> dict[str, str]:
    """Return the header that ends the connection behind an error."""
    return {"connection": "close"} if status >= FIRST_ERROR else {}


class Refusal(HTTPException):
    """An answer that is not what was asked for. ``reason`` is a fixed word for programs, ``hint`` a step for people."""

    def __init__(self, status: int, reason: str, error: str, hint: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(status, error, headers)
        self.reason = reason
        self.hint = hint

    def response(self, path: str = "") -> Response:
        """The same as JSON, in the form that is usual at a path."""
        hint = for_chat(self.hint)
        body: dict[str, Any] = {"error": self.detail, "reason": self.reason, "mend": hint}
        if path.startswith(OPENAI):
            kind = "server_error" if self.status_code >= _SERVERS else "invalid_request_error"
            body = {"error": {"message": f"{self.detail}. {hint}", "type": kind, "param": None, "code": self.reason}}
        return json_answer(body, self.status_code, self.headers)


async def on_http_error(request: Request, error: Exception) -> Response:
    """Answer a Refusal, and errors of the router in the same form."""
    assert isinstance(error, HTTPException)
    if not isinstance(error, Refusal):
        reason = _REASONS.get(error.status_code, "not-allowed")
        hint = "There are GET /healthz, /readyz and /status."
        error = Refusal(error.status_code, reason, error.detail, hint, error.headers)
    return error.response(request.url.path)


def defect(path: str) -> Response:
    """Return the answer to an exception that nobody expected, without telling what it was."""
    return Refusal(500, "defect", "something in the gateway broke while answering", "The log says more: logs/.").response(path)
