"""The methods of Slack's Web API, as strict as their documentation (https://docs.slack.dev/reference/methods)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from tests.peers.slack_state import (
    BOT,
    BOT_ID,
    LONGEST_EDIT,
    LONGEST_MARKDOWN,
    PING,
    TEAM,
    Refused,
    Workspace,
    check_blocks,
    parsed,
)

if TYPE_CHECKING:
    from collections.abc import Callable

_NAME = re.compile(r"[a-z0-9_+'-]+(::skin-tone-[2-6])?")
_UNKNOWN_EMOJI = {"no_such_emoji"}
Events = list[dict[str, Any]]
"""What the call lets the app hear."""
TRUE = {"1", "true"}


def said(given: dict[str, Any], key: str) -> bool:
    return str(given.get(key, "")).lower() in TRUE


def auth_test(_: Workspace, __: dict[str, Any], ___: Events) -> dict[str, Any]:
    return {"user_id": BOT, "team_id": TEAM, "bot_id": BOT_ID, "user": "homebody", "team": "Home"}


def conversations_open(home: Workspace, given: dict[str, Any], _: Events) -> dict[str, Any]:
    if given["users"] in home.strangers:
        raise Refused("user_not_found")
    return {"channel": {"id": home.dm(given["users"])}}


def user_info(home: Workspace, given: dict[str, Any], _: Events) -> dict[str, Any]:
    home.need("users:read")
    if given.get("user") not in home.names:
        raise Refused("user_not_found")
    name = home.names[given["user"]]
    return {"user": {"id": given["user"], "name": name.lower(), "profile": {"display_name": "", "real_name": name}}}


def set_status(home: Workspace, given: dict[str, Any], _: Events) -> dict[str, Any]:
    if not any(one["ts"] == given.get("thread_ts") for one in home.there(given, "channel_id")):
        raise Refused("invalid_thread_ts")
    home.statuses.append(given["status"])
    return {}


def set_prompts(home: Workspace, given: dict[str, Any], _: Events) -> dict[str, Any]:
    _side_panel(home, given)
    prompts = parsed(given.get("prompts"))
    if not isinstance(prompts, list) or not 1 <= len(prompts) <= 4:
        raise Refused("invalid_arguments")
    if not all(set(one) == {"title", "message"} and one["title"] and one["message"] for one in prompts):
        raise Refused("invalid_arguments")
    home.prompts.append((str(given.get("title") or ""), [one["title"] for one in prompts]))
    return {}


def set_title(home: Workspace, given: dict[str, Any], _: Events) -> dict[str, Any]:
    _side_panel(home, given)
    if not given.get("title"):
        raise Refused("invalid_arguments")
    home.titles.append(given["title"])
    return {}


def _side_panel(home: Workspace, given: dict[str, Any]) -> None:
    home.need("assistant:write")
    if not any(one["ts"] == given.get("thread_ts") for one in home.there(given, "channel_id")):
        raise Refused("invalid_thread_ts")


def post_message(home: Workspace, given: dict[str, Any], events: Events) -> dict[str, Any]:
    there = home.there(given)
    message: dict[str, Any] = {"user": BOT, "bot_id": BOT_ID, **home.spoken(given), **_threaded(there, given)}
    if str(given.get("unfurl_links", "")).lower() not in {"0", "false"}:
        message["unfurled"] = True
    if said(given, "link_names") or given.get("parse") not in {None, "none"}:
        message["parsed"] = True
    return _noted(home, given["channel"], message, events)


def _threaded(there: list[dict[str, Any]], given: dict[str, Any]) -> dict[str, Any]:
    thread = given.get("thread_ts")
    if not thread:
        return {}
    parent = next((one for one in there if one["ts"] == thread), None)
    if parent is None or parent.get("thread_ts", thread) != thread:
        raise Refused("thread_not_found")
    return {"thread_ts": thread}


def _noted(home: Workspace, channel: str, message: dict[str, Any], events: Events) -> dict[str, Any]:
    noted = home.note(channel, message)
    events.append({**noted, "channel": channel, "channel_type": _kind(channel), "event_ts": noted["ts"]})
    return {"channel": channel, "ts": noted["ts"], "message": noted}


def _kind(channel: str) -> str:
    return "im" if channel.startswith("D") else "group" if channel.startswith("G") else "channel"


def update(home: Workspace, given: dict[str, Any], events: Events) -> dict[str, Any]:
    message = home.message(given)
    if message["user"] != BOT:
        raise Refused("cant_update_message")
    if message["ts"] in home.streams:
        raise Refused("streaming_state_conflict")
    before = dict(message)
    spoken = home.spoken(given, LONGEST_EDIT)
    if given.get("markdown_text") or "blocks" in given:
        message.pop("blocks", None)
    message.update(spoken)
    events.append(
        {
            "type": "message",
            "subtype": "message_changed",
            "hidden": True,
            "channel": given["channel"],
            "channel_type": _kind(given["channel"]),
            "message": {**message, "edited": {"user": BOT, "ts": message["ts"]}},
            "previous_message": before,
            "event_ts": message["ts"],
        }
    )
    return {"channel": given["channel"], "ts": message["ts"], "text": message["text"]}


def delete(home: Workspace, given: dict[str, Any], _: Events) -> dict[str, Any]:
    message = home.message(given)
    if message["user"] != BOT or message["ts"] in home.streams:
        raise Refused("cant_delete_message")
    home.messages[given["channel"]].remove(message)
    return {"channel": given["channel"], "ts": message["ts"]}


def start_stream(home: Workspace, given: dict[str, Any], events: Events) -> dict[str, Any]:
    if not home.streaming:
        raise Refused("unknown_method")
    there, channel = home.there(given), given["channel"]
    if not given.get("thread_ts"):
        raise Refused("invalid_thread_ts")
    thread = _threaded(there, given)
    if not channel.startswith("D"):
        for key in ("recipient_user_id", "recipient_team_id"):
            if not given.get(key):
                raise Refused(f"missing_{key}")
    text = str(given.get("markdown_text") or "")
    _grow(home, text)
    begun = _noted(home, channel, {"user": BOT, "bot_id": BOT_ID, "text": text, **thread}, events)
    home.streams.add(begun["ts"])
    return {"channel": channel, "ts": begun["ts"]}


def append_stream(home: Workspace, given: dict[str, Any], _: Events) -> dict[str, Any]:
    message = _open_stream(home, given)
    if not given.get("markdown_text"):
        raise Refused("no_text")
    _grow(home, message["text"] + given["markdown_text"])
    message["text"] += given["markdown_text"]
    return {"channel": given["channel"], "ts": message["ts"]}


def stop_stream(home: Workspace, given: dict[str, Any], _: Events) -> dict[str, Any]:
    message = _open_stream(home, given)
    blocks = parsed(given.get("blocks")) or []
    check_blocks(blocks)
    metadata, rest = home.metadata(given), str(given.get("markdown_text") or "")
    _grow(home, message["text"] + rest)
    message.update(text=message["text"] + rest, **metadata, **({"blocks": blocks} if blocks else {}))
    home.streams.discard(message["ts"])
    return {"channel": given["channel"], "ts": message["ts"], "message": message}


def _open_stream(home: Workspace, given: dict[str, Any]) -> dict[str, Any]:
    if not home.streaming:
        raise Refused("unknown_method")
    message = home.message(given)
    if message["ts"] not in home.streams:
        raise Refused("message_not_in_streaming_state")
    return message


def _grow(home: Workspace, text: str) -> None:
    if len(text) > LONGEST_MARKDOWN:
        raise Refused("msg_too_long")
    if PING.search(text):
        home.pings.append(text)


def history(home: Workspace, given: dict[str, Any], _: Events) -> dict[str, Any]:
    home.need("history")
    there = home.there(given)
    found = _page([one for one in reversed(there) if one.get("thread_ts", one["ts"]) == one["ts"]], given)
    return {**found, "messages": [*found["messages"], *home.odd]}


def replies(home: Workspace, given: dict[str, Any], _: Events) -> dict[str, Any]:
    home.need("history")
    found = [one for one in home.there(given) if given["ts"] in {one["ts"], one.get("thread_ts")}]
    if not found:
        raise Refused("thread_not_found")
    return _page(found, given, first=found[:1])


def _page(found: list[dict[str, Any]], given: dict[str, Any], first: Events | None = None) -> dict[str, Any]:
    """Return a page; the first one of a thread begins with what the thread began with, however old that is."""
    begun = first or []
    latest, inclusive = float(given.get("latest") or "inf"), said(given, "inclusive")
    found = [one for one in found if float(one["ts"]) < latest or (inclusive and float(one["ts"]) == latest)]
    found = begun + [one for one in found if float(one["ts"]) > float(given.get("oldest") or 0) and one not in begun]
    start, limit = int(given.get("cursor") or 0), min(int(given.get("limit") or 100), 999)
    page = found[start : start + limit]
    if not said(given, "include_all_metadata"):
        page = [{key: value for key, value in one.items() if key != "metadata"} for one in page]
    page = [{**one, "reactions": _listed(one["reactions"])} if "reactions" in one else one for one in page]
    more = start + limit < len(found)
    return {"messages": page, "has_more": more, "response_metadata": {"next_cursor": str(start + limit) if more else ""}}


def add_reaction(home: Workspace, given: dict[str, Any], events: Events) -> dict[str, Any]:
    home.need("reactions:write")
    message, name = home.message(given, "timestamp"), given.get("name", "")
    if not _NAME.fullmatch(name) or name in _UNKNOWN_EMOJI:
        raise Refused("invalid_name")
    users = message.setdefault("reactions", {}).setdefault(name, [])
    if BOT in users:
        raise Refused("already_reacted")
    users.append(BOT)
    item = {"type": "message", "channel": given["channel"], "ts": message["ts"]}
    events.append(
        {
            "type": "reaction_added",
            "user": BOT,
            "reaction": name,
            "item_user": message["user"],
            "item": item,
            "event_ts": message["ts"],
        }
    )
    return {}


def remove_reaction(home: Workspace, given: dict[str, Any], _: Events) -> dict[str, Any]:
    home.need("reactions:write")
    users = home.message(given, "timestamp").get("reactions", {}).get(given.get("name", ""), [])
    if BOT not in users:
        raise Refused("no_reaction")
    users.remove(BOT)
    return {}


def get_reactions(home: Workspace, given: dict[str, Any], _: Events) -> dict[str, Any]:
    home.need("reactions:read")
    return {"type": "message", "message": {"reactions": _listed(home.message(given, "timestamp").get("reactions", {}))}}


def _listed(found: dict[str, list[str]]) -> list[dict[str, Any]]:
    return [{"name": name, "users": users, "count": len(users)} for name, users in found.items() if users]


def file_info(home: Workspace, given: dict[str, Any], _: Events) -> dict[str, Any]:
    home.need("files:read")
    if given.get("file") not in home.files:
        raise Refused("file_not_found")
    return {"file": home.files[given["file"]]}


def upload_address(home: Workspace, given: dict[str, Any], _: Events) -> dict[str, Any]:
    home.need("files:write")
    if not given.get("filename") or int(given.get("length") or 0) <= 0:
        raise Refused("invalid_arguments")
    file = f"F{next(home.ids):08d}"
    home.uploads[file] = {"name": given["filename"], "length": int(given["length"]), "content": None}
    return {"file_id": file, "upload_url": f"{home.uploads_at}/upload/v1/{file}"}


def complete_upload(home: Workspace, given: dict[str, Any], events: Events) -> dict[str, Any]:
    home.need("files:write")
    there = home.there(given, "channel_id")
    [wanted] = parsed(given["files"])
    upload = home.uploads.get(wanted["id"])
    if upload is None or upload["content"] is None:
        raise Refused("file_not_found")
    comment, blocks = str(given.get("initial_comment") or ""), parsed(given.get("blocks")) or []
    if any(block.get("type") == "markdown" for block in blocks):
        raise Refused("internal_error")
    said = home.spoken({"text": comment} if comment else {"blocks": blocks}) if comment or blocks else {"text": ""}
    thread = _threaded(there, given)
    del home.uploads[wanted["id"]]
    home.contents[wanted["id"]] = upload["content"]
    file = {"id": wanted["id"], "name": upload["name"], "title": wanted.get("title", ""), "size": upload["length"]}
    message = {"user": BOT, "bot_id": BOT_ID, "subtype": "file_share", **said, **thread, "files": [file]}
    _noted(home, given["channel_id"], message, events)
    return {"files": [{"id": wanted["id"], "title": wanted.get("title", "")}]}


METHODS: dict[str, Callable[[Workspace, dict[str, Any], Events], dict[str, Any]]] = {
    "auth.test": auth_test,
    "users.info": user_info,
    "conversations.open": conversations_open,
    "conversations.history": history,
    "conversations.replies": replies,
    "assistant.threads.setStatus": set_status,
    "assistant.threads.setSuggestedPrompts": set_prompts,
    "assistant.threads.setTitle": set_title,
    "chat.postMessage": post_message,
    "chat.update": update,
    "chat.delete": delete,
    "chat.startStream": start_stream,
    "chat.appendStream": append_stream,
    "chat.stopStream": stop_stream,
    "reactions.add": add_reaction,
    "reactions.remove": remove_reaction,
    "reactions.get": get_reactions,
    "files.info": file_info,
    "files.getUploadURLExternal": upload_address,
    "files.completeUploadExternal": complete_upload,
}
