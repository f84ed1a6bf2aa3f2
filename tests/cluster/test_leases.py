from __future__ import annotations

import asyncio
import hashlib
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.cluster.lease_tables import PGMQ
from gateway.cluster.leases import CLAIM_SHARE, WAKING, Answer, Changes, LeaseTable
from gateway.cluster.memory_leases import MemoryLeases
from tests.cluster.network import SECONDS, Gateway, World
from tests.properties import examples


@settings(max_examples=examples(30), deadline=None)
@given(st.integers(0, 2**32), st.integers(2, 6), st.integers(1, 30))
def test_no_token_has_two_holders_or_none_for_long_whatever_goes_wrong(seed: int, gateways: int, tokens: int) -> None:
    world = World(seed, gateways=gateways, tokens=tokens)
    world.play(300)
    assert world.counts["writes"] > 0


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 106))
def test_a_thousand_agents_on_fifty_gateways(seed: int) -> None:
    """No agent is without a holder for over two leases; each gateway that takes it and is struck then costs a third of one."""
    world = World(seed, gateways=50, tokens=1000, trouble=1.0)
    world.play(600)
    for takers, longest in world.longest_by_takers.items():
        assert longest <= (2 + (takers - 1) / CLAIM_SHARE) * SECONDS, f"{takers} gateways took it one after the other"
    assert world.longest_by_takers[2] > SECONDS, "some that took an agent were struck before they knew it"
    assert world.longest_free < 3 * SECONDS
    assert world.counts["writes"] > 1000
    assert world.counts["refused"] > 0, "somebody wrote after its lease had gone to another, and was refused"


def test_tokens_are_shared_out_evenly_and_stay_where_they_are() -> None:
    world = World(1, gateways=7, tokens=100, trouble=0)
    world.play(120)
    shares = [len(gateway.table.all_held(gateway.clock(world.now))) for gateway in world.gateways]
    assert sum(shares) == 100
    assert max(shares) <= 15
    taken = world.counts["taken"]
    world.play(600)
    assert world.counts["taken"] == taken, "nobody takes what another has"


def test_a_crashed_gateways_tokens_have_others_within_two_leases() -> None:
    world = World(2, gateways=3, tokens=30, trouble=0)
    world.play(60)
    dead = world.gateways[0]
    dead.dead = True
    held = {lease.token for lease in dead.table.all_held(dead.clock(world.now))}
    world.play(60 + 2 * SECONDS)
    others = Counter(lease.token for one in world.gateways[1:] for lease in one.table.all_held(one.clock(world.now)))
    assert held
    assert held <= set(others)


def test_a_gateway_that_is_emptied_finishes_first_and_gives_up_all() -> None:
    world = World(3, gateways=3, tokens=30, trouble=0)
    world.play(60)
    leaver = world.gateways[1]
    leaver.table.emptying = True
    world.play(100)
    assert not leaver.table.all_held(leaver.clock(world.now))
    assert sum(len(one.table.all_held(one.clock(world.now))) for one in world.gateways) == 30
    assert world.longest_free < SECONDS, "what is given up is free at once"


def test_a_token_goes_where_it_is_wanted() -> None:
    world = World(4, gateways=3, tokens=30, trouble=0)
    world.play(60)
    target = world.gateways[2]
    moving = next(name for name in world.names if target.table.held(name, target.clock(world.now)) is None)
    world.store.move(moving, target.table.gateway)
    world.play(100)
    assert target.table.held(moving, target.clock(world.now)) is not None


def held(world: World, gateway: Gateway) -> int:
    return len(gateway.table.all_held(gateway.clock(world.now)))


def test_a_gateway_that_cannot_work_gives_up_all_while_another_works_and_gets_its_part_again() -> None:
    world = World(5, gateways=3, tokens=30, trouble=0)
    world.play(60)
    full = world.gateways[1]
    full.table.resting = "its disk is full"
    world.play(100)
    assert [held(world, one) for one in world.gateways] == [15, 0, 15]
    assert world.longest_free < SECONDS, "what is given up is free at once"
    taken = world.counts["taken"]
    world.play(600)
    assert world.counts["taken"] == taken, "nothing goes to and fro"
    full.table.resting = ""
    world.play(660)
    assert [held(world, one) for one in world.gateways] == [10, 10, 10]


