"""Rules for groups and identity: mentions, the bot's own messages, other bots, and a wrong password."""

from __future__ import annotations

import asyncio

from channels.errors import ChannelBroken
from channels.testing.harness import RecordingSink, expect, running
from channels.testing.peer import FullPeer, Peer


async def tells_who_is_meant_in_a_group(peer: FullPeer) -> None:
    """In a group, ``mentioned`` is set when the bot is mentioned, people keep their ids, and all messages are delivered."""
    async with running(peer) as run:
        private = await run.place(peer)
        await peer.say_in_group("how was the film?")
        await peer.say_in_group("and you?", mention=True)
        await run.sink.until(lambda: len(run.sink.messages) > 2, "two messages in a group arrived")  # noqa: PLR2004 - with the first
        [first, chatter, asked] = run.sink.messages
    expect(chatter.conversation.kind == "group", f"a group, not {chatter.conversation}")
    expect(chatter.conversation == asked.conversation != private, "one address for one group, and not the private one")
    expect((chatter.mentioned, asked.mentioned) == (False, True), "mentioned only where the bot is called by name")
    expect("and you?" in asked.text, f"what was written, not {asked.text!r}")
    expect({one.sender.id for one in (chatter, asked)} == {first.sender.id}, "the person's id is the same everywhere")


async def hears_no_echo(peer: Peer) -> None:
    """The bot's own messages are not delivered as inbound, neither at once nor when they are read back after a restart."""
    cursors: dict[str, str] = {}
    async with running(peer, cursors) as run:
        place = await run.place(peer)
        await run.send(place, "an echo", "key-1")
        await peer.say("after the echo")
        await run.sink.until(lambda: "after the echo" in run.sink.texts, "the message after the bot's own arrived")
        expect("an echo" not in run.sink.texts, "the bot's own message is not heard")
        await run.send(place, "an echo", "key-2")
    reads_back = "catches_up_after_a_restart" not in peer.lacks
    if reads_back:
        await peer.say("after a restart")
    async with running(peer, cursors) as run:
        if not reads_back:
            await peer.say("after a restart")
        await run.sink.until(lambda: "after a restart" in run.sink.texts, "what was missed arrived")
        expect("an echo" not in run.sink.texts, "the bot's own message is not read back as somebody else's")


async def tells_what_programs_wrote(peer: FullPeer) -> None:
    """Messages of other bots are marked ``from_bot``, or not delivered at all."""
    async with running(peer) as run:
        await peer.say_as_bot("beep")
        await peer.say_in_group("a person again")
        await run.sink.until(lambda: "a person again" in run.sink.texts, "the person's message arrived")
        beeps = [one for one in run.sink.messages if "beep" in one.text]
    expect(all(one.from_bot for one in beeps), "from_bot, where a program wrote")
    expect(not any(one.from_bot for one in run.sink.messages if one not in beeps), "no from_bot, where a person wrote")


async def gives_up_on_a_wrong_password(peer: Peer) -> None:
    """With a password, token or key that the platform rejects, ``run`` ends with a hint."""
    sink, channel = RecordingSink(patience=peer.patience), peer.intruder()
    try:
        async with asyncio.timeout(peer.patience):
            await channel.run(sink)
    except ChannelBroken as error:
        expect(error.hint, f"a step that puts it right, besides {error}")
    except TimeoutError:
        expect(holds=False, what="ChannelBroken for what the platform does not let in, not trying for ever")
    except Exception as error:  # noqa: BLE001 - whatever a channel raises is what is being judged
        expect(holds=False, what=f"ChannelBroken for what the platform does not let in, not {error!r}")
    else:
        expect(holds=False, what="ChannelBroken for what the platform does not let in, not an end without a word")
    finally:
        await channel.close()
    expect(not sink.is_ready.is_set(), "no ready() of a channel that was not let in")
