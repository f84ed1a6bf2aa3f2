"""A workspace with everything in it that could mislead a rule, and the rules of an owner who allows a lot."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from agent.tools.command_line import plain_words
from agent.tools.protocol import Act
from gateway.approvals.rules import Rules
from gateway.approvals.stored_rules import StoredRules
from gateway.settings.root import Settings

if TYPE_CHECKING:
    from pathlib import Path

EVIL = '#!/bin/sh\ntouch "{canary}"\n'
PLAIN_CONFIG = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n"
CONFIGS = {
    "repo-fsmonitor": "[core]\n\tfsmonitor = ./evil\n",
    "repo-fsmonitor-one-line": "[core] fsmonitor = ./evil\n",
    "repo-upper": "[CORE]\n\tFSMONITOR = ./evil\n",
    "repo-continued": "[user]\n\tname = a\\\n[core]\n\tfsmonitor = ./evil\n",
    "repo-include": "[include]\n\tpath = ../evil.config\n",
    "repo-include-if": '[includeIf "gitdir:/"]\n\tpath = ../evil.config\n',
    "repo-external": "[diff]\n\texternal = ./evil\n",
    "repo-textconv": '[diff "x"]\n\ttextconv = ./evil\n',
    "repo-filter": '[filter "x"]\n\tclean = ./evil\n',
    "repo-pager": "[core]\n\tpager = ./evil\n",
    "repo-gpg": "[gpg]\n\tprogram = ./evil\n[log]\n\tshowSignature = true\n",
    "repo-worktree": "[core]\n\tworktree = /etc\n",
    "repo-hooks-path": "[core]\n\thooksPath = ../hooks\n",
    "repo-partial": '[remote "origin"]\n\turl = ext::./evil\n\tpromisor = true\n',
    "repo-extensions": "[extensions]\n\tpartialClone = origin\n",
    "repo-config-long": "# " + "x" * 70_000 + "\n",
    "repo-config-binary": "[core]\r\n\x00",
}
"""Settings of repositories, each of which could make git run something or look elsewhere."""

RULES = [
    {"decision": "allow", "command": "git push origin main", "network": True},
    {"decision": "allow", "command": "git fetch *", "network": True},
    *(
        {"decision": "allow", "command": command}
        for command in (
            *("cat notes/*", "python3 script.py", "tar -czf backup-*.tar.gz notes", "rsync -a notes/ /mnt/backup/notes"),
            "nosuchprogram x",
        )
    ),
]
Given = Callable[..., Act]


def act(command: str, cwd: Path | str, **given: Any) -> Act:
    """What the exec tool says of a command."""
    return Act(kind="exec", summary=f"run {command}", command=command, argv=plain_words(command), cwd=str(cwd), **given)


def repository(folder: Path, config: str = "") -> Path:
    """Make a repository with one commit, and settings of its own."""
    folder.mkdir(parents=True)
    for words in (
        ["init", "-q", "-b", "main", "--template="],
        ["add", "."],
        ["-c", "user.name=A", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "first"],
    ):
        (folder / "script.py").write_text("print(1)\n")
        subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True)
    with (folder / ".git/config").open("a", newline="") as file:
        file.write(config)
    return folder


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A workspace that an agent has prepared for a trick."""
    root = tmp_path / "workspace"
    repository(root)
    (root / "notes").mkdir()
    (root / "notes/today.md").write_text("# Today\nmilk\nbread\n")
    (root / "notes/x.csv").write_text("a,b\n1,2\n")
    (root / "bin").mkdir()
    for name in ("ls", "evil", "git", "bin/ls", "notes/evil", "backup.sh"):
        (root / name).write_text(EVIL.format(canary=tmp_path / "canary"))
        (root / name).chmod(0o755)
    (tmp_path / "secret.txt").write_text("root of all secrets\n")
    (root / "link-out").symlink_to("/etc")
    (root / "link-passwd").symlink_to("/etc/passwd")
    (root / "notes/link").symlink_to(tmp_path / "secret.txt")
    return root


@pytest.fixture
def tricky(workspace: Path) -> Path:
    """The same, with repositories that would make git run something."""
    for name, config in CONFIGS.items():
        repository(workspace / name, config)
    hooked = repository(workspace / "repo-hook") / ".git/hooks"
    hooked.mkdir(exist_ok=True)
    (hooked / "post-index-change").write_text("#!/bin/sh\n")
    (repository(workspace / "repo-hook-link") / ".git/hooks").symlink_to(workspace / "bin")
    outer = repository(workspace / "repo-submodule")
    repository(outer / "inner")
    subprocess.run(["git", "add", "inner"], cwd=outer, check=True, capture_output=True)
    (workspace / "repo-file").mkdir()
    (workspace / "repo-file/.git").write_text("gitdir: ../repo-fsmonitor/.git\n")
    (workspace / "repo-link").mkdir()
    (workspace / "repo-link/.git").symlink_to(workspace / "repo-fsmonitor/.git")
    for name, file in (
        *(("repo-common", "commondir"), ("repo-config-worktree", "config.worktree"), ("repo-split", "sharedindex.0")),
        ("repo-alternates", "objects/info/alternates"),
    ):
        place = repository(workspace / name) / ".git" / file
        place.parent.mkdir(exist_ok=True)
        place.write_text("../../repo-fsmonitor/.git\n")
    linked = repository(workspace / "repo-config-link") / ".git/config"
    linked.rename(workspace / "evil.config")
    linked.symlink_to(workspace / "evil.config")
    bare = workspace / "bare"
    (bare / "notes").mkdir(parents=True)
    (bare / "HEAD").write_text("ref: refs/heads/main\n")
    (bare / "config").write_text("[core]\n\tfsmonitor = ./evil\n\tbare = false\n")
    return workspace


@pytest.fixture
def stored(tmp_path: Path) -> StoredRules:
    """No stored rules yet."""
    (tmp_path / "state").mkdir()
    return StoredRules(tmp_path / "state")


@pytest.fixture
def rules_of(workspace: Path, stored: StoredRules) -> Callable[..., Rules]:
    """Make rules from settings."""

    def made(*, rules: Any = (), confined: bool = True, **given: Any) -> Rules:
        settings = Settings.model_validate(
            {
                "agents": {"defaults": {"workspace": str(workspace)}},
                "approvals": {"rules": rules},
                "tools": {"exec": given},
            }
        )
        return Rules(lambda: settings, stored, lambda _agent, _origin: confined)

    return made
