"""/metrics as Prometheus reads it: its own parser, against a whole house."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics
from prometheus_client.parser import text_string_to_metric_families

from agent.messages import ToolCall
from gateway.telemetry.exposition import Exposition, Standing
from gateway.telemetry.recorder import FAST, Histogram, Telemetry
from tests.openai_api.conftest import ApiVillage, Served

ROOT = Path(__file__).resolve().parents[2]
ON: dict[str, Any] = {"metrics": {"enabled": True}}


async def read(served: Served, **more: Any) -> dict[tuple[str, ...], float]:
    answer = await served.raw("GET", "/metrics", **more)
    assert answer.status_code == 200, answer.text
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


async def test_a_turn_is_counted_and_timed_everywhere(tmp_path: Path) -> None:
    village = ApiVillage(tmp_path, gateway=ON)
    village.model.then([ToolCall(id="c", name="read", arguments={"path": "none.md"})], "done")
    async with village.served() as served:
        await served.phone.say("hello")
        await served.phone.until(lambda: served.phone.texts("anna"))
        await served.house.lanes.quiet()
        await served.house.delivery.settled()
        now = await read(served)
        assert now["homebody_messages_received_total", "phone"] == 1
        assert now["homebody_messages_sent_total", "phone", "sent"] == 1
        assert now["homebody_turns_total", "owner", "done"] == 1
        assert now["homebody_turn_seconds_count", "owner"] == 1
        assert now["homebody_model_call_seconds_count", "scripted/model"] == 2
        assert now["homebody_model_tokens_total", "output", "scripted/model"] > 0
        assert now["homebody_tool_seconds_count", "read"] == 1
        assert now["homebody_tool_failures_total", "read"] == 1
        assert now["homebody_send_seconds_count", "phone"] == 1
        assert now["homebody_ledger_commit_seconds_count",] > 3
        assert now["homebody_outbox_chunks", "sent"] == 1
        assert now["homebody_outbox_chunks", "dead"] == 0
        assert now["homebody_messages_waiting",] == 0
        assert now["homebody_sessions", "main"] == 1
        assert now["homebody_channel_connected", "api:default"] == 1
        assert now["homebody_channel_connections_total", "api:default"] == 1
        assert now["process_resident_memory_bytes",] > 1e6
        assert "homebody_event_loop_lag_seconds_count" in {name for name, *_ in now}


async def test_it_is_read_in_the_newer_form_too(tmp_path: Path) -> None:
    village = ApiVillage(tmp_path, gateway=ON)
    async with village.served() as served:
        answer = await served.raw("GET", "/metrics", headers={"accept": "application/openmetrics-text; version=1.0.0"})
        assert answer.headers["content-type"].startswith("application/openmetrics-text")
        assert {family.name for family in open_metrics(answer.text)} >= {"homebody_turns", "homebody_turn_seconds"}


@pytest.mark.sec(2)
async def test_it_is_off_by_default_and_needs_the_token_unless_this_machine_may(tmp_path: Path) -> None:
    village = ApiVillage(tmp_path / "off")
    async with village.served() as served:
        assert (await served.raw("GET", "/metrics")).status_code == 404
    village = ApiVillage(tmp_path / "token", gateway=ON)
    async with village.served() as served:
        client = served.token("app")  # a program's token is none of the gateway's
        for token in ("none", client):
            assert (await served.raw("GET", "/metrics", token)).status_code == 401
        assert (await served.raw("POST", "/metrics")).status_code == 405
    open_here = {"metrics": {"enabled": True, "access": "loopback"}, "trustedProxies": ["127.0.0.1", "::1"]}
    village = ApiVillage(tmp_path / "loopback", gateway=open_here)
    async with village.served() as served:
        await read(served, token="none")
        forwarded = {"x-forwarded-for": "10.0.0.9"}
        assert (await served.raw("GET", "/metrics", "none", headers=forwarded)).status_code == 401
        assert (await served.raw("GET", "/metrics", headers=forwarded)).status_code == 200
        assert (await served.raw("GET", "/metrics", "none", headers={"origin": "https://evil.example"})).status_code == 403


def test_nothing_is_imported_for_what_is_not_asked_for() -> None:
    code = (
        "import sys, gateway.app.gateway, gateway.app.services; "
        "print([name for name in sys.modules if name.partition('.')[0] in {'prometheus_client', 'opentelemetry'} "
        "or name in {'gateway.telemetry.exposition', 'gateway.telemetry.tracing', 'gateway.api.routes.openai_routes', "
        "'channels.openai_api.channel'}])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def names() -> set[str]:
    standing = Standing(
        version="1",
        waiting=0,
        running=0,
        suspended=0,
        held=0,
        kept=0,
        lanes=0,
        requests=0,
        outbox={},
        jobs={},
        channels={},
        connections={},
    )
    text, _ = Exposition(Telemetry(), Histogram(FAST)).text(standing, "")
    return {
        name
        for family in text_string_to_metric_families(text.decode())
        if (name := re.sub("_info$", "", family.name)).startswith("homebody")
    }


def test_the_examples_in_the_docs_can_be_read_and_name_metrics_that_there_are() -> None:
    page = (ROOT / "docs/metrics.md").read_text()
    known = names()
    blocks = re.findall(r"```(yaml|json)\n(.*?)```", page, re.DOTALL)
    assert [kind for kind, _ in blocks] == ["yaml", "yaml", "json"]
    scrape, rules, board = yaml.safe_load(blocks[0][1]), yaml.safe_load(blocks[1][1]), json.loads(blocks[2][1])
    (job,) = scrape["scrape_configs"]
    assert job["metrics_path"] == "/metrics"
    assert job["authorization"]["type"] == "Bearer"
    expressions = [rule["expr"] for group in rules["groups"] for rule in group["rules"]]
    expressions += [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    assert len(expressions) >= 10
    used = {name for one in expressions for name in re.findall(r"\bhomebody_\w+", one)}
    bare = {re.sub(r"_(total|bucket|sum|count)$", "", name) for name in used}
    assert bare <= known, bare - known
    listed = set(re.findall(r"`(homebody_\w+)`", page))
    assert {re.sub(r"_(total|info)$", "", name) for name in listed} == known
