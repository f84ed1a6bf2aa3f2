"""Slack as a channel: one app in one workspace, over Socket Mode."""

from __future__ import annotations

import asyncio
import importlib
import random as system_random
from typing import TYPE_CHECKING

from channels.errors import ChannelBroken, ChannelError, NotSent
from channels.fitting import fitted
from channels.log import NoLog
from channels.previews import Previews
from channels.slack.mrkdwn import written

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from slack_sdk.web.async_client import AsyncWebClient

    from channels.clock import Clock
    from channels.log import Log
    from channels.messages import Conversation, Outbound, Sent
    from channels.protocol import Door
    from channels.slack.sending import Sender
    from channels.slack.settings import SlackAccount, SlackSettings

FIRST_PAUSE = 1.0
LONGEST_PAUSE = 60.0


class SlackChannel:
    """A ``Channel`` with ``Drafts``. The client library is loaded in a thread, when ``run`` or ``probe`` first needs it."""

    name = "slack"

    def __init__(
        self,
        settings: SlackSettings,
        account: str,
        *,
        clock: Clock,
        log: Log | None = None,
        random: Callable[[], float] = system_random.random,
    ) -> None:
        self.account = account
        self._settings: SlackAccount = settings.account(account)
        self._clock = clock
        self._log: Log = log or NoLog()
        self._random = random
        self._dms: dict[str, str] = {}
        self._speaking: Sender | None = None
        self._previews = Previews(self, clock)

    @property
    def repeats_safely(self) -> bool:
        """Whether a doubtful message can be looked for; not without the scopes that reading takes."""
        return self._speaking is None or self._speaking.reads_back

    async def run(self, door: Door) -> None:
        """Listen until cancelled, with ever longer pauses between connections that do not come about."""
        await asyncio.to_thread(_load)
        import aiohttp

        from channels.slack.client import TROUBLE, make_web

        failures = 0
        while True:
            try:
                async with aiohttp.ClientSession() as session:
                    await self._listen(make_web(self._settings, session), door)
            except TROUBLE as error:
                pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2**failures) * (0.5 + self._random() / 2)
                failures = min(failures + 1, 10)
                self._log.warning("slack does not answer", error=str(error), pause=round(pause, 1), account=self.account)
                await self._clock.sleep(pause)

    async def _listen(self, web: AsyncWebClient, door: Door) -> None:
        from channels.slack.receiving import Receiver
        from channels.slack.sending import Sender

        me, team = await self._signed_in(web)
        receiver = Receiver(
            self._settings,
            self.account,
            web,
            me=me,
            team=team,
            door=door,
            clock=self._clock,
            random=self._random,
            log=self._log,
            dms=self._dms,
        )
        self._speaking = Sender(web, self._dms)
        try:
            await receiver.run()
        finally:
            self._speaking = None

    async def _signed_in(self, web: AsyncWebClient) -> tuple[str, str]:
        """Return who the app is, and in which workspace. Raises ChannelBroken when its token is not accepted."""
        from slack_sdk.errors import SlackApiError

        from channels.slack.client import refusal

        try:
            found = await web.auth_test()
        except SlackApiError as error:
            refused = refusal(error, self._settings, "bot_token")
            raise (refused or error) from error
        return str(found["user_id"]), str(found["team_id"])

    def chunks(self, markdown: str) -> list[str]:
        """Cut a reply into messages of at most 4,000 letters as Slack stores them."""
        return fitted(markdown, self._settings.text_chunk_limit, written)

    async def send(self, outbound: Outbound, record: Callable[[str], Awaitable[None]]) -> Sent:
        """Deliver one chunk; see ``channels.slack.sending``."""
        return await self._sender().send(outbound, record, self._previews)

    async def typing(self, conversation: Conversation) -> None:
        """Show that an answer is being written, where Slack can."""
        if self._speaking is not None:
            await self._try(self._speaking.typing(conversation), "typing was not shown")

    async def draft(self, conversation: Conversation, turn: str, text: str) -> None:
        """Show a preview of the answer, when it takes long."""
        if self._settings.streaming != "off":
            await self._try(self._previews.show(conversation, turn, text), "a preview was not shown")

    async def post(self, conversation: Conversation, text: str) -> str:
        """Post a preview; see ``channels.previews``."""
        return await self._sender().post(conversation, self._shortened(text))

    async def edit(self, conversation: Conversation, message: str, text: str) -> None:
        """Edit a preview; see ``channels.previews``."""
        await self._sender().edit(conversation, message, self._shortened(text))

    async def probe(self) -> str:
        """Ask who the app is, and return its id and workspace, such as ``U1@T1``.

        Raises:
            ChannelError: it cannot be reached; ``ChannelBroken`` when its token is wrong.
        """
        await asyncio.to_thread(_load)
        import aiohttp

        from channels.slack.client import TROUBLE, make_web

        try:
            async with aiohttp.ClientSession() as session:
                return "@".join(await self._signed_in(make_web(self._settings, session)))
        except ChannelBroken:
            raise
        except TROUBLE as error:
            raise ChannelError(
                f"{self._settings.api_root} does not answer: {error}", mend="check the network, and channels.slack.apiRoot"
            ) from error

    async def close(self) -> None:
        """Release nothing: ``run`` closes its connections when it ends."""

    def _shortened(self, text: str) -> str:
        return written(self.chunks(text)[0])

    async def _try(self, showing: Awaitable[None], event: str) -> None:
        """Do what is only for show."""
        from channels.slack.client import TROUBLE

        try:
            await showing
        except (*TROUBLE, ChannelError) as error:
            self._log.info(event, error=type(error).__name__, account=self.account)

    def _sender(self) -> Sender:
        if self._speaking is None:
            raise NotSent("Slack is not connected")
        return self._speaking


def _load() -> None:
    """Load the library; a second of work that must not stop the event loop."""
    for part in ("receiving", "sending"):
        importlib.import_module(f"channels.slack.{part}")
