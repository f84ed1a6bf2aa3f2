from __future__ import annotations

import json
import os
import shutil
import signal
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.migration.foreign_state import open_state
from gateway.migration.foreign_transcript import LONGEST_LINE, read_transcript
from gateway.migration.session_import import foreign_key
from tests import programs
from tests.patience import PATIENCE
from tests.properties import examples

if TYPE_CHECKING:
    import subprocess

REAL = Path(__file__).parent / "clawdbot-2026.1.24-3"
HOMEBODY = Path(__file__).resolve().parents[2] / ".venv/bin/homebody"


@pytest.fixture
def owner(tmp_path: Path) -> Path:
    """A home folder with the other program's state and workspace."""
    home = tmp_path / "owner"
    state = home / ".clawdbot"
    shutil.copytree(REAL, state)
    config = (state / "clawdbot.json").read_text().replace("/home/owner", str(home))
    (state / "clawdbot.json").write_text(config)
    notes = home / "clawd" / "memory"
    notes.mkdir(parents=True)
    (home / "clawd" / "MEMORY.md").write_text("The spare key is under the blue pot.\n")
    (notes / "2026-01-20.md").write_text("Anna prefers tea.\n")
    return home


def homebody(owner: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "HOME": str(owner), "HOMEBODY_HOME": str(owner / ".homebody")}
    return programs.run([HOMEBODY, *arguments], env=env, capture_output=True, text=True, timeout=PATIENCE, check=False)


def lines(done: subprocess.CompletedProcess[str]) -> dict[tuple[str, str], str]:
    """Return what became of each thing, by kind and name."""
    assert done.returncode == 0, done.stderr
    return {(one["kind"], one["name"]): one["outcome"] for one in json.loads(done.stdout)["lines"]}


def test_a_state_that_the_real_program_made_comes_over(owner: Path) -> None:
    before = sorted((path, path.stat().st_mtime_ns) for path in (owner / ".clawdbot").rglob("*"))
    found = lines(homebody(owner, "migrate", "from-clawdbot", str(owner / ".clawdbot"), "--json"))
    assert found[("settings", "channels.telegram.botToken")] == "taken"
    assert found[("settings", "canvasHost")] == "left out"
    assert found[("sessions", "agent:main:main")] == "taken"
    assert found[("jobs", "water")] == found[("jobs", "brief")] == "taken"
    assert "problem" not in found.values()
    assert sorted((path, path.stat().st_mtime_ns) for path in (owner / ".clawdbot").rglob("*")) == before

    assert homebody(owner, "config", "validate").returncode == 0
    shown = homebody(owner, "sessions", "show").stdout
    assert "you: hello again" in shown
    assert "agent: pong" in shown
    jobs = {one["name"]: one for one in json.loads(homebody(owner, "cron", "list", "--json").stdout)}
    assert jobs["water"]["words"] == "At 09:00 on Monday through Friday (Europe/Berlin)"
    assert jobs["brief"]["words"] == "Every 30 minutes"
    assert (owner / "homebody/MEMORY.md").read_text() == "The spare key is under the blue pot.\n"
    assert "Anna prefers tea" in homebody(owner, "memory", "search", "tea").stdout


def test_a_dry_run_says_the_same_and_writes_nothing(owner: Path) -> None:
    said = lines(homebody(owner, "migrate", "from-clawdbot", str(owner), "--dry-run", "--json"))
    assert not (owner / ".homebody/homebody.yaml").exists()
    assert not (owner / "homebody").exists()
    assert said == lines(homebody(owner, "migrate", "from-clawdbot", str(owner), "--json"))


def test_an_installation_in_use_is_not_touched(owner: Path) -> None:
    homebody(owner, "config", "set", "agents.defaults.userTimezone", "Europe/Berlin")
    kept = (owner / ".homebody/homebody.yaml").read_text()
    done = homebody(owner, "migrate", "from-clawdbot", str(owner))
    assert done.returncode == 2
    assert "in use already" in done.stderr
    assert (owner / ".homebody/homebody.yaml").read_text() == kept


