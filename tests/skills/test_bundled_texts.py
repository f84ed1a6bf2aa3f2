"""The skills of Homebody name only what is there: tools, actions and fields as a model is told of them, commands, settings, files."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import click

from agent.no_reply import TOKEN
from agent.skills.header import read_header
from gateway.cli.click_commands import homebody
from gateway.mail.search_query import criteria_of
from gateway.schedules.parsing import parse_schedule
from gateway.settings.root import Settings
from gateway.skills.catalog import bundled_folder
from tests.gateway.conftest import street

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.gateway.conftest import Street

__all__ = ["street"]
NAMES = ["day-plan", "home-server-health", "mail-triage", "morning-briefing", "notes-and-lists", "project-tracking"]
NAMES.append("reading-long-documents")
SERVER = {"host": "127.0.0.1", "security": "none", "port": 9}
ACCOUNT = {"imap": SERVER, "smtp": SERVER, "user": "ada", "password": "no-password-7", "fromAddress": "ada@example.net"}
CALENDAR = {"url": "http://127.0.0.1:9/", "user": "ada", "password": "no-password-8", "contacts": True}
SPAN = re.compile(r"`([^`\n]+)`")
ACTION = re.compile(r"`(\w+)`(?: with)? action `(\w+)`")
MARKDOWN = re.compile(r"#+( .*)?|- \[.\] .*|\[.\]")
CRON = re.compile(r"[\d*/,-]+( [\d*/,-]+){4}")
PATH = re.compile(r"/?[\w.-]+(/[\w.-]+)*/?")


def vocabulary(schema: dict[str, Any]) -> set[str]:
    """The fields of a tool's parameters and the values that they allow."""
    found: set[str] = set(schema.get("properties", {}))
    found |= {str(value) for value in schema.get("enum", ())}
    if "const" in schema:
        found.add(str(schema["const"]))
    for inner in (*schema.get("properties", {}).values(), *schema.get("anyOf", ())):
        found |= vocabulary(inner)
    return found


def is_command(words: list[str]) -> bool:
    """Whether ``homebody`` has the command of these words."""
    command: click.Command | None = homebody
    context = click.Context(homebody)
    for word in words:
        if isinstance(command, click.Group) and not word.startswith("-") and word.islower():
            command = command.get_command(context, word)
    return command is not None and not isinstance(command, click.Group)


def is_setting(key: str) -> bool:
    value: Any = Settings().model_dump(by_alias=True)
    for step in key.split("."):
        if not isinstance(value, dict) or step not in value:
            return False
        value = value[step]
    return True


def is_there(span: str, known: set[str], folder: Path) -> bool:
    """Whether what stands between backticks is something that a model can use, or an example of Markdown or of a path."""
    words = span.split()
    path = ("/" in span or span.endswith(".md")) and PATH.fullmatch(span)
    if span in known or MARKDOWN.fullmatch(span) or path:
        return True
    if words[0] == "homebody":
        return is_command(words[1:])
    if words[0] == "python3":
        return (folder / words[1].removeprefix("FOLDER/")).is_file()
    if CRON.fullmatch(span):
        return bool(parse_schedule(span, zone=ZoneInfo("UTC"), now=datetime(2026, 3, 2, tzinfo=UTC)))
    if re.fullmatch(r"\w+:\w+", span):
        return b":" not in criteria_of(span, date(2026, 3, 2)).text
    return is_setting(span)


async def test_texts_name_only_what_a_model_is_given(street: Callable[..., Street]) -> None:
    s = street(mail={"accounts": {"home": ACCOUNT}}, calendar={"accounts": {"home": CALENDAR}})
    s.model.then("Hello.")
    async with s.house() as (_, talk):
        await talk.ask("hello")
    tools = {tool.name: vocabulary(tool.parameters) for tool in s.model.requests[0].tools}
    actions = {tool.name: tool.parameters.get("properties", {}).get("action", {}) for tool in s.model.requests[0].tools}
    assert {"mail", "calendar", "todo", "cron"} <= set(tools)
    assert not is_there("recieve", set(), bundled_folder())
    assert not is_there("homebody skill lst", set(), bundled_folder())
    wrong: list[str] = []
    for name in NAMES:
        folder = bundled_folder() / name
        text = (folder / "SKILL.md").read_text()
        spans = SPAN.findall(text)
        named = [span for span in spans if span in tools]
        known = {*tools, *(word for tool in named for word in tools[tool])}
        wrong += [f"{name}: `{span}`" for span in spans if not is_there(span, known, folder)]
        wrong += [
            f"{name}: {tool} has no action {action}"
            for tool, action in ACTION.findall(text)
            if action not in vocabulary(actions.get(tool, {}))
        ]
        wrong += [f"{name}: {word}" for word in re.findall(r"\b[A-Za-z]+_[A-Za-z_]+\b", text) if word not in {*known, TOKEN}]
        header = read_header(text, name)
        wrong += [f"{name}: setting {key}" for key in header.needs.config if not is_setting(key)]
    assert wrong == []
    assert sorted(path.name for path in bundled_folder().iterdir() if (path / "SKILL.md").is_file()) == NAMES
