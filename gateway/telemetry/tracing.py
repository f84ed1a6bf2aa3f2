"""Traces for OpenTelemetry. Imported only where they are on: it brings in the SDK, which sends from a thread of its own.

A span holds ids, names of models and tools, and numbers; never what anybody wrote.
"""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from typing import Final, cast

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, set_span_in_context

from gateway.telemetry.recorder import Attributes

REMEMBERED: Final = 1000
"""Turns that are over and whose sends may still follow."""
EXPORT_SECONDS: Final = 5.0
PATH: Final = "/v1/traces"


class OtlpSpans:
    """Sends spans to a collector over OTLP/HTTP. Without an ``endpoint`` the variables ``OTEL_EXPORTER_OTLP_...`` say where to.

    Spans that the collector does not take are dropped, and the SDK's log says so.
    """

    def __init__(self, endpoint: str | None, version: str) -> None:
        where = None if endpoint is None else endpoint.rstrip("/").removesuffix(PATH) + PATH
        resource = Resource.create({"service.version": version})
        if resource.attributes.get("service.name", "").startswith("unknown_service"):  # type: ignore[union-attr]
            resource = resource.merge(Resource({"service.name": "homebody"}))
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=where, timeout=EXPORT_SECONDS)))
        self._tracer = self._provider.get_tracer("homebody", version)
        self._turns: OrderedDict[str, Context] = OrderedDict()
        logging.getLogger("opentelemetry").setLevel(logging.WARNING)

    def begin(self, turn: str, attributes: Attributes) -> object:
        """See ``Spans``."""
        span = self._tracer.start_span("turn", kind=SpanKind.SERVER, attributes={"homebody.turn": turn, **attributes})
        self._turns[turn] = set_span_in_context(span)
        while len(self._turns) > REMEMBERED:
            self._turns.popitem(last=False)
        return span

    def end(self, span: object, attributes: Attributes) -> None:
        """See ``Spans``."""
        ending = cast("Span", span)
        ending.set_attributes(dict(attributes))
        ending.end()

    def record(self, name: str, turn: str, seconds: float, attributes: Attributes, *, failed: bool) -> None:
        """See ``Spans``."""
        now = time.time_ns()
        facts = {"homebody.turn": turn, **attributes} if turn else dict(attributes)
        span = self._tracer.start_span(
            name,
            context=self._turns.get(turn, Context()),
            kind=SpanKind.INTERNAL if name == "tool" else SpanKind.CLIENT,
            attributes=facts,
            start_time=now - round(seconds * 1e9),
        )
        if failed:
            span.set_status(Status(StatusCode.ERROR))
        span.end(now)

    def close(self) -> None:
        """Send what waits. Blocks until it was sent or the collector did not answer."""
        self._provider.shutdown()
