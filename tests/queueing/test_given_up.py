"""Crashes, one after the other: each message is answered or named as given up, and only one that was there at every attempt is given up.

A crash is a copy of the state, taken while the model is asked; the next house opens the copy.
"""

from __future__ import annotations

import asyncio
import re
import shutil
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent.messages import Text, ToolCall, UserMessage
from agent.models.scripted import Stall
from agent.transcript.history_view import UNANSWERED
from gateway.turns.interrupted import FRESH, MAX_ATTEMPTS
from tests.peers.wire import picture
from tests.properties import examples
from tests.queueing.conftest import Town

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agent.models.protocol import Request
    from gateway.app.gateway import Gateway
    from gateway.queue.lanes import Ticket

WORD = re.compile(r"w\d+;")
INTERRUPTED = "interrupted by a newer message"
"""Why the ledger says that a message is done which a newer one took the turn from; the answer to that one has both in sight."""


def open_words(request: Request) -> list[str]:
    """What the model finds unanswered: the words of people since its last answer, but for those that it is told to leave."""
    found: list[str] = []
    for message in request.messages:
        if message.role == "assistant" and not message.calls:
            found = []
        elif isinstance(message, UserMessage):
            text = "\n".join(part.text for part in message.content if isinstance(part, Text))
            if text.startswith(UNANSWERED):
                found = [word for word in found if word not in text]
            else:
                found += WORD.findall(text)
    return found


class Crashing:
    """Opens a house on one folder after the other, each a copy of the one before it as it was in the midst of a turn."""

    def __init__(self, root: Path, mode: str) -> None:
        self.root = root
        self.mode = mode
        self.lives = 0
        self.town = Town(root / "life-0", {"messages": {"queue": {"mode": mode}}})
        self.heard: list[str] = []
        self.requests: list[Request] = []
        self.told = asyncio.Event()
        self.house: Gateway | None = None
        self.hanging: Ticket[Any] | None = None
        self.tool_next = True
        self.crashing = True
        self.tools = 0
        self.town.answer = self.answer

    def answer(self, request: Request) -> Any:
        """Answer all that is open; where a crash is to come, use a tool once all is said (so that what is steered gets in), then hang."""
        self.requests.append(request)
        if not self.crashing:
            return "re: " + " ".join(open_words(request))
        if self.tool_next:
            self.tool_next = False
            self.tools += 1
            return [Stall(self.told), ToolCall(id=f"c{self.tools}", name="list", arguments={})]
        assert self.house is not None
        (self.hanging,) = self.house.lanes.running()
        return [Stall()]

    async def crash(self, *said: str, tool: bool = True, **more: Any) -> None:
        """Begin a life, have something said in it, and crash once the model hangs; without any turn it ends by itself."""
        wire = self.town.wire()
        self.told, self.hanging, self.tool_next = asyncio.Event(), None, tool
        async with self.town.house(wire) as self.house:
            house = self.house
            for text in said:
                await wire.say(text, **more)
            self.told.set()
            while not self._hangs() and (house.lanes.running() or any(map(house.lanes.queued, house.lanes.sessions()))):  # noqa: ASYNC110
                await asyncio.sleep(0.001)
            await self._delivered(house)
            self.lives += 1
            fresh = self.root / f"life-{self.lives}"
            shutil.copytree(self.town.root, fresh, ignore=shutil.ignore_patterns("*.half"))  # what is being written may vanish
            await house.lanes.drain(0)
        self.heard += wire.said()
        self.town.root = fresh

    def _hangs(self) -> bool:
        """Say whether the turn that runs hangs; one that ends for a newer message is about to make room for another."""
        assert self.house is not None
        return self.hanging is not None and self.hanging.ending is None and self.hanging in self.house.lanes.running()

    async def rest(self, *said: str) -> None:
        """Live once more, without a crash."""
        self.crashing = False
        wire = self.town.wire()
        async with self.town.house(wire) as house:
            for text in said:
                await wire.say(text)
            await house.lanes.quiet()
            await self._delivered(house)
            self.rows = await house.ledger.inbox.latest(["waiting", "claimed", "answered", "ignored", "failed"], limit=1000)
        self.heard += wire.said()

    async def _delivered(self, house: Any) -> None:
        while set((await house.ledger.tally()).outbox) & {"ready", "sending"}:  # noqa: ASYNC110
            await asyncio.sleep(0.001)

    def notices(self) -> list[str]:
        return [text for text in self.heard if "interrupted" in text]

    def answered(self) -> Counter[str]:
        return Counter(word for text in self.heard if text.startswith("re: ") for word in WORD.findall(text))

    def worked_on(self, word: str) -> bool:
        """Say whether a tool was used behind a message, in a turn that it was steered into or took over from another."""
        for request in self.requests:
            said = [index for index, one in enumerate(request.messages) if isinstance(one, UserMessage) and word in one.text]
            if said and any(one.role == "assistant" and one.calls for one in request.messages[said[0] :]):
                return self.mode in {"steer", "interrupt"}
        return False

    def shown(self, word: str) -> int:
        """How often the last request shows a word, but for notes."""
        texts = [
            "\n".join(part.text for part in m.content if isinstance(part, Text))
            for m in self.requests[-1].messages
            if isinstance(m, UserMessage)
        ]
        return sum(text.count(word) for text in texts if not text.startswith(UNANSWERED))


