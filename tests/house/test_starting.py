"""Starting is quick, and finds our rooms wherever it is started."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CPU_SECONDS = 0.150
HEAVY = {
    "aiohttp", "anthropic", "apscheduler", "apsw", "asyncio", "discord", "httpx", "httpx2", "markdown_it", "numpy", "openai",
    "prompt_toolkit", "pydantic", "rich", "slack_bolt", "sqlite_vec", "starlette", "structlog", "telegram", "uvicorn", "watchfiles",
}  # fmt: skip


def command(*arguments: str) -> list[str]:
    """The installed program where there is one, as in `make test`; else the same function of this tree."""
    program = Path(sys.executable).with_name("homebody")
    start = (
        [str(program)]
        if program.exists()
        else [sys.executable, "-P", "-c", "import sys; from gateway.cli import main; sys.exit(main())"]
    )
    return [*start, *arguments]


def environment(**more: str) -> dict[str, str]:
    installed = Path(sys.executable).with_name("homebody").exists()
    return {**os.environ, **({} if installed else {"PYTHONPATH": str(ROOT)}), **more}


def cpu_of(arguments: list[str]) -> float:
    process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, env=environment(), cwd=ROOT)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return used.ru_utime + used.ru_stime


def test_help_costs_little_cpu() -> None:
    assert min(cpu_of(command("--help")) for _ in range(5)) <= CPU_SECONDS


def test_help_imports_nothing_heavy() -> None:
    code = "import sys; sys.argv[1:] = ['--help']\nfrom gateway.cli import main\ntry: main()\nexcept SystemExit: pass\nprint(*sys.modules)"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT, env=environment())
    assert "Usage: homebody" in told.stdout
    imported = {name.partition(".")[0] for name in told.stdout.splitlines()[-1].split()}
    assert "click" in imported
    assert not imported & HEAVY


def test_a_program_does_not_look_for_garbage_when_it_ends() -> None:
    code = (
        "import atexit, gc, sys; sys.argv[1:] = ['--version']\nfrom gateway.cli import main\n"
        "atexit.register(lambda: print(gc.get_freeze_count()))\ntry: main()\nexcept SystemExit: pass\nprint(gc.get_freeze_count())"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT, env=environment())
    running, ended = told.stdout.splitlines()[-2:]
    assert int(running) == 0
    assert int(ended) > 10_000


def test_a_conversation_without_a_gateway_imports_no_web_server(tmp_path: Path) -> None:
    code = (
        "import sys; sys.argv[1:] = ['chat', '--plain']\nfrom gateway.cli import main\ntry: main()\nexcept SystemExit: pass\n"
        "print(*sys.modules)"
    )
    env = {**environment(), "HOME": str(tmp_path), "HOMEBODY_HOME": str(tmp_path / "home")}
    told = subprocess.run(
        [sys.executable, "-c", code], input="hello\n", capture_output=True, text=True, check=True, cwd=ROOT, env=env
    )
    imported = {name.partition(".")[0] for name in told.stdout.splitlines()[-1].split()}
    assert "notebook" in told.stdout
    assert not imported & {"starlette", "uvicorn", "h11", "httpx"}


def test_a_single_turn_loads_nothing_that_looks_for_packages_or_starts_python_again(tmp_path: Path) -> None:
    code = (
        "import sys; sys.argv[1:] = ['agent', '-m', 'hello']\nfrom gateway.cli import main\ntry: main()\nexcept SystemExit: pass\n"
        "print(*sys.modules)"
    )
    env = {**environment(), "HOME": str(tmp_path), "HOMEBODY_HOME": str(tmp_path / "home")}
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT, env=env)
    imported = set(told.stdout.splitlines()[-1].split())
    assert {"agent.loop.turn", "pydantic.plugin._loader"} <= imported
    assert not imported & {"apscheduler", "importlib.metadata", "multiprocessing", "starlette", "zipfile"}


IDLE = """
import os, signal, sys, threading, time
from pathlib import Path
from gateway.base.state_lock import describe
from gateway.cli import main

def look() -> None:
    lock = Path(os.environ["HOMEBODY_HOME"], "state", "gateway.lock")
    while not ((holder := describe(lock)) and holder.http_port):
        time.sleep(0.02)
    Path(os.environ["HOMEBODY_HOME"], "modules").write_text(" ".join(sys.modules))
    os.kill(os.getpid(), signal.SIGTERM)

