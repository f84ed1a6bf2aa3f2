"""A platform of paper: one person, one bot, no network; and a channel on it, which is right but for its ``flaw``."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from channels.common.chunking import cut
from channels.errors import ChannelBroken, NotFetched, NotSent, Uncertain
from channels.messages import Attachment, ChatAddress, Cursor, Inbound, Sender, Sent
from gateway.base.clock import SystemClock

if TYPE_CHECKING:
    from pathlib import Path

    from channels.messages import Outbound, OutboundFile
    from channels.testing import Trouble

HALL = ChatAddress(channel="paper", kind="group", id="hall", thread="window")
PASSWORD = "open"
SQUARE = ChatAddress(channel="paper", kind="group", id="square")
STUDY = ChatAddress(channel="paper", kind="direct", id="anna")


@dataclass
class Letter:
    text: str
    place: ChatAddress = STUDY
    more: dict[str, Any] = field(default_factory=dict)


@dataclass
class Reply:
    place: ChatAddress
    text: str
    labels: list[str]
    values: list[str]
    enclosure: OutboundFile | None
    content: bytes


class Paper:
    """The platform, and the stage of it."""

    lacks = ()
    limit = 100
    events = ("edited", "reaction", "button", "a letter of another kind")

    def __init__(self, flaw: str = "", patience: float = 0.0) -> None:
        self.flaw = flaw
        self.patience = patience or (0.5 if flaw else 20.0)
        self.letters: list[Letter] = []
        self.again: list[int] = []
        self.replies: dict[str, Reply] = {}
        self.marks: dict[str, list[str]] = {}
        self.drawer: dict[str, bytes] = {}
        self.menu: list[str] = []
        self.menus = self.signs = self.breaks = 0
        self.next_trouble = ""
        self.away = False

    def channel(self) -> PaperChannel:
        return PaperChannel(self)

    def intruder(self) -> PaperChannel:
        return PaperChannel(self, password="guessed")

    async def happen(self, event: str) -> None:
        for place in (STUDY, SQUARE):
            self.letters.append(Letter("?", place=place, more={"event": event, "target": "0"}))

    async def garble(self) -> None:
        self.letters.append(Letter("", more={"event": 7, "target": "0"}))

    async def go_away(self) -> None:
        self.away = True

    async def come_back(self) -> None:
        self.away = False

    async def say_in_group(self, text: str, *, mention: bool = False) -> None:
        self.letters.append(Letter(text, place=SQUARE, more={"mentioned": mention}))

    async def say_as_bot(self, text: str) -> None:
        self.letters.append(Letter(text, place=SQUARE, more={"from_bot": True}))

    async def say(self, text: str) -> None:
        self.letters.append(Letter(text))

    async def repeat(self) -> None:
        self.again.append(len(self.letters) - 1)

    async def disconnect(self) -> None:
        self.breaks += 1

    def trouble(self, kind: Trouble) -> None:
        self.next_trouble = kind

    def heard(self) -> list[str]:
        return [one.text for one in self.replies.values() if one.place == STUDY]

    def typed(self) -> int:
        return self.signs

    def length(self, text: str) -> int:
        return len(text)

    async def edit(self, text: str) -> None:
        self.letters.append(Letter(text, more={"event": "edited", "target": str(len(self.letters) - 1)}))

    async def react(self, emoji: str, message: str) -> None:
        self.letters.append(Letter(emoji, more={"event": "reaction", "target": message}))

    def reactions(self) -> list[str]:
        return self.marks.get(str(len(self.letters) - 1), [])

    async def say_in_thread(self, text: str) -> None:
        self.letters.append(Letter(text, place=HALL))

    def heard_in_thread(self) -> list[str]:
        return [one.text for one in self.replies.values() if one.place == HALL]

    async def attach(self, name: str, media_type: str, content: bytes) -> None:
        handle = f"file {len(self.drawer) + 1}"
        self.drawer[handle] = content
        attachment = Attachment(kind="document", handle=handle, name=name, media_type=media_type, size=len(content))
        self.letters.append(Letter("", more={"attachments": (attachment,)}))

    def files(self) -> list[tuple[str, bytes]]:
        return [(one.enclosure.name, one.content) for one in self.replies.values() if one.enclosure]

    def buttons(self) -> list[str]:
        return list(self.replies.values())[-1].labels

    async def press(self, label: str) -> None:
        key, reply = list(self.replies.items())[-1]
        value = reply.values[reply.labels.index(label)]
        self.letters.append(Letter(value, more={"event": "button", "target": key}))

    def offered(self) -> list[str]:
        return self.menu

    def menu_changes(self) -> int:
        return self.menus

    async def choose(self, name: str) -> None:
        await self.say(f"/{name}")


class PaperChannel:
    name = "paper"
    account = "default"

    repeats_safely = True
    shows = frozenset({"buttons", "files"})

    def __init__(self, paper: Paper, password: str = PASSWORD) -> None:
        self.paper = paper
        self.flaw = paper.flaw
        self.password = password

    async def listen(self, door: Any) -> None:
        if self.password != PASSWORD and self.flaw == "says nothing of a wrong password":
            return
        if self.password != PASSWORD and self.flaw != "tries a wrong password for ever":
            raise ChannelBroken("a wrong password", hint="" if self.flaw == "does not say what to do" else "ask for it")
        if self.password != PASSWORD:
            await asyncio.Event().wait()
        if self.flaw == "gives up":
            raise ChannelBroken("no paper")
        read = int(await door.cursor("read") or 0) if self.flaw != "forgets" else len(self.paper.letters)
        door.ready()
        if self.flaw == "goes on after its end":
            self.rest = asyncio.ensure_future(self.read(door, read))
        else:
            await self.read(door, read)
        await asyncio.Event().wait()

    async def run(self, door: Any) -> None:
        try:
            await self.listen(door)
        except asyncio.CancelledError:
            if self.flaw != "does not hear that it is to end":
                raise
            await asyncio.Event().wait()

    async def read(self, door: Any, read: int) -> None:  # noqa: C901 - one flaw a line
        for _ in range(500) if self.flaw == "goes on after its end" else itertools.count():
            if self.flaw == "stays broken" and self.paper.breaks:
                return
            if self.paper.away and self.flaw == "ends in an outage":
                return
            if self.paper.away:
                read = len(self.paper.letters) if self.flaw == "skips an outage" else read
                await asyncio.sleep(0.001)
                continue
            if self.flaw != "never tells that it lives":
                door.alive()
            if self.flaw == "turns pairs around" and len(self.paper.letters) >= read + 2:
                self.paper.letters[read : read + 2] = self.paper.letters[read : read + 2][::-1]
            for number in self.paper.again:
                await door.accept([self.inbound(number, again=True)])
            self.paper.again.clear()
            if read < len(self.paper.letters) and self.passes_over(read):
                read += 1
            elif read < len(self.paper.letters):
                try:
                    await door.accept([self.inbound(read)], Cursor(name="read", value=str(read + 1)))
                    read += 1
                except OSError:
                    read += self.flaw == "lets go"
            await asyncio.sleep(0.001)

    def passes_over(self, number: int) -> bool:
        """Tell whether a letter is none of those that it knows."""
        event = self.paper.letters[number].more.get("event", "message")
        if (event == "reaction" and self.flaw == "stops at a reaction") or (event == 7 and self.flaw == "chokes on garbage"):
            raise ValueError(event)
        return event not in {"message", "edited", "reaction", "button"}

    def inbound(self, number: int, *, again: bool = False) -> Inbound:
        letter = self.paper.letters[number]
        key = f"m:{number}" + (":again" if again and self.flaw == "renames" else "")
        more = dict(letter.more)
        if self.flaw == "takes programs for people":
            more.pop("from_bot", None)
        if self.flaw == f"takes it for a message: {more.get('event')}":
            del more["event"]
        if self.flaw == f"forgets the target: {more.get('event')}":
            del more["target"]
        place = (
            replace(letter.place, thread=str(number))
            if letter.place == HALL and self.flaw == "splits threads"
            else letter.place
        )
        return Inbound(
            conversation=place,
            sender=Sender(id="" if self.flaw == "forgets who wrote" else "anna"),
            text=letter.text[:20] if self.flaw == "cuts values" else letter.text,
            at=SystemClock().now(),
            key=key,
            alias=key,
            message_id=str(number),
            **{"mentioned": True, **more, **({"mentioned": True} if self.flaw == "is always meant" else {})},
        )

    def chunks(self, markdown: str) -> list[str]:
        return [markdown] if self.flaw == "never cuts" else cut(markdown, self.paper.limit, len)

    async def send(self, outbound: Outbound, record: Any) -> Sent:  # noqa: C901 - one flaw a line
        if self.paper.away and self.flaw != "believes that it was said":
            raise NotSent("nobody is there", permanent=self.flaw == "takes an outage for a refusal")
        trouble, self.paper.next_trouble = self.paper.next_trouble, ""
        if outbound.uncertain and self.flaw == "takes a doubt for an arrival":
            return Sent(platform_id=outbound.key)
        if trouble == "refused":
            raise NotSent("no", permanent=self.flaw != "takes a refusal for passing")
        if trouble == "rate limit":
            raise NotSent("wait", retry_after=None if self.flaw == "does not say how long" else 1)
        if trouble == "cut before":
            if self.flaw == "says that it arrived":
                return Sent(platform_id=outbound.key)
            raise Uncertain("?")
        twice = self.flaw == "says twice" or (self.flaw == "sends files twice" and outbound.enclosure)
        key = f"{outbound.key}:{outbound.attempt}" if twice else outbound.key
        if not (self.paper.away and self.flaw == "believes that it was said"):
            self.paper.replies[key] = self.reply(outbound)
        if self.flaw == "hears itself":
            self.paper.letters.append(Letter(outbound.text, outbound.conversation))
        if trouble == "cut after":
            if self.flaw == "raises anything":
                raise ValueError
            raise Uncertain("?")
        return Sent(platform_id="1" if self.flaw == "numbers nothing" else key)

    def reply(self, outbound: Outbound) -> Reply:
        place = STUDY if self.flaw == "leaves the thread" else outbound.conversation
        enclosure = None if self.flaw == "drops files" else outbound.enclosure
        buttons = outbound.buttons[:1] if self.flaw == "drops buttons" else outbound.buttons
        content = enclosure.path.read_bytes() if enclosure else b""
        if self.flaw == "cuts files":
            content = content[:4096]
        labels, values = [one.label for one in buttons], [one.value for one in buttons]
        return Reply(place, outbound.text, labels, values, enclosure, content)

    async def typing(self, conversation: ChatAddress) -> None:
        self.paper.signs += self.flaw != "shows nothing"

    async def fetch(self, attachment: Attachment, path: Path, limit: int) -> None:
        content = self.paper.drawer.get(attachment.handle)
        if content is None and self.flaw == "raises what it likes":
            raise KeyError(attachment.handle)
        size = attachment.size if self.flaw == "believes the size" else len(content or b"")
        if self.flaw == "leaves a part":
            await asyncio.to_thread(path.write_bytes, b"")
        if content is None or (size or 0) > limit:
            raise NotFetched("too large, or gone")
        await asyncio.to_thread(path.write_bytes, content[:4096] if self.flaw == "fetches half" else content)

    async def react(self, conversation: ChatAddress, message_id: str, emoji: str | None) -> None:
        marks = self.paper.marks.setdefault(message_id, [])
        if self.flaw != "adds reactions":
            marks.clear()
        if emoji is not None:
            marks.append(emoji)

    async def menu(self, entries: Any) -> None:
        names = [one.name for one in entries]
        if names != self.paper.menu or self.flaw == "writes the menu at every start":
            self.paper.menu = names
            self.paper.menus += 1

    async def close(self) -> None:
        """Nothing to release."""
