"""The WhatsApp channel: one business phone number over Meta's Cloud API, which calls this gateway."""

from __future__ import annotations

import asyncio
import random as system_random
from typing import TYPE_CHECKING, Any, Final, Literal

from channels.common.backoff import LONGEST, Backoff
from channels.common.chunking import fitted
from channels.common.log import NoLog
from channels.errors import ChannelBroken, ChannelError, NotFetched, NotSent
from channels.messages import MARKS
from channels.protocol import HookAnswer
from channels.whatsapp.account_memory import AccountMemory
from channels.whatsapp.delivery_reports import DeliveryReports
from channels.whatsapp.markup import written
from channels.whatsapp.receiving import NotYet, Receiver
from channels.whatsapp.settings import LIMIT
from channels.whatsapp.webhook_calls import FORGED, NOT_NOW, OK, challenged, is_genuine, payload_of, refusal
from channels.whatsapp.windows import Windows

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from pathlib import Path

    from channels.common.log import Log
    from channels.messages import Attachment, ChatAddress, Outbound, Sent
    from channels.protocol import Clock, HookRequest, InboundSink
    from channels.whatsapp.graph_api import GraphApi
    from channels.whatsapp.sending import Outgoing
    from channels.whatsapp.settings import WhatsAppAccount, WhatsAppSettings

LOOK_SECONDS: Final = 900.0
"""How often Meta is asked whether the token, the webhook and the number still are as they should be."""
_ROOM: Final = LIMIT - max(map(len, MARKS))
"""What a piece of an answer may take: one that is repeated has a mark before it."""


