"""Rules of sending: what is said arrives whole, in order and once, and every failure is called by its name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from channels.errors import NotSent, Uncertain
from channels.messages import ChatAddress
from channels.testing.harness import eventually, expect, failed, running

if TYPE_CHECKING:
    from channels.testing.peer import Peer


async def sends_in_order(stage: Peer) -> None:
    """Chunks arrive as they were sent, each with an id of its own."""
    async with running(stage) as run:
        place = await run.place(stage)
        ids = [(await run.send(place, f"part {number}", f"key-{number}")).platform_id for number in range(3)]
    expect(stage.heard() == ["part 0", "part 1", "part 2"], f"three parts in order, not {stage.heard()!r}")
    expect(len(set(ids)) == len(ids) and all(ids), f"an id of its own for each, not {ids!r}")


async def cuts_what_is_too_long(stage: Peer) -> None:
    """Long replies become messages that the platform takes, with nothing lost; nothing becomes none."""
    words = [f"word{number}" for number in range(4 * stage.limit // 8)]
    code = "```python\n" + "\n".join(f"line_{number} = '<&*_>'" for number in range(stage.limit // 12)) + "\n```"
    async with running(stage) as run:
        place = await run.place(stage)
        pieces = run.channel.chunks(" ".join(words) + "\n\n" + code)
        for number, piece in enumerate(pieces):
            await run.send(place, piece, f"key-{number}")
        expect(run.channel.chunks("") == [] and run.channel.chunks(" \n ") == [], "no pieces of nothing")
    heard = stage.heard()
    expect(len(heard) == len(pieces) > 1, "a message for each piece, and several of them")
    expect(all(stage.length(text) <= stage.limit for text in heard), f"no message over {stage.limit}")
    together = " ".join(heard)
    expect([word for word in together.split() if word.startswith("word")] == words, "every word, in order")


async def shows_typing(stage: Peer) -> None:
    """Typing is shown, and its trouble is nobody's."""
    async with running(stage) as run:
        place = await run.place(stage)
        await run.channel.typing(place)
        await eventually(stage, stage.typed, "the person is shown that an answer is being written")
        nobody = ChatAddress(channel=place.channel, account=place.account, kind=place.kind, id="0")
        await run.channel.typing(nobody)


async def knows_a_refusal(stage: Peer) -> None:
    """A message that will never be taken raises ``NotSent``, for good."""
    async with running(stage) as run:
        place = await run.place(stage)
        stage.trouble("refused")
        error = await failed(run.send(place, "no"))
        expect(isinstance(error, NotSent) and error.permanent, f"NotSent, for good, not {error!r}")
    expect(stage.heard() == [], "nothing was said")


async def obeys_a_rate_limit(stage: Peer) -> None:
    """A platform that asks to wait is waited for: by the channel, or by the house, which is told how long."""
    async with running(stage) as run:
        place = await run.place(stage)
        stage.trouble("rate limit")
        error = await failed(run.send(place, "patience"))
        if error is not None:
            told = isinstance(error, NotSent) and not error.permanent and error.retry_after
            expect(told, f"NotSent with the time to wait, not {error!r}")
            await run.send_again(place, "patience", uncertain=False)
    expect(stage.heard() == ["patience"], f"the message once, not {stage.heard()!r}")


async def repeats_what_did_not_arrive(stage: Peer) -> None:
    """A send that was cut off before it had an effect is in doubt, and its repetition arrives."""
    async with running(stage) as run:
        place = await run.place(stage)
        stage.trouble("cut before")
        error = await failed(run.send(place, "after all"))
        expect(isinstance(error, Uncertain | NotSent), f"NotSent or Uncertain, not {error!r}")
        await run.send_again(place, "after all", uncertain=isinstance(error, Uncertain))
    heard = stage.heard()
    expect(len(heard) == 1 and heard[0].endswith("after all"), f"the message once, not {heard!r}")


async def says_a_doubtful_message_once(stage: Peer) -> None:
    """A send that had its effect and whose answer was lost is not said twice, where the platform lets a channel know."""
    async with running(stage) as run:
        place = await run.place(stage)
        stage.trouble("cut after")
        error = await failed(run.send(place, "once"))
        expect(isinstance(error, Uncertain), f"Uncertain, not {error!r}")
        await run.send_again(place, "once", uncertain=True)
    expect(stage.heard() == ["once"], f"the message once, not {stage.heard()!r}")
