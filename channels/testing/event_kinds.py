"""Rules of what happens besides messages: no kind of event, and nothing that is no event at all, keeps a later message from arriving."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from channels.messages import Button
from channels.testing.harness import expect, failed, running

if TYPE_CHECKING:
    from channels.testing.harness import Run
    from channels.testing.peer import Peer

LABEL: Final = "Go on"
"""The button under the bot's message that a stage may have pressed."""


async def goes_on_after_every_event(stage: Peer) -> None:
    """After each kind of event a message arrives, and after a restart the one written meanwhile and the next; sending works too."""
    reads_back = "catches_up_after_a_restart" not in stage.lacks
    async with running(stage) as run:
        await _write(stage, run, "before everything")
    for event in stage.events:
        cursors: dict[str, str] = {}  # of a house in which the event is the first thing that happens in the group
        async with running(stage, cursors) as run:
            await stage.say(f"before {event}")
            await run.sink.until(lambda: f"before {event}" in run.sink.texts, "the message arrived")  # noqa: B023 - awaited here
            shows = getattr(run.channel, "shows", ())
            buttons = (Button(label=LABEL, value="/go"),) if "buttons" in shows else ()
            private = next(one.conversation for one in run.sink.messages if one.text == f"before {event}")
            await run.send(private, f"answer to {event}", f"key-{event}"[:25], buttons=buttons)
            await stage.happen(event)
            await _write(stage, run, f"after {event}")
        if reads_back:
            await _say(stage, f"meanwhile {event}")
        async with running(stage, cursors) as run:
            if reads_back:
                await _heard(stage, run, f"meanwhile {event}")
            await _write(stage, run, f"at last {event}")
            place = next(one.conversation for one in run.sink.messages if one.text == f"at last {event}")
            error = await failed(run.send(place, f"answer after {event}", f"again-{event}"[:25]))
            expect(error is None, f"an answer that is sent after a restart that follows {event!r}, not {error!r}")
    said = [text for text in stage.heard() if text.startswith("answer after")]
    expect(said == [f"answer after {event}" for event in stage.events], f"each answer once, in order, not {said!r:.300}")


async def survives_garbage(stage: Peer) -> None:
    """What is not as the platform documents it is passed over: the next message arrives, and so does one after a restart."""
    cursors: dict[str, str] = {}
    async with running(stage, cursors) as run:
        await _write(stage, run, "before")
        await stage.garble()
        await _write(stage, run, "after")
    reads_back = "catches_up_after_a_restart" not in stage.lacks
    if reads_back:
        await stage.garble()
        await _say(stage, "meanwhile")
    async with running(stage, cursors) as run:
        if reads_back:
            await _heard(stage, run, "meanwhile")
        await _write(stage, run, "at last")


async def _say(stage: Peer, text: str) -> None:
    """Let the person write in private, and in a group where there is one."""
    await stage.say(text)
    group = getattr(stage, "say_in_group", None)
    if group is not None and "tells_who_is_meant_in_a_group" not in stage.lacks:
        await group(f"{text} (group)")


async def _heard(stage: Peer, run: Run, text: str) -> None:
    """Wait until what ``_say`` wrote arrived."""
    wanted = {text}
    if hasattr(stage, "say_in_group") and "tells_who_is_meant_in_a_group" not in stage.lacks:
        wanted.add(f"{text} (group)")
    await run.sink.until(lambda: wanted <= set(run.sink.texts), f"{' and '.join(sorted(wanted))!r} arrived")


async def _write(stage: Peer, run: Run, text: str) -> None:
    await _say(stage, text)
    await _heard(stage, run, text)
