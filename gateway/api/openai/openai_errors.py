"""Errors in OpenAI's form, which its libraries turn into exceptions of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gateway.api.answers import json_answer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.responses import Response

_TYPES = {401: "authentication_error", 403: "permission_error", 404: "not_found_error", 429: "rate_limit_error"}
_SERVERS = 500


class ApiRefusal(Exception):
    """A request that is not answered. ``retry``: whether the same request may succeed later; libraries then repeat it themselves."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        param: str | None = None,
        retry: bool = False,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.param = param
        self.headers = {"x-should-retry": "true" if retry else "false", **(headers or {})}

    @property
    def body(self) -> dict[str, Any]:
        """The error as a JSON value."""
        return error_body(self.status, self.code, str(self), self.param)

    def response(self) -> Response:
        """Return the answer."""
        return json_answer(self.body, self.status, self.headers)


def error_body(status: int, code: str, message: str, param: str | None = None) -> dict[str, Any]:
    """Return an error in OpenAI's form."""
    kind = _TYPES.get(status, "server_error" if status >= _SERVERS else "invalid_request_error")
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}
