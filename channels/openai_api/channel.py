"""The channel of programs that call the API. A request is a message; whoever waits for its answer is given it.

An answer is not pushed: it is in the ledger, where a repeat of its request finds it, so it counts as sent whether or not somebody still
waits. What else is sent to a conversation (a command's reply, what came of an approved act) waits for its next request.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from channels.common.accepting import accept_or_tell
from channels.errors import ChannelError, NotSent
from channels.live import Activity, Done, LiveEvent, Note
from channels.messages import API, Attachment, ChatAddress, Inbound, Outbound, Sender, Sent
from channels.openai_api.pending_answer import PendingAnswer
from channels.openai_api.uploads import Upload, Uploads
from channels.protocol import Clock, InboundSink

OWNER: Final = "owner"
"""The sender of what comes with an owner's token. Guests are senders by their names."""
REMEMBERED: Final = 1000
"""Turns whose answers are known to be answers to requests."""
_PLAIN: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One request. ``token`` is the id of the token it came with; ``session`` names one of the token's sessions, empty for the usual one.

    ``context`` is what the program says beside the person's ``text``. ``name`` is chosen by the program: a repeat has the same.
    ``repeats`` is the key of the message that it is known to repeat, where it has no name.
    """

    agent: str
    token: str
    sender: str
    text: str
    context: str = ""
    session: str = ""
    name: str = ""
    files: Sequence[Upload] = ()
    repeats: str = ""

    @property
    def place(self) -> ChatAddress:
        """The conversation that it belongs to."""
        thread = session_name(self.session) if self.session else None
        return ChatAddress(channel=API, kind="direct", id=f"{self.agent}/{self.token}", thread=thread)

    @property
    def key(self) -> str:
        """The message's id: the same for a repeat in the same conversation, and unlike any other."""
        if self.repeats:
            return self.repeats
        return hashlib.sha256(f"{self.place.address}\0{self.name}".encode("utf-8", "replace")).hexdigest()[:24]


