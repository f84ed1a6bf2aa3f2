"""The page on several agents: its example is read by the real loader, and does what the page says."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from channels.messages import ChatAddress, Inbound, Sender
from gateway.base.clock import ManualClock
from gateway.base.paths import Paths
from gateway.config.load import load
from gateway.routing.access import Access, Allowed
from gateway.routing.router import router_of
from gateway.supervision.platforms import platforms

PAGE = Path(__file__).resolve().parents[2] / "docs" / "many-agents.md"
ENV = {"TELEGRAM_BOT_TOKEN": "1:a", "SLACK_BOT_TOKEN": "xoxb-1", "SLACK_APP_TOKEN": "xapp-1"}
FAMILY = "-1001234567890"


def read(folder: Path, *blocks: str):
    path = folder / "homebody.yaml"
    path.write_text("\n".join(blocks))
    path.chmod(0o600)
    loaded = load(Paths(folder), ENV)
    assert loaded.warnings == ()
    return loaded.settings


def example(number: int) -> str:
    return re.findall(r"```yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)[number]


def message(channel: str, sender: str, *, group: str | None = None, thread: str | None = None) -> Inbound:
    kind, place = ("group", group) if group else ("direct", sender)
    return Inbound(
        conversation=ChatAddress(channel=channel, kind=kind, id=place, thread=thread),
        sender=Sender(id=sender),
        text="hi",
        at=datetime(2026, 3, 1, tzinfo=UTC),
        key="k",
        alias="k",
        message_id="1",
        mentioned=True,
    )


class NobodyApproved:
    async def approved(self):
        return []


@pytest.mark.parametrize(
    ("said", "agent", "session", "hears"),
    [
        (message("telegram", "4711"), "main", "agent:main:main", "owner"),
        (message("slack", "U0ANNA0001"), "work", "agent:work:main", "owner"),
        (message("telegram", "4711", group=FAMILY), "main", f"agent:main:telegram:group:{FAMILY}", "group"),
        (
            message("telegram", "4711", group=FAMILY, thread="7"),
            "work",
            f"agent:work:telegram:group:{FAMILY}:thread:7",
            "group",
        ),
        (message("slack", "U0ZOE00001", group="C0PROJECT1"), "work", "agent:work:slack:group:c0project1", "group"),
        (message("slack", "U0ZOE00001"), None, "", ""),
        (message("telegram", "99", group=FAMILY), None, "", ""),
    ],
)
async def test_the_example_leads_everybody_where_the_page_says(tmp_path: Path, said, agent, session, hears) -> None:
    settings = read(tmp_path, example(0))
    policies = {(one.name, one.account): policy for one, policy in platforms(settings, ManualClock(said.at), ENV)}
    access = Access(NobodyApproved(), lambda: policies, settings.session.identity_links)
    decision = await access.decide(said.conversation, said.sender, mentioned=True)
    if agent is None:
        assert not isinstance(decision, Allowed)
        return
    assert isinstance(decision, Allowed)
    route = router_of(settings).resolve(said, decision.actor)
    assert (route.agent, route.session, route.audience.kind) == (agent, session, hears)


def test_the_agents_of_the_example_differ_as_the_page_says(tmp_path: Path) -> None:
    settings = read(tmp_path, example(0))
    main, work = settings.agent("main"), settings.agent("work")
    assert main.workspace == Path.home() / "homebody"
    assert work.workspace == Path.home() / "homebody-work"
    assert (main.settings.limits.max_tool_calls, work.settings.limits.max_tool_calls) == (40, 20)
    assert main.settings.user_timezone == work.settings.user_timezone == "Europe/Berlin"
    assert "write" in work.tools[-1].deny
    assert "write" not in main.tools[-1].deny


def test_both_agents_answer_where_the_page_names_both(tmp_path: Path) -> None:
    settings = read(tmp_path, example(0), example(1))
    assert router_of(settings).answering(message("telegram", "4711", group=FAMILY, thread="7").conversation) == ("main", "work")
