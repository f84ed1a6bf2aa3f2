"""``homebody models`` as a person runs it."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from agent.models.catalog.prices import AS_OF
from gateway.cli import main
from gateway.models.facts_cache import FILE_NAME, ModelFactsCache
from tests.peers.anthropic import AnthropicPeer, Refuse

if TYPE_CHECKING:
    from pathlib import Path

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("HOMEBODY_HOME", str(tmp_path))

    def command(*arguments: str) -> tuple[int, str, str]:
        code = main(["models", *arguments])
        shown = capsys.readouterr()
        return code, shown.out, shown.err

    return command


@pytest.fixture
def peer(monkeypatch: pytest.MonkeyPatch) -> Iterator[AnthropicPeer]:
    """A peer in a thread of its own, since the command has an event loop of its own."""
    loop, made = asyncio.new_event_loop(), AnthropicPeer()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    runner = asyncio.run_coroutine_threadsafe(made.start(), loop).result(10)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "test-key")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", made.url)
    yield made
    asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result(10)
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


def test_models_with_a_key_are_listed(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "test-key")
    code, out, _ = run("list")
    assert code == 0
    assert "anthropic/claude-sonnet-5-5" in out
    assert "openai/" not in out
    assert "openai/" in run("list", "--all")[1]
    haiku = next(offer for offer in json.loads(run("list", "--json")[1]) if offer["name"] == "anthropic/claude-haiku-4-5")
    assert haiku["price"] == {"input": 1, "output": 5, "asOf": AS_OF}
    assert (haiku["images"], haiku["thinks"]) == (True, True)
    listed = {offer["name"]: offer["usable"] for offer in json.loads(run("list", "--json")[1])}
    assert (listed["anthropic/claude-sonnet-5-5"], listed["openai/gpt-6-sol"], listed["offline/notebook"]) == (
        True,
        False,
        True,
    )


def test_the_state_of_keys_is_told_and_no_key(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    code, out, err = run("status")
    assert code == 0
    assert "agent main: openai/gpt-6.1-terra" in out
    assert "export ANTHROPIC_API_KEY=" in out
    facts = json.loads(run("status", "--json")[1])
    assert facts["agents"][0]["model"] == "openai/gpt-6.1-terra"
    assert {one["provider"]: one["key"] for one in facts["providers"]}["openai"] == "environment"
    assert "sk-very-secret" not in out + err + json.dumps(facts)


def test_a_configured_model_without_a_key_is_told_with_the_mend(run: Run, tmp_path: Path) -> None:
    (tmp_path / "homebody.yaml").write_text("agents:\n  defaults:\n    model: opus\n")
    [agent] = json.loads(run("status", "--json")[1])["agents"]
    assert (agent["model"], agent["chosen"]) == (None, "as configured")
    assert "needs a key" in agent["problem"]
    assert "export ANTHROPIC_API_KEY=" in agent["mend"]


def test_the_window_is_the_one_that_the_server_told(run: Run, tmp_path: Path) -> None:
    address = "http://127.0.0.1:9/v1"
    asked = {"providers": {"box": {"baseUrl": address, "models": [{"id": "small"}, {"id": "said", "contextWindow": 8000}]}}}
    settings = {"models": asked, "agents": {"defaults": {"model": "box/small"}}}
    (tmp_path / "homebody.yaml").write_text(json.dumps(settings))
    (tmp_path / "state").mkdir(mode=0o700)
    learnt = ModelFactsCache(tmp_path / "state" / FILE_NAME)
    for model in ("small", "said"):
        asyncio.run(learnt.record(f"box/{model}", 32_768, 4096))
    listed = {offer["name"]: (offer["window"], offer["maxOutput"]) for offer in json.loads(run("list", "--json")[1])}
    assert listed["box/small"] == (32_768, 4096)
    assert listed["box/said"][0] == 8000, "what the settings say is no guess"
    [agent] = json.loads(run("status", "--json")[1])["agents"]
    assert (agent["model"], agent["window"]) == ("box/small", 32_768)


def test_a_model_that_answers_is_told_with_its_time(run: Run, peer: AnthropicPeer) -> None:
    code, out, _ = run("probe", "--json")
    facts = json.loads(out)
    assert (code, facts["model"], facts["reply"], facts["stop"]) == (0, "anthropic/claude-sonnet-5-5", "Very well.", "end")
    assert facts["usage"]["output"] == 17
    assert peer.requests[0]["tools"], "whether it can use tools is part of the question"
    assert "answered in" in run("probe", "haiku")[1]
    assert peer.requests[1]["model"] == "claude-haiku-5-5"


def test_a_refused_key_has_its_exit_code(run: Run, peer: AnthropicPeer) -> None:
    peer.answer(Refuse(401, "authentication_error"))
    code, _, err = run("probe")
    assert code == 4
    assert "ANTHROPIC_API_KEY: Anthropic does not accept the key" in err
    assert "export ANTHROPIC_API_KEY=..." in err
    assert "test-key" not in err


def test_every_key_is_tried_and_those_turned_down_are_told_with_what_renews_them(
    run: Run, peer: AnthropicPeer, tmp_path: Path
) -> None:
    provider = f"models: {{providers: {{anthropic: {{baseUrl: '{peer.url}', apiKey: [sk-first-one, sk-second-one]}}}}}}"
    (tmp_path / "homebody.yaml").write_text(provider)
    (tmp_path / "homebody.yaml").chmod(0o600)
    peer.answer(Refuse(401, "authentication_error"))
    code, out, err = run("probe", "sonnet", "--json")
    facts = json.loads(out)
    assert (code, facts["key"]) == (0, "models.providers.anthropic.apiKey[1]")
    assert [(one["from"], one["mend"]) for one in facts["refused"]] == [
        ("models.providers.anthropic.apiKey[0]", "homebody config set 'models.providers.anthropic.apiKey[0]'")
    ]
    assert "models.providers.anthropic.apiKey[0] was rejected" in err
    peer.answer(*[Refuse(401, "authentication_error")] * 3)
    code, _, err = run("probe", "sonnet")
    assert (code, "ANTHROPIC_API_KEY, nor 2 others before it" in err) == (4, True)
    peer.answer(Refuse(400, "invalid_request_error", "of no use to sk-first-one"))
    code, _, err = run("probe", "sonnet", "--json")
    told = json.loads(err)
    assert (code, told["where"]) == (1, f"anthropic/claude-sonnet-5-5 at {peer.url}")
    assert "of no use to [secret]" in told["error"]
    assert "sk-" not in out + err


def test_a_provider_without_an_address_hides_no_other_model(run: Run, tmp_path: Path) -> None:
    (tmp_path / "homebody.yaml").write_text("models: {providers: {mine: {models: [{id: m}]}}}")
    code, out, _ = run("list", "--all")
    assert (code, "mine/m" in out, "offline/notebook" in out) == (0, False, True)
    code, out, _ = run("status")
    assert (code, "homebody config set models.providers.mine.baseUrl" in out) == (0, True)
    code, _, err = run("probe", "mine/m")
    assert (code, "homebody config set models.providers.mine.baseUrl" in err) == (4, True)


def test_a_missing_key_is_told_with_what_brings_one(run: Run) -> None:
    code, _, err = run("probe", "openai/gpt-6-sol", "--json")
    told = json.loads(err)
    assert (code, told["exitCode"]) == (4, 4)
    assert told["mend"].startswith("export OPENAI_API_KEY=...")


def test_no_model_at_all_has_its_exit_code(run: Run) -> None:
    code, _, err = run("probe", "offline")
    assert (code, "no language model is configured" in err) == (4, True)
    assert "homebody models auth add" in err
    code, _, err = run("probe", "antropic/claude-opus-5", "--json")
    assert code == 4
    assert "anthropic/claude-opus-5" in json.loads(err)["error"]
