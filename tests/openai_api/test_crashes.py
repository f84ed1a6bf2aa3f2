"""The real program, killed while it takes a request, works on it, and answers it: the request that comes again is one turn."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from tests.hooks.test_program import House
from tests.sampling import parametrize_some

if TYPE_CHECKING:
    from pathlib import Path

KEY = {"Idempotency-Key": "one"}
TEXT = "remember that the spare key is under the blue pot"


def ask(address: str, token: str, text: str = TEXT, **headers: str) -> httpx.Response:
    body = {"model": "homebody", "messages": [{"role": "user", "content": text}]}
    given = {"Authorization": f"Bearer {token}", **headers}
    url = address.replace("/hooks/in", "/v1/chat/completions")
    return httpx.post(url, headers=given, json=body, timeout=60, trust_env=False, verify=False)


def content(answer: httpx.Response) -> str:
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = json.loads(answer.text)
    return str(found["choices"][0]["message"]["content"])


@pytest.mark.cpu_seconds(240)
@pytest.mark.parametrize("repeat", [KEY, {"x-stainless-retry-count": "1"}], ids=["by its key", "by a library"])
@parametrize_some(2, "fault", ["before-accept:1", "after-accept:1", "after-claim:1", "before-finish:1", "after-finish:1"])
def test_a_request_whose_answer_was_lost_in_a_crash_is_one_turn(tmp_path: Path, fault: str, repeat: dict[str, str]) -> None:
    house = House(tmp_path)
    house.run("config", "set", "gateway.openai.enabled", "true")
    token = house.run("api", "tokens", "add", "app", "--owner")["token"]
    first = repeat if repeat == KEY else {}
    with house.gateway(fault) as address, pytest.raises(httpx.TransportError):
        ask(address, token, **first)
    with house.gateway() as address:
        assert "blue pot" in content(ask(address, token, **repeat))
        if repeat == KEY:
            assert "blue pot" in content(ask(address, token, **repeat))
        status = content(ask(address, token, "/status"))
        assert "blue pot" not in status  # the answer was given, and is not owed any more
        facts = house.run("channels", "status")["channels"]["api:default"]
        assert (facts["state"], facts.get("trouble")) == ("connected", None)
    notes = [path.read_text() for path in (tmp_path / "homebody/memory").glob("2*.md")]
    assert "".join(notes).count("blue pot") == 1
    told = [path.read_text() for path in (tmp_path / "settings/agents/main/sessions").glob("*.jsonl")]
    assert "".join(told).count(TEXT) == 1
