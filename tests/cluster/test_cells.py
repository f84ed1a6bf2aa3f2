"""What one gateway holds together, and how cells are taken and left as a whole."""

from __future__ import annotations

from typing import Any

from gateway.cluster.cells import accounts_in, agents_in, cells_of
from gateway.cluster.leases import LeaseTable
from gateway.cluster.memory_leases import MemoryLeases
from gateway.settings.root import Settings

ACCOUNTS = ["telegram:anna", "telegram:bob", "discord:default"]


def cells(**more: Any) -> list[set[str]]:
    agents = [{"id": name, **more.pop(name, {})} for name in ("main", "anna", "bob")]
    bound = [{"agentId": name, "match": {"channel": "telegram", "accountId": name}} for name in ("anna", "bob")]
    given = {"agents": {"list": agents}, "bindings": bound, **more}
    return [set(cell) for cell in cells_of(Settings.model_validate(given), ACCOUNTS)]


def test_an_account_is_held_with_the_agents_that_answer_on_it() -> None:
    assert cells() == [
        {"agent:main", "account:discord:default"},
        {"agent:anna", "account:telegram:anna"},
        {"agent:bob", "account:telegram:bob"},
    ]
    one_group = {"agentId": "anna", "match": {"channel": "telegram", "accountId": "bob", "peer": {"kind": "group", "id": "-1"}}}
    bound = [one_group, {"agentId": "bob", "match": {"channel": "telegram", "accountId": "bob"}}]
    assert {"agent:anna", "agent:bob", "account:telegram:bob"} <= cells(bindings=bound)[1]


def test_agents_that_work_with_each_other_are_held_together() -> None:
    helped = {"subagents": {"allowAgents": ["bob"]}}
    assert cells(anna=helped)[1] == {"agent:anna", "agent:bob", "account:telegram:anna", "account:telegram:bob"}
    everybody = {"subagents": {"allowAgents": ["*"]}}
    assert len(cells(main=everybody)) == 1
    assert len(cells(broadcast={"telegram:-100": ["anna", "main"]})) == 1, "on whichever account of that platform it is"


def test_cells_are_taken_and_left_as_a_whole() -> None:
    one, other = ("agent:a", "account:x"), ("agent:b", "account:y")
    now = 0.0
    store = MemoryLeases(lambda: now)
    tables = [LeaseTable(name, 9.0, cells=(one, other)) for name in ("first", "second")]
    _run(store.add([*one, *other]))

    def rounds(count: int) -> None:
        nonlocal now
        for _ in range(count):
            for table in tables:
                claimed = True
                while claimed:
                    asked, _ = table.begin(now)
                    changes = table.end(asked, store.do(asked), now, now)
                    for token in changes.leave:
                        table.left(token)
                    claimed = changes.claimed
            now += 3.0

    rounds(1)
    held = [{lease.token for lease in table.all_held(now)} for table in tables]
    assert held[0] in ({*one}, {*other}, {*one, *other})
    rounds(5)
    held = [{lease.token for lease in table.all_held(now)} for table in tables]
    assert sorted(map(sorted, held)) == sorted(map(sorted, (one, other)))
    tables[0].cells = tables[1].cells = ((*one, *other),)  # the settings join them: whoever has all of it free takes it
    rounds(6)
    held = [{lease.token for lease in table.all_held(now)} for table in tables]
    assert sorted(map(len, held)) == [0, 4], "a part of a cell is of no use, and is left"


def test_a_token_names_its_agent_or_account() -> None:
    cell = ("account:telegram:anna", "agent:anna")
    assert (agents_in(cell), accounts_in(cell)) == (["anna"], ["telegram:anna"])


def _run(work: Any) -> None:
    try:
        work.send(None)
    except StopIteration:
        return
