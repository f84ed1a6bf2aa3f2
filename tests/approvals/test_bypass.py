"""No command gets past the rules: not by shell syntax, options, paths, names, or files that lie in the workspace."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.approvals.command_paths import Place
from gateway.approvals.read_only import LOOKING, only_looks
from tests.approvals.conftest import RULES, act, repository
from tests.properties import examples

if TYPE_CHECKING:
    from collections.abc import Callable

    from gateway.approvals.rules import Rules

CORPUS = [
    line for line in (Path(__file__).parent / "bypass.txt").read_text(encoding="utf-8").splitlines() if line and line[0] != "#"
]
ALLOWED = [
    *("ls", "ls -la notes", "pwd", "date +%Y-%m-%d", "du -sh notes", "df -h /", "cat notes/today.md", "head -5 notes/today.md"),
    *("tail -n 2 notes/today.md", "wc -l notes/today.md", "grep -rn 'milk' notes", "grep -e milk -- notes/today.md"),
    *(
        "find . -name '*.md' -type f",
        "find notes -mtime -7",
        "sort -rn notes/x.csv",
        "cut -d, -f1 notes/x.csv",
        "uniq -c notes/x.csv",
    ),
    *("git status", "git status --short", "git log --oneline -5", "git diff --stat", "git diff HEAD -- notes", "git show HEAD"),
    *(
        "git --no-pager log -n3 --format='%h %s'",
        "git branch -a",
        "git remote -v",
        "git config --get user.name",
        "git stash list",
    ),
    *(
        "stat -c '%s %n' notes/today.md",
        "sha256sum notes/today.md",
        "diff -u notes/today.md notes/x.csv",
        "echo 'done; really'",
    ),
    *("uname -a", "uptime -p", "free -h", "which git", "python3 --version", "/usr/bin/ls -1 notes", "ls {workspace}/notes"),
    *(
        "git push origin main",
        "git fetch origin",
        "cat notes/x.csv",
        "python3 script.py",
        "tar -czf backup-2026-11.tar.gz notes",
    ),
]


def _read(line: str, workspace: Path) -> tuple[str, str]:
    """Return the command of a line of the corpus, and the folder where it starts."""
    folder = ""
    if line.startswith(("@/", "@.")) or (line[0] == "@" and line[1].isalnum()):
        folder, _, line = line[1:].partition(" ")
    line = line.replace("{workspace}", str(workspace))
    command = line.encode("latin-1", "backslashreplace").decode("unicode_escape")
    return command, os.path.join(workspace, folder)  # noqa: PTH118 -- the folder may be absolute


@pytest.mark.sec(50)
def test_nothing_of_the_corpus_runs_without_a_question(tricky: Path, rules_of: Callable[..., Rules]):
    rules = rules_of(rules=RULES)
    assert len(CORPUS) >= 500
    allowed = [
        line for line in CORPUS if rules.judge("main", "owner", frozenset(), act(*_read(line, tricky))).decision == "allow"
    ]
    assert allowed == []


@pytest.mark.sec(50)
def test_nothing_of_the_corpus_runs_for_anybody_else(tricky: Path, rules_of: Callable[..., Rules]):
    rules = rules_of(rules=RULES)
    for origin in ("guest", "group", "schedule", "webhook", "agent"):
        for line in (*CORPUS[::7], *ALLOWED):
            assert rules.judge("main", origin, frozenset(), act(*_read(line, tricky))).decision == "deny"


@pytest.mark.parametrize("command", ALLOWED)
def test_the_corpus_bites_because_ordinary_commands_are_allowed(command: str, workspace: Path, rules_of: Callable[..., Rules]):
    verdict = rules_of(rules=RULES).judge("main", "owner", frozenset(), act(*_read(command, workspace)))
    assert verdict.decision == "allow", verdict.reason


def test_a_pattern_that_is_read_as_git_reads_it_decides(tricky: Path, rules_of: Callable[..., Rules]):
    """Each of the repositories is refused for itself: the same command in a plain one is allowed."""
    rules = rules_of(rules=RULES)
    for command in ("git status", "git diff", "git show", "git log"):
        assert rules.judge("main", "owner", frozenset(), act(command, tricky)).decision == "allow"


SNIPPETS = [
    *(
        ";touch canary",
        "\ntouch canary",
        "\rtouch canary",
        "&touch canary",
        "&&touch canary",
        "|touch canary",
        "||touch canary",
    ),
    *(
        "$(touch canary)",
        "`touch canary`",
        "<(touch canary)",
        ">canary",
        " >canary",
        "<<<$(touch canary)",
        "${x:-$(touch canary)}",
    ),
    *(
        "\\\n;touch canary",
        "'$(touch canary)'",
        '";touch canary;"',
        "';touch canary;'",
        "{,}",
        "*",
        "~",
        "$'\\n'",
        "\0",
        " -o canary",
    ),
    *("<<x\n$(touch canary)\nx\n", " #", "\ttouch", "\u2028touch canary", "\u00a0", "!", "(touch canary)", " A=b ", "\\"),
]


@pytest.fixture(scope="module")
def arena(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("arena")
    (folder / "notes").mkdir()
    (folder / "notes/today.md").write_text("milk\n")
    (folder / "notes/x.csv").write_text("1,2\n")
    return folder


def _arena_judges(arena: Path, command: str) -> tuple[str, ...] | None:
    said = act(command, arena)
    allowed = said.argv is not None and said.argv[0] in LOOKING and only_looks(said.argv, Place(str(arena), str(arena)))
    return said.argv if allowed else None


@settings(max_examples=examples(400), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    base=st.sampled_from([one for one in ALLOWED if not one.startswith(("git", "python3", "tar", "/")) and "{" not in one]),
    snippets=st.lists(st.tuples(st.sampled_from(SNIPPETS), st.integers(0, 40)), min_size=1, max_size=3),
)
@pytest.mark.sec(50)
def test_what_is_allowed_has_no_other_meaning_for_a_shell(arena: Path, base: str, snippets: list[tuple[str, int]]):
    command = base
    for snippet, place in snippets:
        command = command[:place] + snippet + command[place:]
    argv = _arena_judges(arena, command)
    if argv is None:
        return
    alone = subprocess.run(argv, cwd=arena, capture_output=True, check=False, stdin=subprocess.DEVNULL)
    shell = subprocess.run(["bash", "-c", command], cwd=arena, capture_output=True, check=False, stdin=subprocess.DEVNULL)
    assert not (arena / "canary").exists()
    if argv[0] not in {
        "uptime",
        "free",
        "date",
        "echo",
        "pwd",
        "df",
    }:  # what changes by itself, and what bash has a builtin for
        assert alone.stdout == shell.stdout


def test_the_snippets_bite_in_a_shell(arena: Path):
    bitten = 0
    for snippet in SNIPPETS:
        if "\0" not in snippet:
            subprocess.run(
                ["bash", "-c", f"ls {snippet}"], cwd=arena, capture_output=True, check=False, stdin=subprocess.DEVNULL
            )
            bitten += (arena / "canary").exists()
            (arena / "canary").unlink(missing_ok=True)
    assert bitten >= 12


NASTY = [
    *(
        "-o",
        "canary",
        "-ocanary",
        "--output=canary",
        "--output",
        "-exec",
        "./evil",
        ";",
        "+",
        "-delete",
        "-fprint",
        "-fls",
        "-ok",
        "--pre=./evil",
    ),
    *(
        "--compress-program=./evil",
        "-S",
        "1",
        "-T",
        "notes",
        "--files0-from=list",
        "-f",
        "list",
        "-F",
        "-C",
        "-c",
        "-i",
        "-l",
        "-L",
        "-R",
        "-r",
    ),
    *(
        "-x",
        "-X",
        "-z",
        "-s",
        "-d",
        "-e",
        "-n",
        "-u",
        "--",
        "-",
        "..",
        "../secret.txt",
        "/etc/passwd",
        "link-out",
        "link-passwd",
        "notes/link",
    ),
    *(
        "notes/today.md",
        "notes",
        ".",
        "notes/x.csv",
        "x",
        "1",
        "+1",
        "--set=now",
        "--help",
        "--version",
        "-h",
        "-a",
        "-m",
        "--to-command=./evil",
    ),
    *(
        "-name",
        "-newer",
        "-printf",
        "%p",
        "-prune",
        "!",
        "(",
        ")",
        "env",
        "$ENV",
        "import",
        "--ext-diff",
        "--textconv",
        "--no-index",
        "HEAD",
    ),
    *(
        "log",
        "diff",
        "show",
        "status",
        "branch",
        "tag",
        "config",
        "--get",
        "stash",
        "list",
        "-p",
        "--stat",
        "--paginate",
        "-Oevil",
    ),
]


def _tree(root: Path) -> dict[str, bytes | str]:
    found: dict[str, bytes | str] = {}
    for folder, folders, files in os.walk(root):
        folders[:] = [one for one in folders if one != ".git"]
        for name in files:
            path = Path(folder, name)
            found[str(path.relative_to(root))] = str(path.readlink()) if path.is_symlink() else path.read_bytes()
        found[folder] = ""
    return found


@settings(max_examples=examples(400), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    program=st.sampled_from(sorted(LOOKING - {"lsblk", "hostname", "versions"})),
    words=st.lists(st.sampled_from(NASTY), max_size=5),
    quiet=st.booleans(),
)
def test_a_built_in_rule_lets_nothing_write_run_or_leave(tame: Path, program: str, words: list[str], quiet: bool):
    """What only looks is run for real, in a folder full of traps."""
    where = tame / "workspace"
    argv = (program, *words)
    if not only_looks(argv, Place(str(where), str(where))):
        return
    before = _tree(tame)
    try:
        ran = subprocess.run(
            argv,
            cwd=where,
            capture_output=True,
            check=False,
            stdin=subprocess.DEVNULL,
            timeout=20,
            env={"PATH": "/usr/bin:/bin"},
        )
    except FileNotFoundError:
        return
    assert _tree(tame) == before
    assert b"root of all secrets" not in ran.stdout + ran.stderr
    assert b"root:x:0:0" not in ran.stdout + ran.stderr


@pytest.fixture(scope="module")
def tame(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The workspace of the other tests, made once."""
    folder = tmp_path_factory.mktemp("tame")
    made = workspace_of(folder)
    (made / "list").write_text("/etc/passwd\0")
    return folder


