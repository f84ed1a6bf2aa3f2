"""The Slack channel: one app in one workspace, over Socket Mode or HTTP requests from Slack."""

from __future__ import annotations

import random as system_random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from channels.common.backoff import LONGEST
from channels.common.chat_channel import ChatChannel
from channels.common.chunking import fitted
from channels.common.previews import Previews
from channels.errors import ChannelBroken, ChannelError, NotFetched, NotSent
from channels.protocol import HookAnswer
from channels.slack.block_kit import longer
from channels.slack.inbound import Identity, is_stamp
from channels.slack.settings import APPS, ASK_EVERY
from channels.slack.slack_cache import SlackCache

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from pathlib import Path

    from slack_sdk.web.async_client import AsyncWebClient

    from channels.common.log import Log
    from channels.messages import Attachment, ChatAddress, Outbound, Sent
    from channels.protocol import Clock, HookRequest, InboundSink, MenuEntry
    from channels.slack.file_transfer import Files
    from channels.slack.http_mode import Hook, Signature
    from channels.slack.reactions import Reactions
    from channels.slack.receiving import Receiver
    from channels.slack.sending import Sender
    from channels.slack.settings import SlackAccount, SlackSettings
    from channels.slack.web_client import RateLimit

BETWEEN_EDITS = 1.5
_OK, _FORGED, _NOT_NOW, _NOT_HERE = 200, 401, 503, 404


@dataclass(slots=True, kw_only=True)
class _Line:
    """What works while Slack is reached."""

    sender: Sender
    files: Files
    reactions: Reactions
    receiver: Receiver
    hook: Hook | None = None


