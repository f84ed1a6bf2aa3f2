"""The owner's commands to a running gateway, for the command line.

POST /admin/CALL   arguments as a JSON object; 200 with {"result": ...}, or an error with the exit code that the command ends with
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from inspect import signature
from typing import TYPE_CHECKING, Any, TypeAlias

from starlette.routing import Route

from gateway.api.answers import json_answer
from gateway.base.errors import HolderAway, HomebodyError, OtherVersion, UsageError, as_homebody_error

if TYPE_CHECKING:
    import structlog
    from starlette.requests import Request
    from starlette.responses import Response

_UNKNOWN = "the gateway that runs is of another version than this command, and does not understand it"

Call: TypeAlias = "Callable[..., Awaitable[Any]]"
"""Takes keyword arguments and returns JSON values."""


def admin_routes(calls: Mapping[str, Call], log: structlog.typing.FilteringBoundLogger) -> list[Route]:
    """Return the route of all ``calls``. For the unix socket only: whoever reaches it is the owner."""

    async def on_call(request: Request) -> Response:
        name = request.path_params["call"]
        try:
            call, given = calls[name], json.loads(await request.body())
            signature(call).bind(**given)
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            log.info("a call that this gateway does not know", call=name, why=str(error))
            return json_answer(OtherVersion(_UNKNOWN, hint="Start it again: homebody restart").as_json(), 404)
        try:
            return json_answer({"result": await call(**given)})
        except HomebodyError as error:
            return _failed(error)
        except Exception as error:  # a defect must reach the one who asked, and the log, and no further
            known = as_homebody_error(error)
            if known is None:
                log.exception("an admin call failed", call=name)
            return _failed(known or HomebodyError("the gateway failed over this", hint="Its log tells more."))

    return [Route("/admin/{call}", on_call, methods=["POST"])]


def _failed(error: HomebodyError) -> Response:
    if isinstance(error, HolderAway):
        return json_answer(error.as_json(), 503, {"retry-after": "10"})
    return json_answer(error.as_json(), 400 if isinstance(error, UsageError) else 500)
