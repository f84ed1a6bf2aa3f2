"""Routes that are served while a setting says so, and whose code is loaded with the first request."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from starlette.routing import Route

from gateway.api.answers import Refusal

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    Answer = Callable[[Request], Awaitable[Response]]

_METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")


def on_demand(path: str, key: str, *, enabled: Callable[[], bool], make: Callable[[], Answer]) -> Route:
    """Return a route that ``make`` gives its answers. ``key`` is the setting that ``enabled`` reads."""
    made: list[Answer] = []

    async def answer(request: Request) -> Response:
        if not enabled():
            raise Refusal(404, "not-served", f"{path.partition('{')[0]} is not served", f"homebody config set {key} true")
        if not made:
            made.append(make())
        return await made[0](request)

    return Route(path, answer, methods=list(_METHODS))
