"""A process that works on the ledger is killed again and again: what the world saw must still be right."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import apsw
import pytest

import gateway
from tests import postgres_server, programs
from tests.patience import PATIENCE

ROOT = Path(gateway.__file__).parents[1]
WORKER = Path(__file__).with_name("worker.py")
MESSAGES = 150
KILLS = 15
SEED = int(os.environ.get("HOMEBODY_KILL_SEED", "20260301"))


def start(folder: Path, url: str = "") -> programs.Program:
    command = [sys.executable, str(WORKER), str(folder), str(MESSAGES), url]
    return programs.start(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)})


def lines(folder: Path, name: str) -> list[str]:
    path = folder / name
    return path.read_text().splitlines() if path.exists() else []


def known(folder: Path, account: str = "telegram:default", url: str = "") -> int:
    """How many messages of an account the ledger has. No process works on it now, so it may be opened."""
    if url:
        import psycopg

        with psycopg.connect(url) as there:
            if not there.execute("SELECT 1 FROM pg_tables WHERE schemaname = 'homebody' AND tablename = 'inbox'").fetchone():
                return 0
            return there.execute("SELECT count(*) FROM homebody.inbox WHERE account = %s", (account,)).fetchone()[0]
    db = apsw.Connection(str(folder / "ledger.sqlite"))
    count = db.execute("SELECT count(*) FROM inbox WHERE account = ?", (account,)).fetchone()
    assert db.pragma("integrity_check") == "ok"
    assert db.execute("PRAGMA foreign_key_check").fetchall() == []
    db.close()
    assert count is not None
    return int(str(count[0]))


def test_nothing_is_lost_and_nothing_is_done_twice_when_the_process_is_killed(tmp_path: Path) -> None:
    kill_again_and_again(tmp_path)


@pytest.mark.postgres
@pytest.mark.long
def test_nothing_is_lost_and_nothing_is_done_twice_on_postgresql(tmp_path: Path) -> None:
    import psycopg

    with psycopg.connect(postgres_server.server().url(), autocommit=True) as admin:
        admin.execute("CREATE DATABASE killed")
        kill_again_and_again(tmp_path, postgres_server.server().url("killed"))
        admin.execute("DROP DATABASE killed WITH (FORCE)")


def kill_again_and_again(tmp_path: Path, url: str = "") -> None:
    dice = random.Random(SEED)
    killed = 0
    for _ in range(KILLS):
        worker = start(tmp_path, url)
        assert worker.stdout is not None
        worker.stdout.readline()
        time.sleep(dice.uniform(0, 0.04))
        worker.kill()
        rest = worker.stdout.read()
        worker.stdout.close()
        worker.wait()
        killed += "done" not in rest
        acknowledged = [int(line) for line in lines(tmp_path, "acknowledged")]
        assert known(tmp_path, url=url) >= max(acknowledged, default=0), f"seed {SEED}"
    last = start(tmp_path, url)
    output, _ = last.communicate(timeout=PATIENCE)
    assert output.split() == ["ready", "done"], f"seed {SEED}"
    assert killed == KILLS, "the work was done before the last kill: give it more"

    effects = Counter(lines(tmp_path, "effects"))
    shown = lines(tmp_path, "shown")
    plain = Counter(line for line in shown if not line.endswith("(repeated)"))
    seen = {line.removesuffix(" (repeated)") for line in shown}
    expected = [f"{number % 3} m:{number}/{piece}" for number in range(MESSAGES) for piece in range(2)]
    assert known(tmp_path, url=url) == known(tmp_path, "agent", url) == MESSAGES, "each end of a turn is told once"
    assert seen == set(expected), f"seed {SEED}: lost or foreign"
    assert [line for line, count in plain.items() if count > 1] == [], f"seed {SEED}: doubled without a mark"
    assert [alias for alias, count in effects.items() if count > 1] == [], f"seed {SEED}: an effect ran twice"
    for chat in range(3):
        first = list(dict.fromkeys(line.removesuffix(" (repeated)") for line in shown if line.startswith(f"{chat} ")))
        assert first == [line for line in expected if line.startswith(f"{chat} ")], f"seed {SEED}: out of order"
