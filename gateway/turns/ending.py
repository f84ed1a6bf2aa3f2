"""How a turn ends: its state, its reply, and what other sessions and the chat's own session are told of it, in one transaction."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from agent.taint import Marks, fenced, random_mark
from channels.silent import is_silent
from gateway.ledger.protocol import TurnLedger
from gateway.ledger.rows import Arrival, InboxRow, NewEvent, NewOutbound, TurnEnd
from gateway.routing.automation import is_isolated
from gateway.routing.routed_message import RoutedMessage
from gateway.telemetry.recorder import Telemetry
from gateway.turns.quoting import cut, label_of, unmarked

LONGEST_EVENT: Final = 1500
"""Characters of an isolated run's reply that the session of its chat is told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedTurn:
    """The end of an automation's turn. ``text`` is what came of it, also where nobody is sent it; ``taint`` that of its session."""

    message: RoutedMessage
    state: TurnEnd
    text: str
    taint: tuple[str, ...] = ()
    reason: str = ""


Results: TypeAlias = "Callable[[EndedTurn], Awaitable[Sequence[tuple[str, Arrival]]]]"
"""Returns the messages, each with its account, that tell other sessions of a turn's end. It may be called again for the same end."""


async def _nothing(_ended: EndedTurn) -> Sequence[tuple[str, Arrival]]:
    return ()


class TurnEndings:
    """Ends turns. ``results`` is asked about each automation's turn; ``hand_out`` enqueues a stored message."""

    def __init__(
        self,
        turns: TurnLedger,
        *,
        results: Results = _nothing,
        hand_out: Callable[[InboxRow], Awaitable[None]],
        telemetry: Telemetry | None = None,
    ) -> None:
        self.telemetry = telemetry or Telemetry()
        self._turns = turns
        self.results = results
        self._hand_out = hand_out

    async def end(
        self,
        turn: str,
        state: TurnEnd,
        message: RoutedMessage | None = None,
        chunks: Sequence[NewOutbound] = (),
        *,
        text: str = "",
        taint: Collection[str] = (),
        reason: str = "",
        returned: Collection[int] = (),
    ) -> tuple[str, ...]:
        """End a turn and queue its reply; return the keys of the reply's chunks. ``message`` is its first one.

        What other sessions are told is stored with it, and enqueued afterwards.

        Raises:
            StorageFailed, InvalidTransition: nothing was stored.
        """
        arrivals: Sequence[tuple[str, Arrival]] = ()
        events: Sequence[NewEvent] = ()
        if message is not None and message.automation is not None:
            ended = EndedTurn(message=message, state=state, text=text, taint=tuple(sorted(taint)), reason=reason)
            arrivals, events = await self.results(ended), told_to_chat(ended, chunks)
        finished = await self._turns.finish(
            turn, state, chunks, reason=reason, returned=returned, arrivals=arrivals, events=events
        )
        self.telemetry.turn_ended(state, message.origin if message is not None else "unknown")
        for row in finished.rows:
            await self._hand_out(row)
        return finished.keys


def told_to_chat(ended: EndedTurn, chunks: Sequence[NewOutbound], marks: Marks = random_mark) -> list[NewEvent]:
    """Return what the session of a chat is told of a reply that an isolated run sends there; tainted text is fenced."""
    automation = ended.message.automation
    if automation is None or not chunks or not is_isolated(ended.message.route.session):
        return []
    place, said = chunks[0].conversation, unmarked(cut(ended.text.strip(), LONGEST_EVENT))
    if is_silent(place) or not said:
        return []
    said = fenced(said, ended.taint, marks) if ended.taint else said
    line = f"[{label_of(automation)} said here, outside of this conversation]\n{said}"
    return [NewEvent(conversation=place, line=line, sources=ended.taint)]
