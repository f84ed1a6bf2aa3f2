"""What goes wrong in a cluster: one function for each kind of trouble, which returns when it is over."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING, Final

from tests.cluster.forked_gateway import AGAIN
from tests.cluster.judging import Watch, all_answered

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tests.cluster.judging import Found
    from tests.cluster.playing import Cluster, Process
    from tests.peers.database_line import DatabaseLine

SETTLE_SECONDS: Final = 300.0
"""In which everything must be answered after a trouble. Far more than it takes, so that a busy machine is no fault."""
_STATEMENTS: Final = 70
"""About how many messages to the database a turn with an effect takes; a trouble hits one of them."""
_TAKING: Final = 120
"""How many messages to the database a gateway sends while it takes over everything, about."""
_STRIKE_SECONDS: Final = 3.0


class Troubles:
    """Makes trouble by the dice of the cluster."""

    def __init__(self, cluster: Cluster[DatabaseLine], watch: Watch, found: Found, tell: Callable[[str], None]) -> None:
        self._cluster, self._watch, self._found, self._tell = cluster, watch, found, tell
        self._dice, self._lease = cluster.dice, cluster.lease
        self.kinds: dict[str, Callable[[], Awaitable[None]]] = {
            "kill": self._kill,
            "kill at a statement": self._kill_at,
            "kill in a take-over": self._kill_the_taker,
            "pause": self._pause,
            "pause at a statement": self._pause_at,
            "short pause": self._short_pause,
            "restart of the database": self._restart,
            "crash of the database": self._crash,
            "sessions ended": self._end_sessions,
            "line cut at a statement": self._cut,
            "partition": self._partition,
            "drain": self._drain,
            "stop in order": self._stop,
            "move": self._move,
            "rest": self._rest,
        }

    async def strike(self, kind: str) -> None:
        """Make trouble of a kind, and wait until everything that was said until then is answered."""
        await self.kinds[kind]()
        self._found.kinds[kind] += 1
        upto = {name: len(spoken.words) for name, spoken in self._cluster.spoken.items()}
        if not await self._cluster.until(lambda: all_answered(self._cluster, upto), SETTLE_SECONDS):
            self._found.ended.append(f"not everything is answered {SETTLE_SECONDS:.0f} s after: {kind}")

    async def attend(self) -> None:
        """Start gateways again that end by themselves, as what runs them would. That none but a lost lease has them end is judged."""
        while True:
            for one in self._cluster.gateways:
                if one.name not in self._watch.disturbed and (code := one.ended) is not None:
                    if code == AGAIN:
                        self._found.kinds["(began anew)"] += 1
                    else:
                        self._found.ended.append(f"{one.name} ended by itself with {code}")
                    one.start()
            await asyncio.sleep(0.1)

    def _one(self) -> Process[DatabaseLine]:
        """Choose a gateway, mostly one that holds something."""
        holding = [one for one in self._cluster.gateways if one.name in self._watch.holders.values()]
        one: Process = self._dice.choice(holding if holding and self._dice.random() < 0.85 else self._cluster.gateways)
        self._tell(f"  {one.name}")
        return one

    # --- gateways that die ---

    async def _kill(self) -> None:
        one = self._one()
        self._watch.begin(one.name)
        one.kill()
        await self._revive(one)

    async def _revive(self, one: Process[DatabaseLine], *, soon: bool = False) -> None:
        await one.wait(10)
        await asyncio.sleep(self._dice.uniform(0.0, 0.3 if soon else 1.5) * self._lease)
        self._watch.end(one.name, gone=True)
        one.start()

    async def _struck(self, one: Process[DatabaseLine]) -> bool:
        """Wait until what waits for a message to the database has happened, or the time is over."""
        try:
            async with asyncio.timeout(_STRIKE_SECONDS):
                await one.line.struck.wait()
        except TimeoutError:
            one.line.never_mind()
        return one.line.struck.is_set()

    async def _kill_at(self) -> None:
        one = self._one()

        def kill() -> None:
            self._watch.begin(one.name)
            one.kill()

        one.line.at(self._dice.randint(1, _STATEMENTS), heard=self._dice.random() < 0.5, act=kill)
        if not await self._struck(one):
            kill()
        await self._revive(one)

    async def _kill_the_taker(self) -> None:
        """Kill a gateway, and the one that takes over, at a statement of that."""
        one = self._one()
        had = {token for token, name in self._watch.holders.items() if name == one.name}
        self._watch.begin(one.name)
        one.kill()
        await one.wait(10)

        def taken() -> str:
            return next((name for token in had if (name := self._watch.holders.get(token, "")) not in {"", one.name}), "")

        await self._cluster.until(lambda: not had or taken(), 3 * self._lease)
        taker = next((other for other in self._cluster.gateways if other.name == taken()), None)
        if taker is not None:

            def kill() -> None:
                self._watch.begin(taker.name)
                taker.kill()

            taker.line.at(self._dice.randint(1, _TAKING), heard=self._dice.random() < 0.5, act=kill)
            if not await self._struck(taker):
                kill()
            self._found.kinds["kill (of a second one meanwhile)"] += 1
            await self._revive(taker, soon=True)
        self._watch.end(one.name, gone=True)
        one.start()

    # --- gateways that stand still ---

    async def _pause(self) -> None:
        one = self._one()
        self._watch.begin(one.name)
        one.send(signal.SIGSTOP)
        await self._wake(one, self._dice.uniform(1.2, 2.0))

    async def _wake(self, one: Process[DatabaseLine], leases: float) -> None:
        await asyncio.sleep(leases * self._lease)
        one.send(signal.SIGCONT)
        self._watch.end(one.name, gone=False)

    async def _pause_at(self) -> None:
        one = self._one()

        def stop() -> None:
            self._watch.begin(one.name)
            one.send(signal.SIGSTOP)

        one.line.at(self._dice.randint(1, _STATEMENTS), heard=self._dice.random() < 0.5, act=stop)
        if not await self._struck(one):
            stop()
        await self._wake(one, self._dice.uniform(1.2, 2.0))

    async def _short_pause(self) -> None:
        one = self._one()
        self._watch.begin(one.name)
        one.send(signal.SIGSTOP)
        await self._wake(one, self._dice.uniform(0.1, 0.8))

    # --- the database ---

    async def _restart(self) -> None:
        await self._away("fast", self._dice.uniform(0.0, 0.5))

    async def _crash(self) -> None:
        await self._away("immediate", self._dice.choice((0.0, self._dice.uniform(0.5, 2.0))))

    async def _away(self, mode: str, leases: float) -> None:
        await asyncio.to_thread(self._cluster.server.stop, mode)
        await asyncio.sleep(leases * self._lease)
        await asyncio.to_thread(self._cluster.server.start)

    async def _end_sessions(self) -> None:
        import psycopg

        async with await psycopg.AsyncConnection.connect(self._cluster.server.url(), autocommit=True) as admin:
            query = (
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = %s AND pid <> pg_backend_pid() AND random() < %s"
            )
            await admin.execute(query, (self._cluster.database, self._dice.choice((0.5, 1.0))))

    async def _cut(self) -> None:
        for _ in range(4):  # each takes an instant
            one = self._one()
            one.line.at(self._dice.randint(1, _STATEMENTS), heard=self._dice.random() < 0.5)
            await self._struck(one)
            self._found.kinds["line cut (each)"] += 1

    async def _partition(self) -> None:
        one = self._one()
        self._watch.begin(one.name)
        one.line.hold()
        await asyncio.sleep(self._dice.uniform(0.3, 2.0) * self._lease)
        if self._dice.random() < 0.5:
            one.line.cut_all()
        one.line.release()
        self._watch.end(one.name, gone=False)

    # --- in order ---

    async def _drain(self) -> None:
        one = self._one()
        self._watch.begin(one.name)
        for _ in range(20):  # it may be starting itself again
            said = await one.command("cluster", "drain", "--seconds", "30")
            if "does not answer" not in said and "closed the connection" not in said:
                break
            await asyncio.sleep(0.5)
        if not await one.wait(30):
            self._found.ended.append(f"{one.name} does not end after it was drained: {said}")
            one.kill()
        elif "handed over everything" not in said:
            self._tell(f"  drain said: {said.strip()}")
        await self._revive(one, soon=True)

    async def _stop(self) -> None:
        one = self._one()
        self._watch.begin(one.name)
        if not await one.end(30):
            self._found.ended.append(f"{one.name} does not end by SIGTERM")
        await self._revive(one, soon=True)

    async def _rest(self) -> None:
        """Have a gateway start that crashed too often: the others answer all, and it holds nothing until it is told to go on."""
        one = self._one()
        self._watch.begin(one.name)
        one.kill()
        await one.wait(10)
        self._watch.end(one.name, gone=True)
        one.start(crashes=3)
        await asyncio.sleep(self._dice.uniform(1.0, 3.0) * self._lease)
        upto = {name: len(spoken.words) for name, spoken in self._cluster.spoken.items()}
        if not await self._cluster.until(lambda: all_answered(self._cluster, upto), SETTLE_SECONDS):
            self._found.ended.append(f"not everything is answered while {one.name} rests")
        if one.name in self._watch.holders.values():
            self._found.ended.append(f"{one.name} holds something though it rests: {self._watch.holders}")
        for _ in range(20):
            said = await one.command("resume")
            if "was paused" in said:
                return
            await asyncio.sleep(0.5)
        self._found.ended.append(f"{one.name} was not paused: {said}")

    async def _move(self) -> None:
        one = self._one()
        agent = self._dice.choice(list(self._cluster.spoken))
        said = await one.command("cluster", "move", agent, "--to", one.name)
        self._tell(f"  {said.strip()}")
        await asyncio.sleep(self._dice.uniform(0.0, 1.0) * self._lease)
