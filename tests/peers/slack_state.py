"""A Slack workspace as the people in it see it: channels, messages, files and emoji. It is the oracle of what was said and how often."""

from __future__ import annotations

import itertools
import json
import re
import time
from dataclasses import dataclass, field
from typing import Any

BOT, BOT_ID, TEAM, APP = "UBOT00001", "B1", "T0HOME001", "A1"
LONGEST, LONGEST_EDIT, LONGEST_MARKDOWN, LONGEST_SECTION = 40_000, 4_000, 12_000, 3_000
MOST_BLOCKS, MOST_BUTTONS, LONGEST_LABEL, LONGEST_VALUE, LONGEST_ID = 50, 25, 75, 2_000, 255
PING = re.compile(r"<(!(channel|here|everyone|subteam)|@[UW])")


class Refused(Exception):
    def __init__(self, code: str, status: int = 200, headers: dict[str, str] | None = None, **more: Any) -> None:
        super().__init__(code)
        self.status = status
        self.headers = headers or {}
        self.body = {"ok": False, "error": code, **more}


@dataclass
class Workspace:
    """What there is. ``outside``: channels that the app is not in; ``archived``, ``strangers``: ids that are refused."""

    messages: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    people: dict[str, str] = field(default_factory=dict)
    scopes: set[str] = field(
        default_factory=lambda: {
            "chat:write",
            "history",
            "files:read",
            "files:write",
            "reactions:write",
            "reactions:read",
            "users:read",
            "assistant:write",
        }
    )
    names: dict[str, str] = field(default_factory=dict)
    pings: list[str] = field(default_factory=list)
    statuses: list[str] = field(default_factory=list)
    prompts: list[tuple[str, list[str]]] = field(default_factory=list)
    titles: list[str] = field(default_factory=list)
    outside: set[str] = field(default_factory=set)
    archived: set[str] = field(default_factory=set)
    strangers: set[str] = field(default_factory=set)
    files: dict[str, dict[str, Any]] = field(default_factory=dict)
    contents: dict[str, bytes] = field(default_factory=dict)
    uploads: dict[str, dict[str, Any]] = field(default_factory=dict)
    streams: set[str] = field(default_factory=set)
    markdown: bool = True
    """Whether the server knows ``markdown_text``; one that does not passes it over."""
    streaming: bool = True
    odd: list[Any] = field(default_factory=list)
    """What a page of a channel holds besides messages."""
    uploads_at: str = ""
    """The address of the server that takes uploads."""

    def __post_init__(self) -> None:
        self._last = 0
        self.ids = itertools.count(1)

    def dm(self, user: str) -> str:
        """Return the id of a person's private channel."""
        channel = self.people.setdefault(user, f"D{len(self.people):08d}")
        self.messages.setdefault(channel, [])
        return channel

    def said(self, channel: str, *, thread: str | None = None) -> list[str]:
        """Return what the app said in a channel, or in one thread of it."""
        return [
            one["text"]
            for one in self.messages.get(channel, [])
            if one["user"] == BOT and (thread is None or one.get("thread_ts") == thread)
        ]

    def there(self, given: dict[str, Any], key: str = "channel") -> list[dict[str, Any]]:
        """Return the messages of the channel that a call names."""
        channel = given.get(key)
        if channel not in self.messages:
            raise Refused("channel_not_found")
        if channel in self.archived:
            raise Refused("is_archived")
        if channel in self.outside:
            raise Refused("not_in_channel")
        return self.messages[channel]

    def message(self, given: dict[str, Any], key: str = "ts") -> dict[str, Any]:
        found = next((one for one in self.there(given) if one["ts"] == given.get(key)), None)
        if found is None:
            raise Refused("message_not_found")
        return found

    def granted(self) -> str:
        """Return what Slack says with each answer: all names, where ``scopes`` has ``history`` for four and leaves some out."""
        kinds = ("channels", "groups", "im", "mpim") if "history" in self.scopes else ()
        always = {"app_mentions:read", "commands", "im:write"}
        return ",".join(sorted((self.scopes - {"history"}) | always | {f"{kind}:history" for kind in kinds}))

    def need(self, scope: str) -> None:
        if scope not in self.scopes:
            needed = "channels:history" if scope == "history" else scope
            raise Refused("missing_scope", needed=needed, provided=",".join(sorted(self.scopes)))

    def note(self, channel: str, message: dict[str, Any]) -> dict[str, Any]:
        """Write a message down, with the next time stamp."""
        self._last = max(self._last + 1, int(time.time() * 1_000_000))
        stamp = f"{self._last // 1_000_000}.{self._last % 1_000_000:06d}"
        noted = {"type": "message", "team": TEAM, **message, "ts": stamp}
        there = self.messages.setdefault(channel, [])
        parent = next((one for one in there if one["ts"] == message.get("thread_ts")), None)
        if parent is not None:
            parent.update(thread_ts=parent["ts"], reply_count=parent.get("reply_count", 0) + 1, latest_reply=stamp)
            noted["parent_user_id"] = parent["user"]
        there.append(noted)
        return noted

    def share(self, user: str, name: str, content: bytes, mimetype: str, root: str, **more: Any) -> dict[str, Any]:
        """Keep a file, and return what messages say of it."""
        file = f"F{next(self.ids):08d}"
        self.contents[file] = content
        address = f"{root.removesuffix('/api')}/files-pri/{file}/{name}"
        self.files[file] = {
            "id": file,
            "user": user,
            "name": name,
            "mimetype": mimetype,
            "mode": "hosted",
            "size": len(content),
            "url_private": address,
            "url_private_download": address + "?download",
            **more,
        }
        return self.files[file]

    # -- what a message says -----------------------------------------------------------------------------------------

    def spoken(self, given: dict[str, Any], longest: int = LONGEST) -> dict[str, Any]:
        """Return the text that people see, and the blocks; every rule for them is held."""
        text, markdown = str(given.get("text") or ""), str(given.get("markdown_text") or "") if self.markdown else ""
        blocks = parsed(given.get("blocks")) or []
        if markdown and (text or blocks):
            raise Refused("markdown_text_conflict")
        if not (text.strip() or markdown.strip() or blocks):
            raise Refused("no_text")
        if len(text) > longest or len(markdown) > LONGEST_MARKDOWN:
            raise Refused("msg_too_long")
        check_blocks(blocks)
        shown = "\n".join(part for block in blocks for part in _texts(block)) if blocks else markdown or text
        for part in (text, markdown, shown):
            if PING.search(part):
                self.pings.append(part)
        return {"text": shown, **({"blocks": blocks} if blocks else {}), **self.metadata(given)}

    def metadata(self, given: dict[str, Any]) -> dict[str, Any]:
        found = parsed(given.get("metadata"))
        if not found:
            return {}
        if set(found) != {"event_type", "event_payload"}:
            raise Refused("metadata_must_be_sent_with_event_type_and_payload")
        return {"metadata": found}