class SlackChannel(ChatChannel):
    """A ``Channel`` with ``Drafts``, ``Fetches``, ``Reacts``, ``Shows``, ``Refers``, ``Menu`` and ``Hooked``.

    The client library is loaded in a thread, when it is first used.
    """

    name = "slack"
    PARTS = ("socket_mode", "http_mode", "sending", "file_transfer", "reactions")

    posts_once = 0.0
    """Slack takes the same message twice; see ``channels.common.previews``."""

    def __init__(
        self,
        settings: SlackSettings,
        account: str,
        *,
        clock: Clock,
        log: Log | None = None,
        random: Callable[[], float] = system_random.random,
    ) -> None:
        self._settings: SlackAccount = settings.account(account)
        super().__init__(account, clock=clock, streaming=self._settings.streaming != "off", log=log, random=random)
        self.reply_to_mode = self._settings.reply_to_mode
        self.hooked = self._settings.mode == "http"
        self.silence = self._settings.ping_seconds * ASK_EVERY + self._settings.timeout_seconds + LONGEST
        self._known = SlackCache()
        self._concerns: list[str] = []
        self._line: _Line | None = None
        self._signature: Signature | None = None
        self._previews = Previews(self, clock, between=self._between)

    @property
    def repeats_safely(self) -> bool:
        """Whether a doubtful message can be looked for; not without the scopes that reading takes."""
        return self._line is None or self._line.sender.reads_back

    @property
    def trouble(self) -> str:
        """What is wrong although Slack is reached; see ``channels.protocol.Troubled``."""
        return "" if self._line is None else self._line.receiver.trouble

    async def run(self, sink: InboundSink) -> None:
        """Listen until cancelled, with longer and longer pauses between connections that fail."""
        self._settings.check()
        await self._load()
        from channels.slack.http_mode import Signature

        self._signature = Signature(self._settings, self._clock) if self.hooked else None
        async with self._keeping(self._previews, sink):
            await self._reconnecting(lambda _: self._listen(sink))

    async def _listen(self, sink: InboundSink) -> None:
        from channels.slack.web_client import make_session, make_web

        async with make_session(self._settings) as session:
            await self._listen_with(make_web(self._settings, session), sink)

    async def _listen_with(self, web: AsyncWebClient, sink: InboundSink) -> None:
        from channels.slack.http_mode import Hook
        from channels.slack.receiving import Receiver
        from channels.slack.socket_mode import Listener
        from channels.slack.user_names import People
        from channels.slack.web_client import RateLimit

        who, rate_limit = await self._signed_in(web), RateLimit(self._clock)
        for concern in self._concerns:
            self._log.warning(concern, account=self.account)
        receiver = Receiver(
            self._settings,
            who,
            web,
            sink,
            self._known,
            people=People(web, rate_limit, self._known.names),
            clock=self._clock,
            random=self._random,
            log=self._log,
        )
        line = self._spoken(web, who, rate_limit, receiver)
        if self.hooked:
            line.hook = ear = Hook(self._settings, web, receiver, sink, self._log, account=self.account)
        self._line = line
        try:
            await (
                ear.run()
                if self.hooked
                else Listener(self._settings, web, receiver, sink, clock=self._clock, log=self._log).run()
            )
        finally:
            self._line = None
            await line.sender.streams.close()
            await receiver.close()

    def _spoken(self, web: AsyncWebClient, who: Identity, rate_limit: RateLimit, receiver: Receiver) -> _Line:
        from channels.slack.file_transfer import Files
        from channels.slack.reactions import Reactions
        from channels.slack.sending import Sender

        def refused(error: ChannelBroken) -> None:
            if not receiver.broken.done():
                receiver.broken.set_exception(error)

        return _Line(
            sender=Sender(self._settings, web, self._known, rate_limit, self._log, refused=refused, team=who.team),
            files=Files(self._settings, web, rate_limit),
            reactions=Reactions(web, rate_limit, self._log, self._known, me=who.user),
            receiver=receiver,
        )

    async def _signed_in(self, web: AsyncWebClient) -> Identity:
        """Return who the app is, and in which workspace. Raises ChannelBroken when its token is not accepted."""
        from slack_sdk.errors import SlackApiError

        from channels.slack.api_errors import refusal

        try:
            found: Any = await web.auth_test()
        except SlackApiError as error:
            refused = refusal(error, self._settings, "bot_token")
            raise (refused or error) from error
        from channels.slack.http_mode import astray

        self._concerns = [one for one in (lacking(found.headers), self.hooked and astray(found.headers, self._clock)) if one]
        return Identity(
            account=self.account,
            team=str(found["team_id"]),
            user=str(found["user_id"]),
            bot=str(found.get("bot_id") or ""),
            opens=self._settings.reply_to_mode == "all",
        )

    def chunks(self, markdown: str) -> list[str]:
        """Split a reply into messages of at most 4,000 characters, both as Markdown and as mrkdwn."""
        return fitted(markdown, self._settings.text_chunk_limit, longer, apart=self._settings.chunk_mode == "newline")

    async def send(self, outbound: Outbound, record: Callable[[str], Awaitable[None]]) -> Sent:
        """Deliver one chunk; see ``channels.slack.sending``."""
        return await self._open().sender.send(outbound, record, self._previews)

    async def _show_typing(self, conversation: ChatAddress) -> None:
        """Show that an answer is being written, where Slack can: in threads."""
        if self._line is not None:
            await self._line.sender.typing(conversation)

    async def post(self, conversation: ChatAddress, text: str, key: str) -> str:  # noqa: ARG002 - Slack has no key for a message
        """Post a preview; see ``channels.common.previews``."""
        return await self._open().sender.post(conversation, text, self.chunks)

    async def edit(self, conversation: ChatAddress, message: str, text: str) -> None:
        """Edit a preview; see ``channels.common.previews``."""
        await self._open().sender.edit(conversation, message, text, self.chunks)

    async def remove(self, conversation: ChatAddress, message: str) -> None:
        """Delete a preview; see ``channels.common.previews``."""
        await self._open().sender.remove(conversation, message)

    async def fetch(self, attachment: Attachment, path: Path, limit: int) -> None:
        """Save a file that came with a message; see ``channels.slack.file_transfer``."""
        if self._line is None:
            raise NotFetched("Slack is not connected", permanent=False)
        await self._line.files.fetch(attachment, path, limit)

    async def _show_reaction(self, conversation: ChatAddress, message_id: str, emoji: str | None) -> None:
        if self._line is not None and is_stamp(message_id):
            await self._line.reactions.react(await self._line.sender.channel(conversation), message_id, emoji)

    async def menu(self, entries: Sequence[MenuEntry]) -> None:
        """Learn which words are commands behind the slash command. Slack has no menu that an app could fill: its manifest does."""
        self._known.commands = frozenset(entry.name.removeprefix("/").lower() for entry in entries)

    async def hear(self, request: HookRequest) -> HookAnswer:
        """Handle a request from Slack; see ``channels.slack.http_mode``."""
        line, signature = self._line, self._signature
        if not self.hooked:
            return HookAnswer(status=_NOT_HERE)
        if signature is None:
            return HookAnswer(status=_NOT_NOW)
        if request.method != "POST" or not signature.fits(request.body, request.headers):
            return HookAnswer(status=_FORGED)
        if line is None or line.hook is None:
            return HookAnswer(status=_NOT_NOW)
        answer = await line.hook.hear(request)
        if answer.status == _OK:
            signature.taken(request.headers)
        return answer

    async def probe(self) -> str:
        """Ask who the app is, and return its id and workspace, such as ``U1@T1``, with what its token does not allow.

        Raises:
            ChannelError: it cannot be reached; ``ChannelBroken`` when a token of it is wrong.
        """
        await self._load()
        from channels.slack.api_errors import TROUBLE
        from channels.slack.web_client import make_session, make_web

        self._settings.check()
        try:
            async with make_session(self._settings) as session:
                web = make_web(self._settings, session)
                who = await self._signed_in(web)
                await self._may_listen(web)
        except ChannelBroken:
            raise
        except TROUBLE as error:
            raise ChannelError(
                f"{self._settings.api_root} does not answer: {error}", hint="check the network, and channels.slack.apiRoot"
            ) from error
        return f"{who.user}@{who.team} ({'; '.join(self._concerns)})" if self._concerns else f"{who.user}@{who.team}"

    async def _may_listen(self, web: AsyncWebClient) -> None:
        """Ask for an address to listen at, which is left unused. Raises ChannelBroken when the app-level token is not accepted."""
        from slack_sdk.errors import SlackApiError

        from channels.slack.api_errors import refusal

        if self.hooked:
            return
        try:
            await web.apps_connections_open(app_token=self._settings.secret("app_token"))
        except SlackApiError as error:
            refused = refusal(error, self._settings, "app_token")
            if refused is not None:
                raise refused from error

    async def close(self) -> None:
        """Release nothing: ``run`` closes its connections when it ends."""

    def _passing(self) -> tuple[type[Exception], ...]:
        from channels.slack.api_errors import TROUBLE

        return TROUBLE

    def _between(self, conversation: ChatAddress) -> float:
        """Return the seconds between two looks at a preview: Slack takes fewer edits a minute than pieces of a stream."""
        return 1.0 if self._settings.streaming == "auto" and conversation.thread is not None else BETWEEN_EDITS

    def _open(self) -> _Line:
        if self._line is None:
            raise NotSent("Slack is not connected")
        return self._line


