"""What every channel must do, as checks that anybody can run against their own.

A channel is put on a ``Stage``: the platform, or a program that stands for it, as a person there sees and handles it. Run all of it
with ``await check(stage_factory)``, or each of ``CHECKS`` as a test of its own::

    @pytest.mark.parametrize("rule", CHECKS, ids=lambda rule: rule.__name__)
    async def test_my_channel_conforms(rule):
        async with my_stage() as stage:
            await rule(stage)

A rule raises ``Nonconforming`` with what was expected and what was seen. A stage says by ``lacks`` which rules its platform makes
impossible; ``check`` leaves those out.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

from channels.errors import ChannelBroken, ChannelError, NotSent, Uncertain
from channels.messages import Conversation, Outbound

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
    from contextlib import AbstractAsyncContextManager

    from channels.messages import Cursor, Inbound, Sent
    from channels.protocol import Channel

AFTERWARDS: Final = 0.2
Trouble = Literal["refused", "rate limit", "cut before", "cut after"]
"""How the next send ends: surely without effect for good, or for a while; the connection cut without or with effect."""


class Nonconforming(AssertionError):
    """A channel does not keep the contract."""


class Stage(Protocol):
    """A platform with one person, who may write to the bot in private, and whom the bot may answer."""

    lacks: Collection[str]
    """Names of the rules that the platform itself makes impossible."""
    limit: int
    """The most that one message holds."""
    patience: float
    """Seconds that anything may take, such as 20."""

    def channel(self) -> Channel:
        """Return a new channel on this platform, as after a restart."""
        ...

    async def say(self, text: str) -> None:
        """Let the person write."""
        ...

    async def repeat(self) -> None:
        """Let the platform deliver the person's last message once more."""
        ...

    async def disconnect(self) -> None:
        """Break the channel's connection, as a router does."""
        ...

    def trouble(self, kind: Trouble) -> None:
        """Let the next send go wrong."""
        ...

    def heard(self) -> list[str]:
        """Return what the person has received, in order."""
        ...

    def typed(self) -> int:
        """Return how often the person was shown that an answer is being written."""
        ...

    def length(self, text: str) -> int:
        """Return the length of a text in the platform's unit."""
        ...


class RecordingDoor:
    """A house that keeps what it was given, once. While ``refuse`` is set it cannot store anything."""

    def __init__(self, cursors: dict[str, str] | None = None, patience: float = 20.0) -> None:
        self._patience = patience
        self.messages: list[Inbound] = []
        self.cursors = {} if cursors is None else cursors
        self.refuse: Exception | None = None
        self.refused = 0
        self.is_ready = asyncio.Event()
        self.lives = 0
        self.moves: list[tuple[Conversation, Conversation]] = []
        self._keys: set[str] = set()
        self._changed = asyncio.Condition()

    async def accept(self, messages: Sequence[Inbound], cursor: Cursor | None = None) -> None:
        """Keep what is new."""
        async with self._changed:
            self._changed.notify_all()
            if self.refuse is not None:
                self.refused += 1
                raise self.refuse
            for message in messages:
                if not {message.key, message.alias} & self._keys:
                    self.messages.append(message)
                self._keys |= {message.key, message.alias}
            if cursor is not None:
                self.cursors[cursor.name] = cursor.value

    async def cursor(self, name: str) -> str | None:
        """Return a cursor."""
        return self.cursors.get(name)

    async def moved(self, former: Conversation, present: Conversation) -> None:
        """Note it."""
        self.moves.append((former, present))

    def ready(self) -> None:
        """Note it."""
        self.is_ready.set()

    def alive(self) -> None:
        """Note it."""
        self.lives += 1

    @property
    def texts(self) -> list[str]:
        """What was said."""
        return [message.text for message in self.messages]

    async def until(self, condition: Callable[[], bool], what: str) -> None:
        """Wait until an accept makes the condition true."""
        try:
            async with asyncio.timeout(self._patience), self._changed:
                await self._changed.wait_for(condition)
        except TimeoutError:
            raise Nonconforming(f"waited in vain until {what}; the house has {self.texts!r:.500}") from None


class _Run:
    """A channel at work."""

    def __init__(self, channel: Channel, door: RecordingDoor) -> None:
        self.channel = channel
        self.door = door
        self.recorded: str | None = None

    async def place(self, stage: Stage) -> Conversation:
        """Return the private conversation, which is known once the person has written."""
        before = len(self.door.messages)
        await stage.say("where am I?")
        await self.door.until(lambda: len(self.door.messages) > before, "a message arrived")
        return self.door.messages[-1].conversation

    async def send(self, place: Conversation, text: str, key: str = "key-1", **more: Any) -> Sent:
        async def record(text: str) -> None:
            self.recorded = text

        return await self.channel.send(Outbound(key=key, conversation=place, text=text, **more), record)


