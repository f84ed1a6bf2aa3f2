"""Runs the commands of README and docs/ as a person types them: each page from top to bottom, in a home of its own.

    python -m tests.documented_commands [PAGE ...]

A line of a block of code that begins with `homebody` is run by a shell, with the notebook as model and no other machine. It has to end with
0, or as ``ENDS`` says. What cannot be run here is listed with its reason in ``NOT_RUN``; an entry that no page has any more is a fault.
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
from typing import Final

from gateway.base.paths import Paths
from gateway.base.state_lock import describe
from tests import programs
from tests.house.test_docs import READ_BY_OWNERS, ROOT, blocks, name_of

HOMEBODY: Final = ROOT / ".venv/bin/homebody"
LONGEST: Final = 60
_COMMAND: Final = re.compile(r"(?:\$ )?((?:printf '[^']*' \| )?homebody .*)")
_QUOTED: Final = re.compile(r"'[^']*'|#.*$")
_FOR_A_SHELL: Final = re.compile(r"[|&;<>$~*`]|^(?!homebody )")
_TOLD_BESIDE: Final = re.compile(r"(?<=\S) {3,}[^#].*$")
"""Words behind a command, in columns."""
NOT_RUN: Final = {
    r"setup( model)?$": "asks in a terminal: tests/setup",
    r"git clone": "a clone: .ci/run, fresh_clone_chats",
    r"^homebody chat( --resume.*| --agent.*| +#.*)?$": "needs a terminal: tests/service/test_windows.py",
    r"gateway$": "runs until it is stopped: tests/gateway",
    r"logs -f": "follows the log until it is stopped: tests/logs",
    r"mcp serve": "speaks MCP until its client leaves: tests/mcp",
    r"service install": "starts a service of systemd: tests/service",
    r"/opt/homebody/": "a clone of root's: tests/service",
    r"docker compose": "a container: .ci/image",
    r"approvals (show|approve|deny) NAME": "needs a question of an agent: tests/approvals",
    r"approvals forget r1a2b3c4": "needs a rule of that id: tests/approvals",
    r"pairing approve": "needs somebody who asked: tests/gateway/test_pairing.py",
    r"memory (diff|undo) 17": "needs 17 changes: tests/memory",
    r"mcp add files -- npx": "npx would fetch a program: tests/mcp",
    r"mcp (show|test|remove|approve) files": "follows the former",
    r"mcp add (files --write|weather)": "needs a program at that place: tests/mcp",
    r"mcp add home --url": "another machine: tests/mcp",
    r"calendar (test|accounts|list)": "needs a calendar server: tests/calendar",
    r"backup\.folder /mnt": "another disk",
    r"route explain --channel slack": "needs Slack's settings: tests/gateway",
    r"route explain --channel telegram": "needs Telegram's settings: tests/gateway",
    r"memory search --queries": "needs a file of questions: tests/memory",
    r"open( --address.*)?$": "makes a link for a browser: tests/page",
    r"--signed": "shows a secret once, in a terminal: tests/hooks",
}
ENDS: Final = {
    r"doctor|security audit|status --deep": {0, 1},  # says what a bare machine lacks
    r"service (status|remove)": {0, 1, 2},  # none is installed
    r"sandbox check": {0, 1},  # in a container of .ci/run bubblewrap may not be allowed
    r"hooks test": {0, 1},
    r"api tokens add webui": {0, 2},  # once at the beginning of the page, and in its list of commands
}
BEFORE: Final = {
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
    "docs/memory.md": ["mkdir -p ~/homebody/memory && printf 'The boiler was serviced.\\n' > ~/homebody/memory/2026-03-02.md"],
    "docs/api.md": ["homebody agents add home"],
    "docs/confinement.md": ["homebody start"],
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
    (r"skills install PATH", r"skills install --yes PATH/tide"),
    (r"skills show NAME", "skills show day-plan"),
    (r"skills approve NAME", "skills approve tide"),
    (r"skills remove NAME", "skills remove --yes tide"),
    (r"migrate from-openclaw (\S+)", r"--profile second migrate from-openclaw \1"),
    (r"xoxb-\.\.\.", "xoxb-1-2-example"),
    (r"xapp-\.\.\.", "xapp-1-2-example"),
    (r"signingSecret \.\.\.", "signingSecret 0123456789abcdef0123456789abcdef"),
    (r"123456:ABC\.\.\.", "123456:AAHexampleexampleexampleexample12345"),
)
"""Placeholders, as a person replaces them."""


def commands_of(page: Path) -> list[str]:
    """Return the commands of a page's blocks, in order, as they are typed."""
    lines = (_COMMAND.fullmatch(line.strip()) for line in blocks(page.read_text("utf-8")))
    return [_TOLD_BESIDE.sub("", matched[1]) for matched in lines if matched]


