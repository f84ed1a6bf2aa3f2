"""Slack's side panel for assistants: suggestions, titles, and what a person looks at beside it (https://docs.slack.dev/ai).

A thread there is an ordinary thread of the private conversation. All of this is best effort, and is not remembered over a restart.
Importing this module loads the library.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from msgspec import structs
from slack_sdk.errors import SlackApiError

from channels.common.event_guard import BackgroundTasks
from channels.common.log import Log
from channels.messages import Inbound
from channels.slack.api_errors import NO_SCOPE, TROUBLE, code_of
from channels.slack.settings import APPS, SlackAssistant

if TYPE_CHECKING:
    from slack_sdk.web.async_client import AsyncWebClient

    from channels.slack.slack_cache import SlackCache

LONGEST_TITLE: Final = 100
_SCOPE_HINT: Final = (
    f"add the scope assistant:write ({APPS}, your app, OAuth & Permissions, Bot Token Scopes), and install the app again"
)


@dataclass(frozen=True, slots=True)
class AssistantThread:
    """A thread of the side panel: the channel that is looked at beside it, if that was not told yet, and whether it has a title."""

    beside: str = ""
    titled: bool = False


class AssistantThreads:
    """Answers what happens in the side panel."""

    def __init__(
        self,
        settings: SlackAssistant,
        web: AsyncWebClient,
        known: SlackCache,
        aside: BackgroundTasks,
        log: Log,
        *,
        account: str,
    ) -> None:
        self._settings = settings
        self._web = web
        self._known = known
        self._aside = aside
        self._log = log
        self._account = account
        self._allowed = True

    async def started(self, event: dict[str, Any]) -> None:
        """Show suggestions in a thread that was opened just now."""
        channel, thread, beside = _facts(event)
        self._known.assistant.put((channel, thread), AssistantThread(beside))
        if self._settings.prompts and thread:
            self._aside.begin("suggestions were not shown", self._suggest(channel, thread))

    async def changed(self, event: dict[str, Any]) -> None:
        """Note that the person looks at another channel now."""
        channel, thread, beside = _facts(event)
        known = self._known.assistant.get((channel, thread)) or AssistantThread(titled=True)
        self._known.assistant.put((channel, thread), replace(known, beside=beside))

    def heard(self, message: Inbound, channel: str) -> Inbound:
        """Return a message with the channel that its writer looks at, once; the first one gives its thread a title."""
        thread = message.conversation.thread or ""
        known = self._known.assistant.get((channel, thread))
        if known is None:
            return message
        self._known.assistant.put((channel, thread), AssistantThread(titled=True))
        if not known.titled and self._settings.titles and message.text:
            self._aside.begin("a thread was not named", self._name(channel, thread, message.text))
        return (
            structs.replace(message, context=f"The person has the channel {known.beside} open in Slack.")
            if known.beside
            else message
        )

    async def _suggest(self, channel: str, thread: str) -> None:
        prompts = [{"title": one.title, "message": one.message} for one in self._settings.prompts]
        title = self._settings.prompts_title or None
        await self._call(
            lambda: self._web.assistant_threads_setSuggestedPrompts(
                channel_id=channel, thread_ts=thread, prompts=prompts, title=title
            )
        )

    async def _name(self, channel: str, thread: str, text: str) -> None:
        line = next((one for one in map(str.strip, text.splitlines()) if one), "")
        title = line if len(line) <= LONGEST_TITLE else f"{line[: LONGEST_TITLE - 1].rstrip()}…"
        await self._call(lambda: self._web.assistant_threads_setTitle(channel_id=channel, thread_ts=thread, title=title))

    async def _call(self, calling: Callable[[], Awaitable[object]]) -> None:
        if not self._allowed:
            return
        try:
            await calling()
        except SlackApiError as error:
            self._allowed = code_of(error) != NO_SCOPE
            hint = "" if self._allowed else _SCOPE_HINT
            self._log.info("the side panel was not changed", error=code_of(error), hint=hint, account=self._account)
        except TROUBLE as error:
            self._log.info("the side panel was not changed", error=type(error).__name__, account=self._account)


def _facts(event: dict[str, Any]) -> tuple[str, str, str]:
    """Return the channel and the thread of the side panel, and the channel that is looked at beside it."""
    about = event.get("assistant_thread") or {}
    beside = (about.get("context") or {}).get("channel_id")
    return str(about.get("channel_id") or ""), str(about.get("thread_ts") or ""), str(beside or "")[:40]
