"""What the page of settings says of a change is what a house does with it."""

from __future__ import annotations

import copy
import logging
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import ValidationError

from agent.models.catalog.prices import ESTIMATE, Price
from agent.tools.protocol import Act
from channels.messages import ChatAddress
from gateway.config.effective import compare
from gateway.config.reference import markdown_page
from gateway.logs.log_setup import configure
from gateway.logs.redaction import Redactor
from gateway.routing.access import Actor
from gateway.sessions.sessions_file import SessionRecord
from gateway.settings.root import LoggingSettings, Settings
from tests.sampling import parametrize_some

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gateway.app.gateway import Gateway
    from gateway.config.effective import Difference
    from tests.reload.place import Place

NEEDED: dict[str, dict[str, Any]] = {
    "agents.list[]": {"id": "main"},
    "models.providers.<name>.models[]": {"id": "m"},
    "auth.profiles.<name>": {"provider": "openai"},
    "bindings[]": {"agentId": "main", "match": {"channel": "telegram", "peer": {"kind": "group", "id": "1"}}},
    "agents.defaults.model": {"primary": "a/b"},
    "agents.defaults.imageModel": {"primary": "a/b"},
    "approvals.rules[]": {"decision": "ask"},
    "channels.telegram.customCommands[]": {"command": "x", "description": "y"},
    "channels.whatsapp.template": {"name": "x"},
    "channels.slack.assistant.prompts[]": {"title": "x", "message": "y"},
    "agents.defaults.quietHours": {"start": "22:00", "end": "07:00"},
    "channels.email.imap": {"host": "imap.example.org"},
    "channels.email.smtp": {"host": "smtp.example.org"},
    "agents.defaults.heartbeat.activeHours": {"start": "08:00", "end": "22:00"},
}
"""What else a section must say before anything can be said there."""
BESIDES: dict[str, dict[str, Any]] = {
    "approvals.rules[].to": {"tool": "mail"},
    "approvals.rules[].untrusted": {"tool": "mail", "decision": "allow"},
}
"""What one key alone needs beside it."""
OWN_NAMES = ("channels.", "mcp.servers.", "mail.accounts.", "calendar.accounts.")
"""Tables by names of the owner, whose entries are taken over as a whole."""
NAMES = {"groups": "*", "channels": "*", "guilds": "*", "topics": "1"}
"""What owners' own names look like where not every word is one."""
BINDINGS = [{"agentId": "x", "match": {"channel": "telegram"}}]
BY_CHANNEL: tuple[Any, ...] = ({"telegram": "steer"}, {"telegram": 5}, {"telegram:1": ["main"]})
TRIED: dict[str, tuple[Any, ...]] = {
    "true or false": (True, False),
    "number": (1, 2, 0.3, 7, 30, 300, 2500, 5000, 100_000, 2_000_000),
    "list": (
        ["x"],
        ["read"],
        ["image"],
        ["sessions"],
        ["*"],
        ["127.0.0.1"],
        ["nas.lan:8080"],
        ["https://x.example"],
        [{"id": "x"}],
        ["age1x"],
        [{"decision": "deny"}],
        [{"command": "x", "description": "y"}],
        [{"title": "x", "message": "y"}],
        ["agent@example.org"],
        BINDINGS,
    ),
    "table": (
        {"x": "y"},
        {"x": {}},
        {"*": {}},
        {"1": {}},
        {"x": ["y"]},
        {"x": {"x": "y"}},
        {"x": {"provider": "y"}},
        {"*": "members"},
        *BY_CHANNEL,
        {"x": {"command": "y"}},
        {"x": {"url": "https://dav.example/", "user": "anna", "password": "x"}},
        {"x": {"imap": {"host": "b.example"}, "user": "a@b.example", "password": "x"}},
    ),
    "section": ({"kind": "group", "id": "2"}, {"name": "y"}, {"start": "21:00", "end": "06:00"}, {"host": "b.example"}),
    "text": (
        "x",
        "y/z",
        "12h",
        "Europe/Paris",
        "/x",
        "a-token-of-the-house-0123456789",
        "https://x.example/hook",
        "1:x",
        "none",
        "20:00",
        "10:00-11:00",
        "de",
        "agent@example.org",
        "@agent:example.org",
        "http://proxy.example:3128",
        "106540352242922",
        "v99.0",
        "postgresql://homebody@127.0.0.1/homebody",
    ),
}
"""Values by what the page calls them: the first that may stand there, and is a change, is the one."""


