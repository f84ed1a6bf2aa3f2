"""What is going on in the house when it is killed, and how it is judged afterwards."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import UTC
from typing import TYPE_CHECKING, Any

import apsw

from agent.messages import AssistantMessage, ToolMessage, UserMessage
from agent.transcript import history_view
from agent.transcript.entries import Compacted, Entry, InvalidEntry, Said, Unanswered, decode
from channels.messages import MARKS
from gateway.base.clock import SystemClock
from gateway.sessions.store import sessions_in
from tests.fire.acting import (
    call_hooks,
    each_once,
    each_once_of_many,
    heartbeat_was_given_up,
    jobs_and_hooks,
    resume_and_call,
    what_repeats,
)
from tests.fire.model import DEEDS
from tests.fire.platforms import Document
from tests.fire.world import STATE

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from tests.fire.world import World

NEVER = ("nobody", 1)
FACTS = [f"fact-{name}" for name in ("iris", "juno", "kite", "lark")]
_TROUBLE = ("⚠️ ", *(f"{mark}⚠️ " for mark in MARKS))
_HOUSE = (*_TROUBLE, "💾 ", *(f"{mark}💾 " for mark in MARKS))
"""How the house begins what it says of itself."""
_GIVEN_UP = "I was interrupted "
"""Said of messages that were given up, with their words."""
_PAUSED = "go on by myself"
"""Said of the house as a whole when the disk refuses: no message is answered by it."""
_OF_QUESTIONS = ("🔐 ", "✅ Approved #", "⛔ Denied #", "#")
"""How a question begins, and what is said of the person's answer to it."""
_NOT_ANSWERS = ("(I was restarted and went on.)", "…")


@dataclass
class Verdict:
    """What an outsider finds wrong (``problems``, by kind), and what is untidy but honest."""

    problems: Counter[str] = field(default_factory=Counter)
    told: list[str] = field(default_factory=list)
    marked: int = 0
    strays: int = 0
    unknown: int = 0
    given_up: int = 0

    def wrong(self, kind: str, what: str) -> None:
        self.problems[kind] += 1
        self.told.append(f"{kind}: {what}")


@dataclass(frozen=True)
class Scenario:
    """``youth`` is said beforehand, once, to a house that nobody kills; ``says`` is what the kills fall upon.

    ``platform`` is one of ``PLATFORMS``.
    What is in ``meanwhile`` too is not said at the beginning, but when a peer is asked, such as the model for the second time; what
    waits for ``NEVER`` is said when all else is over. ``files`` come with what is said. ``corrections`` are no messages, but what an
    earlier one (their value) was changed to; ``besides`` are answers that may be given too, once. ``decides`` is what the person answers
    to each question about ``changes``, which are deeds that need an approval. ``prepare`` adds jobs and hooks, ``caller`` calls the hooks
    with ``posts``; ``acts`` are answers by what they come from that no person asks for, in any order.
    """

    name: str
    says: tuple[str, ...]
    answers: tuple[str, ...]
    platform: str = "telegram"
    deeds: tuple[str, ...] = ()
    youth: tuple[str, ...] = ()
    settings: dict[str, Any] = field(default_factory=dict)
    meanwhile: dict[str, tuple[str, int]] = field(default_factory=dict)
    files: dict[str, Document] = field(default_factory=dict)
    corrections: dict[str, str] = field(default_factory=dict)
    besides: tuple[str, ...] = ()
    decides: str = ""
    changes: tuple[str, ...] = ()
    also: Callable[[World, Verdict], Awaitable[None]] | None = None
    prepare: Callable[[Path], Awaitable[None]] | None = None
    posts: dict[str, dict[str, str]] = field(default_factory=dict)
    caller: Callable[[World], Awaitable[None]] | None = None
    acts: dict[str, str] = field(default_factory=dict)


