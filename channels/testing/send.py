"""Rules for sending: every message whole, in order and once, and every failure raised as the right error.

A platform that cannot be reached for a while loses nothing before, during or after a send.
"""

from __future__ import annotations

import asyncio
from typing import Final

from channels.errors import NotSent, Uncertain
from channels.messages import ChatAddress
from channels.testing.harness import BETWEEN_LOOKS, Run, eventually, expect, failed, running
from channels.testing.peer import Peer, Trouble


async def sends_in_order(peer: Peer) -> None:
    """Chunks arrive in order, each with its own id."""
    async with running(peer) as run:
        place = await run.place(peer)
        ids = [(await run.send(place, f"part {number}", f"key-{number}")).platform_id for number in range(3)]
    expect(peer.heard() == ["part 0", "part 1", "part 2"], f"three parts in order, not {peer.heard()!r}")
    expect(len(set(ids)) == len(ids) and all(ids), f"an id of its own for each, not {ids!r}")


async def cuts_what_is_too_long(peer: Peer) -> None:
    """A long reply is split into messages that the platform accepts, with nothing lost; an empty reply gives no message."""
    words = [f"word{number}" for number in range(4 * peer.limit // 8)]
    code = "```python\n" + "\n".join(f"line_{number} = '<&*_>'" for number in range(peer.limit // 12)) + "\n```"
    async with running(peer) as run:
        place = await run.place(peer)
        pieces = run.channel.chunks(" ".join(words) + "\n\n" + code)
        for number, piece in enumerate(pieces):
            await run.send(place, piece, f"key-{number}")
        expect(run.channel.chunks("") == [] and run.channel.chunks(" \n ") == [], "no pieces of nothing")
    heard = peer.heard()
    expect(len(heard) == len(pieces) > 1, "a message for each piece, and several of them")
    expect(all(peer.length(text) <= peer.limit for text in heard), f"no message over {peer.limit}")
    together = " ".join(heard)
    expect([word for word in together.split() if word.startswith("word")] == words, "every word, in order")


async def shows_typing(peer: Peer) -> None:
    """Typing is shown, and its failures raise nothing."""
    async with running(peer) as run:
        place = await run.place(peer)
        await run.channel.typing(place)
        await eventually(peer, peer.typed, "the person is shown that an answer is being written")
        nobody = ChatAddress(channel=place.channel, account=place.account, kind=place.kind, id="0")
        await run.channel.typing(nobody)


async def knows_a_refusal(peer: Peer) -> None:
    """A message that the platform will never accept raises a permanent ``NotSent``."""
    async with running(peer) as run:
        place = await run.place(peer)
        peer.trouble("refused")
        error = await failed(run.send(place, "no"))
        expect(isinstance(error, NotSent) and error.permanent, f"NotSent, for good, not {error!r}")
    expect(peer.heard() == [], "nothing was said")


async def obeys_a_rate_limit(peer: Peer) -> None:
    """A rate limit is obeyed: by the channel, or by the gateway, which is told how long to wait."""
    async with running(peer) as run:
        place = await run.place(peer)
        peer.trouble("rate limit")
        error = await failed(run.send(place, "patience"))
        if error is not None:
            told = isinstance(error, NotSent) and not error.permanent and error.retry_after
            expect(told, f"NotSent with the time to wait, not {error!r}")
            await run.send_again(place, "patience", uncertain=False)
    expect(peer.heard() == ["patience"], f"the message once, not {peer.heard()!r}")


async def repeats_what_did_not_arrive(peer: Peer) -> None:
    """A send that was interrupted before it took effect is in doubt, and its retry arrives."""
    async with running(peer) as run:
        place = await run.place(peer)
        peer.trouble("cut before")
        error = await failed(run.send(place, "after all"))
        expect(isinstance(error, Uncertain | NotSent), f"NotSent or Uncertain, not {error!r}")
        await run.send_again(place, "after all", uncertain=isinstance(error, Uncertain))
    heard = peer.heard()
    expect(len(heard) == 1 and heard[0].endswith("after all"), f"the message once, not {heard!r}")


async def says_a_doubtful_message_once(peer: Peer) -> None:
    """A send that took effect, but whose response was lost, does not arrive twice where the platform allows a check."""
    async with running(peer) as run:
        place = await run.place(peer)
        peer.trouble("cut after")
        error = await failed(run.send(place, "once"))
        expect(isinstance(error, Uncertain), f"Uncertain, not {error!r}")
        await run.send_again(place, "once", uncertain=True)
    expect(peer.heard() == ["once"], f"the message once, not {peer.heard()!r}")


AWAY: Final = 0.2
"""Seconds for which the platform cannot be reached while a person writes."""
CUTS: Final[tuple[Trouble, ...]] = ("cut before", "cut after")


async def goes_on_after_an_outage(peer: Peer) -> None:
    """Messages written during an outage arrive afterwards, once, and so does the next message."""
    async with running(peer) as run:
        await peer.say("before")
        await run.sink.until(lambda: bool(run.sink.messages), "the message arrived")
        await peer.go_away()
        await peer.say("meanwhile")
        await asyncio.sleep(AWAY)
        await peer.come_back()
        await peer.say("after")
        await run.sink.until(lambda: {"meanwhile", "after"} <= set(run.sink.texts), "the messages of an outage arrived")
    expect(sorted(run.sink.texts) == ["after", "before", "meanwhile"], f"each message once, not {run.sink.texts!r}")


async def sends_after_an_outage(peer: Peer) -> None:
    """A send during an outage fails temporarily, and its retry arrives."""
    async with running(peer) as run:
        place = await run.place(peer)
        await peer.go_away()
        error = await failed(run.send(place, "after all"))
        expect(isinstance(error, NotSent | Uncertain), f"NotSent or Uncertain, not {error!r}")
        expect(not getattr(error, "permanent", False), f"an error that passes, not {error!r}")
        await peer.come_back()
        await _said_at_last(run, place, "after all", uncertain=isinstance(error, Uncertain))
    heard = peer.heard()
    expect(len(heard) == 1 and heard[0].endswith("after all"), f"the message once, not {heard!r}")


async def loses_nothing_that_an_outage_cut_off(peer: Peer) -> None:
    """A send during which an outage begins is in doubt, and arrives in the end; once, where the platform allows a check."""
    for number, cut in enumerate(CUTS):
        text = f"part {number}"
        async with running(peer) as run:
            place = await run.place(peer)
            peer.trouble(cut)
            first = await failed(run.send(place, text, f"key-{number}"))
            expect(isinstance(first, NotSent | Uncertain), f"NotSent or Uncertain, not {first!r}")
            await peer.go_away()
            again = await failed(run.send(place, text, f"key-{number}", attempt=2, uncertain=True, recorded=run.recorded))
            expect(isinstance(again, NotSent | Uncertain), f"NotSent or Uncertain while nothing is reached, not {again!r}")
            await peer.come_back()
            await _said_at_last(run, place, text, key=f"key-{number}", uncertain=True)
            once = getattr(run.channel, "repeats_safely", False)
        heard = [one for one in peer.heard() if one.endswith(text)]
        expect(len(heard) == 1 or (heard and not once), f"{text!r} once, not {heard!r}")


async def _said_at_last(run: Run, place: ChatAddress, text: str, *, uncertain: bool, key: str = "key-1") -> None:
    """Retry a send as the gateway does, until it arrives."""
    attempt = 2
    async with asyncio.timeout(run.sink.patience):
        while True:
            attempt += 1
            more = {"attempt": attempt, "uncertain": uncertain, "recorded": run.recorded}
            error = await failed(run.send(place, text, key, **more))
            if error is None:
                return
            uncertain = uncertain or isinstance(error, Uncertain)
            expect(not getattr(error, "permanent", False), f"a repetition that arrives, not {error!r}")
            await asyncio.sleep(BETWEEN_LOOKS)
