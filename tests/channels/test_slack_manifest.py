"""The manifest that docs/slack.md gives to paste asks for what the channel uses, and for no more."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from channels.slack.channel import NEEDED
from channels.slack.settings import SlackSettings

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/slack.md").read_text(encoding="utf-8")
SCOPES = {
    "assistant_threads_setStatus": "chat:write",
    "chat_appendStream": "chat:write",
    "chat_delete": "chat:write",
    "chat_postMessage": "chat:write",
    "chat_startStream": "chat:write",
    "chat_stopStream": "chat:write",
    "chat_update": "chat:write",
    "conversations_history": "channels:history groups:history im:history mpim:history",
    "conversations_open": "im:write",
    "conversations_replies": "channels:history groups:history im:history mpim:history",
    "files_completeUploadExternal": "files:write",
    "files_getUploadURLExternal": "files:write",
    "files_info": "files:read",
    "reactions_add": "reactions:write",
    "reactions_get": "reactions:read",
    "reactions_remove": "reactions:write",
    "users_info": "users:read",
}
"""What the library's calls need, as Slack's reference has it."""
SIDE_PANEL = {"assistant_threads_setSuggestedPrompts", "assistant_threads_setTitle"}
"""Calls of the side panel, which has a manifest of its own behind the first: they need assistant:write."""
ALONE = {"auth_test", "apps_connections_open"}
EVENT_SCOPES = {"app_mentions:read", "commands"}


def manifest() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(re.findall(r"```yaml\n(display_information.*?)```", PAGE, re.DOTALL)[0])
    return found


def sources() -> str:
    return "\n".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "channels/slack").glob("*.py")))


def test_the_manifest_asks_for_the_scopes_of_every_call_that_is_made() -> None:
    called = set(re.findall(r"web\.([a-z]+_\w+)\(", sources())) - ALONE - SIDE_PANEL
    assert called <= set(SCOPES), "a call whose scope is not known here"
    needed = {scope for call in called for scope in SCOPES[call].split()}
    assert set(manifest()["oauth_config"]["scopes"]["bot"]) == needed | EVENT_SCOPES == set(NEEDED)


def test_the_manifest_subscribes_to_the_events_that_are_taken() -> None:
    taken = set(re.findall(r'"(\w+)": self\._(?:message|reaction|moved|revoked)\b', sources()))
    listed = set(manifest()["settings"]["event_subscriptions"]["bot_events"])
    assert {name.partition(".")[0] for name in listed} == taken
    assert {name for name in listed if "." in name} == {f"message.{kind}" for kind in ("channels", "groups", "im", "mpim")}


def test_what_the_side_panel_needs_is_asked_for_apart() -> None:
    found: dict[str, Any] = yaml.safe_load(re.findall(r"```yaml\n(features:\n  assistant_view.*?)```", PAGE, re.DOTALL)[0])
    assert found["oauth_config"]["scopes"]["bot"] == ["assistant:write"]
    taken = set(re.findall(r'"(\w+)": self\._assistant\.', sources()))
    assert set(found["settings"]["event_subscriptions"]["bot_events"]) == taken
    assert set(re.findall(r"web\.([a-z]+_\w+)\(", sources())) >= SIDE_PANEL


def test_the_manifests_command_is_the_one_that_is_listened_to() -> None:
    [command] = manifest()["features"]["slash_commands"]
    assert command["command"] == f"/{SlackSettings().slash_command.name}"
    assert manifest()["features"]["app_home"]["messages_tab_enabled"]
    assert manifest()["settings"]["interactivity"]["is_enabled"]


def test_the_settings_that_the_page_shows_are_ones() -> None:
    shown = yaml.safe_load(re.findall(r"```yaml\n(channels:.*?)```", PAGE, re.DOTALL)[0])["channels"]["slack"]
    found = SlackSettings.model_validate(shown)
    assert len(found.channels) == 3
    for key in re.findall(r"channels\.slack\.(\w+)", PAGE):
        assert any(field.alias == key for field in SlackSettings.model_fields.values()), key