def test_a_gateway_that_starts_and_cannot_work_takes_nothing() -> None:
    world = World(6, gateways=1, tokens=10, trouble=0)
    world.play(60)
    late = world.start()
    late.table.resting = "its disk is full"
    left = world.counts["left"]
    world.play(300)
    assert (held(world, late), held(world, world.gateways[0]), world.counts["left"] - left) == (0, 10, 0)


def test_gateways_that_share_what_is_broken_keep_what_they_have() -> None:
    world = World(7, gateways=3, tokens=30, trouble=0)
    world.play(60)
    left = world.counts["left"]
    for one in world.gateways:  # each looks when another one has said so
        one.table.resting = "the disk is full"
    world.play(600)
    assert [held(world, one) for one in world.gateways] == [10, 10, 10]
    assert world.counts["left"] == left


def test_the_last_one_that_can_work_keeps_all_when_it_cannot_either() -> None:
    world = World(8, gateways=3, tokens=30, trouble=0)
    world.play(60)
    for one in world.gateways[:2]:
        one.table.resting = "its disk is full"
    world.play(120)
    last = world.gateways[2]
    assert held(world, last) == 30
    last.table.resting = "its disk is full, too"
    taken = world.counts["taken"]
    world.play(600)
    assert held(world, last) == 30
    assert world.counts["taken"] == taken, "nothing goes to and fro"
    last.dead = True
    world.play(600 + 3 * SECONDS)
    others = [held(world, one) for one in world.gateways[:2]]
    assert sum(others) == 30, "who rests takes all where nobody is left that works"
    world.start()
    world.play(760)
    assert [held(world, one) for one in world.gateways] == [0, 0, 0, 30]


@settings(max_examples=examples(5), deadline=None)
@given(st.integers(0, 2**32), st.integers(2, 6), st.data())
def test_those_that_cannot_work_hold_nothing_while_one_works_however_they_come_and_go(
    seed: int, gateways: int, data: st.DataObject
) -> None:
    world = World(seed, gateways=gateways, tokens=12, trouble=0)
    for step in range(1, 6):
        unfit = data.draw(st.sets(st.integers(0, gateways - 1)))
        for number, one in enumerate(world.gateways):
            one.table.resting = "its disk is full" if number in unfit else ""
        world.play(step * 100)
        assert sum(held(world, one) for one in world.gateways) == 12
        assert len(unfit) == gateways or not any(held(world, world.gateways[number]) for number in unfit)
        assert world.longest_free < 3 * SECONDS
        taken = world.counts["taken"]
        world.play(step * 100 + 50)
        assert world.counts["taken"] == taken, "nothing goes to and fro"


def answer(**more: object) -> Answer:
    return Answer(**{"kept": frozenset(), "taken": {}, "tokens": 1, "gateways": 1, **more})  # type: ignore[arg-type]


def take(table: LeaseTable, at: float) -> Changes:
    """Take the only agent, in two rounds."""
    asked, _ = table.begin(at)
    assert table.end(asked, answer(taken={"agent:a": 5}), sent=at, now=at).claimed
    asked, _ = table.begin(at)
    return table.end(asked, answer(kept=frozenset({"agent:a"})), sent=at, now=at)


def test_what_an_owner_moved_here_stays_though_it_is_beyond_the_share() -> None:
    table = LeaseTable("g", 10, cells=(("account:bot", "agent:main"), ("agent:work",)))
    asked, _ = table.begin(0)
    table.end(asked, answer(taken={"account:bot": 1, "agent:main": 1}, tokens=3, gateways=2), sent=0, now=0)
    asked, _ = table.begin(3)
    moved_here = answer(
        kept=frozenset(asked.renew), taken={"agent:work": 2}, tokens=3, gateways=2, placed=frozenset({"agent:work"})
    )
    assert table.end(asked, moved_here, sent=3, now=3).leave == ()
    asked, _ = table.begin(6)
    kept = frozenset(asked.renew)
    assert table.end(asked, answer(kept=kept, tokens=3, gateways=2), sent=6, now=6).leave == ()
    asked, _ = table.begin(9)
    away = answer(kept=kept, tokens=3, gateways=2, moved=frozenset({"agent:work"}))
    assert table.end(asked, away, sent=9, now=9).leave == ("agent:work",)