threading.Thread(target=look, daemon=True).start()
main(["gateway"])
"""
USED_LATER = {
    *("agent.context.flush", "agent.context.session_context", "agent.loop.turn", "agent.tools.exec", "agent.tools.todo_list"),
    *("agent.transcript.history_view", "gateway.approvals.question", "gateway.command_handlers.session_commands"),
    *("gateway.jobs.jobs_command", "gateway.models.model_stack", "gateway.outbound.blocks", "gateway.outbound.replying"),
    *(
        "gateway.sandbox.check",
        "gateway.skills.skill_folder",
        "gateway.subagents.starting",
        "gateway.tools.registry",
        "unicodedata",
    ),
    *(f"gateway.api.handlers.{name}_requests" for name in ("hook", "job", "todo", "tool")),
    *("configparser", "gzip", "logging.config", "multiprocessing.context", "python_multipart", "watchfiles.run"),
    *("concurrent.futures.process", "click", "colorama", "multiprocessing.connection", "uvicorn.main", "uvicorn.supervisors"),
    *("aiohttp", "anthropic", "discord", "httpx", "mcp", "openai", "slack_bolt", "slack_sdk", "telegram"),
    *("anyio._backends._asyncio", "html.entities", "starlette.applications", "starlette.middleware.errors"),
    *("agent.context.compaction", "agent.context.summary", "agent.models.notebook.notebook_model", "agent.models.overflow"),
    *("agent.tools.web.search_providers", "agent.tools.web.web_search", "difflib", "gateway.sessions.past_sessions"),
    *("memory.embedding.engines.model_download", "memory.indexing.vectorizer", "memory.search.retrieval"),
    *(f"gateway.api.handlers.{name}_requests" for name in ("approval", "memory", "note", "pairing", "settings", "sharing")),
    *("apscheduler.executors.pool", "csv", "importlib.metadata", "statistics"),
    *("gateway.mcp.mcp_provider", "gateway.mcp.servers", "gateway.telemetry.exposition"),
}
"""Modules of what is configured, asked for or used at some time, and in an idle gateway not."""


def test_an_idle_gateway_has_loaded_nothing_that_is_used_later(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "homebody.yaml").write_text("gateway: {port: 0}\n")
    env = {**environment(), "HOME": str(tmp_path), "HOMEBODY_HOME": str(home)}
    subprocess.run([sys.executable, "-c", IDLE], stderr=subprocess.DEVNULL, check=True, cwd=ROOT, env=env)
    loaded = set((home / "modules").read_text().split())
    assert {"apscheduler.schedulers.asyncio", "gateway.app.services", "gateway.api.server", "memory.workspace_memory"} <= loaded
    assert USED_LATER & loaded == set()


def test_no_setting_has_list_as_its_factory() -> None:
    """pydantic asks for the signature of each factory. That of ``list`` is a text, which Python's parser reads at every start."""
    code = (
        "import gateway.settings.root\nfrom pydantic import BaseModel\n"
        "def below(model): return [deeper for one in model.__subclasses__() for deeper in (one, *below(one))]\n"
        "models = below(BaseModel)\nassert len(models) > 100\n"
        "print([(model, name) for model in models for name, field in model.model_fields.items() if field.default_factory is list])"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT, env=environment())
    assert told.stdout == "[]\n"


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    """A folder of somebody whose own packages have our names."""
    for name in ("agent", "channels", "gateway", "memory"):
        room = tmp_path / "project" / name
        room.mkdir(parents=True)
        (room / "__init__.py").write_text("raise SystemExit('a foreign room was imported')\n")
    return tmp_path / "project"


def test_the_foreign_folders_would_be_taken_without_care(foreign: Path) -> None:
    told = subprocess.run([sys.executable, "-m", "gateway"], cwd=foreign, capture_output=True, text=True, check=False)
    assert "a foreign room was imported" in told.stderr


def test_the_command_finds_our_rooms_beside_foreign_ones(foreign: Path) -> None:
    told = subprocess.run(
        command("config", "schema"), cwd=foreign, env=environment(), capture_output=True, text=True, check=False
    )
    assert told.returncode == 0, told.stderr
    assert "foreign" not in told.stderr


def test_the_module_finds_our_rooms_beside_foreign_ones_with_a_safe_path(foreign: Path) -> None:
    start = [sys.executable, "-m", "gateway", "config", "schema"]
    safe = environment(PYTHONSAFEPATH="1")
    told = subprocess.run(start, cwd=foreign, env=safe, capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stderr
    assert "foreign" not in told.stderr


def test_the_channels_of_the_platforms_import_no_chat_sdk() -> None:
    """Importing an SDK takes up to a second; the channels do it in a thread, when they start, and the event loop goes on."""
    code = (
        "import sys, channels.built_in, channels.discord.channel, channels.slack.channel, channels.telegram.channel\n"
        "print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT, env=environment())
    sdks = {"aiohttp", "discord", "httpx", "slack_bolt", "slack_sdk", "telegram"}
    assert not sdks & set(told.stdout.split())