class WhatsAppChannel:
    """A ``Channel`` with ``Fetches``, ``Reacts``, ``Shows``, ``Speaks``, ``Refers``, ``Answers``, ``Hooked``, ``Probed`` and ``Instructs``.

    aiohttp is loaded in a thread, when ``run`` or ``probe`` first needs it.
    """

    name = "whatsapp"
    hooked = True
    voice_format = "opus"
    shows: frozenset[Literal["buttons", "files"]] = frozenset({"buttons", "files"})

    def __init__(
        self,
        settings: WhatsAppSettings,
        account: str,
        *,
        clock: Clock,
        log: Log | None = None,
        random: Callable[[], float] = system_random.random,
    ) -> None:
        self.account = account
        self._settings: WhatsAppAccount = settings.account(account)
        self._clock = clock
        self._log: Log = log or NoLog()
        self._random = random
        self.reply_to_mode = self._settings.reply_to_mode
        self.silence = LOOK_SECONDS + self._settings.timeout_seconds + LONGEST
        self.known_as = ""
        self._memory = AccountMemory(Windows(clock), DeliveryReports(clock))
        self._receiver: Receiver | None = None
        self._outgoing: Outgoing | None = None
        self._api: GraphApi | None = None
        self._called = False
        self._concerns: list[str] = []

    async def run(self, sink: InboundSink) -> None:
        """Take calls until cancelled, and look now and then whether Meta still accepts the token and knows where to call."""
        self._settings.check(self.account)
        await asyncio.to_thread(_load)
        from channels.whatsapp.graph_api import GraphApi
        from channels.whatsapp.sending import Outgoing

        gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def refused(error: ChannelBroken) -> None:
            if not gone.done():
                gone.set_exception(error)

        receiver = Receiver(self._settings, self.account, sink, self._memory, clock=self._clock, log=self._log)
        api = self._api = GraphApi(self._settings, self.account)
        try:
            await receiver.begin()
            self._receiver = receiver
            self._outgoing = Outgoing(
                self._settings, self.account, api, sink, self._memory, clock=self._clock, log=self._log, refused=refused
            )
            await self._look_on(api, receiver, sink, gone)
        finally:
            self._receiver = self._outgoing = self._api = None
            if gone.done() and not gone.cancelled():
                gone.exception()
            await receiver.close()
            await api.close()

    async def _look_on(self, api: GraphApi, receiver: Receiver, sink: InboundSink, gone: asyncio.Future[None]) -> None:
        from channels.whatsapp.graph_api import TROUBLE
        from channels.whatsapp.own_number import look

        backoff, ready = Backoff(self._clock, self._random, self._log, self.account), False
        while True:
            try:
                found = await look(api, self._settings, self.account, mend=True)
            except TROUBLE as error:
                ready = False
                await backoff.wait("whatsapp does not answer", str(error) or type(error).__name__)
                continue
            backoff.over()
            receiver.own_number, self.known_as, self._concerns = found.digits, found.name, found.concerns
            sink.alive()
            if not ready:
                sink.ready()
                ready = True
            await asyncio.wait([gone], timeout=LOOK_SECONDS)
            if gone.done():
                gone.result()

    # -- calls of Meta's ---------------------------------------------------------------------------------------------

    def refuses(self, request: HookRequest) -> HookAnswer | None:
        """Refuse a call by its head alone; see ``channels.protocol.Hooked``."""
        return refusal(request)

    async def hear(self, request: HookRequest) -> HookAnswer:
        """Answer Meta's challenge, or store what a signed call brings and then acknowledge it."""
        if (refused := refusal(request)) is not None:
            return refused
        receiver = self._receiver
        if receiver is None:
            return HookAnswer(status=NOT_NOW, headers={"retry-after": "10"})
        if request.method == "GET":
            answer = challenged(request, self._settings.expected_token())
            self._called = self._called or answer.status == OK
            return answer
        if not is_genuine(request, self._settings.secret("app_secret", self.account)):
            self._log.warning("a call was not signed with channels.whatsapp.appSecret", account=self.account)
            return HookAnswer(status=FORGED)
        self._called = True
        return await self._taken(receiver, request.body)

    async def _taken(self, receiver: Receiver, body: bytes) -> HookAnswer:
        payload = payload_of(body)
        try:
            if payload is not None:
                await receiver.take(payload)
        except NotYet:
            return HookAnswer(status=NOT_NOW, headers={"retry-after": "1"})
        except Exception as error:  # noqa: BLE001 - what could not be stored must be delivered again
            self._log.warning("a call could not be stored, and Meta will call again", error=str(error), account=self.account)
            return HookAnswer(status=NOT_NOW, headers={"retry-after": "5"})
        return HookAnswer(status=OK)

    # -- sending -----------------------------------------------------------------------------------------------------

    def chunks(self, markdown: str) -> list[str]:
        """Split a reply into messages of at most 4,096 letters as WhatsApp counts them, marks included."""
        limit = min(self._settings.text_chunk_limit, _ROOM)
        return fitted(markdown, limit, written, apart=self._settings.chunk_mode == "newline")

    async def send(self, outbound: Outbound, record: Callable[[str], Awaitable[None]]) -> Sent:
        """Deliver one chunk; see ``channels.whatsapp.sending``."""
        return await self._open().send(outbound, record)

    async def answers(self, conversation: ChatAddress) -> bool:  # noqa: ARG002 - one API for all
        """Return whether Meta answers."""
        return self._outgoing is not None and await self._outgoing.answers()

    async def typing(self, conversation: ChatAddress) -> None:
        """Show that an answer is being written, and that the message was read."""
        await self._for_show("typing was not shown", lambda outgoing: outgoing.typing(conversation))

    async def react(self, conversation: ChatAddress, message_id: str, emoji: str | None) -> None:
        """Put an emoji under a message in place of an earlier one, or take it off."""
        await self._for_show("a reaction was not shown", lambda outgoing: outgoing.react(conversation, message_id, emoji))

    async def fetch(self, attachment: Attachment, path: Path, limit: int) -> None:
        """Save a file that came with a message; see ``channels.whatsapp.media_transfer``."""
        if self._api is None:
            raise NotFetched("WhatsApp is not connected", permanent=False)
        from channels.whatsapp.media_transfer import fetch

        await fetch(self._api, self._settings, attachment, path, limit)

    async def _for_show(self, event: str, showing: Callable[[Outgoing], Awaitable[None]]) -> None:
        if self._outgoing is None:
            return
        from channels.whatsapp.graph_api import TROUBLE

        try:
            await showing(self._outgoing)
        except (*TROUBLE, ChannelError) as error:
            self._log.info(event, error=str(error) or type(error).__name__, account=self.account)

    def _open(self) -> Outgoing:
        if self._outgoing is None:
            raise NotSent("WhatsApp is not connected")
        return self._outgoing

    # -- what the owner is told --------------------------------------------------------------------------------------

    @property
    def trouble(self) -> str:
        """What is wrong although Meta is reached; see ``channels.protocol.Troubled``."""
        return self._receiver.trouble if self._receiver is not None else ""

    def remarks(self) -> Sequence[str]:
        """Return what the owner should know; see ``channels.protocol.Remarks``."""
        concerns = list(self._concerns)
        if self._receiver is not None and not self._called and not self._memory.windows.any:
            concerns.append(
                "Meta has never called here: `homebody setup whatsapp` shows the address and the token to enter there."
            )
        if self._outgoing is not None and self._outgoing.template_error:
            concerns.append(f"The template cannot be sent: {self._outgoing.template_error}")
        return concerns

    def instructions(self) -> Sequence[str]:
        """Return what has to be entered at Meta; see ``channels.protocol.Instructs``."""
        address = self._settings.address(self.account) or f"https://YOUR-HOST/hooks/whatsapp/{self.account}"
        token = self._settings.expected_token()
        return (f"Webhook (WhatsApp, Configuration): callback URL {address}, verify token {token}, field messages.",)

    async def probe(self) -> str:
        """Ask for the number, and return it with its name, and what is wrong with its webhook.

        Raises:
            ChannelError: Meta cannot be reached; ``ChannelBroken`` when it does not accept the token or the number.
        """
        self._settings.check(self.account)
        await asyncio.to_thread(_load)
        from channels.whatsapp.graph_api import TROUBLE, GraphApi
        from channels.whatsapp.own_number import look

        api = GraphApi(self._settings, self.account)
        try:
            found = await look(api, self._settings, self.account, mend=False)
        except TROUBLE as error:
            raise ChannelError(
                f"{self._settings.api_root} does not answer: {str(error) or type(error).__name__}",
                hint="check the network, and channels.whatsapp.apiRoot",
            ) from error
        finally:
            await api.close()
        return f"{found.name} ({'; '.join(found.concerns)})" if found.concerns else found.name

    async def close(self) -> None:
        """Release nothing: ``run`` closes its connections when it ends."""


def _load() -> Any:
    import channels.whatsapp.sending

    return channels.whatsapp.sending
