"""Gateways whose settings differ: what one of them lacks comes to one that has it, and they do not draw it to and fro."""

from __future__ import annotations

import asyncio
import random

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.cluster.leases import IDLE_LEASES, ROUNDS, Cell, LeaseTable
from gateway.cluster.memory_leases import MemoryLeases
from tests.properties import examples

SECONDS = 9.0
WHOLE: tuple[Cell, ...] = (("account:three", "agent:three"), ("account:two", "agent:two"))


class House:
    """Gateways with cells of their own, which do their rounds one after the other."""

    def __init__(self, seed: int, *cells: tuple[Cell, ...]) -> None:
        self.dice = random.Random(seed)
        self.now = 0.0
        self.store = MemoryLeases(lambda: self.now)
        self.tables: list[LeaseTable] = []
        self.changes = 0
        for one in cells:
            self.join(one)

    def join(self, cells: tuple[Cell, ...]) -> LeaseTable:
        table = LeaseTable(f"g{len(self.tables)}", SECONDS)
        self.tables.append(table)
        self.want(table, cells)
        return table

    def want(self, table: LeaseTable, cells: tuple[Cell, ...]) -> None:
        table.cells = cells
        asyncio.run(self.store.add([token for cell in cells for token in cell]))

    def play(self, leases: float) -> None:
        end = self.now + leases * SECONDS
        while self.now < end:
            self.now += SECONDS / ROUNDS
            for table in self.dice.sample(self.tables, len(self.tables)):
                self.round(table)

    def round(self, table: LeaseTable) -> None:
        claimed = True
        while claimed:
            asked, late = table.begin(self.now)
            assert late == ()
            changes = table.end(asked, self.store.do(asked), self.now, self.now)
            assert changes.lost == ()
            self.changes += len(changes.taken) + len(changes.leave)
            for token in changes.leave:
                table.left(token)
            claimed = changes.claimed

    def held(self) -> dict[str, int]:
        return {lease.token: place for place, table in enumerate(self.tables) for lease in table.all_held(self.now)}


def test_an_account_that_the_holder_of_its_agent_does_not_know_goes_with_it_to_who_does() -> None:
    house = House(1, WHOLE, WHOLE)
    house.play(6)
    first = house.held()["agent:three"]
    lacking, full = house.tables[first], house.tables[1 - first]
    house.want(lacking, (("agent:three",), WHOLE[1]))
    house.play(IDLE_LEASES - 0.5)
    assert house.held()["agent:three"] == first, "settings that are changed here and then there disturb nothing"
    house.play(2.5)
    assert {house.held()[token] for token in WHOLE[0]} == {1 - first}
    assert full.cells is not None
    before = house.changes
    house.play(30)
    assert house.changes == before, "it stays there"


def test_agents_that_one_gateway_alone_knows_are_taken_though_they_are_more_than_its_part() -> None:
    house = House(2, (("agent:a",),), tuple((f"agent:{name}",) for name in "abcdef"))
    house.play(20)
    assert set(house.held()) == {f"agent:{name}" for name in "abcdef"}
    before = house.changes
    house.play(30)
    assert house.changes == before


def test_what_came_back_once_does_so_again_after_another_gateway_joined() -> None:
    house = House(3, (("agent:three",),), WHOLE)
    house.play(12)
    assert set(house.held()) == {token for cell in WHOLE for token in cell}
    house.join((("agent:three",), ("agent:two",)))
    house.play(20)
    assert set(house.held()) == {token for cell in WHOLE for token in cell}


def test_a_wish_for_what_the_settings_no_longer_have_keeps_it_from_nobody() -> None:
    house = House(4, WHOLE, WHOLE)
    house.play(6)
    first = house.held()["agent:three"]
    house.store.move("agent:three", house.tables[1 - first].gateway)
    house.want(house.tables[1 - first], (WHOLE[1],))
    house.play(3)
    assert house.held()["agent:three"] == first


@st.composite
def lacking(draw: st.DrawFn, cells: tuple[Cell, ...]) -> tuple[Cell, ...]:
    """Cells without some of the accounts, or without some of the agents at all."""
    found = []
    for cell in cells:
        left = tuple(token for token in cell if token.startswith("agent:") or draw(st.booleans()))
        found += [left] if draw(st.integers(0, 3)) else []
    return tuple(found)


@st.composite
def partitions(draw: st.DrawFn) -> tuple[Cell, ...]:
    """Some of eight tokens, put together at will."""
    groups: dict[int, list[str]] = {}
    for number in range(8):
        if (group := draw(st.integers(0, 4))) > 0:
            groups.setdefault(group, []).append(f"agent:{number}")
    return tuple(tuple(group) for group in groups.values())


FULL: tuple[Cell, ...] = tuple((f"account:{n}", *(["account:more"] if n == 0 else []), f"agent:{n}") for n in range(5))


@settings(max_examples=examples(100), deadline=None)
@given(st.integers(0, 2**32), st.lists(lacking(FULL), max_size=3))
def test_where_one_gateway_knows_everything_all_is_held_in_the_end_and_stays(seed: int, others: list[tuple[Cell, ...]]) -> None:
    house = House(seed, *others, FULL)
    house.play(60)
    assert set(house.held()) == {token for cell in FULL for token in cell}
    before = house.changes
    house.play(20)
    assert house.changes == before


@settings(max_examples=examples(100), deadline=None)
@given(st.integers(0, 2**32), st.lists(partitions(), min_size=1, max_size=4))
def test_whatever_the_cells_are_it_comes_to_rest(seed: int, cells: list[tuple[Cell, ...]]) -> None:
    house = House(seed, *cells)
    house.play(150)
    before = house.changes
    house.play(30)
    assert house.changes == before
