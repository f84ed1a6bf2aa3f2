"""A real LiteLLM proxy between us and aimock: a compatible server that others wrote, in both languages that it speaks.

It is no dependency of ours. Where LITELLM_FOLDER names a folder that it was installed into, it is used:

    python -m pip install --target FOLDER "litellm[proxy]"
    LITELLM_FOLDER=FOLDER make test ARGS=tests/models/test_litellm.py
"""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from agent.messages import ToolCall
from agent.models.adapters.anthropic import AnthropicModel
from agent.models.adapters.openai_chat import OpenAIChatModel
from agent.models.catalog.known_models import ModelFacts
from tests.models.conversation import READ, ask, hear, result, shown, user
from tests.patience import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from agent.models.protocol import Model
    from tests.peers.aimock import Aimock

FOLDER = os.environ.get("LITELLM_FOLDER", "")
pytestmark = [
    pytest.mark.skipif(not FOLDER, reason="LiteLLM is not there; LITELLM_FOLDER names the folder it was installed into"),
]
MASTER = "sk-master"
START_SECONDS = PATIENCE
FACTS = ModelFacts(window=100_000, max_output=4_000, assumed=False)


@pytest.fixture
def proxy(tmp_path: Path, aimock: Aimock, unused_tcp_port: int) -> Iterator[str]:
    behind = {"model": "openai/gpt-4.1", "api_base": aimock.openai_url, "api_key": "k"}
    config = {
        "model_list": [{"model_name": "house", "litellm_params": behind}],
        "general_settings": {"master_key": MASTER},
        "litellm_settings": {"num_retries": 0, "telemetry": False},
        "router_settings": {"disable_cooldowns": True, "num_retries": 0},
    }
    (tmp_path / "litellm.json").write_text(json.dumps(config))
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": FOLDER, "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    code = "from litellm.proxy.proxy_cli import run_server; run_server()"
    command = [sys.executable, "-c", code, "--config", str(tmp_path / "litellm.json"), "--port", str(unused_tcp_port)]
    with (tmp_path / "litellm.log").open("wb") as log:
        process = subprocess.Popen([*command, "--host", "127.0.0.1"], env=env, stdout=log, stderr=log, cwd=tmp_path)
    try:
        _wait(unused_tcp_port, process, tmp_path / "litellm.log")
        yield f"http://127.0.0.1:{unused_tcp_port}"
    finally:
        process.terminate()
        process.wait(PATIENCE)


def _wait(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
        try:
            connection.request("GET", "/health/liveliness")
            if connection.getresponse().status == http.HTTPStatus.OK:
                return
        except OSError:
            time.sleep(0.2)
        finally:
            connection.close()
    pytest.fail(f"LiteLLM did not start:\n{log.read_text()[-4000:]}")


def models(proxy: str, key: str = MASTER) -> list[Model]:
    return [
        OpenAIChatModel("house", key=key, facts=FACTS, base_url=f"{proxy}/v1", provider="litellm", label="LiteLLM"),
        AnthropicModel("house", key=key, facts=FACTS, base_url=proxy, provider="litellm-anthropic", label="LiteLLM"),
    ]


async def test_a_conversation_with_a_tool_refusals_and_trouble_through_litellm(proxy: str, aimock: Aimock) -> None:
    aimock.answer(
        {
            "match": {"userMessage": "key", "hasToolResult": False},
            "response": {"toolCalls": [{"id": "call_1", "name": "read", "arguments": {"path": "a.md"}}]},
        },
        {"match": {"hasToolResult": True}, "response": {"content": "Under the blue pot."}},
    )
    for model in models(proxy):
        _, first = await hear(model, ask(user("where is the key?"), tools=(READ,), thinking="low"))
        assert first.failure is None, (model.name, first.failure)
        [call] = first.calls
        assert (call.name, call.arguments, first.stop) == ("read", {"path": "a.md"}, "tools"), model.name
        assert isinstance(call, ToolCall)
        deltas, second = await hear(model, ask(user("where is the key?"), first, result("Blue pot.", call.id), tools=(READ,)))
        assert shown(deltas) == second.text == "Under the blue pot.", model.name
        aimock.fail_next(429, "slow down", error_type="rate_limit_error")
        _, third = await hear(model, ask(user("where is the key?"), tools=(READ,)))
        assert third.failure is not None, model.name
        assert third.failure.kind == "rate_limit", (model.name, third.failure)
        await model.close()
    for model in models(proxy, key="sk-wrong"):
        _, refused = await hear(model, ask(user("where is the key?")))
        assert refused.failure is not None
        assert refused.failure.kind == "auth", (model.name, refused.failure)
        await model.close()
