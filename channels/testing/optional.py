"""Rules of what a channel may offer beyond messages: edits, reactions, threads, files, buttons, a menu."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from channels.errors import NotFetched, Uncertain
from channels.messages import Button, OutboundFile
from channels.protocol import MenuEntry
from channels.testing.harness import eventually, expect, extra, failed, running

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from channels.messages import Attachment, Inbound, InboundEvent
    from channels.testing.harness import Run
    from channels.testing.peer import FullPeer

BYTES: Final = bytes(number * number % 251 for number in range(5000))
"""A file that no platform takes for a picture, with every kind of byte in it."""
AFTERWARDS: Final = 0.1
LONGEST_VALUE: Final = "é" * 30
MENU: Final = (
    MenuEntry(name="status", help="say how things are"),
    MenuEntry(name="think", help="how hard", argument="[low|high]"),
)


async def tells_of_an_edit(stage: FullPeer) -> None:
    """A person who corrects themselves is heard: which message, and how it reads now."""
    async with running(stage) as run:
        await stage.say("good mourning")
        await run.sink.until(lambda: bool(run.sink.messages), "the message arrived")
        await stage.edit("good morning")
        edit = await _event(run, "edited")
        [first] = [one for one in run.sink.messages if one.event == "message"]
    expect(edit.text == "good morning", f"the text as it reads now, not {edit.text!r}")
    expect(edit.target == first.message_id, f"the message that was changed, {first.message_id!r}, not {edit.target!r}")
    expect((edit.conversation, edit.sender) == (first.conversation, first.sender), "the same place and person")


async def tells_of_a_reaction(stage: FullPeer) -> None:
    """An emoji that a person puts under a message of the bot is told, with the message."""
    async with running(stage) as run:
        place = await run.place(stage)
        sent = await run.send(place, "look")
        await stage.react("👍", sent.platform_id)
        reaction = await _event(run, "reaction")
    expect(reaction.text == "👍", f"the emoji itself, not {reaction.text!r}")
    expect(reaction.target == sent.platform_id, f"the message it is under, {sent.platform_id!r}, not {reaction.target!r}")
    expect(reaction.conversation == place, "the conversation that the message is in")


async def puts_one_reaction(stage: FullPeer) -> None:
    """The bot's emoji under a message is one at a time, can be taken off, and its trouble is nobody's."""
    async with running(stage) as run:
        place = await run.place(stage)
        react, message = extra(run.channel, "react"), run.sink.messages[-1].message_id
        for emoji, expected in (("👀", ["👀"]), ("👍", ["👍"]), (None, []), (None, [])):
            await react(place, message, emoji)
            expect(stage.reactions() == expected, f"{expected} after {emoji!r}, not {stage.reactions()}")
        await react(replace(place, id="0"), "0", "👀")
    async with running(stage) as run:
        react = extra(run.channel, "react")
        await react(place, message, "👀")
    async with running(stage) as run:
        await extra(run.channel, "react")(place, message, "👍")
        expect(stage.reactions() == ["👍"], f"that of an earlier run is replaced too, not {stage.reactions()}")


async def answers_in_the_thread(stage: FullPeer) -> None:
    """What was written in a thread is answered in that thread and nowhere else."""
    async with running(stage) as run:
        await stage.say_in_thread("in here?")
        await stage.say_in_thread("and again")
        await run.sink.until(lambda: len(run.sink.messages) > 1, "two messages in a thread arrived")
        first, second = run.sink.messages
        expect(
            first.conversation.kind == "group" and first.conversation.thread, f"a thread of a group, not {first.conversation}"
        )
        expect(first.conversation == second.conversation, "one address for one thread")
        await run.send(first.conversation, "in here", reply_to=first.message_id)
    expect(stage.heard_in_thread() == ["in here"], f"the answer in the thread, not {stage.heard_in_thread()!r}")
    expect(stage.heard() == [], f"no answer elsewhere, not {stage.heard()!r}")


async def fetches_a_file_whole(stage: FullPeer) -> None:
    """A file comes as a handle, and is fetched byte for byte; after a restart too."""
    async with running(stage) as run:
        attachment = await _attachment(stage, run)
        with _folder() as folder:
            await extra(run.channel, "fetch")(attachment, folder / "copy", len(BYTES))
            _only(folder, BYTES)
    expect(attachment.size in {None, len(BYTES)}, f"the size, or None, not {attachment.size}")
    expect(attachment.name in {"", "notes.bin"}, f"the name as given, or none, not {attachment.name!r}")
    async with running(stage) as run:
        with _folder() as folder:
            await extra(run.channel, "fetch")(attachment, folder / "copy", len(BYTES))
            _only(folder, BYTES)


async def leaves_nothing_of_a_file_it_cannot_have(stage: FullPeer) -> None:
    """A file that is larger than allowed, or not there, raises ``NotFetched`` for good, and no part of it stays."""
    async with running(stage) as run:
        attachment = await _attachment(stage, run)
        understated = replace(attachment, size=1)
        less = len(BYTES) - 1
        for wanted, limit in ((attachment, less), (understated, less), (replace(attachment, handle="0"), less)):
            with _folder() as folder:
                error = await _not_fetched(run, wanted, folder / "copy", limit)
                expect(isinstance(error, NotFetched) and error.permanent, f"NotFetched, for good, not {error!r}, for {wanted}")
                _only(folder, None)


async def sends_a_file_whole(stage: FullPeer) -> None:
    """A file arrives byte for byte and under its name, with its caption or without; the copy may then be removed."""
    async with running(stage) as run:
        place = await run.place(stage)
        with _folder() as folder:
            for number, caption in enumerate(("as you wished", "")):
                enclosure = _enclosure(folder)
                await run.send(place, caption, f"key-{number}", enclosure=enclosure)
                enclosure.path.unlink()
    expect(stage.files() == [("notes.bin", BYTES)] * 2, f"two files, whole, not {_briefly(stage.files())}")
    expect([text for text in stage.heard() if text] == ["as you wished"], f"the caption once, not {stage.heard()!r}")


async def sends_a_doubtful_file_once(stage: FullPeer) -> None:
    """A file that arrived although the connection was cut does not come a second time."""
    async with running(stage) as run:
        place = await run.place(stage)
        with _folder() as folder:
            enclosure = _enclosure(folder)
            stage.trouble("cut after")
            error = await failed(run.send(place, "once", enclosure=enclosure))
            expect(isinstance(error, Uncertain), f"Uncertain, not {error!r}")
            await run.send_again(place, "once", enclosure=enclosure, uncertain=True)
    expect(stage.files() == [("notes.bin", BYTES)], f"the file once, not {_briefly(stage.files())}")


async def shows_buttons_and_tells_of_a_press(stage: FullPeer) -> None:
    """Buttons show their labels; a press comes as an event with the value, and the person sees that it was taken."""
    async with running(stage) as run:
        place = await run.place(stage)
        buttons = (Button(label="Yes", value="/yes 1"), Button(label="No", value=LONGEST_VALUE))
        sent = await run.send(place, "Shall I?", buttons=buttons)
        expect(stage.heard() == ["Shall I?"], f"the text, not {stage.heard()!r}")
        expect(stage.buttons() == ["Yes", "No"], f"both labels in order, not {stage.buttons()!r}")
        await stage.press("No")
        press = await _event(run, "button")
        person = run.sink.messages[0].sender
    expect(press.text == LONGEST_VALUE, f"the value of the button, not {press.text!r}")
    expect(press.target == sent.platform_id, f"the message it is under, {sent.platform_id!r}, not {press.target!r}")
    expect((press.conversation, press.sender.id) == (place, person.id), "the same place and person")


async def offers_its_menu_once(stage: FullPeer) -> None:
    """The menu is offered; a choice from it is a message; the next start leaves it alone."""
    async with running(stage, menu=MENU) as run:
        await eventually(stage, lambda: bool(stage.offered()), "the menu is offered")
        expect(stage.offered() == [entry.name for entry in MENU], f"each command, in order, not {stage.offered()!r}")
        place = await run.place(stage)
        await stage.choose("status")
        await run.sink.until(lambda: "/status" in run.sink.texts, "the choice arrived")
        chosen = run.sink.messages[-1]
        expect((chosen.event, chosen.conversation) == ("message", place), f"an ordinary message, not {chosen!r:.300}")
    written = stage.menu_changes()
    async with running(stage, menu=MENU) as run:
        await run.place(stage)
        await asyncio.sleep(AFTERWARDS)
    expect(stage.menu_changes() == written, "a menu that is offered already is not written again")


async def _event(run: Run, event: InboundEvent) -> Inbound:
    await run.sink.until(lambda: any(one.event == event for one in run.sink.messages), f"the event {event!r} arrived")
    return next(one for one in run.sink.messages if one.event == event)


async def _attachment(stage: FullPeer, run: Run) -> Attachment:
    await stage.attach("notes.bin", "application/octet-stream", BYTES)
    await run.sink.until(lambda: bool(run.sink.messages), "a message with a file arrived")
    attachments = run.sink.messages[-1].attachments
    expect(len(attachments) == 1 and attachments[0].handle, f"one file with a handle, not {attachments!r}")
    return attachments[0]


async def _not_fetched(run: Run, wanted: Attachment, path: Path, limit: int) -> Exception | None:
    fetch = extra(run.channel, "fetch")
    try:
        await fetch(wanted, path, limit)
    except Exception as error:  # noqa: BLE001 - whatever a channel raises is what is being judged
        return error
    return None


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


def _enclosure(folder: Path) -> OutboundFile:
    path = folder / "0001"
    path.write_bytes(BYTES)
    return OutboundFile(path=path, name="notes.bin", media_type="application/octet-stream")


def _only(folder: Path, content: bytes | None) -> None:
    """Expect one file of this content, or none at all."""
    found = {path.name: path.read_bytes() for path in folder.iterdir()}
    expect(found == ({} if content is None else {"copy": content}), f"the file whole or nothing, not {_briefly(found.items())}")


def _briefly(files: Iterable[tuple[str, bytes]]) -> list[tuple[str, int]]:
    return [(name, len(content)) for name, content in files]
