"""Routes that are served while a setting says so, and whose code is loaded with the first request."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
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
    return on_demand_all((path,), key, enabled=enabled, make=make)[0]


def on_demand_all(paths: Sequence[str], key: str, *, enabled: Callable[[], bool], make: Callable[[], Answer]) -> list[Route]:
    """Return routes whose answers ``make`` gives all at once."""
    made: list[Answer] = []

    async def answer(request: Request) -> Response:
        if not enabled():
            path = request.scope["path"]
            prefix = next((one.partition("{")[0] for one in reversed(paths) if path.startswith(one.partition("{")[0])), path)
            raise Refusal(404, "not-served", f"{prefix} is not served", f"homebody config set {key} true")
        if not made:
            made.append(make())
        return await made[0](request)

    return [Route(path, answer, methods=list(_METHODS)) for path in paths]
