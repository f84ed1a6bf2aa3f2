"""Faults in what goes in and out: a damaged ledger, replies given up, crash loops, refused tokens and keys; with and without a gateway."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import apsw
import pytest

from channels.messages import ChatAddress
from gateway.backup.backup_schedule import LastBackup, write_last
from gateway.base.clock import SystemClock
from gateway.base.state_lock import StateLock, describe
from gateway.doctor.backup_check import BACKUPS
from gateway.doctor.chat_channels import CHANNELS
from gateway.doctor.ledger_checks import CRASHES, LEDGER_CHECK
from gateway.doctor.model_keys import KEYS
from gateway.doctor.process_checks import GATEWAY
from gateway.ledger.job_rows import NewJob
from gateway.ledger.rows import NewOutbound
from gateway.ledger.sqlite import SqliteLedger
from tests import programs
from tests.doctor.conftest import ROOT, House, program, said
from tests.patience import PATIENCE
from tests.peers import telegram
from tests.peers.anthropic import AnthropicPeer
from tests.peers.anthropic import Refuse as RefuseAnthropic

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def contents(folder: Path) -> dict[str, bytes]:
    return {
        path.name: path.read_bytes() for path in folder.iterdir() if path.is_file() and path.name.startswith("ledger.sqlite")
    }


async def test_a_whole_ledger_is_well_and_left_as_it_is(house: House) -> None:
    before = contents(house.state)
    assert await house.wrong(LEDGER_CHECK, CRASHES, GATEWAY) == []
    assert contents(house.state).keys() == before.keys()


async def test_a_message_that_no_model_could_answer_is_no_trouble_of_the_ledger(house: House) -> None:
    house.set(agents={"defaults": {"model": "anthropic/claude-haiku-4-5"}})
    assert program("agent", "-m", "hello", home=house.person).returncode
    assert await house.wrong(LEDGER_CHECK) == []


async def test_a_job_that_was_paused_is_told_with_why_and_what_goes_on(house: House) -> None:
    ledger = await SqliteLedger.open(house.state / "ledger.sqlite", SystemClock())
    for name, reason in (("news", "its chat is gone"), ("weather", "")):  # the second one was paused by a person
        new = NewJob(agent="main", name=name, schedule="cron 0 9 * * *", kind="message", text="x")
        job = await ledger.jobs.add(new, datetime.now(UTC) + timedelta(days=1), "UTC")
        await ledger.jobs.pause(job.id, reason)
    await ledger.close()
    (found,) = await house.wrong(LEDGER_CHECK)
    assert (found.level, found.what) == ("warning", "the job “news” was paused: its chat is gone")
    assert found.mend.startswith("homebody cron resume ")


async def test_a_damaged_ledger_is_told_and_not_recovered(house: House) -> None:
    path = house.state / "ledger.sqlite"
    whole = path.read_bytes()
    path.write_bytes(whole[:4096] + os.urandom(len(whole) - 4096))
    before = contents(house.state)
    (found,) = await house.wrong(LEDGER_CHECK)
    assert (found.level, found.where) == ("error", str(path))
    assert "homebody start" in found.mend
    await house.mended(LEDGER_CHECK)
    assert contents(house.state) == before


async def test_a_ledger_that_is_gone_is_missed_where_copies_show_that_there_was_one(house: House) -> None:
    (house.state / "ledger.sqlite").unlink()
    (found,) = await house.wrong(LEDGER_CHECK)
    assert "the file is gone" in found.what
    assert not (house.state / "ledger.sqlite").exists()


async def test_a_ledger_of_a_later_version_is_told(house: House) -> None:
    db = apsw.Connection(str(house.state / "ledger.sqlite"))
    db.pragma("user_version", 9999)
    db.close()
    (found,) = await house.wrong(LEDGER_CHECK)
    assert found.what.startswith("the ledger cannot be used: it is of version 9999")
    assert found.mend.startswith("Start the newer Homebody")


async def test_a_ledger_without_late_copies_is_told(house: House) -> None:
    (copy,) = house.state.glob("ledger.sqlite.copy-*")
    old = time.time() - 3 * 86_400
    os.utime(copy, (old, old))
    (found,) = await house.wrong(LEDGER_CHECK)
    assert "3 days older" in found.what


async def test_a_copy_that_cannot_be_read_is_told(house: House) -> None:
    (copy,) = house.state.glob("ledger.sqlite.copy-*")
    copy.write_bytes(b"no database at all")
    (found,) = await house.wrong(LEDGER_CHECK)
    assert found.where == str(copy)


async def test_a_ledger_that_was_set_aside_is_a_note(house: House) -> None:
    (house.state / "ledger.sqlite.bad-20260101T000000Z").write_bytes(b"?")
    assert "1 damaged ledgers were set aside" in said(await house.found(LEDGER_CHECK))


async def given_up(house: House) -> None:
    ledger = await SqliteLedger.open(house.state / "ledger.sqlite", SystemClock())
    here = ChatAddress.parse("telegram:default:direct:4711")
    await ledger.outbox.enqueue([NewOutbound(conversation=here, text="The gate code is 4712.")])
    (row,) = await ledger.outbox.latest(("ready",))
    await ledger.outbox.dead(row.id, "the chat was deleted")
    await ledger.close()


async def test_a_reply_that_was_given_up_is_told(house: House) -> None:
    await given_up(house)
    (found,) = await house.wrong(LEDGER_CHECK)
    assert "1 replies were given up; the last: the chat was deleted" in found.what
    assert "homebody outbox retry" in found.mend


async def test_what_another_process_uses_is_left_alone(house: House) -> None:
    """A conversation in a terminal holds the state and has no socket to ask."""
    lock = StateLock.acquire(house.state / "gateway.lock")
    try:
        assert [one.what for one in await house.found(LEDGER_CHECK)] == [
            "not checked: another Homebody process uses the state folder"
        ]
        assert await house.wrong(GATEWAY) == []
    finally:
        lock.release()


async def test_a_gateway_that_does_not_answer_is_an_error(house: House) -> None:
    from gateway.base.state_lock import Holder

    lock = StateLock.acquire(house.state / "gateway.lock", Holder(pid=os.getpid(), socket=str(house.state / "gateway.sock")))
    try:
        (found,) = await house.wrong(GATEWAY)
    finally:
        lock.release()
    assert (found.level, "does not answer" in found.what) == ("error", True)


@pytest.mark.parametrize(
    ("ends", "level"), [([True, True], "ok"), ([False, True], "note"), ([False, False, False, True], "error")]
)
async def test_crashes_of_the_last_day_are_counted(house: House, ends: list[bool], level: str) -> None:
    now = datetime.now(UTC)
    lives = [[(now - timedelta(minutes=90 - place)).timestamp(), clean, 0] for place, clean in enumerate(ends)]
    (house.state / "starts.json").write_text(json.dumps(lives))
    assert [one.level for one in await house.found(CRASHES)] == [level]


async def test_a_record_of_starts_that_is_damaged_is_told(house: House) -> None:
    (house.state / "starts.json").write_text("[[]]")
    assert "cannot be read" in said(await house.found(CRASHES))


async def test_a_token_that_is_refused_is_told_and_one_that_is_taken_is_well(house: House) -> None:
    async with telegram.TelegramPeer() as peer:
        house.set(channels={"telegram": {"botToken": peer.token, "apiRoot": peer.root}})
        (found,) = await house.found(CHANNELS, offline=False)
        assert (found.level, "answers as" in found.what) == ("ok", True)
        house.set(channels={"telegram": {"botToken": "1:wrong", "apiRoot": peer.root}})
        (found,) = await house.wrong(CHANNELS, offline=False)
        assert (found.level, found.where) == ("error", "telegram:default")
        assert "BotFather" in found.mend
        assert await house.wrong(CHANNELS) == []


async def test_a_policy_that_lets_nobody_in_is_told(house: House) -> None:
    house.set(channels={"telegram": {"botToken": "1:a", "dmPolicy": "open"}})
    assert 'needs "*" in allowFrom' in said(await house.wrong(CHANNELS))


async def test_each_key_is_tried(house: House) -> None:
    peer = AnthropicPeer()
    runner = await peer.start()
    try:
        house.env |= {"ANTHROPIC_API_KEY": "sk-ant-test-of-the-doctor", "ANTHROPIC_BASE_URL": peer.url}
        os.environ.update(house.env)
        (found,) = await house.found(KEYS, offline=False)
        assert (found.level, "ANTHROPIC_API_KEY: " in found.what, "answered in" in found.what) == ("ok", True, True)
        peer.answer(RefuseAnthropic(401, "authentication_error", "invalid x-api-key"))
        (found,) = await house.wrong(KEYS, offline=False)
        assert (found.level, "does not accept the key" in found.what) == ("error", True)
        assert "sk-ant-test" not in said([found])
        before = len(peer.requests)
        await house.found(KEYS)
        assert len(peer.requests) == before
    finally:
        for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"):
            os.environ.pop(name, None)
        await runner.cleanup()


async def test_a_key_in_quotes_is_told(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", '"sk-ant-test-of-the-doctor"')
    house.env["ANTHROPIC_API_KEY"] = '"sk-ant-test-of-the-doctor"'
    (found,) = await house.wrong(KEYS)
    assert "has quotes around it" in found.what
    assert found.mend == "Set it again, without the quotes."
    assert "sk-ant-test" not in said([found])


async def test_an_agent_whose_model_has_no_key_is_told(house: House) -> None:
    house.set(agents={"defaults": {"model": "openai/gpt-6.1-terra"}})
    (found,) = await house.wrong(KEYS)
    assert "the agent main has no model" in found.what
    assert found.mend


@contextmanager
def running_gateway(house: House, **env: str) -> Iterator[programs.Program]:
    given = {"PATH": os.environ["PATH"], "HOME": str(house.person), "PYTHONPATH": str(ROOT)} | env
    command = [sys.executable, "-W", "ignore", "-m", "gateway", "gateway"]
    process = programs.start(command, env=given, cwd=house.person, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + PATIENCE
        while not ((holder := describe(house.state / "gateway.lock")) and holder.http_port):
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE)


def test_the_status_of_a_gateway_whose_settings_file_is_wrong_by_now_is_shown_with_what_is_wrong(house: House) -> None:
    with running_gateway(house):
        (house.home / "homebody.yaml").write_text("agents: {list: 3}\n")
        deadline = time.monotonic() + PATIENCE
        while "the settings file has errors" not in (run := program("status", home=house.person)).stdout:
            assert time.monotonic() < deadline, run.stderr
            time.sleep(0.2)
    assert run.returncode == 0
    assert "agents.list: 3 is not allowed here" in run.stdout
    assert "agent main: " in run.stdout


def by_check(facts: dict[str, Any]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for one in facts["findings"]:
        found.setdefault(one["check"], []).append(one["level"])
    return found


async def test_a_running_gateway_is_asked_and_its_files_are_not_opened(house: House) -> None:
    await given_up(house)
    (house.workspace / "memory" / "2026-02-04.md").write_bytes(b"\0\1\2\3" * 200)
    with running_gateway(house) as process:
        ours = house.state / "ledger.sqlite"
        code, facts = house.doctor("--offline")
        levels = by_check(facts)
        told = json.dumps(facts)
        assert (code, process.poll()) == (0, None), facts
        assert levels["gateway"] == ["ok"]
        assert levels["port"] == ["ok"]
        assert "1 replies were given up" in told
        assert "2026-02-04.md" in told
        assert not [one for one in facts["findings"] if one["what"].startswith(("not checked", "could not be checked"))], facts
        assert ours.exists()
        run = program("status", "--deep", "--json", home=house.person)
        deep = json.loads(run.stdout)
        assert (run.returncode, deep["running"]) == (0, True)
        assert "given up" in json.dumps(deep["findings"])
    assert "given up" in program("status", "--deep", home=house.person).stdout


def test_a_conversation_in_a_terminal_is_no_gateway(house: House) -> None:
    """It can be asked for the ledger and the index, and has no port and no platforms, which is no fault."""
    house.set(channels={"telegram": {"botToken": "1:a", "apiRoot": "http://127.0.0.1:9"}})
    env = {"PATH": os.environ["PATH"], "HOME": str(house.person), "PYTHONPATH": str(ROOT), "TERM": "xterm"}
    parent, child = pty.openpty()
    command = [sys.executable, "-W", "ignore", "-m", "gateway", "chat"]
    process = programs.start(
        command, env=env, cwd=house.person, stdin=child, stdout=child, stderr=child, start_new_session=True
    )
    os.close(child)
    threading.Thread(target=drained, args=(parent,), daemon=True).start()
    try:
        deadline = time.monotonic() + PATIENCE
        while not ((holder := describe(house.state / "gateway.lock")) and holder.socket and holder.conversation):
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)
        code, facts = house.doctor("--offline")
    finally:
        process.terminate()
        process.wait(PATIENCE)
        os.close(parent)
    told = [one for one in facts["findings"] if one["level"] in {"warning", "error"} and one["check"] != "sandbox"]
    assert (code, told) == (0, [])
    assert "a conversation in a terminal" in json.dumps(facts)
    assert not [one for one in facts["findings"] if one["what"].startswith(("not checked", "could not be checked"))], facts


def drained(terminal: int) -> None:
    """Take what a program writes to its terminal, so that it never waits."""
    with suppress(OSError):
        while os.read(terminal, 65_536):
            pass


async def test_settings_that_wait_for_a_restart_are_told(house: House) -> None:
    with running_gateway(house):
        house.set(gateway={"port": 45_678})
        deadline = time.monotonic() + PATIENCE
        while "gateway.port" not in (text := json.dumps(house.doctor("--offline", "--only", "settings")[1])):
            assert time.monotonic() < deadline, text
        assert "Restart the gateway" in text


async def test_a_gateway_that_was_killed_is_found_and_its_remains_are_mended(house: House) -> None:
    with running_gateway(house) as process:
        process.kill()
        process.wait()
    code, facts = house.doctor("--offline", "--fix")
    told = json.dumps(facts)
    assert code == 0, facts
    assert "ended without being stopped" in told
    assert f"removed {house.state / 'gateway.sock'}" in told
    assert program("agent", "-m", "Where is the spare key?", home=house.person).stdout.count("under the blue pot")


def test_what_a_person_sees(house: House) -> None:
    house.set(tools={"exec": {"security": "deny"}})  # what else confines commands here is told elsewhere
    assert program("memory", "index", home=house.person).returncode == 0
    house.home.chmod(0o755)
    (house.home / "homebody.yaml").chmod(0o644)
    run = program("doctor", "--offline", home=house.person, env={"COLUMNS": "80"})
    assert run.returncode == 0
    lines = run.stdout.splitlines()
    assert all(len(line) <= 80 for line in lines if "Mend: " not in line and str(house.person) not in line), run.stdout
    assert lines[-1].endswith("homebody doctor --fix mends WARNING permissions.")
    assert [line.split()[0] for line in lines if line[:1].strip()][:-1].count("WARNING") == 1
    fixed = program("doctor", "--offline", "--fix", home=house.person)
    assert fixed.stdout.startswith("mended: took the rights of other users off")
    assert "WARNING" not in fixed.stdout
    wrong = program("doctor", "--only", "nothing", home=house.person)
    assert (wrong.returncode, "there is no check 'nothing'" in wrong.stderr, "permissions" in wrong.stderr) == (2, True, True)


def backed_up(house: House, days_ago: float, data: bytes | None = None) -> Path:
    """Put a backup into the folder, or some bytes that are to pass for one."""
    folder = house.home / "backups"
    folder.mkdir(mode=0o700, exist_ok=True)
    if data is None:
        real = house.person / "real.tar.gz"
        run = program("backup", "create", "--no-secrets", "--to", str(real), home=house.person)
        assert run.returncode == 0, run.stderr
        data = real.read_bytes()
    made = datetime.now(UTC) - timedelta(days=days_ago)
    path = folder / f"homebody-{made:%Y%m%dT%H%M%SZ}.tar.gz"
    path.write_bytes(data)
    path.chmod(0o600)
    return path


async def test_a_real_backup_is_well_and_that_it_is_on_the_same_disk_is_told(house: House) -> None:
    assert "no backups are made" in said(await house.found(BACKUPS))
    run = program("backup", "create", "--no-secrets", home=house.person)
    assert run.returncode == 0, run.stderr
    (found,) = await house.found(BACKUPS)
    assert (found.level, "on the disk of what they are copies of" in found.what) == ("note", True)
    house.set(backup={"command": "true"})
    (found,) = await house.found(BACKUPS)
    assert (found.level, "the newest of 1 backups" in found.what) == ("ok", True)
    assert "every byte of it is right" in found.what


async def test_a_backup_that_is_cut_off_or_changed_is_found_and_one_without_its_key_is_no_fault(house: House) -> None:
    house.set(backup={"command": "true"})
    path = backed_up(house, 1)
    whole = path.read_bytes()
    for damaged in (whole[: len(whole) // 2], whole[:-40] + bytes(40)):
        path.write_bytes(damaged)
        (found,) = await house.wrong(BACKUPS)
        assert (found.level, found.where) == ("error", str(path))
        assert "the newest backup is damaged" in found.what
    path.unlink()
    assert program("backup", "create", home=house.person).returncode == 0
    (found,) = await house.found(BACKUPS)
    assert "every byte of it is right" in found.what
    (house.home / "backup-key.txt").unlink()
    (found,) = await house.found(BACKUPS)
    assert (found.level, "its key is not on this machine" in found.what) == ("ok", True)


async def test_a_key_that_nobody_was_shown_is_told_until_it_is_shown(house: House) -> None:
    house.set(backup={"command": "true"})
    assert program("backup", "create", "--json", "--scheduled", home=house.person).returncode == 0
    (found,) = await house.found(BACKUPS)
    assert (found.level, found.what) == ("note", "nobody was shown the key of the backups yet")
    assert found.mend == "homebody backup key"
    assert program(*found.mend.split()[1:], home=house.person).returncode == 0
    (found,) = await house.found(BACKUPS)
    assert found.level == "ok"
    (house.home / "backup-key.txt").unlink()
    assert program("backup", "drill", "--now", home=house.person).returncode == 0, "this one shows the key that it makes"
    assert {one.level for one in await house.found(BACKUPS)} == {"ok"}


def test_the_status_says_how_old_the_last_backup_is(house: House) -> None:
    assert "no backup yet: homebody backup create" in program("status", home=house.person).stdout
    backed_up(house, 3)
    run = program("status", home=house.person)
    assert ", 3 days ago (homebody backup list)" in run.stdout
    write_last(house.state, LastBackup(tried=datetime.now(UTC).isoformat(), failed="the disk is full"))
    run = program("status", "--json", home=house.person)
    facts = json.loads(run.stdout)["backup"]
    assert (facts["count"], facts["failed"]) == (1, "the disk is full")
    assert 71 < facts["ageHours"] < 73


@pytest.mark.parametrize(
    ("schedule", "days", "level", "words"),
    [
        ("off", 40, "note", "40 days old"),
        ("off", 20, "ok", "the newest of 1"),
        ("03:30", 4, "warning", "though the schedule is 03:30"),
        ("03:30", 2, "ok", ""),
        ("sun 03:30", 8, "ok", ""),
        ("sun 03:30", 10, "warning", "though the schedule is sun 03:30"),
    ],
)
async def test_the_age_of_the_newest_backup_is_judged_by_the_schedule(
    house: House, schedule: str, days: float, level: str, words: str
) -> None:
    house.set(backup={"command": "true", "schedule": schedule})
    backed_up(house, days)
    (found,) = await house.found(BACKUPS)
    assert (found.level, words in found.what) == (level, True), found


async def test_a_backup_that_failed_or_is_damaged_is_told(house: House) -> None:
    house.set(backup={"command": "true"})
    write_last(house.state, LastBackup(tried=datetime.now(UTC).isoformat(), failed="the disk is full"))
    path = backed_up(house, 1, bytes(300))
    found = await house.wrong(BACKUPS)
    assert [one.level for one in found] == ["error", "error"]
    assert "the last backup failed" in found[0].what
    assert found[1].where == str(path)