class Person:
    """Somebody with a home of their own who follows one page."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        (folder / "bin").mkdir(parents=True)
        self.home.mkdir()
        (folder / "bin/homebody").symlink_to(HOMEBODY)
        kept = {
            name: value for name, value in os.environ.items() if not re.search(r"KEY|TOKEN|HOMEBODY|PROXY", name, re.IGNORECASE)
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
        with (
            tempfile.TemporaryFile() as out,
            tempfile.TemporaryFile() as err,
        ):  # a gateway in the background would keep a pipe open
            done = start(
                command,
                env=self.env,
                cwd=self.home,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                timeout=LONGEST,
                check=False,
            )
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


def follow(page: Path) -> tuple[int, list[str], set[str]]:
    """Run a page's commands; return how many were run, what went wrong, and which entries of ``NOT_RUN`` it has."""
    name, lines = name_of(page), commands_of(page)
    wrong: list[str] = []
    left: set[str] = set()
    ran = 0
    folder = Path(tempfile.mkdtemp(prefix="homebody-page-"))
    person = Person(folder)
    try:
        before = (
            []
            if name in FRESH
            else ["homebody config set gateway.port 0", "homebody agent -m 'remember that the key is under the pot'"]
        )
        for line in [*before, *BEFORE.get(name, [])] if lines else []:
            done = person.run(line)
            if done.returncode != 0:
                return ran, [f"{name}: before it, {line}: {done.stderr.strip()}"], left
        for line in lines:
            if reason := next((one for one in NOT_RUN if re.search(one, line)), None):
                left.add(reason)
                continue
            typed = line
            for placeholder, value in INSTEAD:
                typed = re.sub(placeholder, value, typed)
            done = person.run(typed)
            ran += 1
            may = next((codes for one, codes in ENDS.items() if re.search(one, line)), {0})
            if done.returncode not in may or "This is a bug" in done.stderr or "Traceback" in done.stderr:
                wrong.append(
                    f"{name}: {typed}\n    ended with {done.returncode}: {(done.stderr or done.stdout).strip()[-400:]}"
                )
    except subprocess.TimeoutExpired as error:
        wrong.append(f"{name}: {error}")
    finally:
        sys.stderr.write(f"{name}: {ran} run, {len(wrong)} wrong\n" if lines else "")
        person.leave()
        shutil.rmtree(folder, ignore_errors=True)
    return ran, wrong, left


def main(names: list[str]) -> int:
    """Follow all pages, or those that are named; print what went wrong. Return the exit code."""
    began = time.monotonic()
    pages = [page for page in READ_BY_OWNERS if not names or name_of(page) in names]
    with ThreadPoolExecutor(max_workers=2) as workers:
        found = list(workers.map(follow, pages))
    wrong = [line for _, lines, _ in found for line in lines]
    seen = set().union(*(left for _, _, left in found))
    if not names:
        text = "\n".join(line for page in READ_BY_OWNERS for line in blocks(page.read_text("utf-8")))
        wrong += [
            f"no page has {one!r} any more" for one in NOT_RUN if one not in seen and not re.search(one, text, re.MULTILINE)
        ]
    sys.stdout.write("".join(f"{line}\n" for line in wrong))
    count, took = sum(ran for ran, _, _ in found), time.monotonic() - began
    told = f"{count} commands of {len(pages)} pages were run in {took:.0f} s; {len(wrong)} went wrong; {len(seen)} kinds cannot be run"
    sys.stdout.write(f"{told}\n")
    return 1 if wrong or (not count and not names) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
