"""Rules for events other than messages: neither an unknown kind of event nor garbage stops later messages."""

from __future__ import annotations

from typing import Final

from channels.messages import Button
from channels.testing.harness import Run, expect, failed, running
from channels.testing.peer import Peer

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
