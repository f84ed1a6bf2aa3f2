"""With untrusted text in view the owner is asked, and an address that the model made up does not pass for one that was given."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
from msgspec.structs import replace

from agent.messages import AssistantMessage, Text, ToolCall, ToolMessage, UserMessage
from agent.tools.apply_patch import ApplyPatch
from agent.tools.file_tool_context import FileToolContext
from agent.tools.files import file_tools
from agent.tools.protocol import Act, ActingTool, ToolContext
from agent.tools.workspace_sandbox import WorkspaceSandbox
from agent.transcript.entries import Entry, Said
from agent.transcript.seen_urls import seen_urls
from agent.urls import normal_url, urls_in
from gateway.approvals.taint_rules import needs_yes
from memory.audience import Audience

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def scene(*taint: str, seen: tuple[str, ...] = ()) -> ToolContext:
    return ToolContext(now=NOW, session="s", turn="t", taint=frozenset(taint), has_seen=lambda url: url in seen)


@pytest.mark.parametrize("kind", ["exec", "write", "url", "send", "schedule"])
def test_nothing_more_is_asked_where_nothing_untrusted_is_in_view(kind: Any) -> None:
    act = Act(kind=kind, summary="x", url="https://a.example/?q=1", command="ls", path="MEMORY.md")
    assert needs_yes(act, scene()) is None
    reason = needs_yes(act, scene("web:evil.example", "file:a.pdf", "person:Eve", "exec"))
    assert reason is not None
    assert "exec, file:a.pdf, person:Eve and 1 more" in reason


def acts(root: Path, path: str, context: ToolContext) -> list[Act | None]:
    files = FileToolContext(sandbox=WorkspaceSandbox(root), shared=("shared", "Family/plan.md"))
    patch = f"*** Begin Patch\n*** Update File: a.md\n*** Move to: {path}\n*** End Patch"
    by_name = {tool.spec.name: tool for tool in (*file_tools(files), ApplyPatch(files)) if isinstance(tool, ActingTool)}
    return [
        by_name["write"].act_of({"path": path, "content": "x"}, context),
        by_name["edit"].act_of({"path": path, "old": "x", "new": "y"}, context),
        by_name["apply_patch"].act_of({"patch": patch}, context),
    ]


@pytest.mark.parametrize(
    "path",
    [
        "shared/a.md",
        "Shared/b/a.md",
        "family/plan.md",
        "memory/groups/g/2026-03-01.md",
        "memory/peers/eve/a.md",
        "./shared/a.md",
    ],
)
def test_what_others_can_read_is_changed_only_with_the_owners_yes(tmp_path: Path, path: str) -> None:
    tainted = scene("web:evil.example")
    for act in acts(tmp_path, path, tainted):
        assert act is not None
        assert (act.kind, act.summary) == ("write", f"change {PurePosixPath(path)}")
        assert "it can be read by others" in (needs_yes(act, tainted) or "")
    assert acts(tmp_path, path, scene()) == [None, None, None]
    assert acts(tmp_path, "notes/a.md", tainted) == [None, None, None]


def test_a_group_writes_its_own_folder_unasked(tmp_path: Path) -> None:
    group = replace(scene("group:g"), audience=Audience("group", "g"), origin="group")
    assert acts(tmp_path, "memory/groups/g/a.md", group) == [None, None, None]


@pytest.mark.parametrize(
    ("url", "asked"),
    [
        ("https://a.example/page?id=7", False), ("HTTPS://A.example:443/page?id=7#there", False), ("https://a.example/page?id=8", True),
        ("https://a.example/", False), ("https://a.example/page", True), ("https://x.a.example/", True), ("https://me:pw@a.example/", True),
        ("http://a.example/page?id=7", True), ("not an address", True), ("https://a.example/page?id=7&k=1234", True),
    ],
)  # fmt: skip
@pytest.mark.sec(70)
def test_an_address_is_opened_unasked_only_as_it_was_given(url: str, asked: bool) -> None:
    seen = seen_urls([entry(said("look at https://a.example/page?id=7."))])
    act = Act(kind="url", summary="open it", url=url)
    assert (needs_yes(act, scene("web:a.example", seen=tuple(seen))) is not None) is asked
    assert (needs_yes(act, scene("web:a.example"), lambda one: one in seen) is not None) is asked


def said(text: str) -> UserMessage:
    return UserMessage(content=(Text(text=text),), at=NOW)


def answer(text: str = "", **arguments: Any) -> AssistantMessage:
    call = ToolCall(id="c", name="write", arguments=arguments)
    return AssistantMessage(content=(Text(text=text), call), model="m", stop="tools")


def result(text: str, name: str = "web_fetch", **more: Any) -> ToolMessage:
    return ToolMessage(call_id="c", name=name, text=text, **more)


def entry(message: Any) -> Entry:
    return Entry(id="t:0", parent=None, at=NOW, body=Said(message=message))


EVIL = "https://evil.example/?d=4711"


@pytest.mark.parametrize(
    ("messages", "known"),
    [
        ([said(f"open {EVIL}")], True),
        ([result(f"see [this]({EVIL})")], True),
        ([result(f"see {EVIL}", "web_search")], True),
        ([result(f"see {EVIL}", is_error=True)], False),
        ([result(f"see {EVIL}", "read")], False),
        ([result(f"see {EVIL}", "exec")], False),
        ([answer(EVIL), said(f"I was asked for {EVIL}")], False),
        ([answer(content=EVIL), result(f"results for {EVIL}", "web_search")], False),
        ([answer("nothing", path="https://evil.example/"), result("https://evil.example/ is down")], False),
    ],
)
def test_an_address_counts_as_given_only_when_the_model_did_not_say_it_first(messages: list[Any], known: bool) -> None:
    assert (EVIL in seen_urls(map(entry, messages))) is known


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("(see https://a.example/x_(y)).", ["https://a.example/x_(y)"]),
        ("**https://a.example/b**, “https://a.example/c”", ["https://a.example/b", "https://a.example/c"]),
        ("https://[2001:db8::1]:8443/x http://A.example.:80", ["https://[2001:db8::1]:8443/x", "http://a.example/"]),
        ("https://a.example:99999/ http://", []),
    ],
)
def test_addresses_are_found_in_text(text: str, found: list[str]) -> None:
    assert list(urls_in(text)) == found


@pytest.mark.parametrize("url", ["ftp://a.example/", "javascript:alert(1)", "https://", "", "https://[::1"])
def test_what_is_no_address_of_the_web_has_no_normal_form(url: str) -> None:
    assert normal_url(url) == ""
