"""``homebody chat --resume``: going on with an earlier conversation."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import pytest

from gateway.base.errors import UsageError
from gateway.cli import main
from gateway.cli.invocation import Invocation
from gateway.cli.sessions import latest, offered, session_named, stores_of, where_it_was

if TYPE_CHECKING:
    from collections.abc import Callable

BERLIN = ZoneInfo("Europe/Berlin")


@pytest.fixture
def run(capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[int, str, str]]:
    def run(*arguments: str, said: str = "") -> tuple[int, str, str]:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(said.encode())))
        code = main(arguments)
        out, err = capfdbinary.readouterr()
        return code, out.decode(), err.decode()

    return run


@pytest.fixture
def stores(run: Callable[..., tuple[int, str, str]]) -> Any:
    for session, words in (
        ("travel", "Remember that the train leaves at nine."),
        ("garden", "Remember that the tulips are red."),
    ):
        assert run("agent", "--session", session, "-m", words)[0] == 0
    return stores_of(Invocation(), None)


def test_a_conversation_is_found_by_its_key_its_id_or_a_part_of_it(stores: Any) -> None:
    garden, travel = latest(stores)
    assert (garden.key, travel.key) == ("agent:main:garden", "agent:main:travel")
    assert (
        session_named(stores, "agent:main:travel")
        == session_named(stores, travel.session)
        == session_named(stores, "Travel")
        == travel
    )
    assert session_named(stores, "gard") == garden
    with pytest.raises(UsageError, match="matches several sessions: agent:main:garden, agent:main:travel"):
        session_named(stores, "main")
    with pytest.raises(UsageError, match="there is no session 'boat'"):
        session_named(stores, "boat")
    assert [line.partition(" ")[2].partition(" ")[0] for line in offered(latest(stores), BERLIN)] == [garden.key, travel.key]


def test_whoever_comes_back_is_told_the_last_words(stores: Any) -> None:
    head, asked, *answered = where_it_was(stores, session_named(stores, "travel"), BERLIN).splitlines()
    assert head.startswith("agent:main:travel, last message on ")
    assert asked == "› Remember that the train leaves at nine."
    assert answered


def test_without_a_terminal_the_latest_conversation_goes_on(run: Callable[..., tuple[int, str, str]], stores: Any) -> None:
    assert run("chat", "--resume", said="/whoami\n")[1].count("agent:main:garden") == 1
    assert run("chat", "--resume", "travel", said="/whoami\n")[1].count("agent:main:travel") == 1
    assert {row["sessionKey"] for row in json.loads(run("sessions", "list", "--json")[1])} == {
        "agent:main:garden",
        "agent:main:travel",
    }


def test_without_an_earlier_conversation_nothing_is_resumed(run: Callable[..., tuple[int, str, str]]) -> None:
    code, _, err = run("chat", "--resume")
    assert (code, "there is no earlier conversation" in err) == (2, True)
    code, _, err = run("chat", "--resume", "a", "--session", "b")
    assert (code, "cannot be used together" in err) == (2, True)


def test_one_that_was_left_is_not_resumed_behind_its_owners_back(run: Callable[..., tuple[int, str, str]], stores: Any) -> None:
    former = session_named(stores, "travel").session
    assert run("agent", "--session", "travel", "-m", "/new")[0] == 0
    with pytest.raises(UsageError, match="has ended"):
        session_named(stores_of(Invocation(), None), former)
