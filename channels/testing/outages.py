"""Rules for outages: a platform that cannot be reached for a while loses nothing before, during or after a send."""

from __future__ import annotations

import asyncio
from typing import Final

from channels.errors import NotSent, Uncertain
from channels.messages import ChatAddress
from channels.testing.harness import BETWEEN_LOOKS, Run, expect, failed, running
from channels.testing.peer import Peer, Trouble

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
