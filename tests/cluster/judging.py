"""What became of everything that was said and planned: answered once and in order, done at most once, held by one gateway at a time."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import re
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from agent.transcript.history_view import UNKNOWN_OUTCOME
from channels.messages import MARKS

if TYPE_CHECKING:
    from tests.cluster.playing import Cluster

_ANSWER = re.compile(r"(?:heard|done|could not do) (\w+)")
_REMINDER = re.compile(r"tell me (r\w+)")
_GIVEN_UP = "I was interrupted"
_LATE = 0.3
"""A tick of the watch that comes later than this by itself says that the machine is too busy to measure: it is added to the bar."""


@dataclass
class Found:
    """What was seen, and what is wrong."""

    kinds: Counter[str] = field(default_factory=Counter)
    said: int = 0
    deeds: int = 0
    jobs: int = 0
    lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    out_of_order: list[str] = field(default_factory=list)
    effects_twice: list[str] = field(default_factory=list)
    effects_lost: list[str] = field(default_factory=list)
    fired_twice: list[str] = field(default_factory=list)
    not_fired: list[str] = field(default_factory=list)
    fences_back: list[str] = field(default_factory=list)
    too_slow: list[str] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)
    slowest: float = 0.0
    """Longest time in which a token had no holder although an undisturbed gateway was there."""
    late: float = 0.0
    """How late this program itself came at most."""
    marked: int = 0
    unknown: int = 0
    given_up: int = 0

    def wrong(self, *, timed: bool = True) -> dict[str, list[str]]:
        """Return what is wrong, by kind; without ``timed`` nothing that a busy machine can cause."""
        found = {name: value for name, value in vars(self).items() if isinstance(value, list) and value}
        return {name: value for name, value in found.items() if timed or name != "too_slow"}


class Watch:
    """Looks at leases in the database: fences only grow, and no token is without a live holder for long."""

    def __init__(self, cluster: Cluster[Any], found: Found) -> None:
        self._cluster, self._found = cluster, found
        self.disturbed: set[str] = set()
        """Gateways (by label) that are dead, stopped or cut off at the moment."""
        self.holders: dict[str, str] = {}
        self.members: set[str] = set()
        """Gateways (by label) that work at the moment."""
        self._dead: set[str] = set()
        self._alive: set[str] = set()
        self._fences: dict[str, int] = {}
        self._free: dict[str, float] = {}
        self._excused = 0.0

    def begin(self, label: str) -> None:
        """A gateway is out of order from now on."""
        self.disturbed.add(label)

    def end(self, label: str, *, gone: bool) -> None:
        """It may work again; ``gone``: the process that did is not there any more."""
        if gone:
            self._dead |= {name for name in self._alive if name.partition(".")[0] == label}
        self.disturbed.discard(label)

    async def run(self) -> None:
        import psycopg

        connection: Any = None
        expected = time.monotonic()
        while True:
            try:
                await asyncio.sleep(max(0.0, expected - time.monotonic()))
            except asyncio.CancelledError:
                await _close(connection)
                raise
            late = time.monotonic() - expected
            self._found.late = max(self._found.late, late)
            self._excused = late if late > _LATE else self._excused * 0.98
            expected = time.monotonic() + 0.2
            try:
                if connection is None:
                    connection = await psycopg.AsyncConnection.connect(
                        self._cluster.url, autocommit=True, options="-c search_path=homebody", connect_timeout=2
                    )
                tokens = await (await connection.execute(_TOKENS)).fetchall()
                members = await (await connection.execute(_MEMBERS)).fetchall()
            except psycopg.Error:
                await _close(connection)
                connection = None
                self._free.clear()  # nobody can take anything
                continue
            except asyncio.CancelledError:
                await _close(connection)
                raise
            self._look(tokens, {name for (name,) in members})

    def _look(self, tokens: list[Any], members: set[str]) -> None:
        now = time.monotonic()
        self._alive = members
        able = {name for name in members if name.partition(".")[0] not in self.disturbed and name not in self._dead}
        self.members = {name.partition(".")[0] for name in able}
        for token, fence, holder, held in tokens:
            if fence < self._fences.get(token, 0):
                self._found.fences_back.append(f"{token}: {self._fences[token]} -> {fence}")
            self._fences[token] = fence
            self.holders[token] = holder.partition(".")[0] if held else ""
            if not able or (held and holder in able):
                self._free.pop(token, None)
                continue
            since = now - self._free.setdefault(token, now)
            self._found.slowest = max(self._found.slowest, since)
            if since > 2 * self._cluster.lease + self._excused:
                self._found.too_slow.append(f"{token}: {since:.1f} s at load {_load():.0f}")
                self._free[token] = now


async def _close(connection: Any) -> None:
    import psycopg

    if connection is not None:
        with contextlib.suppress(psycopg.Error):
            await connection.close()


_TOKENS = (
    "SELECT t.token, t.fence, coalesce(h.gateway, ''), t.vt > clock_timestamp() "
    "FROM cluster_token t LEFT JOIN cluster_holder h USING (token)"
)
_MEMBERS = "SELECT name FROM cluster_gateway WHERE until > clock_timestamp() AND NOT leaving"


def _load() -> float:
    with open("/proc/loadavg") as file:  # noqa: PTH123
        return float(file.read().split()[0])


def is_marked(text: str) -> bool:
    """Whether a message says that it may be a repeat."""
    return text.startswith(tuple(one.strip() for one in MARKS))


def answered(cluster: Cluster[Any], name: str) -> list[str]:
    """Return the words that were answered, each as often as it was, in order."""
    return [word for text in cluster.shown(name) for word in _ANSWER.findall(text) if word.startswith(name)]


def all_answered(cluster: Cluster[Any], upto: dict[str, int] | None = None) -> bool:
    """Whether everything (or the first so many of each agent) was answered."""
    for name, spoken in cluster.spoken.items():
        words = spoken.words if upto is None else spoken.words[: upto[name]]
        if not set(words) <= set(answered(cluster, name)):
            return False
    return True


async def judge(cluster: Cluster[Any], found: Found, until: float) -> None:
    """Compare what was shown, done and stored with what was said, and with what was due until a moment (Unix time)."""
    transcripts = await _unknown(cluster)
    for name, spoken in cluster.spoken.items():
        shown, words = cluster.shown(name), answered(cluster, name)
        found.said += len(spoken.words)
        found.given_up += sum(_GIVEN_UP in text for text in shown)
        found.lost += [word for word in spoken.words if word not in words]
        for word in spoken.words:
            _once(found, word, [text for text in shown if word in _ANSWER.findall(text)])
        first = list(dict.fromkeys(words))
        found.out_of_order += [f"{one} before {other}" for one, other in itertools.pairwise(first) if one > other][:5]
        done = Counter(cluster.deeds(name))
        found.deeds += len(spoken.deeds)
        for deed in spoken.deeds:
            unknown = f"-{deed} " in transcripts
            found.unknown += unknown
            if done[deed] > 1:
                found.effects_twice.append(deed)
            if not done[deed] and not unknown and deed not in found.lost:
                found.effects_lost.append(deed)
    await _judge_jobs(cluster, found, until)


def _once(found: Found, word: str, texts: list[str]) -> None:
    plain = [text for text in texts if not is_marked(text)]
    found.marked += len(texts) - len(plain)
    if len(plain) > 1:
        found.doubled.append(word)


async def _judge_jobs(cluster: Cluster[Any], found: Found, until: float) -> None:
    import psycopg

    async with await psycopg.AsyncConnection.connect(cluster.url, options="-c search_path=homebody") as db:
        query = "SELECT j.name, count(r.job) FROM job j LEFT JOIN job_run r ON r.job = j.id AND r.state = 'fired' GROUP BY 1"
        fired = dict(await (await db.execute(query)).fetchall())
        query = (
            "SELECT split_part(skey, ':', 2), count(*) FROM inbox WHERE account = 'schedule' GROUP BY skey HAVING count(*) > 1"
        )
        found.fired_twice += [str(row) for row in await (await db.execute(query)).fetchall()]
    for due, pattern in ((cluster.reminders, _REMINDER), (cluster.tasks, re.compile(r"heard (t\w+)"))):
        for word, (agent, instant) in due.items():
            texts = [text for text in cluster.shown(agent) if word in pattern.findall(text)]
            if fired.get(word, 0) > 1:
                found.fired_twice.append(word)
            _once(found, word, texts)
            if instant < until:
                found.jobs += 1
                if fired.get(word, 0) != 1 or not texts:
                    found.not_fired.append(f"{word}: fired {fired.get(word, 0)} times, shown {len(texts)} times")


async def _unknown(cluster: Cluster[Any]) -> str:
    """Return the calls whose outcome the transcripts say is unknown, with a space after each."""
    import psycopg

    async with await psycopg.AsyncConnection.connect(cluster.url, options="-c search_path=homebody") as db:
        rows = await (await db.execute("SELECT line FROM transcript_line")).fetchall()
    lines = [bytes(line).decode() for (line,) in rows]
    return " ".join(call for line in lines if UNKNOWN_OUTCOME in line for call in re.findall(r"[er]\d+-\w+", line)) + " "


def jobs_are_done(cluster: Cluster[Any], until: float) -> bool:
    """Whether everything that was due until a moment is shown."""
    shown = {name: "\n".join(cluster.shown(name)) for name in cluster.spoken}
    due = {**cluster.reminders, **cluster.tasks}
    return all(word in shown[agent] for word, (agent, instant) in due.items() if instant < until)