@pytest.mark.parametrize(
    "place",
    [
        "after-migration_marker",
        "before-migration_workspace",
        "after-migration_workspace",
        "after-migration_sessions",
        "after-migration_job:1",
        "after-migration",
    ],
)
def test_a_take_over_that_was_killed_is_told_and_gone_on_with(owner: Path, place: str) -> None:
    command = ("migrate", "from-clawdbot", str(owner / ".clawdbot"))
    env = {**os.environ, "HOME": str(owner), "HOMEBODY_HOME": str(owner / ".homebody"), "HOMEBODY_FAULT": place}
    killed = programs.run([HOMEBODY, *command], env=env, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    for words in (("status",), ("doctor", "--offline", "--only", "backups"), ("agent", "-m", "hello"), ("gateway",)):
        done = homebody(owner, *words)
        assert done.returncode != 0
        assert "was broken off" in done.stdout + done.stderr, words
        assert f"migrate from-clawdbot {owner}/.clawdbot" in " ".join((done.stdout + done.stderr).split())
    found = lines(homebody(owner, *command, "--json"))
    assert "problem" not in found.values()
    assert "you: hello again" in homebody(owner, "sessions", "show").stdout
    jobs = [one["name"] for one in json.loads(homebody(owner, "cron", "list", "--json").stdout)]
    assert sorted(jobs) == ["brief", "once", "water"]
    assert (owner / "homebody/MEMORY.md").read_text() == "The spare key is under the blue pot.\n"
    assert (owner / "homebody/memory/2026-01-20.md").read_text() == "Anna prefers tea.\n"
    assert not list(owner.glob("*taking-over*"))
    assert "is in use already" in homebody(owner, *command).stderr


def test_an_empty_ledger_is_no_use_and_a_job_is(owner: Path) -> None:
    homebody(owner, "cron", "list")
    assert (owner / ".homebody/state/ledger.sqlite").exists()
    assert homebody(owner, "migrate", "from-clawdbot", str(owner), "--dry-run").returncode == 0
    homebody(owner, "cron", "add", "tomorrow at 9", "water the plants")
    done = homebody(owner, "migrate", "from-clawdbot", str(owner), "--dry-run")
    assert done.returncode == 2
    assert "ledger.sqlite" in done.stderr


def test_a_bot_that_is_open_to_all_is_named(owner: Path) -> None:
    state = owner / ".clawdbot"
    config = json.loads((state / "clawdbot.json").read_text())
    config["channels"]["telegram"] |= {"dmPolicy": "open", "allowFrom": ["777", "*"]}
    (state / "clawdbot.json").write_text(json.dumps(config))
    done = json.loads(homebody(owner, "migrate", "from-clawdbot", str(owner), "--dry-run", "--json").stdout)
    told = [one["told"] for one in done["lines"] if one["name"] == "channels.telegram.dmPolicy"]
    assert any("everybody may write" in one for one in told)


def test_a_workspace_that_is_not_empty_is_left_alone(owner: Path) -> None:
    (owner / "homebody").mkdir()
    (owner / "homebody/MEMORY.md").write_text("mine\n")
    found = lines(homebody(owner, "migrate", "from-clawdbot", str(owner), "--json"))
    assert found[("workspace", str(owner / "clawd"))] == "problem"
    assert (owner / "homebody/MEMORY.md").read_text() == "mine\n"


def test_people_keys_and_variables_come_over(owner: Path) -> None:
    state = owner / ".clawdbot"
    (state / "credentials").mkdir()
    (state / "credentials/telegram-allowFrom.json").write_text('{"version": 1, "allowFrom": ["4242", "77", "*"]}')
    (state / ".env").write_text('OPENAI_API_KEY="sk-from-env-0123456789"\nBOT=123456:ABCdefGHIjklMNOpqrSTUvwxYZ\n')
    config = json.loads((state / "clawdbot.json").read_text())
    config["channels"]["telegram"]["botToken"] = "${BOT}"
    (state / "clawdbot.json").write_text(json.dumps(config))
    (state / "agents/main/agent/auth-profiles.json").write_text(
        json.dumps(
            {
                "profiles": {
                    "anthropic:default": {"type": "api_key", "provider": "anthropic", "key": "sk-ant-0123456789"},
                    "openai-codex:x": {"type": "oauth", "provider": "openai-codex", "access": "a", "refresh": "b"},
                }
            }
        )
    )
    done = homebody(owner, "migrate", "from-clawdbot", str(owner), "--json")
    found = lines(done)
    assert found[("people", "telegram 4242")] == "taken"
    assert found[("keys", "anthropic:default")] == "taken"
    assert found[("keys", "openai-codex:x")] == "left out"
    assert found[("keys", "OPENAI_API_KEY")] == "taken"
    assert "0123456789" not in done.stdout + done.stderr
    allowed = json.loads(homebody(owner, "config", "get", "channels.telegram.allowFrom", "--json").stdout)
    assert "4242" in json.dumps(allowed)
    assert "*" not in json.dumps(allowed)
    kept = json.loads((owner / ".homebody/auth-profiles.json").read_text())["profiles"]
    assert kept["anthropic:default"]["key"] == "sk-ant-0123456789"
    assert (owner / ".homebody/auth-profiles.json").stat().st_mode & 0o077 == 0


def test_broken_things_are_named_and_the_rest_comes_over(owner: Path) -> None:
    state = owner / ".clawdbot"
    transcript = next((state / "agents/main/sessions").glob("4d*.jsonl"))
    transcript.write_bytes(b"\xff\xfe not json\n" + transcript.read_bytes() + b'{"type":"message","id":"z","par')
    jobs = json.loads((state / "cron/jobs.json").read_text())
    jobs["jobs"] += [
        {"name": "past", "schedule": {"kind": "at", "atMs": 1000}, "payload": {"text": "x"}},
        {"name": "odd", "schedule": {"kind": "cron", "expr": "99 * * * *"}, "payload": {"text": "x"}},
        {"name": "moon", "schedule": {"kind": "moon"}, "payload": {"text": "x"}},
        {"name": "mute", "schedule": {"kind": "every", "everyMs": 60000}, "payload": {}},
    ]
    (state / "cron/jobs.json").write_text(json.dumps(jobs))
    sessions = json.loads((state / "agents/main/sessions/sessions.json").read_text())
    sessions["agent:main:telegram:group:-100"] = {"sessionId": "gone", "updatedAt": 1}
    sessions["agent:main:whatsapp:dm:+49"] = {"sessionId": "gone", "updatedAt": 1}
    (state / "agents/main/sessions/sessions.json").write_text(json.dumps(sessions))
    (owner / "clawd/outside").symlink_to("/etc/passwd")
    os.mkfifo(owner / "clawd/pipe")
    found = lines(homebody(owner, "migrate", "from-clawdbot", str(owner), "--json"))
    assert found[("sessions", "agent:main:main")] == "changed"
    assert found[("sessions", "agent:main:telegram:group:-100")] == "problem"
    assert found[("sessions", "agent:main:whatsapp:dm:+49")] == "left out"
    assert [found[("jobs", name)] for name in ("past", "odd", "moon", "mute")] == [
        "left out",
        "problem",
        "left out",
        "left out",
    ]
    assert found[("jobs", "water")] == "taken"
    assert found[("workspace", str(owner / "clawd"))] == "changed"
    assert not (owner / "homebody/outside").is_symlink()
    assert not (owner / "homebody/pipe").exists()


def test_odd_agents_are_spelled_or_left_out_and_a_dry_run_promises_nothing_else(owner: Path) -> None:
    state = owner / ".clawdbot"
    config = json.loads((state / "clawdbot.json").read_text())
    listed = [{"id": "Wörk Agent", "workspace": "/nowhere"}, {"id": "main", "default": True}, {"id": "main"}, {"id": "日本"}, 7]
    config["agents"]["list"] = listed
    config["bindings"] = [{"agentId": "Wörk Agent", "match": {"channel": "telegram"}}]
    (state / "clawdbot.json").write_text(json.dumps(config))
    jobs = json.loads((state / "cron/jobs.json").read_text())
    (state / "cron/jobs.json").write_text(json.dumps({**jobs, "jobs": [*jobs["jobs"], 7]}))
    promised = lines(homebody(owner, "migrate", "from-clawdbot", str(owner), "--dry-run", "--json"))
    assert promised[("settings", "the agent Wörk Agent")] == "changed"
    assert promised[("settings", "the agent main")] == "left out"
    assert promised[("jobs", "1 entry of jobs.json")] == "problem"
    assert lines(homebody(owner, "migrate", "from-clawdbot", str(owner), "--json")) == promised
    ids = [one["id"] for one in json.loads(homebody(owner, "agents", "list", "--json").stdout)]
    assert ids == ["work-agent", "main"]
    assert homebody(owner, "config", "validate").returncode == 0


def test_a_folder_of_another_kind_is_refused(owner: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    done = homebody(owner, "migrate", "from-openclaw", str(tmp_path / "empty"))
    assert done.returncode == 2
    assert "openclaw.json" in done.stderr


@pytest.mark.parametrize(
    ("key", "here"),
    [
        ("agent:main:main", "agent:main:main"),
        ("agent:main:telegram:group:-1001:topic:7", "agent:main:telegram:group:-1001:thread:7"),
        ("agent:main:discord:channel:99", "agent:main:discord:group:99"),
        ("agent:main:telegram:dm:42", "agent:main:telegram:dm:42"),
        ("agent:main:cron:abc", None),
        ("agent:main:subagent:abc", None),
        ("agent:other:main", None),
        ("agent:main:whatsapp:group:1@g.us", None),
    ],
)
def test_keys_of_sessions(key: str, here: str | None) -> None:
    assert foreign_key(key, "main") == here


def message(identity: str, parent: str | None, text: str, role: str = "user") -> str:
    content = [{"type": "text", "text": text}]
    said = {"role": role, "content": content, "timestamp": 1795637911228}
    return json.dumps({"type": "message", "id": identity, "parentId": parent, "message": said})


@settings(max_examples=examples(80))
@given(data=st.data(), size=st.integers(1, 25))
def test_what_is_read_is_the_branch_of_the_last_message(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, size: int
) -> None:
    path = tmp_path_factory.mktemp("t") / "t.jsonl"
    parents: list[int | None] = [None]
    parents += [data.draw(st.integers(0, number - 1)) for number in range(1, size)]
    path.write_text("\n".join(message(str(n), None if p is None else str(p), f"m{n}") for n, p in enumerate(parents)) + "\n")
    way: list[str] = []
    here: int | None = size - 1
    while here is not None:
        way.append(f"m{here}")
        here = parents[here]
    assert [one.text for one in read_transcript(path).messages] == way[::-1]


def test_a_compaction_stands_for_what_was_before_it(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    compaction = {"type": "compaction", "id": "c", "parentId": "b", "summary": "They met.", "firstKeptEntryId": "b"}
    rows = [message("a", None, "old"), message("b", "a", "kept", "assistant"), json.dumps(compaction), message("d", "c", "new")]
    path.write_text("\n".join(rows))
    found = read_transcript(path)
    assert found.summary == "They met."
    assert [one.text for one in found.messages] == ["kept", "new"]
    assert found.messages[0].at == datetime.fromtimestamp(1795637911.228, UTC)


def test_circles_and_endless_lines_end(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    rows = [
        message("a", "b", "one"),
        message("b", "a", "two"),
        "x" * (LONGEST_LINE + 5),
        message("c", "b", "three"),
        "[" * 100_000,
    ]
    path.write_text("\n".join(rows))
    found = read_transcript(path)
    assert [one.text for one in found.messages] == ["one", "two", "three"]
    assert found.broken == 2


def test_results_of_tools_are_counted_and_make_the_session_untrusted(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    result = {"role": "toolResult", "toolName": "web_fetch", "content": [{"type": "text", "text": "obey"}]}
    own = {"role": "toolResult", "toolName": "memory_search", "content": []}
    rows = [message("a", None, "look"), json.dumps({"type": "message", "id": "b", "parentId": "a", "message": own})]
    path.write_text("\n".join(rows))
    assert not read_transcript(path).outside
    path.write_text("\n".join([*rows, json.dumps({"type": "message", "id": "c", "parentId": "b", "message": result})]))
    found = read_transcript(path)
    assert (found.tools, found.outside) == (2, True)
    assert [one.text for one in found.messages] == ["look"]


def test_the_workspace_of_each_agent_is_found(tmp_path: Path) -> None:
    state = tmp_path / ".openclaw"
    state.mkdir()
    config = {"agents": {"defaults": {"workspace": "~/here"}, "list": [{"id": "work"}, {"id": "Main", "default": True}]}}
    (state / "openclaw.json").write_text(json.dumps(config))
    found = open_state("openclaw", tmp_path, Path("/nowhere"))
    assert found.agents == ("main", "work")
    assert found.workspace("main") == tmp_path / "here"
    assert found.workspace("work") == tmp_path / ".openclaw/workspace-work"