def parsed(value: Any) -> Any:
    if not isinstance(value, str) or not value:
        return value
    try:
        return json.loads(value)
    except ValueError:
        raise Refused("invalid_arguments") from None


def _texts(block: dict[str, Any]) -> list[str]:
    match block["type"]:
        case "markdown":
            return [block["text"]]
        case "section":
            return [block["text"]["text"]]
        case _:
            return []


def check_blocks(blocks: list[dict[str, Any]]) -> None:
    markdown = sum(len(block.get("text", "")) for block in blocks if block.get("type") == "markdown")
    names = [block["block_id"] for block in blocks if "block_id" in block]
    if len(blocks) > MOST_BLOCKS or markdown > LONGEST_MARKDOWN or len(set(names)) != len(names):
        raise Refused("invalid_blocks")
    for block in blocks:
        match block.get("type"):
            case "markdown":
                fine = bool(block.get("text"))
            case "section":
                fine = 0 < len(block.get("text", {}).get("text", "")) <= LONGEST_SECTION
            case "context":
                fine = bool(block.get("elements"))
            case "actions":
                fine = _fine_buttons(block.get("elements") or [])
            case _:
                fine = False
        if not fine:
            raise Refused("invalid_blocks")


def _fine_buttons(buttons: list[dict[str, Any]]) -> bool:
    ids = [one.get("action_id", "") for one in buttons]
    return (
        0 < len(buttons) <= MOST_BUTTONS
        and len(set(ids)) == len(ids)
        and all(0 < len(one) <= LONGEST_ID for one in ids)
        and all(one["text"]["type"] == "plain_text" and 0 < len(one["text"]["text"]) <= LONGEST_LABEL for one in buttons)
        and all(len(one.get("value", "")) <= LONGEST_VALUE for one in buttons)
    )
