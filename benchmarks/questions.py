"""How often an owner is asked in a normal week, and what the questions say.

    python benchmarks/questions.py          prints each question and the number of them by day
    python benchmarks/questions.py --json   as JSON

Forty tasks in seven days: git, backups, disk space, Python scripts, downloads, notes. The settings are the defaults, and the owner
answers "always" where a command will be needed again as it is. Tasks that need only the file, memory and web tools ask nothing.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from agent.tools.command_line import plain_words
from agent.tools.protocol import Act
from gateway.approvals.question import Question, question_text
from gateway.approvals.rules import Rules
from gateway.approvals.stored_rules import StoredRules
from gateway.settings.root import Settings

DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
NOW = datetime(2026, 11, 16, 9, tzinfo=UTC)
Answer = Literal["once", "always"]


@dataclass(frozen=True)
class Run:
    """A command, where it starts, and what the owner answers if asked."""

    command: str
    folder: str = ""
    network: bool = False
    answer: Answer = "once"


@dataclass(frozen=True)
class Task:
    """What the owner asks for. ``rewrites`` is a file that the agent changes first; ``taint`` what it read from outside."""

    wish: str
    runs: tuple[Run, ...] = ()
    rewrites: str = ""
    taint: frozenset[str] = frozenset()


def _task(wish: str, *runs: Run | str, rewrites: str = "", taint: str = "") -> Task:
    made = tuple(Run(one) if isinstance(one, str) else one for one in runs)
    return Task(wish, made, rewrites, frozenset({taint}) if taint else frozenset())


ADD = Run("git add -A", "recipes", answer="always")
PUSH = Run("git push origin main", "recipes", network=True, answer="always")
REPORT = Run("python3 scripts/report.py", answer="always")
SYNC = Run("rsync -a notes/ backups/notes", answer="always")
WEEK: tuple[tuple[Task, ...], ...] = (
    (
        _task("What changed in the recipes?", Run("git status", "recipes"), Run("git diff --stat", "recipes")),
        _task("Note: dentist on Thursday at ten."),
        _task("How much room is left on the disk?", "df -h /", "du -sh ."),
        _task("Commit the recipes.", ADD, Run("git commit -m 'Add the soup of Sunday'", "recipes")),
        _task("Back up my notes.", "tar -czf backups/notes-2026-11-16.tar.gz notes"),
        _task("What is still open in my notes?", "grep -rn 'TODO' notes"),
        _task("Run the report of expenses.", REPORT),
    ),
    (
        _task("Push the recipes.", PUSH),
        _task("The report again, please.", REPORT),
        _task("Which notes are the largest?", "du -ah notes | sort -rh | head -5"),
        _task("What did I decide about the boiler?"),
        _task("Which notes did I change last week?", "find notes -name '*.md' -mtime -7"),
        _task(
            "Fetch the timetable as PDF.", Run("curl -fsSLo downloads/timetable.pdf https://tram.example/a.pdf", network=True)
        ),
        _task("Can I plant garlic in this weather?", "cat notes/garden.md", taint="web:weather.example"),
    ),
    (
        _task("Commit and push.", ADD, Run("git commit -m 'Less salt in the soup'", "recipes"), PUSH),
        _task("Back up my notes.", "tar -czf backups/notes-2026-11-18.tar.gz notes"),
        _task("How long is the book by now?", "wc -w notes/book.md"),
        _task("Let the report say months too.", REPORT, rewrites="scripts/report.py"),
        _task("Write down what we said with the roofer."),
        _task("My three largest expenses?", "sort -t, -k2 -rn notes/expenses.csv", "head -3 notes/expenses.csv"),
    ),
    (
        _task("Is the disk filling up?", "df -h", "du -h -d 1 ."),
        _task("Anything not committed?", "cd recipes && git status --short"),
        _task("File the photo of the soup.", "mv inbox/IMG_1.jpg photos/soup.jpg"),
        _task("Copy the notes to the backup folder.", SYNC),
        _task("The report, please.", REPORT),
        _task("Remind me of the roofer on Friday."),
    ),
    (
        _task("Commit and push.", ADD, Run("git commit -m 'Bread without kneading'", "recipes"), PUSH),
        _task("Back up my notes.", "tar -czf backups/notes-2026-11-20.tar.gz notes"),
        _task("Copy the notes too.", SYNC),
        _task("What does this article say?", taint="web:news.example"),
        _task("What is in the table I downloaded?", "head -5 downloads/data.csv", "python3 -c 'import csv; print(1)'"),
        _task("Where did I write about the warranty?", "grep -rin warranty notes"),
    ),
    (
        _task("What takes so much room?", "du -sh notes downloads backups"),
        _task("Make the recording smaller.", "ffmpeg -i inbox/talk.wav inbox/talk.mp3"),
        _task("Delete the old timetable.", "rm downloads/timetable.pdf"),
        _task("What did we cook this month?", Run("git log --since=2026-11-01 --oneline", "recipes")),
        _task("Shrink the new photos.", Run("python3 scripts/shrink.py photos", answer="always")),
    ),
    (
        _task("Copy the notes, and check the backup.", SYNC, "sha256sum backups/notes-2026-11-20.tar.gz"),
        _task("What happened this week?", Run("git log -10 --stat", "recipes"), "ls -lt notes"),
        _task("The report for the week.", REPORT),
    ),
)


@dataclass
class Result:
    """What came of the week: the questions as they are read, by day, and how often a command ran without one."""

    asked: dict[str, list[str]] = field(default_factory=lambda: {day: [] for day in DAYS})
    tasks: int = 0
    commands: int = 0
    refused: list[str] = field(default_factory=list)


def run(root: Path) -> Result:
    """Live through the week in an empty folder."""
    workspace = _workspace(root)
    (root / "state").mkdir()
    settings = Settings.model_validate({"agents": {"defaults": {"workspace": str(workspace)}}})
    rules = Rules(lambda: settings, StoredRules(root / "state"))
    result = Result()
    for day, tasks in zip(DAYS, WEEK, strict=True):
        for task in tasks:
            result.tasks += 1
            if task.rewrites:
                with (workspace / task.rewrites).open("a") as file:
                    file.write("# months\n")
            for one in task.runs:
                result.commands += 1
                verdict, text = _judge(rules, workspace, task, one)
                if verdict == "deny":
                    result.refused.append(one.command)
                if text:
                    result.asked[day].append(text)
    return result


def _judge(rules: Rules, workspace: Path, task: Task, one: Run) -> tuple[str, str]:
    """Return what is decided on a command, and the question where it is asked about."""
    act = Act(
        kind="exec",
        summary=f"run `{one.command}`",
        command=one.command,
        argv=plain_words(one.command),
        cwd=str(workspace / one.folder),
        network=one.network,
    )
    verdict = rules.judge("main", "owner", task.taint, act)
    if verdict.decision != "ask":
        return verdict.decision, ""
    why_not = rules.why_not("main", "owner", task.taint, act)
    if one.answer == "always" and why_not is None:
        rules.allow("main", "owner", task.taint, act, now=NOW)
    question = Question(name="k7f2m3qa", agent="main", act=act, taint=task.taint, reason=verdict.reason, why_not_always=why_not)
    return verdict.decision, question_text(question, home=str(workspace.parent))


def _workspace(root: Path) -> Path:
    workspace = root / "homebody"
    for folder in ("notes", "scripts", "recipes", "backups", "downloads", "photos", "inbox"):
        (workspace / folder).mkdir(parents=True)
    for name in (
        "notes/garden.md",
        "notes/book.md",
        "notes/expenses.csv",
        "downloads/data.csv",
        "scripts/report.py",
        "scripts/shrink.py",
    ):
        (workspace / name).write_text("a,1\nb,2\n")
    for words in (["init", "-q", "-b", "main", "--template="], ["remote", "add", "origin", "https://git.example/recipes"]):
        subprocess.run(["git", *words], cwd=workspace / "recipes", check=True, capture_output=True)
    return workspace


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        result = run(Path(folder))
    counted: dict[str, Any] = {day: len(asked) for day, asked in result.asked.items()}
    if "--json" in sys.argv:
        print(json.dumps({"tasks": result.tasks, "commands": result.commands, "asked": counted, "questions": result.asked}))
        return
    for day, asked in result.asked.items():
        for text in asked:
            print(f"--- {day}\n{text}\n")
    kinds = Counter(len(asked) for asked in result.asked.values())
    print(f"{result.tasks} tasks, {result.commands} commands, {sum(counted.values())} questions; at most {max(kinds)} a day")
    print(", ".join(f"{day} {count}" for day, count in counted.items()))


if __name__ == "__main__":
    main()