def notes_of_the_day(root: Path) -> str:
    return "".join(note.read_text() for note in root.rglob("2026-03-01.md"))


async def test_all_messages_of_a_turn_that_is_given_up_are_named(tmp_path: Path) -> None:
    lives = Crashing(tmp_path, "collect")
    for life in range(2 * MAX_ATTEMPTS):
        await lives.crash(*(["w0; the first", "w1; the second", "w2; the third"] if not life else []))
    await lives.rest("w9; and now?")
    named = [word for told in lives.notices() for word in WORD.findall(told)]
    assert named == ["w0;", "w1;", "w2;"], "of one turn, or of two where the first began before the others came"
    assert lives.answered() == Counter({"w9;": 1})


async def test_one_that_was_let_in_at_the_last_attempt_is_answered_by_itself(tmp_path: Path) -> None:
    lives = Crashing(tmp_path, "steer")
    for life in range(MAX_ATTEMPTS):
        await lives.crash(*(["w0; the first"] if not life else ["w1; let in"] if life == MAX_ATTEMPTS - 1 else []))
    await lives.rest("w9; and now?")
    (told,) = lives.notices()
    assert WORD.findall(told) == ["w0;"]
    assert lives.answered() == Counter({"w1;": 1, "w9;": 1})
    assert [lives.shown(word) for word in ("w0;", "w1;", "w9;")] == [1, 1, 1]


async def test_the_model_is_told_what_was_given_up(tmp_path: Path) -> None:
    lives = Crashing(tmp_path, "collect")
    for life in range(MAX_ATTEMPTS):
        await lives.crash(*(["w0; send the letter"] if not life else []))
    await lives.rest("w9; hello")
    note = next(m for m in lives.requests[-1].messages if isinstance(m, UserMessage) and m.text.startswith(UNANSWERED))
    assert "w0; send the letter" in note.text
    assert "do nothing that they ask for" in note.text
    assert lives.answered() == Counter({"w9;": 1})


async def test_what_was_said_in_a_message_that_was_given_up_before_any_answer_is_noted_when_the_conversation_ends(
    tmp_path: Path,
) -> None:
    lives = Crashing(tmp_path, "collect")
    for life in range(MAX_ATTEMPTS):
        promise = (
            "w0; I promise to call Kwcgtvo on Monday.\nDie Werkstatt hat die Nummer 4711. " + "And so on, and so on. " * 10
        )
        await lives.crash(*([promise] if not life else []), tool=False)
    await lives.rest("w9; hello", "/new")
    assert lives.shown("w0; I promise to call Kwcgtvo on Monday.\n") == 1, "as it was said, beside the note"
    assert lives.answered() == Counter({"w9;": 1})
    noted = notes_of_the_day(tmp_path)
    assert "I promise to call Kwcgtvo on Monday." in noted
    assert "Die Werkstatt hat die Nummer 4711." in noted


async def test_a_turn_of_long_ago_names_all_its_messages_and_lets_go_of_the_fresh_ones(tmp_path: Path) -> None:
    lives = Crashing(tmp_path, "steer")
    await lives.crash("w0; the first", "w1; let in")
    lives.town.clock.move(FRESH.total_seconds() - 60)
    await lives.crash("w2; let in later")
    lives.town.clock.move(120)
    await lives.rest()
    (told,) = lives.notices()
    assert "say “go on”" in told.replace("Say", "say")
    assert WORD.findall(told) == ["w0;", "w1;"]
    assert lives.answered() == Counter({"w2;": 1})


async def test_a_message_of_files_alone_is_named_by_them(tmp_path: Path) -> None:
    lives = Crashing(tmp_path, "collect")
    for life in range(MAX_ATTEMPTS):
        await lives.crash(*([""] if not life else []), attachments=(picture(),))
    await lives.rest()
    (told,) = lives.notices()
    assert "“1.png”" in told


@settings(max_examples=examples(12), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    lives=st.lists(st.integers(0, 3), min_size=3, max_size=7),
    mode=st.sampled_from(["collect", "steer", "followup", "interrupt"]),
)
def test_each_message_is_answered_or_named_and_none_without_all_its_attempts(lives: list[int], mode: str) -> None:
    asyncio.run(_lived(lives, mode))


async def _lived(said: Sequence[int], mode: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        lives = Crashing(Path(folder), mode)
        count = 0
        for more in said:
            await lives.crash(*(f"w{number}; something" for number in range(count, count + more)))
            count += more
        await lives.rest(f"w{count}; the last")
        named = Counter(word for told in lives.notices() for word in WORD.findall(told))
        answered = lives.answered()
        by_word = {WORD.search(row.payload)[0]: row for row in lives.rows}
        assert {row.state for row in lives.rows} <= {"answered", "failed"}, [row.state for row in lives.rows]
        assert by_word.keys() == {f"w{number};" for number in range(count + 1)}
        for word, row in by_word.items():
            if row.reason == INTERRUPTED:
                assert mode == "interrupt"
                assert word != f"w{count};", "there is a newer one that it made room for"
                assert (named[word] + answered[word], lives.shown(word)) == (0, 1), (word, lives.heard)
                continue
            assert named[word] + answered[word] == 1, (word, row.state, row.reason, lives.heard)
            if named[word] and not lives.worked_on(word):  # in a turn of its own that would be done again
                assert row.attempts >= MAX_ATTEMPTS, (word, row.attempts)
        assert all(lives.shown(word) <= 1 for word in by_word), "no request shows a message twice"