@contextlib.asynccontextmanager
async def _running(stage: Stage, cursors: dict[str, str] | None = None) -> AsyncIterator[_Run]:
    door = RecordingDoor(cursors, stage.patience)
    channel = stage.channel()
    task = asyncio.ensure_future(channel.run(door))
    ready = asyncio.ensure_future(door.is_ready.wait())
    try:
        await asyncio.wait([task, ready], timeout=stage.patience, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()
        _expect(ready.done(), "the channel says that it is ready")
        yield _Run(channel, door)
    finally:
        ready.cancel()
        task.cancel()
        await asyncio.gather(task, ready, return_exceptions=True)
        await channel.close()


def _expect(holds: object, what: str) -> None:
    if not holds:
        raise Nonconforming(f"expected: {what}")


async def receives_what_is_written(stage: Stage) -> None:
    """A message comes with who, where, when and keys."""
    async with _running(stage) as run:
        await run.place(stage)
        await stage.say("hello 👋 *you*")
        await run.door.until(lambda: len(run.door.messages) > 1, "the second message arrived")
        message = run.door.messages[-1]
    _expect(message.text == "hello 👋 *you*", f"the text as written, not {message.text!r}")
    _expect(message.sender.id and message.key and message.alias and message.message_id, "ids of sender and message")
    _expect(message.at.tzinfo is not None, "a time with its zone")
    here = message.conversation
    _expect((here.channel, here.account) == (run.channel.name, run.channel.account), "the channel's own name and account")
    _expect(here.kind == "direct" and message.mentioned, "a private conversation, in which the bot is always meant")


async def keeps_the_order(stage: Stage) -> None:
    """Many messages arrive in the order they were written."""
    texts = [f"message {number}" for number in range(60)]
    async with _running(stage) as run:
        for text in texts:
            await stage.say(text)
        await run.door.until(lambda: len(run.door.messages) >= len(texts), "all messages arrived")
        _expect(run.door.texts == texts, f"the order as written, not {run.door.texts!r:.300}")


async def takes_a_repetition_once(stage: Stage) -> None:
    """What the platform delivers again carries the same keys."""
    async with _running(stage) as run:
        await stage.say("once")
        await run.door.until(lambda: bool(run.door.messages), "the message arrived")
        await stage.repeat()
        await stage.say("next")
        await run.door.until(lambda: "next" in run.door.texts, "the next message arrived")
        _expect(run.door.texts == ["once", "next"], f"each message once, not {run.door.texts!r}")


async def offers_again_what_could_not_be_stored(stage: Stage) -> None:
    """Nothing is let go before the house has it."""
    async with _running(stage) as run:
        run.door.refuse = OSError("the disk is full")
        await stage.say("keep this")
        await run.door.until(lambda: run.door.refused > 1, "the message was offered a second time")
        run.door.refuse = None
        await run.door.until(lambda: bool(run.door.messages), "the message arrived")
        _expect(run.door.texts == ["keep this"], f"the message once, not {run.door.texts!r}")


async def catches_up_after_a_restart(stage: Stage) -> None:
    """What is written while no channel runs is read by the next one, and nothing a second time."""
    async with _running(stage) as run:
        await stage.say("before")
        await run.door.until(lambda: bool(run.door.messages), "the message arrived")
        cursors = run.door.cursors
    await stage.say("meanwhile 1")
    await stage.say("meanwhile 2")
    async with _running(stage, cursors) as run:
        await run.door.until(lambda: len([one for one in run.door.texts if one != "before"]) > 1, "what was missed arrived")
        missed = [text for text in run.door.texts if text != "before"]
        _expect(missed == ["meanwhile 1", "meanwhile 2"], f"what was missed, in order, not {missed!r}")


async def survives_a_broken_connection(stage: Stage) -> None:
    """Messages on either side of a break arrive."""
    async with _running(stage) as run:
        await stage.say("before")
        await run.door.until(lambda: bool(run.door.messages), "the message arrived")
        await stage.disconnect()
        await stage.say("after")
        await run.door.until(lambda: "after" in run.door.texts, "the message after the break arrived")
        _expect(run.door.texts == ["before", "after"], f"each message once, not {run.door.texts!r}")


async def tells_that_it_is_alive(stage: Stage) -> None:
    """The house hears that the platform was heard from."""
    async with _running(stage) as run:
        await run.place(stage)
        _expect(run.door.lives, "alive() is called when the platform is heard from")


async def sends_in_order(stage: Stage) -> None:
    """Chunks arrive as they were sent, each with an id of its own."""
    async with _running(stage) as run:
        place = await run.place(stage)
        ids = [(await run.send(place, f"part {number}", f"key-{number}")).platform_id for number in range(3)]
    _expect(stage.heard() == ["part 0", "part 1", "part 2"], f"three parts in order, not {stage.heard()!r}")
    _expect(len(set(ids)) == len(ids) and all(ids), f"an id of its own for each, not {ids!r}")


async def cuts_what_is_too_long(stage: Stage) -> None:
    """Long replies become messages that the platform takes, with nothing lost; nothing becomes none."""
    words = [f"word{number}" for number in range(4 * stage.limit // 8)]
    code = "```python\n" + "\n".join(f"line_{number} = '<&*_>'" for number in range(stage.limit // 12)) + "\n```"
    async with _running(stage) as run:
        place = await run.place(stage)
        pieces = run.channel.chunks(" ".join(words) + "\n\n" + code)
        for number, piece in enumerate(pieces):
            await run.send(place, piece, f"key-{number}")
        _expect(run.channel.chunks("") == [] and run.channel.chunks(" \n ") == [], "no pieces of nothing")
    heard = stage.heard()
    _expect(len(heard) == len(pieces) > 1, "a message for each piece, and several of them")
    _expect(all(stage.length(text) <= stage.limit for text in heard), f"no message over {stage.limit}")
    together = " ".join(heard)
    _expect([word for word in together.split() if word.startswith("word")] == words, "every word, in order")


async def shows_typing(stage: Stage) -> None:
    """Typing is shown, and its trouble is nobody's."""
    async with _running(stage) as run:
        place = await run.place(stage)
        await run.channel.typing(place)
        _expect(stage.typed(), "the person is shown that an answer is being written")
        nobody = Conversation(channel=place.channel, account=place.account, kind=place.kind, id="0")
        await run.channel.typing(nobody)


async def knows_a_refusal(stage: Stage) -> None:
    """A message that will never be taken raises ``NotSent``, for good."""
    async with _running(stage) as run:
        place = await run.place(stage)
        stage.trouble("refused")
        error = await _failed(run.send(place, "no"))
        _expect(isinstance(error, NotSent) and error.permanent, f"NotSent, for good, not {error!r}")
    _expect(stage.heard() == [], "nothing was said")


async def obeys_a_rate_limit(stage: Stage) -> None:
    """A platform that asks to wait is waited for: by the channel, or by the house, which is told how long."""
    async with _running(stage) as run:
        place = await run.place(stage)
        stage.trouble("rate limit")
        error = await _failed(run.send(place, "patience"))
        if error is not None:
            told = isinstance(error, NotSent) and not error.permanent and error.retry_after
            _expect(told, f"NotSent with the time to wait, not {error!r}")
            await run.send(place, "patience", attempt=2)
    _expect(stage.heard() == ["patience"], f"the message once, not {stage.heard()!r}")


async def repeats_what_did_not_arrive(stage: Stage) -> None:
    """A send that was cut off before it had an effect is in doubt, and its repetition arrives."""
    async with _running(stage) as run:
        place = await run.place(stage)
        stage.trouble("cut before")
        error = await _failed(run.send(place, "after all"))
        _expect(isinstance(error, Uncertain | NotSent), f"NotSent or Uncertain, not {error!r}")
        await run.send(place, "after all", attempt=2, uncertain=isinstance(error, Uncertain), recorded=run.recorded)
    heard = stage.heard()
    _expect(len(heard) == 1 and heard[0].endswith("after all"), f"the message once, not {heard!r}")


async def says_a_doubtful_message_once(stage: Stage) -> None:
    """A send that had its effect and whose answer was lost is not said twice, where the platform lets a channel know."""
    async with _running(stage) as run:
        place = await run.place(stage)
        stage.trouble("cut after")
        error = await _failed(run.send(place, "once"))
        _expect(isinstance(error, Uncertain), f"Uncertain, not {error!r}")
        await run.send(place, "once", attempt=2, uncertain=True, recorded=run.recorded)
    _expect(stage.heard() == ["once"], f"the message once, not {stage.heard()!r}")


async def ends_when_asked(stage: Stage) -> None:
    """``run`` ends when it is cancelled, and nothing is taken afterwards."""
    async with asyncio.timeout(stage.patience), _running(stage) as run:
        await run.place(stage)
    await stage.say("is anybody there?")
    await asyncio.sleep(AFTERWARDS)
    _expect("is anybody there?" not in run.door.texts, "nothing is taken after the end")


async def _failed(sending: Awaitable[Sent]) -> ChannelError | None:
    try:
        await sending
    except ChannelBroken as error:
        raise Nonconforming(f"expected: send raises NotSent or Uncertain alone, not {error!r}") from error
    except ChannelError as error:
        return error
    except Exception as error:  # whatever a channel raises is what is being judged
        raise Nonconforming(f"expected: send raises NotSent or Uncertain alone, not {error!r}") from error
    return None


CHECKS: Final = (
    receives_what_is_written,
    keeps_the_order,
    takes_a_repetition_once,
    offers_again_what_could_not_be_stored,
    catches_up_after_a_restart,
    survives_a_broken_connection,
    tells_that_it_is_alive,
    sends_in_order,
    cuts_what_is_too_long,
    shows_typing,
    knows_a_refusal,
    obeys_a_rate_limit,
    repeats_what_did_not_arrive,
    says_a_doubtful_message_once,
    ends_when_asked,
)
"""The rules, each of which takes a stage."""


async def check(stage: Callable[[], AbstractAsyncContextManager[Stage]]) -> list[str]:
    """Run every rule on a stage of its own, and return the names of those that held.

    Raises:
        Nonconforming: one does not; the name of the rule is its note.
    """
    held = []
    for rule in CHECKS:
        async with stage() as made:
            if rule.__name__ in made.lacks:
                continue
            try:
                await rule(made)
            except Nonconforming as error:
                error.add_note(f"rule: {rule.__name__}")
                raise
            held.append(rule.__name__)
    return held