def test_what_an_owner_moved_here_is_shared_out_anew_when_another_gateway_joins() -> None:
    table = LeaseTable("g", 10)
    asked, _ = table.begin(0)
    both = answer(taken={"agent:a": 1, "agent:b": 1}, tokens=2, gateways=1, placed=frozenset({"agent:a", "agent:b"}))
    assert table.end(asked, both, sent=0, now=0).leave == ()
    asked, _ = table.begin(3)
    joined = answer(kept=frozenset(asked.renew), tokens=2, gateways=2)
    assert table.end(asked, joined, sent=3, now=3).leave == ("agent:a",)


def test_a_lease_counts_from_when_the_round_was_sent_and_ends_early() -> None:
    table = LeaseTable("g", 10)
    asked, _ = table.begin(90)
    table.end(asked, answer(taken={"agent:a": 5}), sent=90, now=90)
    asked, _ = table.begin(100)
    assert table.end(asked, answer(kept=frozenset(asked.renew)), sent=100, now=104).taken
    assert table.held("agent:a", 108.9) is not None
    assert table.held("agent:a", 109) is None


def test_what_an_answer_brings_too_late_is_given_back() -> None:
    table = LeaseTable("g", 10)
    asked, _ = table.begin(100)
    changes = table.end(asked, answer(taken={"agent:a": 5}), sent=100, now=110)
    assert changes.taken == ()
    assert table.begin(110)[0].release == {"agent:a": 5}


def test_a_claim_lasts_a_third_of_a_lease_and_is_held_once_it_was_renewed() -> None:
    now = 0.0
    store = MemoryLeases(lambda: now)
    asyncio.run(store.add(["agent:a"]))
    dying, other = LeaseTable("dying", 9), LeaseTable("other", 9)
    asked, _ = dying.begin(now)
    changes = dying.end(asked, store.do(asked), now, now)
    assert (changes.taken, changes.claimed) == ((), True)
    assert dying.held("agent:a", now) is None
    now = 2.9
    asked, _ = other.begin(now)
    assert not other.end(asked, store.do(asked), now, now).claimed
    assert other.pause == pytest.approx(0.1 + WAKING), "it looks again when the claim ends"
    now = 3.0
    asked, _ = other.begin(now)
    assert other.end(asked, store.do(asked), now, now).claimed
    asked, _ = other.begin(now)
    [taken] = other.end(asked, store.do(asked), now, now).taken
    asked, _ = dying.begin(now)
    late = dying.end(asked, store.do(asked), now, now)
    assert (late.taken, late.lost, late.claimed) == ((), (), False), "it had begun nothing, and has nothing to stop"
    assert store.writes("agent:a", taken.fence)


def test_a_claim_is_given_back_by_a_gateway_that_is_emptied_meanwhile() -> None:
    table = LeaseTable("g", 10)
    asked, _ = table.begin(100)
    table.end(asked, answer(taken={"agent:a": 5}), sent=100, now=100)
    table.emptying = True
    asked, _ = table.begin(100)
    assert (dict(asked.renew), asked.release) == ({}, {"agent:a": 5})


def test_a_renewal_that_comes_after_the_end_does_not_bring_the_lease_back() -> None:
    table = LeaseTable("g", 10)
    take(table, 100)
    asked, _ = table.begin(103)
    assert table.expired(109.5) == ("agent:a",)
    assert table.end(asked, answer(kept=frozenset({"agent:a"})), sent=103, now=110).taken == ()
    assert table.held("agent:a", 110) is None
    assert table.begin(110)[0].release == {"agent:a": 5}


def test_a_lost_release_is_asked_again() -> None:
    table = LeaseTable("g", 10)
    take(table, 100)
    table.left("agent:a")
    assert table.begin(103)[0].release == {"agent:a": 5}
    asked, _ = table.begin(106)
    assert asked.release == {"agent:a": 5}
    table.end(asked, answer(), sent=106, now=106)
    assert table.begin(109)[0].release == {}


def test_the_script_of_pgmq_is_as_it_was_published() -> None:
    assert hashlib.sha256(PGMQ.read_bytes()).hexdigest() == "bf7e66c75ed771df0c5f7cb2b9f0123ca77992daacd56e3911d1894a3efa99de"
