"""Gateways that share leases over a bad network: delays, losses, cuts, stops, crashes and uneven clocks, all drawn from one seed."""

from __future__ import annotations

import contextlib
import heapq
import itertools
import random
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gateway.cluster.leases import ROUNDS, Changes, Lease, LeaseTable
from gateway.cluster.memory_leases import MemoryLeases

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

SECONDS = 20.0


@dataclass
class Gateway:
    """One process: its table, and a clock that starts anywhere and runs up to 2 % too fast or too slow."""

    table: LeaseTable
    rate: float
    offset: float
    stopped_until: float = 0.0
    cut_until: float = 0.0
    dead: bool = False
    round: int = 0

    def clock(self, now: float) -> float:
        return self.offset + now * self.rate

    def true(self, clock: float) -> float:
        return (clock - self.offset) / self.rate


class World:
    """Plays everything in order of time and checks, at each step, what must never be."""

    def __init__(self, seed: int, *, gateways: int, tokens: int, trouble: float = 1.0) -> None:
        self.dice = random.Random(seed)
        self.now = 0.0
        self.store = MemoryLeases(lambda: self.now)
        self.names = [f"agent:{number}" for number in range(tokens)]
        with contextlib.suppress(StopIteration):
            self.store.add(self.names).send(None)
        self.trouble = trouble
        self.gateways: list[Gateway] = []
        self.counts: Counter[str] = Counter()
        self.believed: dict[str, dict[int, float]] = {name: {} for name in self.names}
        """Until when, in true time, each gateway takes itself for the holder."""
        self.last_fence = dict.fromkeys(self.names, 0)
        self.free_since = dict.fromkeys(self.names, 0.0)
        self.longest_free = 0.0
        self.takers: Counter[str] = Counter()
        """How many gateways have taken a token in the store since somebody last knew that it holds it."""
        self.longest_by_takers: dict[int, float] = {}
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        for _ in range(gateways):
            self.start()
        if trouble:
            self.later(self.gap(3.0), self.strike)

    def later(self, seconds: float, event: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self.now + seconds, next(self._order), event))

    def gap(self, mean: float) -> float:
        return self.dice.expovariate(1 / mean)

    def play(self, until: float) -> None:
        while self._events and self._events[0][0] <= until:
            self.now, _, event = heapq.heappop(self._events)
            event()
        self.now = until
        for name in self.names:
            self.note_free(name)

    # --- gateways ---

    def start(self) -> Gateway:
        gateway = Gateway(
            LeaseTable(f"g{next(self._order)}", SECONDS), 1 + self.dice.uniform(-0.02, 0.02), self.dice.uniform(0, 1e6)
        )
        self.gateways.append(gateway)
        self.later(self.dice.uniform(0, 2), lambda: self.tick(gateway))
        self.later(self.gap(5), lambda: self.write(gateway))
        return gateway

    def awake(self, gateway: Gateway, event: Callable[[], None]) -> bool:
        """Return whether a gateway can act; where it is stopped, it does so when it wakes up."""
        if gateway.dead:
            return False
        if self.now < gateway.stopped_until:
            self.later(gateway.stopped_until - self.now + 1e-6, event)
            return False
        return True

    def tick(self, gateway: Gateway) -> None:
        """Do the rounds of a gateway."""
        if self.awake(gateway, lambda: self.tick(gateway)):
            self.round(gateway)
            self.later(gateway.table.seconds / ROUNDS / gateway.rate, lambda: self.tick(gateway))

    def round(self, gateway: Gateway) -> None:
        if not self.awake(gateway, lambda: self.round(gateway)):
            return
        sent = gateway.clock(self.now)
        gateway.round += 1
        number = gateway.round
        asked, late = gateway.table.begin(sent)
        self.stop_work(gateway, late)

        def arrive() -> None:
            answer = self.store.do(asked)
            self.counts["rounds"] += 1
            self.note_claims(answer.taken)
            if not self.lost_on_the_way(gateway):
                self.later(self.delay(), lambda: come_back(answer))

        def come_back(answer: object) -> None:
            if not self.awake(gateway, lambda: come_back(answer)) or gateway.round != number:
                return
            clock = gateway.clock(self.now)
            changes = gateway.table.end(asked, answer, sent, clock)  # type: ignore[arg-type]
            self.apply(gateway, changes, clock)

        if not self.lost_on_the_way(gateway):
            self.later(self.delay(), arrive)

    def note_claims(self, taken: Mapping[str, int]) -> None:
        for token, fence in taken.items():
            assert fence > self.last_fence[token], "fences only grow"
            self.last_fence[token] = fence
            self.takers[token] += 1

    def apply(self, gateway: Gateway, changes: Changes, clock: float) -> None:
        self.stop_work(gateway, changes.lost)
        for lease in gateway.table.all_held(clock):
            self.believe(gateway, lease)
        for token in changes.leave:
            self.counts["left"] += 1
            self.later(self.gap(1.0), lambda token=token: self.finish(gateway, token))  # type: ignore[misc]
        self.counts["taken"] += len(changes.taken)
        if changes.claimed:
            self.round(gateway)
        elif (early := gateway.table.pause) < gateway.table.seconds / ROUNDS:
            self.later(early / gateway.rate, lambda: self.round(gateway))

    def finish(self, gateway: Gateway, token: str) -> None:
        if self.awake(gateway, lambda: self.finish(gateway, token)):
            gateway.table.left(token)
            self.stop_work(gateway, (token,))

    def believe(self, gateway: Gateway, lease: Lease) -> None:
        until = gateway.true(lease.until)
        for other, ends in self.believed[lease.token].items():
            assert other == id(gateway) or ends <= self.now, f"two hold {lease.token} at {self.now}"
        self.note_free(lease.token)
        self.takers[lease.token] = 0
        self.believed[lease.token] = {id(gateway): until}
        self.free_since[lease.token] = until

    def stop_work(self, gateway: Gateway, tokens: tuple[str, ...]) -> None:
        for token in tokens:
            if self.believed[token].pop(id(gateway), None) is not None:
                self.free_since[token] = min(self.free_since[token], self.now)

    def note_free(self, token: str) -> None:
        free, takers = self.now - self.free_since[token], self.takers[token]
        self.longest_free = max(self.longest_free, free)
        self.longest_by_takers[takers] = max(self.longest_by_takers.get(takers, 0.0), free)

    def write(self, gateway: Gateway) -> None:
        """Write for something held. One time in two nobody looks whether it is still held, as after waking up in the middle of a write."""
        if not self.awake(gateway, lambda: self.write(gateway)):
            return
        clock = gateway.clock(self.now)
        held = gateway.table.all_held(float("-inf") if self.dice.random() < 0.5 else clock)
        if held:
            lease = self.dice.choice(held)
            self.later(self.delay(), lambda: self.written(lease))
        self.later(self.gap(2), lambda: self.write(gateway))

    def written(self, lease: Lease) -> None:
        taken = self.store.writes(lease.token, lease.fence)
        assert taken == (lease.fence == self.last_fence[lease.token]), "a write by a former holder"
        self.counts["writes" if taken else "refused"] += 1

    # --- what goes wrong ---

    def delay(self) -> float:
        """Return seconds on the way; now and then they are many, so that a lease is lost by and by, but not where nothing goes wrong."""
        usual = self.dice.random() < 0.97
        return self.dice.choice((0.001, 0.005, 0.02, 0.02, 0.1)) if usual else self.dice.uniform(0.1, 8 if self.trouble else 1)

    def lost_on_the_way(self, gateway: Gateway) -> bool:
        return self.now < gateway.cut_until or (self.trouble > 0 and self.dice.random() < 0.01)

    def strike(self) -> None:
        living = [gateway for gateway in self.gateways if not gateway.dead]
        if not living:
            self.later(self.gap(3.0), self.strike)
            return
        one = self.dice.choice(living)
        kind = self.dice.choice(("crash", "stop", "stop", "cut", "empty", "move", "rest"))
        self.counts[kind] += 1
        if kind == "crash":
            one.dead = True
            for token in self.names:
                if self.believed[token].pop(id(one), None) is not None:
                    self.free_since[token] = min(self.free_since[token], self.now)
            self.later(self.dice.uniform(1, 40), self.start)
        elif kind == "stop":
            one.stopped_until = self.now + self.dice.uniform(0.5, 3 * SECONDS)
        elif kind == "cut":
            one.cut_until = self.now + self.dice.uniform(0.5, 3 * SECONDS)
        elif kind == "empty" and sum(not gateway.table.emptying for gateway in living) > len(living) // 2:
            one.table.emptying = True
            self.later(self.dice.uniform(20, 90), lambda: setattr(one.table, "emptying", False))
        elif kind == "rest":
            one.table.resting = "its disk is full"
            self.later(self.dice.uniform(5, 120), lambda: setattr(one.table, "resting", ""))
        elif kind == "move":
            self.store.move(self.dice.choice(self.names), self.dice.choice(living).table.gateway)
        self.later(self.gap(3.0 / self.trouble), self.strike)
