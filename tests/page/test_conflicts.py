"""Calls of the page that came too late: they are told so with a status of their own and a sentence, and not as a defect."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import structlog
from starlette.applications import Starlette
from starlette.routing import Route

from channels.web.stored_files import StoredFiles
from gateway.api.routes.page_routes import PageRoutes
from gateway.base.errors import Conflict, HomebodyError, InvalidTransition, UsageError
from gateway.page.asset_files import AssetFiles
from gateway.page.browsers import Browsers, csrf_of
from gateway.page.page_events import EventHub

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (InvalidTransition("the message to send is not dead", where="outbox 7"), 409),
        (Conflict("it was undone already", hint="Look."), 409),
        (UsageError("there is no message 7", hint="Look."), 400),
        (HomebodyError("it broke", hint="Look."), 500),
    ],
)
async def test_a_call_that_comes_too_late_is_no_failure_of_the_gateway(
    tmp_path: Path, error: HomebodyError, status: int
) -> None:
    async def late(row: int) -> dict[str, Any]:
        raise error

    browsers = Browsers(tmp_path, lambda: datetime.now(UTC))
    _, cookie = browsers.enter(browsers.code()[0], "")
    routes = PageRoutes(
        assets=AssetFiles(),
        browsers=browsers,
        hub=EventHub(),
        files=StoredFiles(tmp_path / "files"),
        calls={"outbox.retry": late},
        told=dict,
        changed=lambda _: None,
        log=structlog.get_logger("gateway.page"),
        cookie="page",
    )
    app = Starlette(routes=[Route("/{path:path}", routes.answer, methods=["POST"])])
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://page") as client:
        client.cookies.set("page", cookie)
        headers = {"x-homebody-csrf": csrf_of(cookie)}
        answer = await client.post("/page/call/outbox.retry", json={"row": 7}, headers=headers)
        told = answer.json()["error"]
        assert (answer.status_code, told["message"]) == (status, error.message)
        assert told["hint"]
        german = await client.post("/page/call/outbox.retry", json={"row": 7}, headers=headers | {"x-homebody-language": "de"})
        if isinstance(error, InvalidTransition):
            assert german.json()["error"]["hint"].startswith("Es ist schon geschehen")
