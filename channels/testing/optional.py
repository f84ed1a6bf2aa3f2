"""Rules for optional features: edits, reactions, threads, files, buttons, a menu."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from channels.errors import NotFetched, Uncertain
from channels.messages import Attachment, Button, Inbound, InboundEvent, OutboundFile
from channels.protocol import MenuEntry
from channels.testing.harness import Run, eventually, expect, extra, failed, running
from channels.testing.peer import FullPeer

BYTES: Final = bytes(number * number % 251 for number in range(5000))
"""A file that no platform treats as a picture, with every byte value in it."""
AFTERWARDS: Final = 0.1
LONGEST_VALUE: Final = "é" * 30
MENU: Final = (
    MenuEntry(name="status", help="say how things are"),
    MenuEntry(name="think", help="how hard", argument="[low|high]"),
)


async def tells_of_an_edit(peer: FullPeer) -> None:
    """An edit is delivered with the id of the message and its new text."""
    async with running(peer) as run:
        await peer.say("good mourning")
        await run.sink.until(lambda: bool(run.sink.messages), "the message arrived")
        await peer.edit("good morning")
        edit = await _event(run, "edited")
        [first] = [one for one in run.sink.messages if one.event == "message"]
    expect(edit.text == "good morning", f"the text as it reads now, not {edit.text!r}")
    expect(edit.target == first.message_id, f"the message that was changed, {first.message_id!r}, not {edit.target!r}")
    expect((edit.conversation, edit.sender) == (first.conversation, first.sender), "the same place and person")


async def tells_of_a_reaction(peer: FullPeer) -> None:
    """A person's reaction on a message of the bot is delivered, with the id of the message."""
    async with running(peer) as run:
        place = await run.place(peer)
        sent = await run.send(place, "look")
        await peer.react("👍", sent.platform_id)
        reaction = await _event(run, "reaction")
    expect(reaction.text == "👍", f"the emoji itself, not {reaction.text!r}")
    expect(reaction.target == sent.platform_id, f"the message it is under, {sent.platform_id!r}, not {reaction.target!r}")
    expect(reaction.conversation == place, "the conversation that the message is in")


async def puts_one_reaction(peer: FullPeer) -> None:
    """The bot has one reaction on a message at a time, can remove it, and a failure raises nothing."""
    async with running(peer) as run:
        place = await run.place(peer)
        react, message = extra(run.channel, "react"), run.sink.messages[-1].message_id
        for emoji, expected in (("👀", ["👀"]), ("👍", ["👍"]), (None, []), (None, [])):
            await react(place, message, emoji)
            expect(peer.reactions() == expected, f"{expected} after {emoji!r}, not {peer.reactions()}")
        await react(replace(place, id="0"), "0", "👀")
    async with running(peer) as run:
        react = extra(run.channel, "react")
        await react(place, message, "👀")
    async with running(peer) as run:
        await extra(run.channel, "react")(place, message, "👍")
        expect(peer.reactions() == ["👍"], f"that of an earlier run is replaced too, not {peer.reactions()}")


async def answers_in_the_thread(peer: FullPeer) -> None:
    """A message in a thread is answered in that thread and nowhere else."""
    async with running(peer) as run:
        await peer.say_in_thread("in here?")
        await peer.say_in_thread("and again")
        await run.sink.until(lambda: len(run.sink.messages) > 1, "two messages in a thread arrived")
        first, second = run.sink.messages
        expect(
            first.conversation.kind == "group" and first.conversation.thread, f"a thread of a group, not {first.conversation}"
        )
        expect(first.conversation == second.conversation, "one address for one thread")
        await run.send(first.conversation, "in here", reply_to=first.message_id)
    expect(peer.heard_in_thread() == ["in here"], f"the answer in the thread, not {peer.heard_in_thread()!r}")
    expect(peer.heard() == [], f"no answer elsewhere, not {peer.heard()!r}")


async def fetches_a_file_whole(peer: FullPeer) -> None:
    """A file arrives as a handle, and is downloaded byte for byte, also after a restart."""
    async with running(peer) as run:
        attachment = await _attachment(peer, run)
        with _folder() as folder:
            await extra(run.channel, "fetch")(attachment, folder / "copy", len(BYTES))
            _only(folder, BYTES)
    expect(attachment.size in {None, len(BYTES)}, f"the size, or None, not {attachment.size}")
    expect(attachment.name in {"", "notes.bin"}, f"the name as given, or none, not {attachment.name!r}")
    async with running(peer) as run:
        with _folder() as folder:
            await extra(run.channel, "fetch")(attachment, folder / "copy", len(BYTES))
            _only(folder, BYTES)