def rows() -> Iterator[tuple[str, str, list[Any], str]]:
    """Yield each key of the page: its section, its name, values to try, and what a change of it takes."""
    section = ""
    for line in markdown_page().splitlines():
        if line.startswith("## "):
            section = line.removeprefix("## ").removeprefix("at the top")
        elif line.startswith("| `"):
            cells = line.replace("\\|", "/").strip("| ").split(" | ")
            kinds = cells[1].replace("whole number", "number").replace("secret", "text").replace("path", "text")
            words = re.findall(r"`([^`]*)`", cells[1])
            values = [value for kind, some in TRIED.items() if kind in kinds for value in some]
            yield section, cells[0].strip("`"), [*words, *values, *([[word] for word in words])], cells[-1]


def given(section: str, key: str, value: Any) -> dict[str, Any]:
    """Return settings that say one thing, and besides that only what must be said."""
    root: dict[str, Any] = {}
    here, so_far, above = root, "", ""
    for step in filter(None, section.split(".")):
        so_far = f"{so_far}.{step}".lstrip(".")
        name = NAMES.get(above, "x") if step == "<name>" else step.removesuffix("[]")
        listed, above = step.endswith("[]"), step
        needed = copy.deepcopy(NEEDED.get(so_far, {}))
        found = here.setdefault(name, [needed] if listed else needed)
        here = found[0] if listed else found
    here.update(BESIDES.get(f"{section}.{key}", {}))
    if value is not None:
        here[key] = value
    return root


def change(section: str, key: str, values: list[Any]) -> Difference | None:
    """Return what comes of changing this one key, to the first value it can have."""
    before = Settings.model_validate(given(section, key, None))
    for value in values:
        try:
            after = Settings.model_validate(given(section, key, value))
        except ValidationError:
            continue
        if after != before:
            return compare(before, after)
    return None


@pytest.mark.parametrize("apart", [6, pytest.param(1, marks=pytest.mark.long)])
def test_every_key_of_the_page_is_taken_over_or_waits_as_its_last_column_says(apart: int) -> None:
    untried, wrong = [], []
    for section, key, values, column in list(rows())[::apart]:
        if section.startswith(OWN_NAMES) and "<name>" in section:
            continue  # a table of the owner's own names is taken over as a whole, which its own row says
        found = change(section, key, values)
        if found is None:
            untried.append(f"{section}.{key}")
        elif column != {(True, False): "hot", (False, True): "restart"}.get((bool(found.taken), bool(found.waiting))):
            wrong.append((section, key, column, found.taken, found.waiting))
    assert (untried, wrong) == ([], [])


NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
PLACE = ChatAddress(channel="telegram", kind="direct", id="1")
OWNER = Actor(role="owner", person="anna", sender="1")
TALKED = SessionRecord(session="s", key="agent:main:main", started=NOON, spoken=NOON, turns=1)
Look = tuple[dict[str, Any], "Callable[[Gateway], Any]", Any, Any]
HOLDS: dict[str, Look] = {
    "gateway.auth": (
        {"gateway": {"auth": {"token": "k3XqvT0b9LrWm5ZsYd8HcN2p"}}},
        lambda h: h.settings.current.gateway.auth.token.get_secret_value()[:3],  # read for each request: test_rights.py
        "a-t",
        "k3X",
    ),
    "backup": (
        {"backup": {"schedule": "sun 03:30"}},
        lambda h: h.settings.current.backup.schedule,  # read at each tick of the scheduler: tests/backup
        "off",
        "sun 03:30",
    ),
    "gateway.openai": ({"gateway": {"openai": {"enabled": True}}}, lambda h: h.api.enabled, False, True),
    "gateway.page": ({"gateway": {"page": {"enabled": False}}}, lambda h: h.settings.current.gateway.serves_page, True, False),
    "gateway.metrics": ({"gateway": {"metrics": {"enabled": True}}}, lambda h: h.metrics.enabled, False, True),
    "bindings": ({"bindings": [{"agentId": "main", "match": {"channel": "x"}}]}, lambda h: len(h.router.weighed(PLACE)), 0, 1),
    "broadcast": (
        {"broadcast": {"telegram:1": ["main", "work"]}, "agents": {"list": [{"id": "main"}, {"id": "work"}]}},
        lambda h: h.router.answering(PLACE),
        ("main",),
        ("main", "work"),
    ),
    "agents.defaults": (
        {"agents": {"defaults": {"userTimezone": "Asia/Tokyo"}}},
        lambda h: str(h.agents["main"].zone),
        "Europe/Berlin",
        "Asia/Tokyo",
    ),
    "agents.defaults.compaction": (
        {"agents": {"defaults": {"compaction": {"keepRecentTurns": 9}}}},
        lambda h: h.agents["main"].profile.settings.compaction.keep_recent_turns,
        3,
        9,
    ),
    "agents.defaults.memorySearch": (
        {"agents": {"defaults": {"memorySearch": {"query": {"maxResults": 2}}}}},
        lambda h: h.agents["main"].memory.settings.query.max_results,
        6,
        2,
    ),
    "agents.list": (
        {"agents": {"list": [{"id": "main", "promptMode": "none"}, {"id": "work"}]}},
        lambda h: {name: agent.profile.settings.prompt_mode for name, agent in h.agents.items()},
        {"main": "full"},
        {"main": "none", "work": "full"},
    ),
    "models": (
        {
            "models": {
                "providers": {"mine": {"baseUrl": "http://127.0.0.1:9/v1", "models": [{"id": "m", "cost": {"input": 3}}]}}
            }
        },
        lambda h: h.model_registry.price("mine/m"),
        ESTIMATE,
        Price(input=3.0, output=0.0, cache_read=None, cache_write=None),
    ),
    "auth": ({"auth": {"cooldowns": {"firstMinutes": 2}}}, lambda h: h.model_registry.health.rests().first, 60, 120),
    "session": (
        {"session": {"dmScope": "per-peer"}},
        lambda h: h.router.session_key("main", PLACE, OWNER),
        "agent:main:main",
        "agent:main:dm:anna",
    ),
    "session.reset": (
        {"session": {"reset": {"mode": "none"}}},
        lambda h: h.agents["main"].next_due(TALKED, TALKED.spoken) is None,
        False,
        True,
    ),
    "hooks": ({"hooks": {"internal": {"enabled": False}}}, lambda h: h.agents["main"].ended_sessions.saves, True, False),
    "channels.telegram": (
        {"channels": {"telegram": {"botToken": "1:x", "apiRoot": "http://127.0.0.1:9", "textChunkLimit": 999}}},
        lambda h: [name for name in h.channel_supervisor if name.startswith("telegram")],
        [],
        ["telegram:default"],
    ),
    "messages": ({"messages": {"botsInARow": 9}}, lambda h: h.inbox.settings.current.messages.bots_in_a_row, 4, 9),
    "messages.queue": (
        {"messages": {"queue": {"mode": "followup"}}},
        lambda h: h.queue.rule("agent:main:main", "terminal").mode,
        "collect",
        "followup",
    ),
    "tools": ({"tools": {"deny": ["*"]}}, lambda h: len(h.agents["main"].conversations.rack.box().specs) > 0, True, False),
    "approvals": (
        {"approvals": {"rules": [{"decision": "deny", "command": "rm"}]}},
        lambda h: h.rules.judge("main", "owner", frozenset(), Act(kind="exec", summary="", command="rm x", cwd="/")).decision,
        "ask",
        "deny",
    ),
    "mail": (
        {"mail": {"accounts": {"x": {"imap": {"host": "b.example"}, "user": "a@b.example", "password": "x"}}}},
        lambda h: list(h.settings.current.mail.accounts),
        [],
        ["x"],
    ),
    "skills": ({"skills": {"allowBundled": []}}, lambda h: h.settings.current.skills.allow_bundled, None, ()),
    "calendar": (
        {"calendar": {"hours": "10:00-11:00"}},
        lambda h: h.settings.current.calendar.hours,
        "09:00-18:00",
        "10:00-11:00",
    ),
    "mcp": (
        {"mcp": {"servers": {"x": {"command": "no-such-program"}}}},
        lambda h: [server.name for server in h.mcp.servers],
        [],
        ["x"],
    ),
    "budgets": ({"budgets": {"day": {"usd": 7}}}, lambda h: h.agents["main"].budget_guard.settings.day.usd, 5.0, 7.0),
    "plugins": ({"plugins": {"slots": {"memory": "none"}}}, lambda h: h.agents["main"].memory is None, False, True),
    "logging": ({"logging": {"level": "debug"}}, lambda _: logging.getLogger("gateway").getEffectiveLevel(), 20, 10),
}
"""For each kind of section: something said there, where it can be seen in a running house, and what is seen before and after."""


def test_no_kind_of_section_that_holds_at_once_is_left_out() -> None:
    hot = {f"{section}.{key}".lstrip(".") for section, key, _, column in rows() if column == "hot"}
    platforms = [f"channels.{name}" for name in ("discord", "slack", "matrix", "email", "whatsapp", "plugins")]
    alike = platforms  # as Telegram; the tests of platforms look closer
    assert not [key for key in hot if not key.startswith((*HOLDS, *alike))]


@parametrize_some(9, "section", HOLDS)
async def test_what_is_said_there_holds_at_once_in_a_running_house(place: Place, section: str) -> None:
    said, look, before, after = HOLDS[section]
    with configure(LoggingSettings(), place.paths, Redactor(), console=False) as logs:
        async with place.open(logs=logs) as house:
            assert look(house) == before
            place.write(said)
            came = await house.reload.now()
            await house.agent_supervisor.settled()
            assert (look(house), came["waiting"], bool(came["taken"])) == (after, [], True)
            place.write({})
            await house.reload.now()
            await house.agent_supervisor.settled()
            assert look(house) == before
