"""``slack_search``: there while a token of the owner's is configured, for the owner alone, and what it finds is untrusted."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import pytest

from agent.tools.protocol import is_private
from channels.built_in import PlatformSettings
from channels.message_search import SearchRefused
from channels.slack.slack_search import SlackMessageSearch
from gateway.net.testing import RecordedNetwork
from gateway.tools.message_search_provider import MessageSearchProvider
from tests.peers.search_apis import answer, asked
from tests.peers.web import fetcher_on
from tests.web.conftest import scene

if TYPE_CHECKING:
    from tests.peers.web import Answer, Seen, WebPeer, Write

TOKEN = "xoxp-1-owner"
MATCH = {
    "type": "message",
    "channel": {"id": "C1", "name": "garden", "is_im": False},
    "user": "U1",
    "username": "ben",
    "ts": "1767254400.000100",
    "text": "The <https://taps.example|tap> &amp; hose",
    "permalink": "https://home.slack.com/archives/C1/p1767254400000100",
}


def slack(*matches: dict[str, Any], error: str = "") -> Answer:
    """Slack's search.messages, strict about what it is asked."""

    async def handle(request: Seen, write: Write) -> None:
        wish = asked(request)
        right = (
            request.method == "GET"
            and request.target.startswith("/api/search.messages?")
            and set(wish) <= {"query", "count", "page", "sort", "sort_dir", "highlight"}
            and 1 <= int(wish["count"]) <= 100
            and wish["sort"] in {"score", "timestamp"}
        )
        code = error or ("" if request.headers.get("authorization") == f"Bearer {TOKEN}" else "invalid_auth")
        code = code or ("" if right else "invalid_arguments")
        found = {"ok": True, "query": wish["query"], "messages": {"total": len(matches), "matches": list(matches)}}
        await write(answer(200, {"ok": False, "error": code} if code else found))

    return handle


def provider(peer: WebPeer, **slack_section: Any) -> tuple[MessageSearchProvider, dict[str, PlatformSettings]]:
    network = RecordedNetwork(names={"slack.lan": [["192.168.0.7"]]}, peers={("192.168.0.7", 80): peer.port})
    given = {"botToken": "xoxb-1", "apiRoot": "http://slack.lan/api", **slack_section}
    now = {"settings": PlatformSettings.model_validate({"slack": given})}
    return MessageSearchProvider(lambda: now["settings"], fetcher_on(network), lambda: ZoneInfo("Europe/Rome")), now


async def test_the_owner_finds_messages_and_what_is_found_is_untrusted(peer: WebPeer) -> None:
    private = {**MATCH, "channel": {"id": "D1", "is_im": True}, "username": "", "text": "x" * 900, "permalink": ""}
    peer.answers["*"] = slack(MATCH, private, {"ts": "none", "text": "odd"}, {"ts": MATCH["ts"], "text": ""})
    made, _ = provider(peer, userToken=TOKEN)
    [tool] = made.tools()
    outcome = await tool.run({"query": "tap in:#garden", "newest": True}, scene())
    first, second = outcome.text.split("\n\n")
    assert first == (
        "1. 2026-01-01 09:00 ben in #garden\n   https://home.slack.com/archives/C1/p1767254400000100\n"
        "   The tap (https://taps.example) & hose"
    )
    assert second == f"2. 2026-01-01 09:00 U1 in a private conversation\n   {'x' * 699}…"
    assert outcome.sources == ("messages:slack",)
    assert "sort=timestamp" in peer.seen[0].target
    assert is_private(tool)
    assert tool.spec.name == "slack_search"


async def test_the_tool_is_there_only_while_a_token_is(peer: WebPeer) -> None:
    made, now = provider(peer)
    before = made.version
    assert list(made.tools()) == []
    now["settings"] = PlatformSettings.model_validate({"slack": {"botToken": "xoxb-1", "userToken": TOKEN}})
    assert made.version != before
    first = made.tools()
    assert [tool.spec.name for tool in first] == ["slack_search"]
    assert made.tools()[0] is first[0], "the same bytes for the provider's cache"


@pytest.mark.parametrize(
    ("error", "said"),
    [("missing_scope", "search:read"), ("not_allowed_token_type", "xoxp-"), ("invalid_auth", "channels.slack.userToken")],
)
async def test_a_refusal_says_what_to_do(peer: WebPeer, error: str, said: str) -> None:
    peer.answers["*"] = slack(error=error)
    [tool] = provider(peer, userToken=TOKEN)[0].tools()
    outcome = await tool.run({"query": "tap"}, scene())
    assert outcome.is_error
    assert error in outcome.text
    assert said in outcome.text
    assert TOKEN not in outcome.text


@pytest.mark.parametrize(("status", "body"), [(429, b""), (500, b"<html>"), (200, b"[]"), (200, b"[" * 100_000)])
def test_an_answer_that_is_none_of_slacks_is_no_result(status: int, body: bytes) -> None:
    with pytest.raises(SearchRefused):
        SlackMessageSearch("https://slack.com/api", TOKEN).found(status, body)


def test_odd_matches_are_passed_over() -> None:
    search = SlackMessageSearch("https://slack.com/api", TOKEN)
    for messages in (None, [], {"matches": None}, {"matches": [None, 3, {"ts": 5, "text": "x"}]}):
        assert search.found(200, json.dumps({"ok": True, "messages": messages}).encode()) == []