async def leaves_nothing_of_a_file_it_cannot_have(peer: FullPeer) -> None:
    """A file that is too large or gone raises a permanent ``NotFetched``, and no part of it stays on disk."""
    async with running(peer) as run:
        attachment = await _attachment(peer, run)
        understated = replace(attachment, size=1)
        less = len(BYTES) - 1
        for wanted, limit in ((attachment, less), (understated, less), (replace(attachment, handle="0"), less)):
            with _folder() as folder:
                error = await _not_fetched(run, wanted, folder / "copy", limit)
                expect(isinstance(error, NotFetched) and error.permanent, f"NotFetched, for good, not {error!r}, for {wanted}")
                _only(folder, None)


async def sends_a_file_whole(peer: FullPeer) -> None:
    """A file arrives byte for byte and under its name, with its caption or without; the copy may then be removed."""
    async with running(peer) as run:
        place = await run.place(peer)
        with _folder() as folder:
            for number, caption in enumerate(("as you wished", "")):
                enclosure = _enclosure(folder)
                await run.send(place, caption, f"key-{number}", enclosure=enclosure)
                enclosure.path.unlink()
    expect(peer.files() == [("notes.bin", BYTES)] * 2, f"two files, whole, not {_briefly(peer.files())}")
    expect([text for text in peer.heard() if text] == ["as you wished"], f"the caption once, not {peer.heard()!r}")


async def sends_a_doubtful_file_once(peer: FullPeer) -> None:
    """A file that arrived although the connection was lost is not sent a second time."""
    async with running(peer) as run:
        place = await run.place(peer)
        with _folder() as folder:
            enclosure = _enclosure(folder)
            peer.trouble("cut after")
            error = await failed(run.send(place, "once", enclosure=enclosure))
            expect(isinstance(error, Uncertain), f"Uncertain, not {error!r}")
            await run.send_again(place, "once", enclosure=enclosure, uncertain=True)
    expect(peer.files() == [("notes.bin", BYTES)], f"the file once, not {_briefly(peer.files())}")


async def shows_buttons_and_tells_of_a_press(peer: FullPeer) -> None:
    """Buttons show their labels; a press arrives as an event with the value, and the person sees it confirmed."""
    async with running(peer) as run:
        place = await run.place(peer)
        buttons = (Button(label="Yes", value="/yes 1"), Button(label="No", value=LONGEST_VALUE))
        sent = await run.send(place, "Shall I?", buttons=buttons)
        expect(peer.heard() == ["Shall I?"], f"the text, not {peer.heard()!r}")
        expect(peer.buttons() == ["Yes", "No"], f"both labels in order, not {peer.buttons()!r}")
        await peer.press("No")
        press = await _event(run, "button")
        person = run.sink.messages[0].sender
    expect(press.text == LONGEST_VALUE, f"the value of the button, not {press.text!r}")
    expect(press.target == sent.platform_id, f"the message it is under, {sent.platform_id!r}, not {press.target!r}")
    expect((press.conversation, press.sender.id) == (place, person.id), "the same place and person")


async def offers_its_menu_once(peer: FullPeer) -> None:
    """The menu is set; a choice from it arrives as a message; the next start does not set it again."""
    async with running(peer, menu=MENU) as run:
        await eventually(peer, lambda: bool(peer.offered()), "the menu is offered")
        expect(peer.offered() == [entry.name for entry in MENU], f"each command, in order, not {peer.offered()!r}")
        place = await run.place(peer)
        await peer.choose("status")
        await run.sink.until(lambda: "/status" in run.sink.texts, "the choice arrived")
        chosen = run.sink.messages[-1]
        expect((chosen.event, chosen.conversation) == ("message", place), f"an ordinary message, not {chosen!r:.300}")
    written = peer.menu_changes()
    async with running(peer, menu=MENU) as run:
        await run.place(peer)
        await asyncio.sleep(AFTERWARDS)
    expect(peer.menu_changes() == written, "a menu that is offered already is not written again")


async def _event(run: Run, event: InboundEvent) -> Inbound:
    await run.sink.until(lambda: any(one.event == event for one in run.sink.messages), f"the event {event!r} arrived")
    return next(one for one in run.sink.messages if one.event == event)


async def _attachment(peer: FullPeer, run: Run) -> Attachment:
    await peer.attach("notes.bin", "application/octet-stream", BYTES)
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
