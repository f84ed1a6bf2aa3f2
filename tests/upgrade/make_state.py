"""Makes a fixture of today's state by driving the product: ``python -m tests.upgrade.make_state NAME``. Fixtures are never made anew.

The state is that of a person without a language model: conversations, notes with history, jobs, things to do, a webhook, approval rules,
settings. It is stored as a backup without secrets, beside a file of facts that every later version must find in it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests import programs

ROOT = Path(__file__).resolve().parents[2]
STATES = Path(__file__).with_name("states")
LIVED = (
    ("agent", "-m", "remember that the spare key is under the blue pot"),
    ("agent", "-m", "remember that the boiler was serviced in May"),
    ("agent", "-m", "where is the spare key?"),
    ("agent", "-m", "/new"),
    ("agent", "-m", "remember that Iris is allergic to nuts"),
    ("cron", "add", "every weekday at 7:30", "Take the bins out"),
    ("cron", "add", "2030-01-01 10:00", "Renew the passport"),
    ("cron", "add", "every 6 hours", "Stretch"),
    ("todo", "add", "milk"),
    ("todo", "add", "call the plumber"),
    ("config", "set", "session.reset.mode", "idle"),
    ("config", "set", "session.reset.idleMinutes", "600"),
    ("hooks", "add", "door", "--message", "The door says {title}"),
)


def homebody(person: Path, *words: str) -> str:
    """Run the command as its owner does. Raises RuntimeError."""
    env = {"PATH": os.defpath, "HOME": str(person), "TZ": "UTC"}
    done = programs.run(
        [sys.executable, "-m", "gateway", *words],
        cwd=ROOT,
        env=env,
        check=False,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    if done.returncode:
        raise RuntimeError(f"homebody {' '.join(words)}: {done.stderr}")
    return done.stdout


def facts_of(person: Path) -> dict[str, object]:
    """What a person finds in a state with today's commands."""
    return {
        "sessions": sorted(one["sessionKey"] for one in json.loads(homebody(person, "sessions", "list", "--json"))),
        "jobs": sorted(one["name"] for one in json.loads(homebody(person, "cron", "list", "--json"))),
        "hooks": sorted(one["name"] for one in json.loads(homebody(person, "hooks", "list", "--json"))),
        "changes": len(homebody(person, "memory", "log").splitlines()),
    }


def main(name: str) -> None:
    """Make the fixture."""
    with tempfile.TemporaryDirectory() as folder:
        person = Path(folder)
        for words in LIVED:
            homebody(person, *words)
        (STATES / f"{name}.json").write_text(json.dumps(facts_of(person), indent=1) + "\n")
        homebody(person, "backup", "create", "--no-secrets", "--to", str(STATES / f"{name}.tar.gz"))


if __name__ == "__main__":
    main(sys.argv[1])
