"""Traces by OpenTelemetry's own SDK, to a small receiver of OTLP over HTTP."""

from __future__ import annotations

import gzip
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from agent.messages import ToolCall
from tests.openai_api.conftest import ApiVillage, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pytest


class Collector:
    """What was received."""

    def __init__(self) -> None:
        self.requests: list[ExportTraceServiceRequest] = []
        self.headers: list[dict[str, str]] = []
        self.status = 200
        self.url = ""

    @property
    def spans(self) -> list[Any]:
        return [
            span
            for one in self.requests
            for resource in one.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    def attributes(self, span: Any) -> dict[str, Any]:
        return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in span.attributes}


@contextmanager
def collector() -> Iterator[Collector]:
    found = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.headers.get("content-encoding") == "gzip":
                body = gzip.decompress(body)
            if self.path == "/v1/traces" and found.status == 200:
                found.headers.append({name.lower(): value for name, value in self.headers.items()})
                found.requests.append(ExportTraceServiceRequest.FromString(body))
            self.send_response(found.status)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    found.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield found
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def traced(url: str | None) -> dict[str, Any]:
    return {"tracing": {"enabled": True, **({"endpoint": url} if url else {})}}


async def test_a_turn_is_one_trace_of_ids_and_numbers(tmp_path: Path) -> None:
    with collector() as received:
        village = ApiVillage(tmp_path, gateway=traced(received.url))
        village.model.then([ToolCall(id="c1", name="read", arguments={"path": "secret-plan.md"})], "The answer is marmalade.")
        async with village.served() as served:
            await served.phone.say("What is the secret question?")
            await served.phone.until(lambda: served.phone.texts("anna"))
            await served.house.lanes.quiet()
            await served.house.delivery.settled()
        by_name: dict[str, list[Any]] = {}
        for span in received.spans:
            by_name.setdefault(span.name, []).append(span)
        assert {name: len(found) for name, found in by_name.items() if name != "model"} == {"turn": 1, "tool": 1, "send": 1}
        (turn,) = by_name["turn"]
        children = [*by_name["tool"], *by_name["send"], *by_name["model"][:2]]
        assert {span.trace_id for span in children} == {turn.trace_id}
        assert {span.parent_span_id for span in children} == {turn.span_id}
        assert all(span.end_time_unix_nano >= span.start_time_unix_nano > 0 for span in received.spans)
        assert turn.end_time_unix_nano > turn.start_time_unix_nano
        told = received.attributes(turn)
        assert told["homebody.session"] == "agent:main:main"
        assert (told["homebody.origin"], told["homebody.channel"], told["homebody.agent"]) == ("owner", "phone", "main")
        assert received.attributes(by_name["tool"][0])["gen_ai.tool.name"] == "read"
        assert by_name["tool"][0].status.code == 2  # the file does not exist
        assert received.attributes(by_name["model"][0])["gen_ai.usage.output_tokens"] > 0
        assert received.attributes(by_name["send"][0])["homebody.outcome"] == "sent"
        names = {one.key: one.value.string_value for one in received.requests[0].resource_spans[0].resource.attributes}
        assert names["service.name"] == "homebody"
        everything = b"".join(one.SerializeToString() for one in received.requests)
        for text in (b"secret", b"plan", b"marmalade", b"question"):
            assert text not in everything


async def test_the_usual_variables_say_where_to_and_how(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with collector() as received:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", received.url)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-team=home")
        monkeypatch.setenv("OTEL_SERVICE_NAME", "attic")
        village = ApiVillage(tmp_path, gateway=traced(None))
        village.model.reply_with(lambda _: "ok")
        async with village.served() as served:
            await served.ask("hello")
        assert received.headers[0]["x-team"] == "home"
        names = {one.key: one.value.string_value for one in received.requests[0].resource_spans[0].resource.attributes}
        assert names["service.name"] == "attic"


async def test_a_collector_that_fails_or_is_away_holds_up_nothing(tmp_path: Path) -> None:
    with collector() as received:
        received.status = 503
        village = ApiVillage(tmp_path / "503", gateway=traced(received.url))
        village.model.reply_with(lambda _: "ok")
        async with village.served() as served:
            assert (await served.ask("hello")).choices[0].message.content == "ok"
        url = received.url
    village = ApiVillage(tmp_path / "away", gateway=traced(url))
    village.model.reply_with(lambda _: "ok")
    async with village.served() as served:
        assert (await served.ask("hello")).choices[0].message.content == "ok"
        await until(lambda: not served.house.lanes.running())
