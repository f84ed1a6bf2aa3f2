"""Runs the commands of README and docs/ as a person types them: each page from top to bottom, in a home of its own.

    python -m tests.documented_commands [PAGE ...]

A line of a block of code that begins with `homebody` is typed, and so is each whole command in the text that was in none before: one that
names all that it needs, without placeholders. The model is the notebook, and there is no other machine. A command has to end with 0, or as
``ENDS`` says. What cannot be run here is listed with its reason in ``NOT_RUN``; an entry that no page has any more is a fault.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import click

from gateway.base.paths import Paths
from gateway.base.state_lock import describe
from gateway.cli.click_commands import homebody
from tests import programs
from tests.house.test_docs import READ_BY_OWNERS, ROOT, blocks, name_of, texts

HOMEBODY: Final = ROOT / ".venv/bin/homebody"
LONGEST: Final = 60
_COMMAND: Final = re.compile(r"(?:\$ )?((?:printf '[^']*' \| )?homebody .*)")
_QUOTED: Final = re.compile(r"'[^']*'|#.*$")
_FOR_A_SHELL: Final = re.compile(r"[|&;<>$~*`]|^(?!homebody )")
_PLACEHOLDER: Final = re.compile(r"\b[A-Z]{2,}\b|…|\.\.\.|[|\[]")
_TOLD_BESIDE: Final = re.compile(r"(?<=\S) {3,}[^#].*$")
"""Words behind a command, in columns."""
NOT_RUN: Final = {
    r"storage (migrate|status)|config (un)?set storage|config set \S+memorySearch.store": "needs a PostgreSQL: tests/postgres",
    r"cluster (status|move|drain|rotate)": "needs a cluster on a PostgreSQL: tests/cluster",
    r"workspace sync": "needs a repository: tests/workspaces",
    r"createuser|createdb|pg_dump": "programs of PostgreSQL",
    r"^homebody setup( [a-z]+)?$": "asks in a terminal: tests/setup",
    r"git clone": "a clone: .ci/run, fresh_clone_chats",
    r"^homebody chat( --resume.*| --agent.*| +#.*)?$": "needs a terminal: tests/service/test_windows.py",
    r"homebody gateway( --restart-on-stall)?$": "runs until it is stopped: tests/gateway",
    r"logs -f": "follows the log until it is stopped: tests/logs",
    r"mcp serve": "speaks MCP until its client leaves: tests/mcp",
    r"service install": "starts a service of systemd: tests/service",
    r"/opt/homebody/": "a clone of root's: tests/service",
    r"docker compose": "a container: .ci/image",
    r"homebody (update|uninstall)$": "changes this clone, or the command on the PATH: tests/service",
    r"memory tidy( --dry-run| --yes)?$": "needs a language model: tests/memory",
    r"(mail test home|matrix (status|verify( --(new-)?recovery-key)?|sign-in))$": "needs an account: tests/mail, tests/matrix",
    r"channels restart telegram": "needs Telegram's settings: tests/gateway",
    r"config set channels\.telegram\.botToken$": "asks for the token in a terminal: tests/config",
    r"(outbox send|memory search)$": "only named: one needs a number, the other words",
    r"approvals (show|approve|deny) NAME": "needs a question of an agent: tests/approvals",
    r"approvals forget r1a2b3c4": "needs a rule of that id: tests/approvals",
    r"pairing approve": "needs somebody who asked: tests/gateway/test_pairing.py",
    r"mcp add (files --write|weather)": "needs a program at that place: tests/mcp",
    r"mcp add home --url": "another machine: tests/mcp",
    r"calendar (test|accounts|list)": "needs a calendar server: tests/calendar",
}
ENDS: Final = {
    r"doctor|security audit|status --deep": {0, 1},  # says what a bare machine lacks
    r"service (status|remove)": {0, 1, 2},  # none is installed
    r"sandbox check": {0, 1},  # in a container of .ci/run bubblewrap may not be allowed
    r"models probe": {0, 1},  # Ollama, which the page chooses before, may run here or not
    r"api tokens add webui": {0, 2},  # once at the beginning of the page, and in its list of commands
}
_SERVER: Final = f"--no-sandbox -- {sys.executable} {ROOT}/tests/mcp/odd_server.py well ~/tools.json"
_TOOL: Final = '[{"name": "read", "description": "%s", "inputSchema": {"type": "object"}}]'
BEFORE: Final = {
    "docs/mcp.md": [f"echo '{_TOOL % 'Reads.'}' > ~/tools.json"],
    "docs/skills.md": [
        "mkdir -p PATH/tide && printf -- '---\\nname: tide\\ndescription: Tides.\\n---\\nLook.\\n' > PATH/tide/SKILL.md"
    ],
    "docs/migrating.md": [
        f"cp -r {ROOT}/tests/migration/clawdbot-2026.1.24-3 ~/.clawdbot",
        f"cp -r {ROOT}/tests/migration/openclaw-2026.9.6 ~/.openclaw",
    ],
    "docs/recipes.md": ["homebody start"],
    "docs/webhooks.md": ["homebody start"],
    "docs/page.md": ["homebody start"],
    "docs/postgresql.md": ["homebody start"],
    "docs/memory.md": [
        "printf 'The boiler was serviced.\\n' > ~/homebody/memory/2026-03-02.md",
        "printf 'where is the key?\\n' > questions.txt",
    ],
    "docs/groups.md": ["homebody config set channels.telegram.botToken 123456:AAHexampleexampleexampleexample12345"],
    "docs/many-agents.md": [
        "homebody config set channels.slack.botToken xoxb-1-2-example",
        "homebody config set channels.slack.appToken xapp-1-2-example",
        "homebody config set channels.telegram.botToken 123456:AAHexampleexampleexampleexample12345",
    ],
    "docs/api.md": ["homebody agents add home"],
    "docs/confinement.md": ["homebody start"],
    "docs/reliability.md": ["homebody start"],
    "docs/cluster.md": ["homebody start"],
    "docs/jobs.md": [
        "homebody config set agents.defaults.model offline/notebook",
        "printf sk-ant-example | homebody models auth add anthropic",
        "homebody start",
    ],
}
"""What a page takes for granted, made first. Pages that are not named begin with a message that was answered."""
FRESH: Final = {"docs/migrating.md"}
INSTEAD: Final = (
    (r"backup restore FILE", r"backup restore --into ~/restored $(ls -t ~/.homebody/backups/*.age | head -1)"),
    (r"(memory (diff|undo)) 17", r"\1 2"),
    (r"/mnt/other-disk", "~/other-disk"),
    (r"skills install PATH", r"skills install --yes PATH/tide"),
    (r"skills show NAME", "skills show day-plan"),
    (r"skills approve NAME", "skills approve tide"),
    (r"skills remove NAME", "skills remove --yes tide"),
    (r"mcp add files -- npx .*", f"mcp add files {_SERVER}"),
    (r"^homebody mcp approve", f"echo '{_TOOL % 'Reads more.'}' > ~/tools.json; homebody mcp test files; homebody mcp approve"),
    (r"mcp remove files", f"mcp remove files && homebody mcp add files {_SERVER}"),
    (r"^homebody models auth add anthropic$", "printf sk-ant-example | homebody models auth add anthropic"),
    (r"migrate from-openclaw (\S+)", r"--profile second migrate from-openclaw \1"),
    (r"xoxb-\.\.\.", "xoxb-1-2-example"),
    (r"xapp-\.\.\.", "xapp-1-2-example"),
    (r"signingSecret \.\.\.", "signingSecret 0123456789abcdef0123456789abcdef"),
    (r"123456:ABC\.\.\.", "123456:AAHexampleexampleexampleexample12345"),
)
"""Placeholders, and programs that would be fetched, as a person replaces them."""


def commands_of(page: Path) -> list[str]:
    """Return the commands of a page's blocks, in order, as they are typed."""
    lines = (_COMMAND.fullmatch(line.strip()) for line in blocks(page.read_text("utf-8")))
    return [_TOLD_BESIDE.sub("", matched[1]) for matched in lines if matched]


