"""The Matrix channel: one account on a homeserver, its private chats, and the rooms that the settings list."""

from __future__ import annotations

import asyncio
import random as system_random
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

from channels.common.chat_channel import ChatChannel
from channels.common.previews import Previews
from channels.errors import ChannelBroken, ChannelError, NotSent
from channels.matrix.markup import chunks

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from channels.common.backoff import Backoff
    from channels.common.log import Log
    from channels.matrix.device_files import Device
    from channels.matrix.encryption import Encryption
    from channels.matrix.http_api import MatrixHttp
    from channels.matrix.own_reactions import OwnReactions
    from channels.matrix.private_chats import PrivateChats
    from channels.matrix.receiving import Receiver
    from channels.matrix.sending import Outgoing
    from channels.matrix.settings import MatrixAccount, MatrixSettings
    from channels.matrix.verification import Verifications
    from channels.messages import Attachment, ChatAddress, Outbound, Sent
    from channels.protocol import Clock, InboundSink

TYPING_SECONDS = 10.0
BETWEEN_EDITS = 2.0
"""Each edit is an event that stays in the room, so that they are rarer than on other platforms."""
SILENCE_BEYOND = 90.0
"""Seconds beyond a request for news after which the account counts as silent."""


class MatrixChannel(ChatChannel):
    """A ``Channel`` with ``Drafts``, ``Fetches``, ``Reacts``, ``Speaks``, ``Probed`` and ``Remarks``.

    The libraries are loaded in a thread, when ``run`` or ``probe`` first needs them.
    """

    name = "matrix"
    PARTS = ("receiving", "sending", "own_reactions", "device")
    repeats_safely = True
    posts_once = 6 * 3600.0
    """Homeservers compare transaction ids; see ``channels.common.previews``."""
    voice_format = "opus"

    def __init__(
        self,
        settings: MatrixSettings,
        account: str,
        *,
        clock: Clock,
        log: Log | None = None,
        random: Callable[[], float] = system_random.random,
        state: Path | None = None,
    ) -> None:
        self._settings: MatrixAccount = settings.account(account)
        super().__init__(account, clock=clock, streaming=self._settings.streaming != "off", log=log, random=random)
        self.reply_to_mode = self._settings.reply_to_mode
        self.silence = self._settings.sync_seconds + SILENCE_BEYOND
        self._state = state
        self._http: MatrixHttp | None = None
        self._receiver: Receiver | None = None
        self._outgoing: Outgoing | None = None
        self._encryption: Encryption | None = None
        self._reactions: OwnReactions | None = None
        self._verifications: Verifications | None = None
        self._device: Device | None = None
        self._shown: dict[str, float] = {}
        self._chats: PrivateChats | None = None
        self._previews = Previews(self, clock, between=lambda _: BETWEEN_EDITS)

    @property
    def trouble(self) -> str:
        """What is wrong although the homeserver is reached; see ``channels.protocol.Troubled``."""
        parts = [self._receiver.trouble if self._receiver else "", self._encryption.trouble if self._encryption else ""]
        return "; ".join(part for part in parts if part)

    def remarks(self) -> Sequence[str]:
        """Return what the owner should know of the device; see ``channels.protocol.Remarks``."""
        concerns = []
        if self._device is not None and self._device.former:
            concerns.append(
                f"It is signed in as a new device ({self._device.device}, before {self._device.former}): "
                "verify it again, and messages that were encrypted for the former one alone stay closed."
            )
        return [*concerns, *(self._encryption.remarks() if self._encryption else ())]

    async def run(self, sink: InboundSink) -> None:
        """Listen until cancelled, with longer and longer pauses between connections that fail."""
        if self._state is None:
            raise ChannelBroken("there is no state folder for the device and its keys", hint="run it with: homebody gateway")
        await self._load()
        from channels.matrix.own_reactions import OwnReactions

        self._reactions = OwnReactions()
        async with self._keeping(self._previews, sink):
            await self._reconnecting(lambda backoff: self._listen(sink, backoff))

    async def _listen(self, sink: InboundSink, backoff: Backoff) -> None:
        from channels.matrix.api_errors import broken, signed_out
        from channels.matrix.device import sign_in
        from channels.matrix.http_api import MatrixHttp, Refused
        from channels.matrix.private_chats import PrivateChats
        from channels.matrix.receiving import Receiver
        from channels.matrix.rooms import RoomDirectory
        from channels.matrix.sending import Outgoing

        http = MatrixHttp(self._settings.server(), self._settings.timeout_seconds)
        try:
            before = self._device
            device = self._device = await sign_in(self._settings, http, self._state)
            if device.former and before is None:
                self._log.warning("signed in as a new device", device=device.device, former=device.former, account=self.account)
            self._encryption = await self._opened(device)
            rooms = RoomDirectory(device.user)
            self._chats = self._chats or PrivateChats(self._clock)
            self._outgoing = Outgoing(
                self._settings, http, device.device, rooms, self._clock, self._encryption, self._shown, self._chats
            )
            self._verifications = self._verifying(http, sink, device)
            self._receiver = Receiver(
                self._settings,
                self.account,
                http=http,
                rooms=rooms,
                sink=sink,
                clock=self._clock,
                log=self._log,
                encryption=self._encryption,
                verifications=self._verifications,
                backoff=self._backoff,
            )
            self._receiver.on_contact = backoff.over
            self._http = http
            await self._receiver.run()
        except Refused as error:
            if signed_out(error):
                raise broken(error, by_password=self._settings.token() is None) from error
            raise
        finally:
            self._receiver = self._outgoing = self._http = None
            if self._verifications is not None:
                await self._verifications.close()
            encryption, self._encryption = self._encryption, None
            await asyncio.shield(asyncio.ensure_future(_closed(http, encryption)))

    def _verifying(self, http: MatrixHttp, sink: InboundSink, device: Device) -> Verifications | None:
        if self._encryption is None or self._state is None:
            return None
        from channels.matrix.sas import Party
        from channels.matrix.verification import Verifications

        return Verifications(
            self._encryption,
            http,
            sink,
            self._put,
            us=Party(device.user, device.device),
            folder=self._state,
            clock=self._clock,
            log=self._log,
            account=self.account,
        )

    async def _put(self, room: str, kind: str, content: Mapping[str, Any], transaction: str) -> str:
        outgoing = self._connected()
        known = outgoing.rooms.get(room)
        if known is None:
            raise NotSent("the agent is not in the room", permanent=True)
        return await outgoing.put(known, kind, content, transaction)

    async def _opened(self, device: Device) -> Encryption | None:
        """Return what encrypts, if it is switched on and installed."""
        if not self._settings.encryption or self._state is None:
            return None
        try:
            await asyncio.to_thread(_load_encryption)
        except ImportError:
            self._log.info("encrypted rooms cannot be read: the extra `matrix` is not installed", account=self.account)
            return None
        from channels.matrix.encryption import Encryption

        return await Encryption.open(
            self._settings, device, self._state, clock=self._clock, log=self._log, account=self.account
        )

    def chunks(self, markdown: str) -> list[str]:
        """Split a reply into messages of at most ``textChunkLimit`` letters that also fit an event."""
        return chunks(markdown, self._settings.text_chunk_limit, apart=self._settings.chunk_mode == "newline")

    async def send(self, outbound: Outbound, record: Callable[[str], Awaitable[None]]) -> Sent:
        """Deliver one chunk; see ``channels.matrix.sending``."""
        return await self._connected().send(outbound, record, self._previews)

    async def fetch(self, attachment: Attachment, path: Path, limit: int) -> None:
        """Save a file that came with a message; see ``channels.matrix.media``."""
        from channels.matrix.media import fetch

        if self._http is None:
            from channels.errors import NotFetched

            raise NotFetched("the homeserver is not connected", permanent=False)
        await fetch(self._http, attachment, path, limit, self._settings.timeout_seconds)

    async def _show_reaction(self, conversation: ChatAddress, message_id: str, emoji: str | None) -> None:
        if self._reactions is not None:
            await self._reactions.put(self._connected(), conversation, message_id, emoji)

    async def _show_typing(self, conversation: ChatAddress) -> None:
        await self._connected().typing(conversation, TYPING_SECONDS)

    async def post(self, conversation: ChatAddress, text: str, key: str) -> str:
        """Post a preview; see ``channels.common.previews``."""
        posted = await self._connected().post(conversation, self._shortened(text), f"hb.{key}")
        self._shown[posted] = self._clock.monotonic()
        while len(self._shown) > 100:  # noqa: PLR2004 - previews of turns that run, and of some that were cut off
            del self._shown[next(iter(self._shown))]
        return posted

    async def edit(self, conversation: ChatAddress, message: str, text: str) -> None:
        """Edit a preview; see ``channels.common.previews``."""
        await self._connected().edit(conversation, message, self._shortened(text), f"hb.p.{uuid.uuid4().hex}")

    async def remove(self, conversation: ChatAddress, message: str) -> None:
        """Delete a preview; see ``channels.common.previews``."""
        await self._connected().remove(conversation, message)

    async def probe(self) -> str:
        """Ask who the account is, and return its id. Where only a password is known, it signs in and out again.

        Raises:
            ChannelError: the homeserver cannot be reached; ``ChannelBroken`` when it does not accept the account.
        """
        await self._load()
        from channels.matrix.device import sign_in
        from channels.matrix.device_files import stored
        from channels.matrix.http_api import TROUBLE, MatrixHttp, path

        http = MatrixHttp(self._settings.server(), self._settings.timeout_seconds)
        try:
            await http.ask("GET", "/_matrix/client/versions")
            kept = await asyncio.to_thread(stored, self._state)
            by_password = self._settings.token() is None
            keeps = (
                kept is not None
                and kept.token
                and (kept.server, kept.user) == (self._settings.homeserver, self._settings.user_id)
            )
            device = await sign_in(self._settings, http, self._state if keeps else None)
            if by_password and not keeps:
                await http.ask("POST", path("logout"), {})
        except TROUBLE as error:
            raise ChannelError(
                f"{self._settings.homeserver} does not answer as a homeserver: {str(error) or type(error).__name__}",
                hint="check the address: homebody config set channels.matrix.homeserver https://...",
            ) from error
        else:
            return device.user
        finally:
            await http.close()

    async def close(self) -> None:
        """Close the connection."""
        if self._http is not None:
            await self._http.close()

    def _shortened(self, text: str) -> str:
        pieces = self.chunks(text)
        if not pieces:
            raise NotSent("there is nothing to show yet")
        return pieces[0]

    def _passing(self) -> tuple[type[Exception], ...]:
        from channels.matrix.http_api import TROUBLE

        return TROUBLE

    def _described(self, error: Exception) -> str:
        return str(error) or type(error).__name__

    def _connected(self) -> Outgoing:
        if self._outgoing is None:
            raise NotSent("the homeserver is not connected")
        return self._outgoing


def _load_encryption() -> None:
    import channels.matrix.encryption
    import channels.matrix.verification  # noqa: F401 - loaded in a thread: it takes half a second


async def _closed(http: MatrixHttp, encryption: Encryption | None) -> None:
    await http.close()
    if encryption is not None:
        await encryption.close()
