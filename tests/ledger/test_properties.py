"""Whatever happens in whatever order: no message is answered twice, none is lost, and order is kept in each conversation.

``LedgerMachine`` is what any ledger must pass; ``open`` is the only method that names one.
"""

from __future__ import annotations

import asyncio
import itertools
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from channels.messages import ChatAddress, Cursor
from gateway.base.clock import ManualClock
from gateway.base.errors import InvalidTransition
from gateway.ledger.rows import Arrival, NewApproval, NewOutbound
from tests.ledger import engines
from tests.properties import examples

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence

    from gateway.ledger.protocol import Ledger
    from gateway.ledger.rows import OutboxRow, Turn

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
ACCOUNT = "telegram:default"
CHATS = [ChatAddress(channel="telegram", kind="direct", id=str(number)) for number in range(3)]


@dataclass
class Chunk:
    """What the model knows of a chunk: how often it was shown, and how often its sender could not tell."""

    text: str
    shown: int = 0
    doubts: int = 0
    state: str = "ready"
    not_before: datetime = NOON


@dataclass
class Under:
    """A turn in the making, in the model."""

    turn: Turn
    chat: int
    messages: list[str]
    tools: dict[str, str] = field(default_factory=dict)
    attempts: int = 1


@dataclass
class Asked:
    """A question, in the model."""

    turn: str
    round: int
    expires: datetime
    state: str = "pending"


class LedgerMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.folder = tempfile.TemporaryDirectory()
        self.clock = ManualClock(NOON)
        self.names = itertools.count()
        self.ledger: Ledger = self.do(self.open())
        self.written: list[tuple[int, str]] = []  # what the platform has: chat and alias, in order
        self.taken: list[tuple[int, str]] = []  # in the order of arrival
        self.waiting: list[tuple[int, str]] = []
        self.turns: dict[str, Under] = {}
        self.suspended: dict[str, Under] = {}
        self.asked: dict[str, Asked] = {}
        self.out: list[list[Chunk]] = [[] for _ in CHATS]
        self.effects: Counter[str] = Counter()
        self.cursor = 0

    async def open(self) -> Ledger:
        names = self.names  # the same in every run: what is drawn goes by them
        return await engines.open_at(self.path, self.clock, new_id=lambda: f"t{next(names):09}")

    @property
    def path(self) -> Path:
        return Path(self.folder.name) / "ledger.sqlite"

    def do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.loop.run_until_complete(work)

    def teardown(self) -> None:
        self.finish_everything()
        self.do(self.ledger.close())
        self.loop.close()
        self.folder.cleanup()

    # The platform and the way in

    @initialize()
    def begins(self) -> None:
        for chat in (0, 1, 0):
            self.write(chat)
        self.take(self.written)
        self.claim(0, together=False)

    @rule(chat=st.integers(0, len(CHATS) - 1))
    def write(self, chat: int) -> None:
        self.written.append((chat, f"m:{chat}:{len(self.written)}"))

    @rule(data=st.data())
    def deliver(self, data: st.DataObject) -> None:
        """Any messages, in any order, some for the second time."""
        self.take(data.draw(st.lists(st.sampled_from(self.written), max_size=4)))

    def take(self, chosen: list[tuple[int, str]]) -> None:
        new = [one for position, one in enumerate(chosen) if one not in self.taken and one not in chosen[:position]]
        self.cursor += 1
        arrivals = [self.arrival(chat, alias) for chat, alias in chosen]
        accepted = self.do(self.ledger.inbox.accept(ACCOUNT, arrivals, Cursor(name="offset", value=str(self.cursor))))
        assert [row.alias for row in accepted.rows] == [alias for _, alias in new]
        self.taken += new
        self.waiting += new

    def arrival(self, chat: int, alias: str) -> Arrival:
        return Arrival(
            key=alias.replace("m", "u"),
            alias=alias,
            conversation=CHATS[chat].address,
            session=f"s{chat}",
            sender=str(chat),
            payload="{}",
            received_at=self.clock.now(),
        )

    # Turns

    @rule(chat=st.integers(0, len(CHATS) - 1), together=st.booleans())
    def claim(self, chat: int, together: bool) -> None:
        """The lane of a session: one turn at a time, for the oldest message or for all that wait."""
        if any(under.chat == chat for under in self.turns.values()):
            return  # one that is suspended holds nobody up
        rows = [row for row in self.do(self.ledger.inbox.waiting()) if row.session == f"s{chat}"]
        rows = rows if together else rows[:1]
        if rows:
            turn = self.do(self.ledger.turns.claim(f"s{chat}", "main", [row.id for row in rows]))
            messages = [row.alias for row in rows]
            self.waiting = [one for one in self.waiting if one[1] not in messages]
            self.turns[turn.id] = Under(turn, chat, messages)

    @precondition(lambda self: self.turns)
    @rule(data=st.data(), effect=st.sampled_from(["pure", "idempotent", "effect"]), done=st.booleans())
    def run_tool(self, data: st.DataObject, effect: Any, done: bool) -> None:
        under = self.turns[data.draw(st.sampled_from(sorted(self.turns)))]
        call = f"{effect}-{data.draw(st.integers(0, 1))}"
        before = self.do(self.ledger.turns.begin_call(under.turn.id, call, "tool", "hash", effect))
        assert before == under.tools.get(call)
        if before is not None and effect == "effect":
            assert before in {"started", "done", "unknown"}
            if before != "started":
                self.do(self.ledger.turns.end_call(under.turn.id, call, "another result"))
            return
        self.effects[f"{under.turn.id}/{call}"] += effect == "effect"
        under.tools[call] = "started"
        if done:
            self.do(self.ledger.turns.end_call(under.turn.id, call, "result"))
            under.tools[call] = "done"

    @precondition(lambda self: self.turns)
    @rule(
        data=st.data(),
        pieces=st.integers(0, 2),
        state=st.sampled_from(["done", "failed", "stopped"]),
        results=st.lists(st.integers(0, len(CHATS) - 1), max_size=2),
    )
    def finish(self, data: st.DataObject, pieces: int, state: Any, results: list[int]) -> None:
        self.end(data.draw(st.sampled_from(sorted(self.turns))), pieces, state, results)

    def end(self, turn: str, pieces: int, state: Any, results: Sequence[int] = ()) -> None:
        """End a turn. ``results`` are the sessions that are told of it, each by a message that is stored with the end."""
        under = self.turns.pop(turn)
        told = [(chat, f"m:result:{turn}:{chat}") for chat in dict.fromkeys(results)]
        arrivals = [("agent", self.arrival(*one)) for one in told] * 2
        for one in self.asked.values():
            if one.turn == turn and one.state == "pending":
                one.state = "withdrawn"
        texts = [f"{'+'.join(under.messages)}/{piece}" for piece in range(pieces)]
        chunks = [NewOutbound(conversation=CHATS[under.chat], text=text) for text in texts]
        finished = self.do(self.ledger.turns.finish(turn, state, chunks, arrivals=arrivals))
        assert [row.alias for row in finished.rows] == [alias for _, alias in told]
        assert len(finished.keys) == pieces
        self.waiting += told
        self.out[under.chat] += [Chunk(text, not_before=self.clock.now()) for text in texts]
        for again in (
            self.ledger.turns.finish(turn, state, [], arrivals=[("agent", self.arrival(0, "m:late"))]),
            self.ledger.turns.retry(turn),
        ):
            try:
                self.do(again)
            except InvalidTransition:
                continue
            raise AssertionError("a turn ended twice")

    # Approvals

    @precondition(lambda self: self.turns)
    @rule(data=st.data(), calls=st.sets(st.integers(0, 2), min_size=1), minutes=st.integers(0, 2))
    def suspend(self, data: st.DataObject, calls: set[int], minutes: int) -> None:
        """Ask about some calls of a turn, of which some may be known already: those are asked about anew, or as they were."""
        turn = data.draw(st.sampled_from(sorted(self.turns)))
        under, questions = self.turns[turn], []
        for call in calls:
            name = f"{turn}-{call}"
            known = self.asked.get(name)
            number = 1 if known is None else known.round + data.draw(st.integers(0, 1))
            question = NewApproval(
                id=name,
                round=number,
                session=f"s{under.chat}",
                transcript="t",
                agent="main",
                place=CHATS[under.chat],
                call=str(call),
                payload="{}",
                fingerprint=f"f{number}",
                expires=self.clock.now() + timedelta(seconds=minutes),
            )
            questions.append(question)
            if known is None or number > known.round:
                self.asked[name] = Asked(turn, number, question.expires)
        text = f"may I {len(self.out[under.chat])}"
        chunk = NewOutbound(conversation=CHATS[under.chat], text=text)
        running = self.do(self.ledger.turns.suspend(turn, questions, [chunk]))
        self.out[under.chat].append(Chunk(text, not_before=self.clock.now()))
        under.attempts = max(under.attempts - 1, 0)
        assert (running is None) == self.is_asked(turn)
        if running is None:
            self.suspended[turn] = self.turns.pop(turn)
            self.can_do_nothing(turn)

    def is_asked(self, turn: str) -> bool:
        return any(one.turn == turn and one.state == "pending" for one in self.asked.values())

    @precondition(lambda self: self.asked)
    @rule(data=st.data(), decision=st.sampled_from(["approved", "denied", "expired"]), stale=st.booleans())
    def decide(self, data: st.DataObject, decision: Any, stale: bool) -> None:
        """Decide anything, also what was decided already, or what was asked anew since."""
        name = data.draw(st.sampled_from(sorted(self.asked)))
        one = self.asked[name]
        number = one.round - 1 if stale else one.round
        counts = one.state == "pending" and not stale
        result = self.do(self.ledger.approvals.decide(name, number, decision, by="somebody"))
        assert result.changed == counts
        if counts:
            one.state = "expired" if decision == "approved" and one.expires <= self.clock.now() else decision
        assert result.approval.state == one.state
        assert result.resumed == self.resumed(one.turn)

    @rule(chat=st.integers(0, len(CHATS) - 1))
    def withdraw(self, chat: int) -> None:
        concerned = {turn: under for turn, under in self.suspended.items() if under.chat == chat}
        for one in self.asked.values():
            owner = {**self.turns, **self.suspended}.get(one.turn)
            if one.state == "pending" and owner is not None and owner.chat == chat:
                one.state = "withdrawn"
        assert sorted(self.do(self.ledger.approvals.withdraw(f"s{chat}", "stopped"))) == sorted(concerned)
        for turn in concerned:
            assert self.resumed(turn)

    def resumed(self, turn: str) -> bool:
        """Take a turn that waits for nothing any more for one that runs."""
        if turn not in self.suspended or self.is_asked(turn):
            return False
        self.turns[turn] = self.suspended.pop(turn)
        return True

    @invariant()
    def the_state_of_each_question_is_known(self) -> None:
        for name, one in self.asked.items():
            found = self.do(self.ledger.approvals.get(name))
            assert (found.state, found.round) == (one.state, one.round)
        overdue = {one.id for one in self.do(self.ledger.approvals.overdue())}
        now = self.clock.now()
        assert overdue == {name for name, one in self.asked.items() if one.state == "pending" and one.expires <= now}

    def can_do_nothing(self, turn: str) -> None:
        assert self.do(self.ledger.turns.get(turn)).state == "suspended"
        for forbidden in (
            self.ledger.turns.begin_call(turn, "x", "tool", "hash", "effect"),
            self.ledger.turns.finish(turn, "done"),
            self.ledger.turns.retry(turn),
            self.ledger.turns.release(turn),
        ):
            try:
                self.do(forbidden)
            except InvalidTransition:
                continue
            raise AssertionError("a suspended turn went on")

    # The way out

    def heads(self) -> dict[int, Chunk]:
        """The first open chunk of each conversation."""
        found = {chat: next((one for one in out if one.state != "sent"), None) for chat, out in enumerate(self.out)}
        return {chat: one for chat, one in found.items() if one is not None}

    @rule(
        data=st.data(),
        outcome=st.sampled_from(["sent", "refused", "doubt: shown", "doubt: not shown", "crash before", "crash after"]),
    )
    def send(self, data: st.DataObject, outcome: str) -> None:
        due: list[OutboxRow] = self.do(self.ledger.outbox.due([ACCOUNT]))
        if due:
            self.attempt(data.draw(st.sampled_from(due)), outcome)

    def attempt(self, row: OutboxRow, outcome: str) -> None:
        chunk = self.heads()[int(row.conversation.id)]
        row = self.do(self.ledger.outbox.sending(row.id))
        assert (row.text, row.doubts) == (chunk.text, chunk.doubts)
        assert all(one.conversation != row.conversation for one in self.do(self.ledger.outbox.due([ACCOUNT])))
        assert self.do(self.ledger.outbox.due_in(row.conversation.address)) is None
        later = self.clock.now() + timedelta(seconds=2)
        chunk.shown += outcome in {"sent", "doubt: shown", "crash after"}
        if outcome == "sent":
            self.do(self.ledger.outbox.sent(row.id, "p"))
            chunk.state = "sent"
        elif outcome == "refused":
            self.do(self.ledger.outbox.retry_later(row.id, later))
            chunk.not_before = later
        elif outcome.startswith("doubt"):
            self.do(self.ledger.outbox.ambiguous(row.id, later))
            chunk.doubts, chunk.not_before = chunk.doubts + 1, later
        else:
            chunk.doubts += 1
            self.reopen()

    @rule()
    def reopen(self) -> None:
        self.do(self.ledger.close())
        self.ledger = self.do(self.open())
        unfinished = self.do(self.ledger.turns.unfinished())
        assert sorted(turn.id for turn in unfinished) == sorted(self.turns)
        for turn in unfinished:
            under = self.turns[turn.id]
            under.attempts += 1
            assert self.do(self.ledger.turns.retry(turn.id)).attempt == under.attempts
            for call, state in under.tools.items():
                if state == "started" and call.startswith("effect"):
                    under.tools[call] = "unknown"

    @rule(seconds=st.integers(1, 3))
    def wait(self, seconds: int) -> None:
        self.clock.move(seconds)

    # What always holds

    @invariant()
    def messages_wait_in_the_order_of_arrival(self) -> None:
        assert [row.alias for row in self.do(self.ledger.inbox.waiting())] == [alias for _, alias in self.waiting]

    @invariant()
    def exactly_the_first_open_chunks_are_due(self) -> None:
        due = {int(row.conversation.id): row.text for row in self.do(self.ledger.outbox.due([ACCOUNT]))}
        assert due == {chat: one.text for chat, one in self.heads().items() if one.not_before <= self.clock.now()}

    @invariant()
    def the_state_of_each_tool_is_known(self) -> None:
        for turn, under in self.turns.items():
            for call, state in under.tools.items():
                assert self.do(self.ledger.turns.tool_call(turn, call)).state == state

    def finish_everything(self) -> None:
        """Let the dust settle, and look at what a person saw."""
        if self.written:
            self.do(self.ledger.inbox.accept(ACCOUNT, [self.arrival(*one) for one in self.written]))
        for chat in range(len(CHATS)):
            self.withdraw(chat)
        assert not self.suspended
        self.reopen()
        for turn in list(self.turns):
            self.end(turn, 1, "done")
        for chat in range(len(CHATS)):
            for row in self.do(self.ledger.inbox.waiting()):
                if row.session == f"s{chat}":
                    turn = self.do(self.ledger.turns.claim(f"s{chat}", "main", [row.id]))
                    self.turns[turn.id] = Under(turn, chat, [row.alias])
                    self.end(turn.id, 1, "done")
        while self.heads():
            self.clock.move(3)
            for row in self.do(self.ledger.outbox.due([ACCOUNT])):
                self.attempt(row, "sent")
        tally = self.do(self.ledger.tally())
        assert (tally.waiting, tally.running, tally.suspended) == (0, 0, 0)
        assert set(tally.outbox) <= {"sent"}
        for chunk in (one for out in self.out for one in out):
            assert 1 <= chunk.shown <= 1 + chunk.doubts
        assert all(count == 1 for count in self.effects.values() if count)


TestLedger = LedgerMachine.TestCase
TestLedger.settings = settings(
    max_examples=examples(70),
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # steps are short as they are; shrinking them takes minutes of fsync
)


class PostgresMachine(LedgerMachine):
    """The same on a real PostgreSQL."""

    async def open(self) -> Ledger:
        engines.Current.engine = engines.POSTGRES
        return await super().open()

    def teardown(self) -> None:
        super().teardown()
        engines.drop(self.path)


class TestPostgresLedger(PostgresMachine.TestCase):
    pytestmark = [pytest.mark.postgres, pytest.mark.long]  # noqa: RUF012 - pytest wants a list
    settings = settings(TestLedger.settings, max_examples=examples(30))