def whole(line: str) -> bool:
    """Whether a command of the text can be typed as it is there, and is not only named."""
    if not line.startswith("homebody ") or _PLACEHOLDER.search(line):
        return False
    here: click.Command = homebody
    context, words = click.Context(here, info_name="homebody"), shlex.split(line)[1:]
    try:
        while isinstance(here, click.Group):
            below = here.get_command(context, words.pop(0)) if words else None
            if below is None:
                return False
            context, here = click.Context(here, parent=context), below
        here.make_context(here.name, words, parent=context)
    except (click.ClickException, click.exceptions.Exit):
        return False
    return True


def plan(pages: list[Path]) -> dict[Path, list[str]]:
    """Return what is typed for each page: its blocks, then whole commands of its text that none of the pages had before."""
    typed = {page: commands_of(page) for page in pages}
    seen = {_QUOTED.sub("", line).strip() for lines in typed.values() for line in lines}
    for page, lines in typed.items():
        for line in texts(page.read_text("utf-8")):
            if line not in seen and whole(line):
                seen.add(line)
                lines.append(line)
    return typed


class Person:
    """Somebody with a home of their own who follows one page."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        (folder / "bin").mkdir(parents=True)
        self.home.mkdir()
        (folder / "bin/homebody").symlink_to(HOMEBODY)
        kept = {
            name: value
            for name, value in os.environ.items()
            if not re.search(r"KEY|TOKEN|HOMEBODY|PROXY|DISPLAY|XDG|DBUS", name, re.IGNORECASE)
        }
        self.env = {
            **kept,
            "HOME": str(self.home),
            "PATH": f"{folder / 'bin'}:/usr/bin:/bin",
            "LANG": "C.UTF-8",
            "NO_COLOR": "1",
        }

    def run(self, line: str) -> subprocess.CompletedProcess[str]:
        """Type a line. What needs a shell has one; a plain command is a fork of a process that has imported the product."""
        plain = not _FOR_A_SHELL.search(_QUOTED.sub("", line))
        start = programs.run if plain else subprocess.run
        command = [str(HOMEBODY), *shlex.split(line, comments=True)[1:]] if plain else ["bash", "-o", "pipefail", "-c", line]
        # Files: a gateway in the background would keep a pipe open.
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            streams: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": out, "stderr": err}
            done = start(command, env=self.env, cwd=self.home, timeout=LONGEST, check=False, **streams)
            out.seek(0)
            err.seek(0)
            return subprocess.CompletedProcess(command, done.returncode, out.read().decode(), err.read().decode())

    def leave(self) -> None:
        """End a gateway that was started."""
        holder = describe(Paths(self.home / ".homebody").state / "gateway.lock")
        if holder is not None:
            os.kill(holder.pid, signal.SIGTERM)
            for _ in range(100):
                if describe(Paths(self.home / ".homebody").state / "gateway.lock") is None:
                    break
                time.sleep(0.1)


def type_in(person: Person, line: str) -> str:
    """Type a command of a page; return what went wrong."""
    for placeholder, value in INSTEAD:
        line = re.sub(placeholder, value, line)
    try:
        done = person.run(line)
    except subprocess.TimeoutExpired:
        return f"{line}\n    did not end within {LONGEST} s"
    may = next((codes for one, codes in ENDS.items() if re.search(one, line)), {0})
    if done.returncode in may and "This is a bug" not in done.stderr and "Traceback" not in done.stderr:
        return ""
    return f"{line}\n    ended with {done.returncode}: {(done.stderr or done.stdout).strip()[-400:]}"


def follow(page: Path, lines: list[str]) -> tuple[int, list[str]]:
    """Run a page's commands; return how many were run, and what went wrong."""
    name = name_of(page)
    first = ["homebody config set gateway.port 0", "homebody agent -m 'remember that the key is under the pot'"]
    before = [*([] if name in FRESH else first), *BEFORE.get(name, [])]
    lines = [line for line in lines if not any(re.search(one, line) for one in NOT_RUN)]
    if not lines:
        return 0, []
    folder = Path(tempfile.mkdtemp(prefix="homebody-page-"))
    person = Person(folder)
    try:
        wrong = [f"before it, {said}" for said in (type_in(person, line) for line in before) if said]
        wrong = wrong or [said for said in (type_in(person, line) for line in lines) if said]
    finally:
        person.leave()
        shutil.rmtree(folder, ignore_errors=True)
    sys.stderr.write(f"{name}: {len(lines)} run, {len(wrong)} wrong\n")
    return len(lines), [f"{name}: {said}" for said in wrong]


def main(names: list[str]) -> int:
    """Follow all pages, or those that are named; print what went wrong. Return the exit code."""
    began = time.monotonic()
    typed = plan([page for page in READ_BY_OWNERS if not names or name_of(page) in names])
    with ThreadPoolExecutor(max_workers=2) as workers:
        found = list(workers.map(follow, typed, typed.values()))
    wrong = [line for _, lines in found for line in lines]
    every = [line for lines in typed.values() for line in lines]
    if not names:
        text = [line for page in typed for line in blocks(page.read_text("utf-8"))]
        unused = [one for one in (*NOT_RUN, *ENDS, *dict(INSTEAD)) if not any(re.search(one, line) for line in [*every, *text])]
        wrong += [f"no page has {one!r} any more" for one in unused]
    sys.stdout.write("".join(f"{line}\n" for line in wrong))
    count, took = sum(ran for ran, _ in found), time.monotonic() - began
    told = f"{len(wrong)} went wrong; {len(every) - count} cannot be run here"
    sys.stdout.write(f"{count} commands of {len(typed)} pages were run in {took:.0f} s; {told}\n")
    return 1 if wrong or (not count and not names) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
