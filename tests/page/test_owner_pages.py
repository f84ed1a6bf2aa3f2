"""Memory, Approvals, Schedule and Settings over the network: who may do what, and what open pages are told of."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from agent.messages import ToolCall
from gateway.page.calls import CALLS
from tests.patience import PATIENCE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.page.conftest import PageVillage, ServedPage

CHANGING = {
    "approvals.decide": {"name": "aaaaaaaa", "choice": "once", "source": "browser page"},
    "approvals.forget": {"rule": "builtin:git"},
    "approvals.restore": {"rule": "builtin:git"},
    "jobs.add": {"when": "in 1 hour", "text": "x"},
    "jobs.change": {"job": "x", "when": "in 1 hour"},
    "jobs.pause": {"job": "x"},
    "jobs.remove": {"job": "x"},
    "jobs.resume": {"job": "x"},
    "jobs.run": {"job": "x"},
    "memory.remove": {"agent": "main", "path": "SOUL.md", "expected": ""},
    "memory.undo": {"agent": "main", "version": "1"},
    "memory.write": {"agent": "main", "path": "memory/x.md", "text": "x", "expected": None},
    "settings.write": {"changes": [{"key": "logging.level", "value": "debug"}], "expected": ""},
}


async def next_of(events: AsyncIterator[dict[str, Any]], kind: str) -> None:
    async with asyncio.timeout(PATIENCE):
        async for event in events:
            if event["kind"] == kind:
                return
    pytest.fail(f"nothing was told of {kind}")


async def test_a_viewer_changes_nothing_of_these_pages(served: ServedPage) -> None:
    topics = {name.partition(".")[0] for name in CHANGING}
    assert set(CHANGING) >= {name for name, role in CALLS.items() if role == "owner" and name.partition(".")[0] in topics}
    viewer = await served.tab(viewer=True)
    for name, arguments in CHANGING.items():
        assert (await viewer.post(f"/page/call/{name}", arguments)).status_code == 403, name
    assert await viewer.call("approvals.list") == {"approvals": []}
    assert (await viewer.call("memory.files", agent="main"))["agent"] == "main"
    assert (await viewer.call("settings.form"))["section"] == "agents"
    assert (await viewer.call("jobs.calendar", start="2026-03-01", days=7))["jobs"] == []


async def test_a_note_of_another_tab_and_a_rule_of_the_command_line_are_told(served: ServedPage) -> None:
    one, two = await served.tab(), await served.tab()
    async with one.events() as events:
        await two.call("memory.write", agent="main", path="memory/x.md", text="x\n", expected=None)
        await next_of(events, "memory")
        await asyncio.sleep(1)  # a look at the rules as they are
        await asyncio.to_thread(served.house.rules.stored.switch, "git", on=False)
        await next_of(events, "approvals")


async def test_a_secret_in_a_command_is_withheld_as_in_a_chat(village: PageVillage) -> None:
    secret = "sk-Zq81-known-to-this-machine"
    async with village.page() as served:
        tab, viewer = await served.tab(), await served.tab(viewer=True)
        village.model.then([ToolCall(id="c1", name="exec", arguments={"command": f"touch {secret} && true"})])
        village.model.then("done", "done")
        async with tab.events() as events:
            await asyncio.sleep(1)  # a look at what is open
            await tab.call("chat.say", session="agent:main:main", text="do it", key="k" * 16)
            await next_of(events, "approvals")
        served.house.deps.outgoing.learn([secret])  # it became a secret of this machine after the question
        found = (await viewer.call("approvals.list"))["approvals"]
        shown = await viewer.call("approvals.show", name=found[0]["name"])
        assert "&& true" in shown["command"]
        assert secret not in str(shown)
        assert secret not in str(found)


async def test_errors_have_their_hint(served: ServedPage) -> None:
    tab = await served.tab()
    answer = await tab.post("/page/call/memory.read", {"agent": "main", "path": "../../etc/passwd"})
    assert answer.status_code == 400
    assert "parent folders are not opened" in answer.json()["error"]["message"]
    answer = await tab.post("/page/call/memory.read", {"agent": "main", "file": "x"})
    assert answer.status_code == 400


async def test_what_was_typed_beside_a_newer_file_comes_back_with_it(served: ServedPage) -> None:
    tab = await served.tab()
    await tab.call("memory.write", agent="main", path="memory/x.md", text="<img src=x onerror=alert(1)>\n", expected=None)
    late = await tab.call("memory.write", agent="main", path="memory/x.md", text="mine\n", expected=None)
    assert (late["written"], late["present"]["text"]) == (False, "<img src=x onerror=alert(1)>\n")
