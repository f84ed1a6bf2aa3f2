"""Searches Slack as the owner, with a token of theirs (https://docs.slack.dev/reference/methods/search.messages)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode

from channels.message_search import FoundMessage, SearchRefused
from channels.slack.inbound import is_stamp, moment, readable
from channels.slack.settings import OFFICIAL, SlackAccount

KEY: Final = "channels.slack.userToken"
_OK, _TOO_MANY = 200, 429
_HINTS: Final = {
    "missing_scope": "add search:read under User Token Scopes (https://api.slack.com/apps, OAuth & Permissions), and install the app again",
    "not_allowed_token_type": f"{KEY} must be a user token (xoxp-...)",
}


@dataclass(frozen=True, slots=True)
class SlackMessageSearch:
    """See ``channels.message_search.MessageSearch``."""

    root: str
    token: str

    @property
    def hint(self) -> str:
        """How a search is narrowed."""
        return "in:#channel, from:@name, before:2026-01-31 narrow it"

    @property
    def own_address(self) -> str:
        """The address of a compatible server."""
        return "" if self.root == OFFICIAL else self.root

    def request(self, query: str, count: int, *, newest: bool) -> tuple[str, Mapping[str, str]]:
        """Return the address to get, and the headers."""
        wish = {"query": query, "count": count, "sort": "timestamp" if newest else "score"}
        return f"{self.root}/search.messages?{urlencode(wish)}", {"Authorization": f"Bearer {self.token}"}

    def found(self, status: int, body: bytes) -> list[FoundMessage]:
        """Read an answer."""
        if status == _TOO_MANY:
            raise SearchRefused("Slack: too many searches", hint="try again in a minute")
        try:
            answer = json.loads(body) if status == _OK else None
        except (ValueError, RecursionError):
            answer = None
        if not isinstance(answer, Mapping):
            raise SearchRefused(f"Slack answered with status {status}, and not as its API does")
        if answer.get("ok") is not True:
            code = _line(answer.get("error") or "unknown")
            raise SearchRefused(f"Slack: {code}", hint=_HINTS.get(code, f"check {KEY}"))
        messages = answer.get("messages")
        listed = messages.get("matches") if isinstance(messages, Mapping) else None
        matches = listed if isinstance(listed, list) else []
        return [hit for one in matches if isinstance(one, Mapping) and (hit := _hit(one)) is not None]


def search_of(account: SlackAccount) -> SlackMessageSearch | None:
    """Return the search of an account; None without a token of the owner's."""
    token = account.user_token.get_secret_value().strip() if account.user_token is not None else ""
    return SlackMessageSearch(account.api_root, token) if token and account.enabled else None


def _hit(found: Mapping[str, Any]) -> FoundMessage | None:
    text = readable(str(found.get("text") or ""), "")
    if not is_stamp(found.get("ts")) or not text:
        return None
    channel = found.get("channel")
    return FoundMessage(
        where=_where(channel if isinstance(channel, Mapping) else {}),
        who=_line(found.get("username") or found.get("user") or "somebody"),
        at=moment(found["ts"]),
        text=text,
        link=_line(found.get("permalink") or ""),
    )


def _where(place: Mapping[str, Any]) -> str:
    if place.get("is_im"):
        return "a private conversation"
    return "a group conversation" if place.get("is_mpim") else f"#{_line(place.get('name') or place.get('id') or 'a channel')}"


def _line(value: object) -> str:
    return " ".join(str(value).split())[:300]
