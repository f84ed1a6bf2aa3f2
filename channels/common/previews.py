"""Previews: drafts of answers that are shown while they are written, in a message that is edited until it is the answer."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeVar

from msgspec.structs import replace

from channels.common.kept_previews import KeptPreview, KeptPreviews
from channels.errors import ChannelError, NotSent, Uncertain
from channels.messages import ChatAddress, Outbound, mark
from channels.protocol import Clock, InboundSink

AFTER = 3.0
BETWEEN = 1.0
MOST = 200
PREFIX = "preview:"
LEFT_SECONDS: Final = 30.0
"""For how long a preview that an earlier process left waits for its answer; it is deleted then, and the answer comes as a new message."""
LONGEST_DOUBT: Final = 86_400.0
"""After how many seconds nobody needs to hear of a preview whose id is not known."""
LATER: Final = 15.0
"""Seconds until deleting it is tried again."""
CUT_OFF: Final = "(This was cut off when I was restarted.)"
"""What a preview says for ever that cannot be deleted."""
EMPTY: Final = "…"


Place = TypeVar("Place", str, tuple[str, str])


class Editing(Protocol):
    """What a platform must support. The methods raise only ``ChannelError``."""

    posts_once: float
    """For how many seconds a message that is posted again with the same key stands there once; 0 where it would stand there twice."""

    async def post(self, conversation: ChatAddress, text: str, key: str) -> str:
        """Post a message and return its id."""
        ...

    async def edit(self, conversation: ChatAddress, message: str, text: str) -> None:
        """Replace a message's text."""
        ...

    async def remove(self, conversation: ChatAddress, message: str) -> None:
        """Delete a message, which may be gone already."""
        ...


