"""Keeps what was said in messages whose turn ends before they are in the transcript: stopped, out of time, failed, or never begun.

As messages of a turn they have the same names there as if it had gone on, so that none is there twice however often a turn is ended,
taken up after a crash, and ended again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final

from agent.errors import AgentError
from gateway.agents.running_agent import RunningAgent
from gateway.base.errors import StorageFailed
from gateway.ledger.protocol import TurnLedger
from gateway.media.incoming import IncomingFiles
from gateway.routing.routed_message import RoutedMessage, is_isolated
from gateway.sessions.sessions_file import SessionRecord
from gateway.turns.turn_context import TurnContext
from gateway.turns.user_message import of_text_alone

if TYPE_CHECKING:
    from agent.transcript.transcript import Transcript

log = logging.getLogger(__name__)

PATIENCE: Final = 10.0
"""Seconds that a session may take to be opened for it: what keeps a turn from beginning must not keep it from ending."""


class UnansweredWords:
    """Puts unanswered messages into transcripts. ``read`` reads messages by their rows; ``intake`` knows their files."""

    def __init__(
        self, turns: TurnLedger, read: Callable[[Sequence[int]], Awaitable[list[RoutedMessage]]], intake: IncomingFiles
    ) -> None:
        self._turns = turns
        self._read = read
        self._intake = intake

    async def of_turn(self, context: TurnContext, *, stopped: bool) -> None:
        """Keep the messages of a turn that is about to end, also those that were let in last. Nothing is raised.

        ``stopped``: the model is told that they were not answered because they were stopped.
        """
        try:
            turn = context.running.turn
            if turn is not None:
                await turn.keep_unanswered(stopped=stopped)
            known = context.answered
            present = await self._turns.get(context.turn.id)
            further = {*present.inbox} - {one.row.id for one in known} if present is not None else ()
            messages = [*known, *(await self._read(sorted(further)) if further else ())]
            await self._put(context.agent, context.record, messages, stopped=stopped)
        except (AgentError, StorageFailed) as error:
            log.warning("the transcript does not tell what was not answered: %s", error)
        except Exception:  # a defect over one message must not keep its turn from ending
            log.exception("the transcript does not tell what was not answered")

    async def keep(self, agent: RunningAgent, record: SessionRecord, messages: Sequence[RoutedMessage]) -> None:
        """Keep stopped messages of a turn, the one first that it is named by, while nothing runs in their session. Nothing is raised."""
        try:
            await self._put(agent, record, messages, stopped=True)
        except AgentError as error:
            log.warning("the transcript does not tell what was stopped: %s", error)
        except Exception:  # as above
            log.exception("the transcript does not tell what was stopped")

    async def _put(
        self, agent: RunningAgent, record: SessionRecord, messages: Sequence[RoutedMessage], *, stopped: bool
    ) -> None:
        from agent.loop.turn import mark_stopped
        from agent.transcript.entries import Said

        first = messages[0].row.uid
        named = {first if one is messages[0] else f"{first}~{one.row.uid}": one for one in messages if _is_kept(one)}
        if not named:
            return
        transcript = await self._transcript(agent, record, messages[0])
        for name, one in named.items():
            if not transcript.holds(name):
                files = await self._intake.named(agent.workspace.sandbox, one)
                await transcript.append(name, Said(message=of_text_alone(one, files)), n=0)
        if stopped:
            await mark_stopped(transcript, first)

    async def _transcript(self, agent: RunningAgent, record: SessionRecord, message: RoutedMessage) -> Transcript:
        """Return the transcript of a session. One that has not begun begins with its start-up notes, as with its first turn.

        Raises:
            AgentError: it cannot be used, or cannot begin.
        """
        transcript = await agent.conversations.transcript(record)
        if transcript.opened is not None or message.automation is not None:
            return transcript
        try:
            async with asyncio.timeout(PATIENCE):
                conversation = await agent.conversations.open(record, message.route.audience, origin=message.origin)
                await conversation.prepare()
        except TimeoutError as error:
            raise AgentError(f"session {record.key} could not be begun within {PATIENCE:g} seconds") from error
        return conversation.transcript


def _is_kept(one: RoutedMessage) -> bool:
    """Whether a conversation is to remember a message: what people say, and what comes to a conversation of theirs."""
    return one.says_something and (one.automation is None or not is_isolated(one.route.session))