HEADER: Final = "x-oauth-scopes"
"""Where Slack says with each answer what a token allows."""
NEEDED: Final = {
    "app_mentions:read": "hear mentions",
    "channels:history": "read public channels",
    "chat:write": "answer",
    "commands": "take the slash command",
    "files:read": "read files",
    "files:write": "send files",
    "groups:history": "read private channels",
    "im:history": "read private messages",
    "im:write": "begin private conversations",
    "mpim:history": "read group conversations",
    "reactions:read": "hear of emoji",
    "reactions:write": "put emoji",
    "users:read": "know people's names",
}
"""Scopes of the bot token, and what the app cannot do without each. The manifest in docs/slack.md asks for these."""


def lacking(headers: Mapping[str, str]) -> str:
    """Return what a token does not allow and where to add it, from the headers of an answer; nothing where all is well or not known."""
    said = headers.get(HEADER) or headers.get(HEADER.title())
    if not said:
        return ""
    granted = {scope.strip() for scope in said.split(",")}
    missing = [f"{scope} (to {what})" for scope, what in NEEDED.items() if scope not in granted]
    if not missing:
        return ""
    where = f"{APPS}, your app, OAuth & Permissions, Bot Token Scopes"
    return f"the bot token lacks scopes: {', '.join(missing)}; add them ({where}), and install the app again"