class ApiChannel:
    """A ``Channel`` with ``Drafts``, ``Fetches`` and ``Follows``. Who calls was checked before: the sender is who the token is for.

    ``folder`` is for files that come inside requests, until their turn takes them.
    """

    name = API
    account = "default"
    repeats_safely = True
    append_only = True

    def __init__(self, *, clock: Clock, folder: Path) -> None:
        self._clock = clock
        self._uploads = Uploads(folder)
        self._waiting: dict[ChatAddress, list[PendingAnswer]] = {}
        self._turns: OrderedDict[str, frozenset[str]] = OrderedDict()
        self._asked: set[str] = set()
        """Turns among them that wait for their owner: what follows is no answer to the request."""
        self._own: OrderedDict[str, str] = OrderedDict()
        """Messages by their names in the ledger, after which replies without a turn are named."""
        self._usage: OrderedDict[str, Mapping[str, Any]] = OrderedDict()
        """The usage of answers by their messages, for requests that are repeated."""
        self._present: dict[ChatAddress, str] = {}
        self._files: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._sink: asyncio.Future[InboundSink] | None = None

    @property
    def waiting(self) -> int:
        """The number of requests that wait for an answer."""
        return sum(map(len, self._waiting.values()))

    def expect(self, place: ChatAddress, key: str) -> PendingAnswer:
        """Begin to collect the answer to a message; ``leave`` ends it."""
        pending = PendingAnswer(key)
        self._own[self.uid_of(key)] = key
        while len(self._own) > REMEMBERED:
            self._own.popitem(last=False)
        self._waiting.setdefault(place, []).append(pending)
        return pending

    def leave(self, place: ChatAddress, pending: PendingAnswer) -> None:
        """Nobody waits for this any more. The turn goes on."""
        there = self._waiting.get(place, [])
        if pending in there:
            there.remove(pending)
        if not there:
            self._waiting.pop(place, None)

    async def say(self, question: Question) -> None:
        """Store a request as a message, once for its key; it is durable on return.

        Raises:
            ChannelError: it was not stored.
        """
        try:
            attachments = await self._uploads.keep(question.key, question.files)
        except OSError as error:
            raise ChannelError(f"its files could not be stored: {error.strerror}", hint="Ask again.") from error
        if attachments:
            self._files.add(question.key)
        sink = await self.sink()
        await accept_or_tell(sink, self._inbound(question, attachments))
        sink.ready()

    async def collected(self, turn: str) -> None:
        """An answer was read from the ledger: it need not be sent any more."""
        if turn:
            self._remember(turn, frozenset())
        (await self.sink()).ready()

    def usage_of(self, key: str) -> Mapping[str, Any]:
        """Return the usage of the answer to a message, as its end told it; nothing once it is forgotten."""
        return self._usage.get(key, {})

    def _inbound(self, question: Question, attachments: tuple[Attachment, ...]) -> Inbound:
        return Inbound(
            conversation=question.place,
            sender=Sender(id=question.sender, name="" if question.sender == OWNER else question.sender),
            text=question.text,
            context=question.context,
            at=self._clock.now(),
            key=f"a:{question.key}",
            alias=alias_of(question.key),
            message_id=question.key,
            mentioned=True,
            attachments=attachments,
        )

    async def sink(self) -> InboundSink:
        """Return the sink, once ``run`` was called."""
        if self._sink is None:
            self._sink = asyncio.get_running_loop().create_future()
        return await asyncio.shield(self._sink)

    async def run(self, sink: InboundSink) -> None:
        """Serve requests until cancelled."""
        if self._sink is None or self._sink.done():
            self._sink = asyncio.get_running_loop().create_future()
        self._sink.set_result(sink)
        sink.alive()
        sink.ready()
        await asyncio.get_running_loop().create_future()

    def chunks(self, markdown: str) -> list[str]:
        """Return the whole text as one piece: an answer has no limit."""
        return [markdown] if markdown.strip() else []

    async def send(self, outbound: Outbound, record: Callable[[str], Awaitable[None]]) -> Sent:  # noqa: ARG002 - the protocol's
        """Give a piece of a reply to who waits for it."""
        waiting, turn = list(self._waiting.get(outbound.conversation, ())), outbound.turn or ""
        keys = self._turns.get(turn)
        if keys is None and (named := self._own.get(outbound.key.partition(".")[0])) is not None:
            keys = frozenset([named])
        if keys is not None and turn in self._asked and not any(one.key in keys for one in waiting):
            keys = None
        if keys is None and not waiting:
            raise NotSent("nobody asks here at present", hint="It is given to the next request of this conversation.")
        if keys is None:
            waiting[0].aside(outbound.text, outbound.key)
        else:
            for one in waiting:
                one.reply(outbound.text, outbound.key, own=one.key in keys)
        return Sent(platform_id=outbound.key)

    async def typing(self, conversation: ChatAddress) -> None:
        """Do nothing: programs are given text as it is written."""

    async def fetch(self, attachment: Attachment, path: Path, limit: int) -> None:
        """Copy a file that came inside a request."""
        await self._uploads.fetch(attachment, path, limit)

    async def draft(self, conversation: ChatAddress, turn: str, text: str) -> None:
        """Show the reply so far to those who wait for this turn."""
        for one in self._of(conversation, turn):
            one.preview(text)

    def turn_began(self, conversation: ChatAddress, turn: str, messages: Sequence[str]) -> None:
        """Note which messages a turn answers."""
        self._remember(turn, frozenset(messages))
        self._present[conversation] = turn

    def draft_ended(self, conversation: ChatAddress, turn: str) -> None:
        """Note that a turn is over."""
        if self._present.get(conversation) == turn:
            del self._present[conversation]

    def show(self, conversation: ChatAddress, frame: LiveEvent) -> None:
        """Give an event to those whom it concerns."""
        if isinstance(frame, Activity | Note):
            for one in self._of(conversation, self._present.get(conversation, "")):
                one.hear(frame)
            return
        if isinstance(frame, Done):
            self._over(frame)
        for one in self._waiting.get(conversation, ()):
            one.hear(frame)

    def uid_of(self, key: str) -> str:
        """Return the name of a message in the ledger (``InboxRow.uid``)."""
        return hashlib.sha256(f"{self.name}:{self.account}\0{alias_of(key)}".encode()).hexdigest()[:16]

    async def close(self) -> None:
        """Nothing is open."""

    def _over(self, done: Done) -> None:
        """Note the end of a message. What follows on an approval is no answer to the request any more."""
        counted = self._usage.get(str(done.facts.get("answeredWith")), done.facts.get("usage") or {})
        self._usage[done.key] = counted
        while len(self._usage) > REMEMBERED:
            self._usage.popitem(last=False)
        if done.facts.get("waitsFor"):
            self._asked |= {turn for turn, keys in self._turns.items() if done.key in keys}
        if done.key in self._files and not done.facts.get("waitsFor"):
            self._files.discard(done.key)
            task = asyncio.ensure_future(self._uploads.forget(done.key))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _of(self, conversation: ChatAddress, turn: str) -> Iterator[PendingAnswer]:
        keys = self._turns.get(turn, frozenset())
        return (one for one in self._waiting.get(conversation, ()) if one.key in keys)

    def _remember(self, turn: str, keys: frozenset[str]) -> None:
        self._turns[turn] = keys
        self._turns.move_to_end(turn)
        while len(self._turns) > REMEMBERED:
            self._asked.discard(self._turns.popitem(last=False)[0])


def alias_of(key: str) -> str:
    """Return under which name a message is in the inbox."""
    return f"m:{key}"


def key_of(alias: str) -> str:
    """Return the key of a message by its name in the inbox."""
    return alias.removeprefix("m:")


def session_name(text: str) -> str:
    """Return a name that a program gave to a session as a part of an address. Different names stay different."""
    if _PLAIN.fullmatch(text):
        return text
    mark = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:10]
    return f"{re.sub(r'[^A-Za-z0-9_.-]+', '-', text)[:40]}~{mark}"