async def judge(scenario: Scenario, world: World, *, refused: bool = False) -> Verdict:
    """Look at what the person saw, at what was done, and at what is kept. No house may be running.

    With ``refused`` (a disk that failed for a while) a message may also be answered by being told so.
    """
    verdict = Verdict()
    if refused:
        scenario = _without_told_failures(scenario, world)
    scenario = _without_given_up(scenario, world, verdict)
    scenario = _without_acts_given_up(scenario, world, verdict)
    _judge_answers(scenario, world, verdict)
    entries = _judge_transcripts(world, verdict)
    _judge_deeds(scenario, world, entries, verdict)
    _judge_changes(scenario, world, entries, verdict)
    _judge_ledger(world.root / STATE / "ledger.sqlite", verdict)
    withdrawn = {one for entry in entries if isinstance(entry.body, Unanswered) for one in entry.body.withdrawn}
    for text in (*scenario.says, *(scenario.corrections if not refused else ())):
        heard = sum(isinstance(m := _message(e), UserMessage) and text in m.text for e in entries if e.id not in withdrawn)
        fine = {0, 1} if text in scenario.corrections.values() else {1}
        if heard not in fine and not text.startswith("/"):
            verdict.wrong("transcript", f"{text!r} is in it {heard} times")
    if scenario.also is not None and not refused:
        await scenario.also(world, verdict)
    return verdict


