"""Hooks in the ledger: kept over restarts, recovered from damage, and never opened by a token that may have been replaced since."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from channels.messages import ChatAddress
from gateway.base.clock import ManualClock
from gateway.ledger.hook_rows import HOOK_ACCOUNT, Hook, HookRules, from_json, to_json
from gateway.ledger.rows import Arrival, NewOutbound
from tests.ledger.engines import open_at
from tests.ledger.test_recovery import DAMAGE, damaged
from tests.properties import examples

if TYPE_CHECKING:
    from collections.abc import Callable

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
HOME = ChatAddress(channel="telegram", kind="direct", id="42")
RULES = HookRules(kind="prompt", text="Tell me what happened.", allow=("read", "web_fetch"), deny=("exec",), daily_usd=0.5)


def hook(number: int = 1, **more: object) -> Hook:
    plain = Hook(
        id=f"{number:08x}",
        name=f"alarm{number}",
        agent="main",
        rules=RULES,
        token_hash=f"{number:064x}",
        secret=None,
        created_at=NOON,
        changed_at=NOON,
    )
    return replace(plain, **more)  # type: ignore[arg-type]


def arrival(one: Hook, number: int) -> Arrival:
    key = f"{one.id}:{number:016x}"
    return Arrival(
        key=key, alias=key, conversation="internal:default:direct:x", session="s", sender=one.name, payload="{}", received_at=NOON
    )  # fmt: skip


async def test_hooks_are_kept_over_a_restart(tmp_path: Path) -> None:
    ledger = await open_at(tmp_path / "ledger.sqlite", ManualClock(NOON))
    signed = hook(2, token_hash=None, secret="s3cret", rules=HookRules(kind="message", text="{a}", deliver=HOME.address))
    assert await ledger.hooks.add(hook())
    assert await ledger.hooks.add(signed)
    await ledger.close()
    ledger = await open_at(tmp_path / "ledger.sqlite", ManualClock(NOON))
    assert await ledger.hooks.all() == [hook(), signed]
    await ledger.close()


async def test_a_name_is_given_once_and_a_change_names_its_hook(tmp_path: Path) -> None:
    clock = ManualClock(NOON)
    ledger = await open_at(tmp_path / "ledger.sqlite", clock)
    assert await ledger.hooks.add(hook())
    assert not await ledger.hooks.add(hook(9, name="alarm1"))
    clock.move(5)
    assert await ledger.hooks.change(hook(state="paused", token_hash="f" * 64))
    assert not await ledger.hooks.change(hook(7))
    later = NOON + timedelta(seconds=5)
    assert await ledger.hooks.all() == [hook(state="paused", token_hash="f" * 64, changed_at=later)]
    assert await ledger.hooks.remove(hook().id)
    assert not await ledger.hooks.remove(hook().id)
    assert await ledger.hooks.all() == []
    await ledger.close()


async def test_what_became_of_calls_is_told_newest_first_and_of_one_hook_alone(tmp_path: Path) -> None:
    clock = ManualClock(NOON)
    ledger = await open_at(tmp_path / "ledger.sqlite", clock)
    await ledger.inbox.accept("telegram:default", [replace(arrival(hook(), 9), key="u", alias="u")])
    rows = (await ledger.inbox.accept(HOOK_ACCOUNT, [arrival(hook(), 1), arrival(hook(2), 1)])).rows
    assert await ledger.hooks.waiting() == 2
    turn = await ledger.turns.claim("s", "main", [rows[0].id])
    await ledger.turns.finish(turn.id, "done", [NewOutbound(conversation=HOME, text="all is well")])
    clock.move(5)
    await ledger.outbox.enqueue([NewOutbound(conversation=HOME, text="the door", key=f"{hook().id}:{2:016x}")])
    newest, oldest = await ledger.hooks.calls(hook().id)
    assert (newest.key, newest.state, newest.turn) == (f"{hook().id}:{2:016x}", "ready", None)
    assert (oldest.key, oldest.state, oldest.replies) == (f"{hook().id}:{1:016x}", "answered", ("ready",))
    assert await ledger.hooks.calls(hook().id, newest.key) == [newest]
    assert await ledger.hooks.waiting() == 1
    await ledger.close()


async def lived(path: Path) -> None:
    """A ledger whose hooks were changed after its only copy: 0 has another token, 1 is gone, 9 is new."""
    ledger = await open_at(path, ManualClock(NOON))
    for number in range(9):
        await ledger.hooks.add(hook(number))
    for number in range(40):
        await ledger.inbox.accept(
            HOOK_ACCOUNT, [replace(arrival(hook(number % 9), number), payload=f'{{"text": "{"w" * 3000}"}}')]
        )
    await ledger.backup()
    await ledger.hooks.change(hook(0, token_hash="f" * 64))
    await ledger.hooks.remove(hook(1).id)
    await ledger.hooks.add(hook(9))
    await ledger.close()


async def hooks_in(path: Path) -> tuple[dict[str, Hook], str]:
    ledger = await open_at(path, ManualClock(NOON))
    found = {one.name: one for one in await ledger.hooks.all()}
    await ledger.close()
    return found, ledger.warning or ""


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("hooks") / "ledger.sqlite"
    asyncio.run(lived(path))
    return path


@pytest.mark.files
async def test_a_copy_gives_hooks_back_paused_because_a_token_may_have_been_replaced(closed: Path, tmp_path: Path) -> None:
    shutil.copytree(closed.parent, tmp_path, dirs_exist_ok=True)
    (tmp_path / "ledger.sqlite").write_bytes(b"rubbish" * 9000)
    found, told = await hooks_in(tmp_path / "ledger.sqlite")
    assert sorted(found) == [f"alarm{number}" for number in range(9)], "the copy had no more"
    assert {one.state for one in found.values()} == {"paused"}
    assert "9 hooks" in told
    assert "homebody hooks resume NAME" in told
    assert "alarm3" in told


@pytest.mark.files
@settings(max_examples=examples(25), deadline=None)
@given(damage=DAMAGE)
def test_damage_loses_no_hook_and_makes_no_old_token_valid(
    closed: Path, damage: list[tuple[Callable[..., None], int, int]]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(closed.parent, folder, dirs_exist_ok=True)
        path = damaged(Path(folder) / "ledger.sqlite", damage)
        found, _ = asyncio.run(hooks_in(path))
        assert found.keys() >= {"alarm0", *(f"alarm{number}" for number in range(2, 9))}
        active = {name: one.token_hash for name, one in found.items() if one.state == "active"}
        assert active.get("alarm0") in {None, "f" * 64}, "its first token was replaced"
        assert "alarm1" not in active, "it was removed"


@pytest.mark.files
@given(
    rules=st.builds(
        HookRules,
        kind=st.sampled_from(["prompt", "message"]),
        text=st.text(),
        deliver=st.text(),
        allow=st.none() | st.lists(st.text()).map(tuple),
        deny=st.lists(st.text()).map(tuple),
        daily_usd=st.none() | st.floats(0, 9),
        urgent=st.booleans(),
    )
)
def test_rules_are_read_as_they_were_written_and_fields_of_later_versions_are_ignored(rules: HookRules) -> None:
    assert from_json(to_json(rules)) == rules
    assert from_json(to_json(rules).replace("{", '{"later":[1],', 1)) == rules