def workspace_of(folder: Path) -> Path:
    """Make the workspace of conftest.py in a folder."""
    from tests.approvals import conftest

    return conftest.workspace.__wrapped__(folder)


BITES = {
    "[core]\n\tfsmonitor = {evil}\n": "status",
    "[core] fsmonitor = {evil}\n": "status",
    "[CORE]\n\tFSMonitor = {evil}\n": "status",
    "[include]\n\tpath = ../../evil.config\n": "status",
    '[includeIf "gitdir:/"]\n\tpath = ../../evil.config\n': "status",
    "[diff]\n\texternal = {evil}\n": "diff",
    '[filter "x"]\n\tclean = {evil}\n': "status",
    '[diff "x"]\n\ttextconv = {evil}\n': "diff",
    "[core]\n\thooksPath = {hooks}\n": "status",
}
"""Settings of a repository, and the command that only looks and yet runs something there."""


@pytest.mark.parametrize("config", BITES)
def test_git_is_kept_from_repositories_that_really_make_it_run_something(tmp_path: Path, config: str):
    evil, canary, hooks = tmp_path / "evil", tmp_path / "canary", tmp_path / "hooks"
    hooks.mkdir()
    for script in (evil, hooks / "post-index-change"):
        script.write_text(f'#!/bin/sh\ntouch "{canary}"\ncat\n')
        script.chmod(0o755)
    (tmp_path / "evil.config").write_text(f"[core]\n\tfsmonitor = {evil}\n")
    repo, command = tmp_path / "repo", BITES[config]
    repository(repo)
    (repo / ".gitattributes").write_text("* filter=x diff=x\n")
    (repo / "script.py").write_text("print(2)\n")
    assert only_looks(("git", command), Place(str(repo), str(repo)))
    with (repo / ".git/config").open("a") as file:
        file.write(config.format(evil=evil, hooks=hooks))
    assert not only_looks(("git", command), Place(str(repo), str(repo)))
    subprocess.run(["git", command], cwd=repo, capture_output=True, check=False, stdin=subprocess.DEVNULL)
    assert canary.exists()


def test_a_submodule_really_makes_git_run_something(tmp_path: Path):
    evil, canary = tmp_path / "evil", tmp_path / "canary"
    evil.write_text(f'#!/bin/sh\ntouch "{canary}"\n')
    evil.chmod(0o755)
    outer = repository(tmp_path / "repo")
    inner = repository(outer / "inner", f"[core]\n\tfsmonitor = {evil}\n")
    assert only_looks(("git", "status"), Place(str(outer), str(outer)))
    subprocess.run(["git", "-c", "core.fsmonitor=", "add", "inner"], cwd=outer, check=True, capture_output=True)
    canary.unlink(missing_ok=True)
    assert not only_looks(("git", "status"), Place(str(outer), str(outer)))
    subprocess.run(["git", "status"], cwd=outer, capture_output=True, check=False)
    assert inner.exists()
    assert canary.exists()