def _without_told_failures(scenario: Scenario, world: World) -> Scenario:
    """Leave out messages without an answer, as many as the person was told a failure of; one may speak of several answered together."""
    told = sum(text.startswith(_TROUBLE) and _PAUSED not in text for text in world.said())
    kept = []
    for index, answer in enumerate(scenario.answers):
        if not any(answer in text for text in world.said()) and told:
            told -= "queue" not in scenario.settings
        else:
            kept.append(index)

    def of(values: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(values[index] for index in kept if index < len(values))

    left_out = set(scenario.answers) - set(of(scenario.answers))
    deeds = tuple(deed for deed in scenario.deeds if not any(deed in answer for answer in left_out))
    return replace(scenario, says=of(scenario.says), answers=of(scenario.answers), deeds=deeds)


def _without_given_up(scenario: Scenario, world: World, verdict: Verdict) -> Scenario:
    """Leave out messages that their person was told are given up. Their deeds may be done or not; none may be answered as well."""
    told = [text for text in world.said() if _GIVEN_UP in text]
    named = {index for index, text in enumerate(scenario.says) if any(f"“{text[:40]}" in one for one in told)}
    for index in named & set(range(len(scenario.answers))):
        if any(scenario.answers[index] in text for text in world.said() if text not in told):
            verdict.wrong("given up", f"{scenario.says[index]!r} was given up and answered")
    deeds = tuple(deed for deed in scenario.deeds if not any(deed in scenario.says[index] for index in named))
    changes = tuple(change for change in scenario.changes if not any(change in scenario.says[index] for index in named))
    for change in set(scenario.changes) - set(changes):
        if world.changes().count(change) > 1:
            verdict.wrong("effect twice", change)
    for deed in set(scenario.deeds) - set(deeds):
        if world.deeds().count(deed) > 1:
            verdict.wrong("effect twice", deed)
    verdict.given_up += len(named)
    kept = [index for index in range(len(scenario.says)) if index not in named]
    answers = tuple(answer for index, answer in enumerate(scenario.answers) if index not in named)
    return replace(scenario, says=tuple(scenario.says[index] for index in kept), answers=answers, deeds=deeds, changes=changes)


def _without_acts_given_up(scenario: Scenario, world: World, verdict: Verdict) -> Scenario:
    """Leave out what comes of jobs, hooks and sub-agents that are given up, or whose asker was. Their deeds may be done or not."""
    if not scenario.acts:
        return scenario
    told = [text for text in world.said() if _GIVEN_UP in text]
    entries = [decode(line) for path in world.transcripts() for line in path.read_bytes().splitlines()]
    told += [
        m.text for entry in entries if isinstance(m := _message(entry), UserMessage) and m.automation and _GIVEN_UP in m.text
    ]
    over = {what for what in scenario.acts if any(what.rpartition(" ")[2] in one for one in told)}
    if "job “heartbeat”" in scenario.acts and heartbeat_was_given_up(world):  # its failures are not told
        over.add("job “heartbeat”")
    verdict.given_up += len(over)
    deeds = tuple(deed for deed in scenario.deeds if not any(deed in one for one in told))
    for deed in set(scenario.deeds) - set(deeds):
        if world.deeds().count(deed) > 1:
            verdict.wrong("effect twice", deed)
    acts = {what: answer for what, answer in scenario.acts.items() if what not in over}
    besides = (*scenario.besides, *(scenario.acts[what] for what in over))
    return replace(scenario, acts=acts, besides=besides, deeds=deeds)


def unmarked(text: str) -> str:
    """Return a text without the mark of a repeated one."""
    return next((text.removeprefix(mark) for mark in MARKS if text.startswith(mark)), text)


def _judge_answers(scenario: Scenario, world: World, verdict: Verdict) -> None:
    said = [text for text in world.said() if unmarked(text) not in _NOT_ANSWERS and not text.startswith(_HOUSE)]
    if scenario.decides:
        _judge_questions(said, verdict)
        said = [text for text in said if not unmarked(text).startswith(_OF_QUESTIONS)]
    verdict.strays = world.said().count("…")
    for answer in (*scenario.answers, *scenario.acts.values(), *scenario.besides):
        plain = [text for text in said if answer in text and unmarked(text) == text]
        marked = [text for text in said if answer in text and unmarked(text) != text]
        verdict.marked += len(marked)
        if not plain and not marked and answer not in scenario.besides:
            verdict.wrong("lost", f"{answer!r} was never said: {world.said()}")
        if len(plain) > 1 or len(marked) > 2:
            verdict.wrong("doubled", f"{answer!r}: {plain + marked}")
    for text in said:
        if not any(answer in text for answer in (*scenario.answers, *scenario.acts.values(), *scenario.besides)):
            verdict.wrong("strange", repr(text))
    firsts = [next((i for i, text in enumerate(said) if answer in text), -1) for answer in scenario.answers]
    if firsts != sorted(firsts) and not scenario.decides:
        verdict.wrong("order", repr(said))


def _judge_deeds(scenario: Scenario, world: World, entries: list[Entry], verdict: Verdict) -> None:
    """Each deed is done once, or at most once where the house says itself that it does not know."""
    done = Counter(world.deeds())
    results = [message for entry in entries if isinstance(message := _message(entry), ToolMessage)]
    for deed in scenario.deeds:
        unknown = any(deed in result.call_id and history_view.UNKNOWN_OUTCOME in result.text for result in results)
        verdict.unknown += unknown
        if done[deed] > 1:
            verdict.wrong("effect twice", deed)
        if done[deed] == 0 and not unknown:
            told = [f"{result.call_id}: {result.text}" for result in results if deed in result.call_id]
            verdict.wrong("effect lost", f"{deed}; its tools answered {told}, and {DEEDS} has {world.deeds()}")


def _judge_questions(said: list[str], verdict: Verdict) -> None:
    """Each question is asked once, or once more where it says itself that it may be a repeat."""
    asked = Counter(name for text in said if unmarked(text) == text for name in re.findall(r"/approve (\S+) once", text))
    for name, count in asked.items():
        if count > 1:
            verdict.wrong("doubled", f"#{name} was asked {count} times")


def _judge_changes(scenario: Scenario, world: World, entries: list[Entry], verdict: Verdict) -> None:
    """Each change is made once, and only after its yes; at most once where the house says itself that it does not know."""
    done, made = Counter(world.changes()), len(world.changes())
    if scenario.decides != "once" and made:
        verdict.wrong("without a yes", f"{world.changes()} in spite of every no")
    if made > len(world.asked) or any(before > number for number, before in enumerate(world.asked.values())):
        verdict.wrong("without a yes", f"{world.changes()}, and only these were asked: {world.asked}")
    told = [m.text for entry in entries if isinstance(m := _message(entry), UserMessage) and m.runtime]
    verdict.unknown += (unknown := sum(history_view.UNKNOWN_OUTCOME in text for text in told))
    for change in scenario.changes:
        if done[change] > 1:
            verdict.wrong("effect twice", change)
        if done[change] == 0 and scenario.decides == "once" and not unknown:
            verdict.wrong("approval lost", f"{change} was not made; {told}")


def _judge_transcripts(world: World, verdict: Verdict) -> list[Entry]:
    everything: list[Entry] = []
    for path in world.transcripts():
        entries = []
        for line in path.read_bytes().splitlines():
            try:
                entries.append(decode(line))
            except InvalidEntry as torn:
                verdict.wrong("transcript", f"{path.name}: {torn}")
        doubled = [one for one, count in Counter(entry.id for entry in entries).items() if count > 1]
        if doubled:
            verdict.wrong("transcript", f"{path.name}: written twice: {doubled}")
        judge_view(history_view.view(entries, UTC), verdict)
        everything += entries
    return everything


def judge_view(view: tuple[Any, ...], verdict: Verdict) -> None:
    """What a model is shown pairs every call with one result, directly behind it."""
    open_calls: list[str] = []
    for message in view:
        if isinstance(message, ToolMessage):
            if message.call_id not in open_calls:
                verdict.wrong("transcript", f"a result without its call: {message.call_id}")
            else:
                open_calls.remove(message.call_id)
        elif open_calls:
            verdict.wrong("transcript", f"calls without results: {open_calls}")
            open_calls = []
        if isinstance(message, AssistantMessage):
            open_calls = [call.id for call in message.calls]


def _judge_ledger(path: Path, verdict: Verdict) -> None:
    db = apsw.Connection(str(path))
    try:
        if db.pragma("integrity_check") != "ok" or db.execute("PRAGMA foreign_key_check").fetchall():
            verdict.wrong("ledger", "it is damaged")
        left = db.execute(
            "SELECT (SELECT count(*) FROM inbox WHERE state IN ('waiting', 'claimed')), "
            "(SELECT count(*) FROM turn WHERE state IN ('running', 'suspended')), (SELECT count(*) FROM outbox WHERE state <> 'sent'), "
            "(SELECT count(*) FROM approval WHERE state = 'pending')"
        ).fetchone()
        if left != (0, 0, 0, 0):
            verdict.wrong("ledger", f"left over (messages, turns, replies, questions): {left}")
    finally:
        db.close()


def _message(entry: Entry) -> Any:
    return entry.body.message if isinstance(entry.body, Said) else None


def _facts_are_noted(world: World, verdict: Verdict) -> None:
    """The flush's facts are in the day's note: once by the model, or once more by rule where a kill left its flush open."""
    notes = world.notes()
    for fact in FACTS:
        count = len(re.findall(rf"\b{fact}\b", notes))
        if count == 0:
            verdict.wrong("memory lost", fact)
        if count > 2:
            verdict.wrong("memory doubled", f"{fact} {count} times")


async def _was_compacted(world: World, verdict: Verdict) -> None:
    """History was summarised once, unless the message that needed the room was given up before."""
    _facts_are_noted(world, verdict)
    entries = [decode(line) for path in world.transcripts() for line in path.read_bytes().splitlines()]
    compactions = sum(isinstance(entry.body, Compacted) for entry in entries)
    if compactions != 1 and not (compactions == 0 and any(_GIVEN_UP in said for said in world.said())):
        verdict.wrong("compaction", f"there are {compactions} and not exactly one")


async def _former_is_kept(world: World, verdict: Verdict) -> None:
    _facts_are_noted(world, verdict)
    if len(world.farewells()) != 1:
        verdict.wrong("session memory", f"{len(world.farewells())} files about the end of one session")
    store = sessions_in(world.root / "state/agents/main/sessions", SystemClock())
    await store.load()
    former = store.transcript(store.all()[0].former or "none")
    if not former.exists() or FACTS[0].encode() not in b"".join(former.lines()):
        verdict.wrong("former session", "/undo would not bring it back")


async def _file_is_kept(world: World, verdict: Verdict) -> None:
    """Each file is kept once, whole, and under the name that the model was told, unless its message was given up before that."""
    entries = [decode(line) for path in world.transcripts() for line in path.read_bytes().splitlines()]
    told = [m.text for entry in entries if isinstance(m := _message(entry), UserMessage)]
    for text, file in world.files.items():
        kept = [path for path in world.received() if path.name.endswith(file.name)]
        if [path.read_bytes() for path in kept] != [file.content]:
            verdict.wrong("file", f"{file.name} is kept as {[(path.name, path.stat().st_size) for path in kept]}")
        elif any(_GIVEN_UP in one and f"“{text[:40]}" in one for one in world.said()):
            continue
        elif not any(text in one and kept[0].name in one for one in told):
            verdict.wrong("file", f"the model was not told of {kept[0].name}")


_LONG = "word " * 2600  # about 2,600 tokens, by the model's way of counting 3,250
_YOUTH = tuple(f"remember {fact} {_LONG} {fact[5:]}" for fact in FACTS)
_SHORT_YOUTH = tuple(f"remember {fact} {fact[5:]}" for fact in FACTS)
_DO_AND_TELL: dict[str, Any] = {
    "says": ("please do alpha", "tell me plum", "please do beta"),
    "answers": ("done alpha", "heard plum", "done beta"),
    "deeds": ("alpha", "beta"),
    "meanwhile": {"tell me plum": ("model", 1), "please do beta": ("model", 2)},
}
_PHOTO = Document("jpg", b"\xff\xd8\xff\xe0 of a garden" + bytes(20_000), "image/jpeg")
_VOICE = Document("ogg", b"OggS" + bytes(range(256)) * 60, "audio/ogg")
"""Telegram gives photos and voice messages no names: theirs are how the kept files end."""
_LETTER = Document("letter.txt", b"tell me quince\n" + b"and all the best to everybody at home\n" * 4000)
"""It is quoted to the model from its beginning on, which so answers it too."""

WIDELY = (
    Scenario("one message", says=("tell me apple",), answers=("heard apple",)),
    Scenario(
        "three with effects",
        says=("please do alpha", "please do beta", "please do gamma"),
        answers=("done alpha", "done beta", "done gamma"),
        deeds=("alpha", "beta", "gamma"),
    ),
    Scenario("steered", **_DO_AND_TELL, settings={"queue": {"mode": "steer"}}),
    Scenario(
        "reset",
        youth=_SHORT_YOUTH,
        says=("/new", "tell me plum"),
        answers=("New conversation", "heard plum"),
        also=_former_is_kept,
    ),
    Scenario(
        "a file",
        says=("look at this and tell me apple", "please do alpha"),
        answers=("heard apple\nheard quince", "done alpha"),
        deeds=("alpha",),
        files={"look at this and tell me apple": _LETTER},
        also=_file_is_kept,
    ),
    Scenario(
        "changed before the answer",
        says=("tell me apple", "tell me plum", "tell me fig"),
        answers=("heard apple", "heard peach", "heard fig"),
        besides=("heard plum",),
        meanwhile={"tell me plum": ("model", 1), "tell me peach": ("model", 1), "tell me fig": NEVER},
        corrections={"tell me peach": "tell me plum"},
    ),
)
"""What is tried on each platform. A change that comes too late to be answered itself is told with the next message, the last one."""

_ELSEWHERE = {
    "Slack": "slack",
    "webhook": "telegram webhook",
    "Discord": "discord",
    "Matrix": "matrix",
    "WhatsApp": "whatsapp",
    "WhatsApp without reports": "whatsapp without reports",
}
"""Discord tells nothing of what was said before a house knew somebody, and of nothing twice."""

_ASKED: dict[str, Any] = {
    "says": ("please change alpha", "tell me plum", "please change beta"),
    "changes": ("alpha", "beta"),
}
_RUN: dict[str, Any] = {"says": ("please run alpha", "tell me plum", "please run beta"), "changes": ("alpha", "beta")}

SCENARIOS = {
    scenario.name: scenario
    for scenario in (
        *(replace(one, youth=_YOUTH) if one.name == "reset" else one for one in WIDELY),
        *(
            replace(one, name=f"{one.name} by {name}", platform=platform)
            for name, platform in _ELSEWHERE.items()
            for one in WIDELY
        ),
        *(
            replace(one, name=f"{one.name} by {name}", platform=platform)
            for name, platform in (("mail", "email"), ("mail without copies", "email without copies"))
            for one in WIDELY
            if not one.corrections  # a mail cannot be changed
        ),
        Scenario(
            "a photo and a voice message",
            says=("look at this and tell me apple", "listen and tell me plum", "please do alpha"),
            answers=("heard apple", "heard plum", "done alpha"),
            deeds=("alpha",),
            files={"look at this and tell me apple": _PHOTO, "listen and tell me plum": _VOICE},
            also=_file_is_kept,
        ),
        Scenario("answered together", **_DO_AND_TELL, settings={"queue": {"mode": "collect"}}),
        Scenario("asked and approved", **_ASKED, answers=("done alpha", "heard plum", "done beta"), decides="once"),
        Scenario("asked to run", **_RUN, answers=("done alpha", "heard plum", "done beta"), decides="once"),
        Scenario("asked and denied", **_ASKED, answers=("denied alpha", "heard plum", "denied beta"), decides="deny"),
        Scenario(
            "by itself",
            youth=("tell me nut",),
            says=("please spawn cedar", "tell me plum"),
            answers=("spawned cedar", "heard plum"),
            besides=("heard nut",),
            deeds=("alpha", "cedar"),
            prepare=jobs_and_hooks,
            posts={"quince": {"said": "tell me quince"}, "pear": {"said": "the pear is ripe"}},
            caller=call_hooks,
            acts={
                "job “alpha”": "done alpha",
                "job “fig”": "heard fig",
                "job “plants”": "water the plants",
                "webhook “quince”": "heard quince",
                "webhook “pear”": "the pear is ripe",
                "sub-agent “cedar”": "heard from cedar",
            },
            also=each_once,
        ),
        Scenario(
            "again and again",
            youth=("tell me nut",),
            says=("tell me plum",),
            answers=("heard plum",),
            besides=("heard nut",),
            deeds=("gamma",),
            settings={"agent": {"heartbeat": {"every": "1h", "prompt": "Go through this."}}},
            prepare=what_repeats,
            posts={"damson": {"said": "the damson is ripe"}, "quince": {"said": "tell me quince"}},
            caller=resume_and_call,
            acts={
                "job “gamma”": "done gamma",
                "job “cat”": "feed the cat",
                "job “heartbeat”": "heard hop",
                "job “first”": "the first that was held",
                "job “second”": "the second that was held",
                "webhook “damson”": "the damson is ripe",
                "webhook “quince”": "heard quince",
            },
            also=each_once_of_many,
        ),
        Scenario(
            "flush and compaction",
            youth=_YOUTH,
            says=(f"go on with pear {_LONG} pear",),
            answers=("heard pear",),
            settings={"window": 22_000, "agent": {"compaction": {"keepRecentTokens": 4000}}},
            also=_was_compacted,
        ),
    )
}
