"""Rules for receiving: every message once, in order, and acknowledged only after it is stored.

Neither an unknown kind of event nor garbage stops later messages.
"""

from __future__ import annotations

import asyncio
from typing import Final

from channels.messages import Button
from channels.testing.harness import Run, expect, failed, running
from channels.testing.peer import Peer

AFTERWARDS: Final = 0.2


async def receives_what_is_written(peer: Peer) -> None:
    """A message has its sender, address, time and keys."""
    async with running(peer) as run:
        await run.place(peer)
        await peer.say("hello 👋 *you*")
        await run.sink.until(lambda: len(run.sink.messages) > 1, "the second message arrived")
        message = run.sink.messages[-1]
    expect(message.text == "hello 👋 *you*", f"the text as written, not {message.text!r}")
    expect(message.sender.id and message.key and message.alias and message.message_id, "ids of sender and message")
    expect(message.at.tzinfo is not None, "a time with its zone")
    here = message.conversation
    expect((here.channel, here.account) == (run.channel.name, run.channel.account), "the channel's own name and account")
    expect(here.kind == "direct" and message.mentioned, "a private conversation, in which the bot is always meant")


async def keeps_the_order(peer: Peer) -> None:
    """Many messages arrive in the order they were written."""
    texts = [f"message {number}" for number in range(60)]
    async with running(peer) as run:
        for text in texts:
            await peer.say(text)
        await run.sink.until(lambda: len(run.sink.messages) >= len(texts), "all messages arrived")
        expect(run.sink.texts == texts, f"the order as written, not {run.sink.texts!r:.300}")


async def takes_a_repetition_once(peer: Peer) -> None:
    """A redelivered message has the same keys."""
    async with running(peer) as run:
        await peer.say("once")
        await run.sink.until(lambda: bool(run.sink.messages), "the message arrived")
        await peer.repeat()
        await peer.say("next")
        await run.sink.until(lambda: "next" in run.sink.texts, "the next message arrived")
        expect(run.sink.texts == ["once", "next"], f"each message once, not {run.sink.texts!r}")


async def offers_again_what_could_not_be_stored(peer: Peer) -> None:
    """Nothing is acknowledged before it is stored."""
    async with running(peer) as run:
        run.sink.refuse = OSError("the disk is full")
        await peer.say("keep this")
        await run.sink.until(lambda: run.sink.refused > 1, "the message was delivered a second time")
        run.sink.refuse = None
        await run.sink.until(lambda: bool(run.sink.messages), "the message arrived")
        expect(run.sink.texts == ["keep this"], f"the message once, not {run.sink.texts!r}")


async def catches_up_after_a_restart(peer: Peer) -> None:
    """Messages written while no channel runs are read after the next start, and no message twice."""
    async with running(peer) as run:
        await peer.say("before")
        await run.sink.until(lambda: bool(run.sink.messages), "the message arrived")
        cursors = run.sink.cursors
    await peer.say("meanwhile 1")
    await peer.say("meanwhile 2")
    async with running(peer, cursors) as run:
        await run.sink.until(lambda: len([one for one in run.sink.texts if one != "before"]) > 1, "what was missed arrived")
        missed = [text for text in run.sink.texts if text != "before"]
        expect(missed == ["meanwhile 1", "meanwhile 2"], f"what was missed, in order, not {missed!r}")


async def survives_a_broken_connection(peer: Peer) -> None:
    """Messages before and after a lost connection arrive."""
    async with running(peer) as run:
        await peer.say("before")
        await run.sink.until(lambda: bool(run.sink.messages), "the message arrived")
        await peer.disconnect()
        await peer.say("after")
        await run.sink.until(lambda: "after" in run.sink.texts, "the message after the break arrived")
        expect(run.sink.texts == ["before", "after"], f"each message once, not {run.sink.texts!r}")


async def tells_that_it_is_alive(peer: Peer) -> None:
    """The channel reports that the platform was heard from."""
    async with running(peer) as run:
        await run.place(peer)
        expect(run.sink.lives, "alive() is called when the platform is heard from")


async def ends_when_asked(peer: Peer) -> None:
    """``run`` ends when it is cancelled, and nothing is received afterwards."""
    async with running(peer) as run:
        await run.place(peer)
    await peer.say("is anybody there?")
    await asyncio.sleep(AFTERWARDS)
    expect("is anybody there?" not in run.sink.texts, "nothing is taken after the end")


LABEL: Final = "Go on"
"""The label of the button below the bot's message that a peer may press."""


async def goes_on_after_every_event(peer: Peer) -> None:
    """After each kind of event the next message arrives, and after a restart those written meanwhile; sending works too."""
    reads_back = "catches_up_after_a_restart" not in peer.lacks
    async with running(peer) as run:
        await _write(peer, run, "before everything")
    for event in peer.events:
        cursors: dict[str, str] = {}  # of a gateway in which the event is the first thing that happens in the group
        async with running(peer, cursors) as run:
            await peer.say(f"before {event}")
            await run.sink.until(lambda: f"before {event}" in run.sink.texts, "the message arrived")  # noqa: B023 - awaited here
            shows = getattr(run.channel, "shows", ())
            buttons = (Button(label=LABEL, value="/go"),) if "buttons" in shows else ()
            private = next(one.conversation for one in run.sink.messages if one.text == f"before {event}")
            await run.send(private, f"answer to {event}", f"key-{event}"[:25], buttons=buttons)
            await peer.happen(event)
            await _write(peer, run, f"after {event}")
        if reads_back:
            await _say(peer, f"meanwhile {event}")
        async with running(peer, cursors) as run:
            if reads_back:
                await _heard(peer, run, f"meanwhile {event}")
            await _write(peer, run, f"at last {event}")
            place = next(one.conversation for one in run.sink.messages if one.text == f"at last {event}")
            error = await failed(run.send(place, f"answer after {event}", f"again-{event}"[:25]))
            expect(error is None, f"an answer that is sent after a restart that follows {event!r}, not {error!r}")
    said = [text for text in peer.heard() if text.startswith("answer after")]
    expect(said == [f"answer after {event}" for event in peer.events], f"each answer once, in order, not {said!r:.300}")


async def survives_garbage(peer: Peer) -> None:
    """Malformed events are skipped: the next message arrives, and so does one after a restart."""
    cursors: dict[str, str] = {}
    async with running(peer, cursors) as run:
        await _write(peer, run, "before")
        await peer.garble()
        await _write(peer, run, "after")
    reads_back = "catches_up_after_a_restart" not in peer.lacks
    if reads_back:
        await peer.garble()
        await _say(peer, "meanwhile")
    async with running(peer, cursors) as run:
        if reads_back:
            await _heard(peer, run, "meanwhile")
        await _write(peer, run, "at last")


async def _say(peer: Peer, text: str) -> None:
    """Send a message as the person, in private and in a group if there is one."""
    await peer.say(text)
    group = getattr(peer, "say_in_group", None)
    if group is not None and "tells_who_is_meant_in_a_group" not in peer.lacks:
        await group(f"{text} (group)")


async def _heard(peer: Peer, run: Run, text: str) -> None:
    """Wait until the messages of ``_say`` arrived."""
    wanted = {text}
    if hasattr(peer, "say_in_group") and "tells_who_is_meant_in_a_group" not in peer.lacks:
        wanted.add(f"{text} (group)")
    await run.sink.until(lambda: wanted <= set(run.sink.texts), f"{' and '.join(sorted(wanted))!r} arrived")


async def _write(peer: Peer, run: Run, text: str) -> None:
    await _say(peer, text)
    await _heard(peer, run, text)
