from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gateway.ledger.thread import NameCache

_steps = st.lists(st.tuples(st.sampled_from(["add", "remove", "read", "learn"]), st.sampled_from("abc")), max_size=40)


@given(_steps)
def test_a_name_is_never_said_to_be_absent_while_it_is_there(steps: list[tuple[str, str]]) -> None:
    names, there = NameCache(), set()
    read: list[tuple[set[str], int]] = []
    for step, name in steps:
        match step:
            case "add":
                names.changed()
                there.add(name)
            case "remove":
                there.discard(name)
            case "read":
                read.append((set(there), names.changes))
            case "learn" if read:
                names.learn(*read.pop(0))
        assert not any(names.lacks(one) for one in there)


def test_once_read_what_is_absent_is_known() -> None:
    names = NameCache()
    assert not names.lacks("a")
    names.learn({"b"}, names.changes)
    assert names.lacks("a")
    assert not names.lacks("b")
