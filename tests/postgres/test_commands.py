"""The command line with the ledger in PostgreSQL, as its owner uses it."""

from __future__ import annotations

import json
import os
import sys
import time
from typing import TYPE_CHECKING

import pytest

from gateway.ledger.postgres.postgres_schema import STEPS
from tests import programs
from tests.doctor.conftest import program
from tests.patience import PATIENCE

if TYPE_CHECKING:
    from pathlib import Path

    from tests.postgres_server import Server

pytestmark = [pytest.mark.postgres, pytest.mark.long]


def test_the_ledger_moves_to_postgresql_serves_there_and_moves_back(url: str, tmp_path: Path) -> None:
    assert program("cron", "add", "tomorrow at 9", "Water the plants", home=tmp_path).returncode == 0
    assert program("storage", "migrate", "--to", "postgresql", home=tmp_path).returncode == 2, "the settings name none"
    assert program("config", "set", "storage.url", home=tmp_path, input=url).returncode == 0
    both = program("agent", "-m", "hello", home=tmp_path)
    assert both.returncode == 6
    assert "storage migrate --to postgresql" in both.stderr
    file = tmp_path / ".homebody/state/ledger.sqlite"
    trial = program("storage", "migrate", "--to", "postgresql", "--dry-run", "--json", home=tmp_path)
    assert json.loads(trial.stdout)["rows"]["job"] == 1
    assert file.exists()
    moved = program("storage", "migrate", "--to", "postgresql", home=tmp_path)
    assert moved.returncode == 0, moved.stderr
    assert not file.exists()
    assert program("agent", "-m", "Remember that the key is under the pot.", home=tmp_path).returncode == 0
    facts = json.loads(program("storage", "status", "--json", home=tmp_path).stdout)
    assert (facts["engine"], facts["version"]) == ("postgresql", len(STEPS))
    assert (facts["sessions"], facts["transcripts"], facts["folders"]) == (1, 1, [])
    assert "under the pot" in program("sessions", "show", home=tmp_path).stdout
    assert not list(tmp_path.glob(".homebody/agents/*/sessions"))
    looked = program("doctor", home=tmp_path).stdout
    assert "the ledger is in PostgreSQL" in looked
    assert "transcript in PostgreSQL is whole" in looked
    assert "All" in program("sessions", "repair", home=tmp_path).stdout
    assert program("backup", "create", home=tmp_path).returncode == 0
    drill = program("backup", "drill", home=tmp_path)
    assert drill.returncode == 0, drill.stdout + drill.stderr
    assert program("config", "unset", "storage.url", home=tmp_path).returncode == 0
    gone = program("agent", "-m", "hello", home=tmp_path)
    assert gone.returncode == 6
    assert "storage migrate --to file" in gone.stderr
    assert program("config", "set", "storage.url", home=tmp_path, input=url).returncode == 0
    back = json.loads(program("storage", "migrate", "--to", "file", "--json", home=tmp_path).stdout)
    assert (back["rows"]["inbox"], back["rows"]["outbox"], back["rows"]["session"], back["rows"]["transcript"]) == (1, 1, 1, 1)
    assert program("config", "unset", "storage.url", home=tmp_path).returncode == 0
    assert "Water the plants" in program("cron", "list", home=tmp_path).stdout
    assert "under the pot" in program("sessions", "show", home=tmp_path).stdout


def test_a_server_that_is_away_is_told_without_the_password(server: Server, tmp_path: Path) -> None:
    assert program("config", "set", "storage.url", home=tmp_path, input="mysql://me:secret@127.0.0.1/x").returncode == 3
    away = "postgresql://me:secret@127.0.0.1:9/x"
    assert program("config", "set", "storage.url", home=tmp_path, input=away).returncode == 0
    for command in (("agent", "-m", "hello"), ("storage", "status"), ("cron", "list")):
        done = program(*command, home=tmp_path)
        assert done.returncode == 6
        assert "Start PostgreSQL" in done.stderr
        assert "secret" not in done.stderr
    assert "secret" not in program("doctor", home=tmp_path).stdout


def test_a_gateway_waits_for_a_server_that_starts_after_it(server: Server, url: str, tmp_path: Path) -> None:
    assert program("config", "set", "gateway.port", "0", home=tmp_path).returncode == 0
    assert program("config", "set", "storage.url", home=tmp_path, input=url).returncode == 0
    server.stop()
    try:
        with gateway_of(tmp_path) as given_up:
            waits_for_the_server(tmp_path)
            given_up.terminate()
            assert given_up.wait() == 0, "told to end, it ends in order"
        running = gateway_of(tmp_path)
        waits_for_the_server(tmp_path, 2)
    finally:
        server.start()
    with running:
        deadline = time.monotonic() + PATIENCE
        while program("agent", "-m", "hello", home=tmp_path).returncode != 0:
            assert time.monotonic() < deadline
        server.stop()
        try:
            while "Start PostgreSQL" not in (said := program("status", home=tmp_path).stdout):
                assert time.monotonic() < deadline
            assert "agent main" in said
        finally:
            server.start()
        while "Start PostgreSQL" in program("status", home=tmp_path).stdout:
            assert time.monotonic() < deadline
        running.terminate()
        assert running.wait() == 0


def gateway_of(home: Path) -> programs.Program:
    return programs.start(
        [sys.executable, "-m", "gateway", "gateway", "--background"],
        env={"PATH": os.environ["PATH"], "HOME": str(home)},
        cwd=home,
    )


def waits_for_the_server(home: Path, times: int = 1) -> None:
    log, deadline = home / ".homebody/logs/homebody.jsonl", time.monotonic() + PATIENCE
    while not log.exists() or log.read_text().count("the gateway starts once it does") < times:
        assert time.monotonic() < deadline
        time.sleep(0.05)