@dataclass
class _Preview:
    turn: str
    began: float
    at: float
    key: str = field(default_factory=lambda: f"p{secrets.token_hex(10)}")
    message: str | None = None
    shown: str = ""
    edited: float = 0.0
    ended: bool = False
    doubtful: bool = False
    """Whether it may have been posted without that its id is known."""
    left: bool = False
    """Whether an earlier process left it, and nothing of this one was shown in it."""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class Previews:
    """The previews of one account. In each conversation one grows at most; those of turns whose answers still wait are set aside."""

    def __init__(
        self,
        editing: Editing,
        clock: Clock,
        *,
        after: float = AFTER,
        between: Callable[[ChatAddress], float] = lambda _: BETWEEN,
    ) -> None:
        self._editing = editing
        self._clock = clock
        self._after = after
        self._between = between
        self._open: dict[str, _Preview] = {}
        self._aside: dict[tuple[str, str], _Preview] = {}
        """By conversation and turn."""
        self._over: dict[str, str] = {}
        self._kept = KeptPreviews()
        self._left: dict[str, KeptPreview] = {}
        """What is to be deleted, by key."""
        self._lost: dict[str, _Preview] = {}
        """By conversation, a preview that may stand there beside the answer, as its id never became known."""
        self._found: set[str] = set()

    # -- showing -----------------------------------------------------------------------------------------------------

    async def show(self, conversation: ChatAddress, turn: str, text: str) -> None:
        """Show ``text`` if enough time has passed. If cancelled, a message that is being posted is still recorded."""
        address = conversation.address
        if self._over.get(address) == turn or not text.strip():
            return
        preview = self._open.get(address)
        if preview is None or preview.turn != turn:
            if preview is not None:
                self._set_aside(address, preview)
            preview = self._aside.pop((address, turn), None) or _Preview(turn, self._clock.monotonic(), self._wall())
            self._open[address] = preview
        now = self._clock.monotonic()
        early = now - preview.began < self._after or now - preview.edited < self._between(conversation)
        if early or text == preview.shown or preview.lock.locked():
            return
        await asyncio.shield(asyncio.ensure_future(self._show(conversation, preview, text)))

    async def _show(self, conversation: ChatAddress, preview: _Preview, text: str) -> None:
        async with preview.lock:
            if self._open.get(conversation.address) is not preview:
                return
            if preview.message is None and preview.doubtful and not self._posts_once(preview):
                return  # another one would be a duplicate
            preview.shown, preview.edited, preview.left = text, self._clock.monotonic(), False
            stands = preview.message is not None or preview.doubtful
            if preview.message is None:
                await self._post(conversation, preview)
            if stands and preview.message is not None:
                await self._editing.edit(conversation, preview.message, text)

    async def _post(self, conversation: ChatAddress, preview: _Preview) -> None:
        """Post a preview, which is stored before it may stand there, and again once its id is known."""
        if not preview.doubtful:
            preview.at = self._wall()
        kept = KeptPreview(conversation=conversation, turn=preview.turn, key=preview.key, at=preview.at)
        await self._kept.put(kept)
        before, preview.doubtful = preview.doubtful, True
        try:
            preview.message = await self._editing.post(conversation, preview.shown or EMPTY, preview.key)
        except NotSent:
            preview.doubtful = before
            if not before:
                with contextlib.suppress(NotSent):
                    await self._kept.drop([preview.key])
            raise
        except Uncertain:  # it may exist
            if not self._editing.posts_once:
                self._over[conversation.address] = preview.turn
            raise
        preview.doubtful = False
        with contextlib.suppress(NotSent):  # it is known here
            await self._kept.put(replace(kept, message=preview.message))

    async def refresh(self, conversation: ChatAddress, older: float) -> None:
        """Show the preview again if it was shown ``older`` seconds ago or earlier, for platforms where it expires."""
        preview = self._open.get(conversation.address)
        if preview is None or not preview.shown or preview.lock.locked():
            return
        if self._clock.monotonic() - preview.edited >= older:
            await asyncio.shield(asyncio.ensure_future(self._show(conversation, preview, preview.shown)))

    def end(self, conversation: ChatAddress, turn: str) -> None:
        """End the previews of a turn: the next message, whatever it is, may replace its preview."""
        preview = self._open.get(conversation.address)
        if preview is not None and preview.turn == turn:
            preview.ended = True

    def _set_aside(self, address: str, preview: _Preview) -> None:
        if preview.message is None and not preview.doubtful:
            return
        self._aside[address, preview.turn] = preview
        while len(self._aside) > MOST:
            del self._aside[next(iter(self._aside))]

    # -- the answer --------------------------------------------------------------------------------------------------

    async def take(self, conversation: ChatAddress, turn: str | None = None) -> str | None:
        """End the preview of a conversation and return its message, which becomes the answer; None if there is none.

        With ``turn``, the preview of another turn that has not ended is kept. One that an earlier process left and that stood for long
        is deleted, as an edit notifies nobody. Raises NotSent where it cannot be found out for now whether there is one.

        Call ``settle`` before anything is written into the message, once it is recorded as the answer's.
        """
        address = conversation.address
        preview = self._aside.pop((address, turn), None) if turn is not None else None
        if preview is None:
            preview = self._open.get(address)
            if preview is None or (turn is not None and turn != preview.turn and not preview.ended):
                return None
            del self._open[address]
        while len(self._over) >= MOST:
            del self._over[next(iter(self._over))]
        self._over[address] = preview.turn
        async with preview.lock:
            if preview.message is None and preview.doubtful:
                await self._find(conversation, preview)
            message = preview.message
        if message is not None and preview.left and self._wall() - preview.at > LEFT_SECONDS:
            kept = KeptPreview(conversation=conversation, turn=preview.turn, key=preview.key, at=preview.at, message=message)
            with contextlib.suppress(ChannelError):
                await self._remove(kept)
                return None
        return message

    async def _find(self, conversation: ChatAddress, preview: _Preview) -> None:
        """Find a preview that may have been posted, by posting it once more where that does not make two of it."""
        if not self._posts_once(preview):
            self._lost[conversation.address] = preview
            return
        try:
            await self._post(conversation, preview)
        except ChannelError as error:
            if isinstance(error, NotSent) and error.permanent:
                self._lost[conversation.address] = preview
                return
            if self._open.setdefault(conversation.address, preview) is not preview:
                self._set_aside(conversation.address, preview)
            raise NotSent(f"the preview of the answer cannot be looked for: {error}") from error

    def _posts_once(self, preview: _Preview) -> bool:
        return abs(self._wall() - preview.at) < self._editing.posts_once

    async def settle(self, conversation: ChatAddress, message: str) -> None:
        """Store durably that a message is no preview any more, as it becomes the answer. Raises NotSent."""
        opened = self._open.get(conversation.address)
        if opened is not None and opened.message == message:
            del self._open[conversation.address]
        for aside in [one for one, preview in self._aside.items() if preview.message == message]:
            del self._aside[aside]
        keys = self._kept.of_message(conversation, message)
        for key in keys:
            self._left.pop(key, None)
        if keys:
            await self._kept.drop(keys)

    def marked(self, outbound: Outbound) -> Outbound:
        """Return a message with the mark of one that may be repeated, where an unknown preview of it may stand above it."""
        preview = self._lost.get(outbound.conversation.address)
        if preview is None or preview.turn != outbound.turn:
            return outbound
        return replace(outbound, text=mark(replace(outbound, uncertain=True, restarted=preview.left)) + outbound.text)

    async def told(self, outbound: Outbound) -> None:
        """Note that a message was sent with the mark, so that no other one needs it."""
        preview = self._lost.get(outbound.conversation.address)
        if preview is not None and preview.turn == outbound.turn:
            del self._lost[outbound.conversation.address]
            with contextlib.suppress(NotSent):
                await self._kept.drop([preview.key])

    # -- what an earlier process left ----------------------------------------------------------------------------------

    async def keep(self, sink: InboundSink) -> None:
        """Store previews in ``sink`` from now on, and take up those that are stored there: their turns may go on."""
        stored = await self._kept.load(sink)
        for address, preview in list(self._open.items()):
            if preview.message is not None and not self._kept.holds(preview.key):
                del self._open[address]  # another gateway had the account meanwhile, and made it the answer
        for aside, preview in list(self._aside.items()):
            if preview.message is not None and not self._kept.holds(preview.key):
                del self._aside[aside]
        ours = {preview.key for preview in (*self._open.values(), *self._aside.values(), *self._lost.values())}
        for one in reversed(stored):  # of two in one conversation, the newest is gone on with
            address = one.conversation.address
            if one.key in ours:
                continue
            if one.message is not None:
                self._found.add(one.message)
            forgotten = one.message is None and self._wall() - one.at > LONGEST_DOUBT
            if address not in self._open and not forgotten:
                self._open[address] = _Preview(
                    one.turn,
                    self._clock.monotonic(),
                    one.at,
                    key=one.key,
                    message=one.message,
                    doubtful=one.message is None,
                    left=True,
                )
            else:
                self._left[one.key] = one

    def found(self, message: str) -> bool:
        """Return whether an earlier process posted a preview."""
        return message in self._found

    async def tidy(self) -> None:
        """Delete previews that an earlier process left and whose turns do not go on soon. Ends when none is left."""
        if not self._left and not any(preview.left for preview in (*self._open.values(), *self._aside.values())):
            return
        await self._clock.sleep(LEFT_SECONDS)
        self._leave(self._open)
        self._leave(self._aside)
        while self._left:
            for key, one in list(self._left.items()):
                with contextlib.suppress(ChannelError):
                    await self._remove(one)
                    self._left.pop(key, None)
            if self._left:
                await self._clock.sleep(LATER)

    def _leave(self, previews: dict[Place, _Preview]) -> None:
        for at, preview in list(previews.items()):
            if preview.left and preview.message is not None:
                del previews[at]
                self._left |= {one.key: one for one in self._kept.all() if one.key == preview.key}

    async def _remove(self, preview: KeptPreview) -> None:
        """Delete a message that is still a preview; where that is refused, let it say what it is. Raises ChannelError."""
        if preview.message is not None and self._kept.holds(preview.key):
            try:
                await self._editing.remove(preview.conversation, preview.message)
            except NotSent as refusal:
                if not refusal.permanent:
                    raise
                with contextlib.suppress(NotSent):
                    await self._editing.edit(preview.conversation, preview.message, CUT_OFF)
        await self._kept.drop([preview.key])

    def _wall(self) -> float:
        return self._clock.now().timestamp()
