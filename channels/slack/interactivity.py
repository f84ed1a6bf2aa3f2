"""Handles pressed buttons and the slash command, to which Slack expects an answer besides the acknowledgement."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from slack_sdk.errors import SlackApiError

from channels.common.event_guard import BackgroundTasks
from channels.common.log import Log
from channels.messages import Inbound
from channels.protocol import Clock
from channels.slack.api_errors import TROUBLE, code_of
from channels.slack.block_kit import escaped, pressed
from channels.slack.inbound import Identity
from channels.slack.settings import SlackAccount
from channels.slack.slack_cache import SlackCache
from channels.slack.user_actions import command, press

if TYPE_CHECKING:
    from slack_bolt.context.ack.async_ack import AsyncAck
    from slack_sdk.web.async_client import AsyncWebClient

    from channels.slack.catch_up import Found


class Interactivity:
    """What people press, and the app's slash command.

    ``take`` passes messages on and returns whether they are stored; ``reads`` returns whether the settings want a message of a channel.
    ``aside`` runs what is only for show.
    """

    def __init__(
        self,
        settings: SlackAccount,
        who: Identity,
        web: AsyncWebClient,
        known: SlackCache,
        *,
        take: Callable[[Found], Awaitable[bool]],
        reads: Callable[[Inbound, str], bool],
        aside: BackgroundTasks,
        clock: Clock,
        log: Log,
    ) -> None:
        self._settings = settings
        self._who = who
        self._web = web
        self._known = known
        self._take = take
        self._reads = reads
        self._aside = aside
        self._clock = clock
        self._log = log

    async def pressed(self, body: dict[str, Any], ack: AsyncAck) -> None:
        """Pass on a pressed button, and take the buttons off the message that had them."""
        message = press(body, self._who)
        channel = str((body.get("channel") or {}).get("id") or (body.get("container") or {}).get("channel_id") or "")
        if message is not None and await self._take([({"channel": channel}, message)]) and self._counts(channel, message):
            self._aside.begin("buttons were not removed", self._take_buttons_off(body, channel, str(message.target)))
        await ack()

    async def command(self, body: dict[str, Any], ack: AsyncAck) -> None:
        """Pass on what was written behind the slash command, and tell its writer."""
        setting, name = self._settings.slash_command, str(body.get("command") or "").removeprefix("/")
        if not setting.enabled or name != setting.name:
            hint = f"Set channels.slack.slashCommand.name to {name} to use it." if setting.enabled else "It is switched off."
            await ack(text=f"/{escaped(name)} is not a command of this app. {hint}", response_type="ephemeral")
            return
        message = command(body, self._who, self._known.commands, self._clock.now())
        channel = str(body.get("channel_id") or "")
        if message is None or not self._reads(message, channel):
            await ack(text="This channel is not one that the agent reads.", response_type="ephemeral")
        elif await self._take([({"channel": "" if message.conversation.kind == "direct" else channel}, message)]):
            if setting.ephemeral:
                await ack(text="Passed on; the answer comes as a message.", response_type="ephemeral")
            else:
                await ack(text=f"/{name} {escaped(str(body.get('text') or ''))}".strip(), response_type="in_channel")

    def _counts(self, channel: str, message: Inbound) -> bool:
        """Return whether a press counts, as far as it is known here: those of strangers leave the buttons where they are."""
        listed = self._settings.listed(self._known.former.get(channel, channel), message.sender.id)
        return message.conversation.kind == "direct" or listed

    async def _take_buttons_off(self, body: dict[str, Any], channel: str, target: str) -> None:
        """Replace the buttons by what was pressed. Best effort."""
        shown, action = body.get("message") or {}, (body.get("actions") or [{}])[0]
        label = str((action.get("text") or {}).get("text") or "")
        try:
            await self._web.chat_update(
                channel=channel,
                ts=target,
                text=str(shown.get("text") or ""),
                blocks=pressed(shown.get("blocks") or [], label),
                link_names=False,
                parse="none",
            )
        except SlackApiError as error:
            self._log.info("buttons were not removed", error=code_of(error), account=self._who.account)
        except TROUBLE as error:
            self._log.info("buttons were not removed", error=type(error).__name__, account=self._who.account)
