"""What a command prints is untrusted when it may have read from outside, and what it writes when such text was in view."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import time
from datetime import date
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import pytest

from agent.messages import ToolCall, ToolMessage
from agent.tools.command_line import plain_words
from agent.tools.command_taint import ELSEWHERE, NETWORK, CommandTaint
from agent.tools.protocol import Act
from agent.tools.untrusted_files import UntrustedFiles
from memory.audience import OWNER
from tests.peers.phone import Village
from tests.sampling import parametrize_some
from tests.taint.test_untrusted_files import CLEAN

if TYPE_CHECKING:
    from agent.models.protocol import Request

WEB = frozenset({"web:evil.example"})
TODAY = date(2026, 3, 1)


@pytest.fixture
def taint(tmp_path: Path) -> CommandTaint:
    for name, text in {
        "plan.md": "mine", "inbox/1-a.txt": "obey", "notes/own.md": "mine", "memory/2026-03-01.md": "- mine\n", "AGENTS.md": "mine\n",
        "page.html": "obey", "memory/peers/eve/2026-03-01.md": "obey",
    }.items():  # fmt: skip
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    known = UntrustedFiles()
    known.mark_whole(PurePosixPath("page.html"), WEB)
    time.sleep(0.05)  # the clock of file systems goes in steps
    return CommandTaint(known, tmp_path)


def sources(taint: CommandTaint, command: str, cwd: str = "", *, network: bool = False) -> tuple[str, ...]:
    root = taint.root
    act = Act(kind="exec", summary="", command=command, argv=plain_words(command), cwd=str(root / cwd), network=network)
    return taint.sources(act, CLEAN)


@pytest.mark.parametrize(
    "command",
    [
        "date",
        "df -h",
        "cat plan.md",
        "wc -l notes/own.md",
        "du -sh notes",
        "echo hello",
        "cat /etc/hostname",
        "grep -c mine ./plan.md",
        "uname -a",
    ],
)
def test_commands_that_read_the_owners_files_alone_print_trusted_text(taint: CommandTaint, command: str) -> None:
    assert sources(taint, command) == ()


@pytest.mark.parametrize(
    "command",
    [
        "cat inbox/1-a.txt", "cat notes/../page.html", "grep -r obey .", "grep --file=page.html plan.md", "git log", "ls", "python3 x.py",
        "cat plan.md | sort", "cat $(ls)", "cat *", "cat memory/peers/eve/2026-03-01.md", "wc -l memory", "find inbox", "du -a",
        "diff plan.md inbox/1-a.txt", "sort --output=x inbox/1-a.txt", "cat PAGE.HTML page.html",
    ],
)  # fmt: skip
def test_commands_that_may_read_untrusted_files_print_untrusted_text(taint: CommandTaint, command: str) -> None:
    assert sources(taint, command) != ()


def test_programs_that_print_names_are_untrusted_by_names_alone(taint: CommandTaint) -> None:
    known = taint.untrusted
    for folder in (".homebody/output", "notes/deep"):
        (taint.root / folder).mkdir(parents=True)
    known.mark(PurePosixPath("notes/own.md"), "obey", WEB)
    known.mark_whole(PurePosixPath(".homebody/output/20260301-090000-ab2c.txt"), WEB, named=False)
    known.mark_whole(PurePosixPath("notes/deep/obey me.txt"), WEB)
    for command in (
        "ls notes",
        "stat notes/own.md",
        "du -sh memory/2026-03-01.md",
        "test -f notes/own.md",
        "ls -la .homebody/output",
    ):
        assert sources(taint, command) == ()
    for command in (
        "ls -R notes",
        "find notes",
        "du notes",
        "ls notes/deep",
        "ls --recursive notes",
        "ls .",
        "cat notes/own.md",
    ):
        assert sources(taint, command) != ()
    assert "file:inbox" in sources(taint, "find .")
    assert sources(taint, "ls inbox") == ("file:inbox",)


def test_the_output_of_a_tainted_command_has_a_name_of_ours(taint: CommandTaint) -> None:
    path = PurePosixPath(".homebody/output/20260301-090000-ab2c.txt")
    known = run(taint, f"mkdir -p {path.parent}; echo obey > {path}; echo obey > {path.parent}/obey.txt")
    assert known.of(path) != ()
    assert known.of_name(path) == ()
    assert known.of_name(path.parent / "obey.txt") != ()


def test_sources_are_named_the_newest_first(taint: CommandTaint) -> None:
    for name in ("a.txt", "b.txt"):
        taint.untrusted.mark_whole(PurePosixPath(name), WEB)
    taint.untrusted.mark(PurePosixPath("a.txt"), "one more", WEB)
    assert [one for one in sources(taint, "python3 x.py") if one.startswith("file:")][:3] == [
        "file:a.txt",
        "file:b.txt",
        "file:page.html",
    ]


def test_the_network_and_files_elsewhere_are_untrusted(taint: CommandTaint, tmp_path_factory: pytest.TempPathFactory) -> None:
    assert sources(taint, "date", network=True) == (NETWORK,)
    elsewhere = Path.home() / "mail.txt"
    elsewhere.parent.mkdir(parents=True, exist_ok=True)
    elsewhere.write_text("obey")
    if elsewhere.parts[1] != "tmp":
        assert sources(taint, f"cat {elsewhere}") == (ELSEWHERE,)


def test_a_workspace_without_untrusted_files_makes_none(tmp_path: Path) -> None:
    (tmp_path / "memory" / "peers").mkdir(parents=True)
    (tmp_path / "a.md").write_text("mine")
    clean = CommandTaint(UntrustedFiles(), tmp_path)
    for command in ("ls", "cat a.md | sort", "grep -r mine ."):
        assert sources(clean, command) == ()


def run(taint: CommandTaint, command: str, view: frozenset[str] = WEB) -> UntrustedFiles:
    watch = taint.begin(view, OWNER, TODAY)
    subprocess.run(["/bin/sh", "-c", command], cwd=taint.root, check=True)
    taint.end(watch)
    return taint.untrusted


@pytest.mark.parametrize(
    ("command", "path"),
    [
        ("echo obey > new.txt", "new.txt"), ("mkdir -p a/b && echo obey > a/b/c.txt", "a/b/c.txt"),
        ("cp inbox/1-a.txt clean.txt", "clean.txt"),
        ("mv page.html clean.md", "clean.md"), ("echo obey > old.txt; touch -d 2001-01-01 old.txt", "old.txt"),
        ("ln -s inbox/1-a.txt l", "l"),
        ("echo obey >> plan.md", "plan.md"),
    ],
)  # fmt: skip
def test_what_a_command_writes_with_untrusted_text_in_view_is_untrusted(taint: CommandTaint, command: str, path: str) -> None:
    known = run(taint, command)
    assert known.of(PurePosixPath(path))[1:] == tuple(WEB)
    assert known.of(PurePosixPath("notes/own.md")) == ()


def test_of_the_days_note_and_what_conversations_are_given_only_the_fresh_lines_are(taint: CommandTaint) -> None:
    known = run(taint, "echo '- obey' | tee -a memory/2026-03-01.md AGENTS.md")
    for name, mine in (("memory/2026-03-01.md", "- mine"), ("AGENTS.md", "mine")):
        assert known.trusted(PurePosixPath(name), f"{mine}\n- obey\n") == (f"{mine}\n", tuple(WEB))


def test_a_file_that_conversations_are_given_can_be_mended_line_by_line_when_a_command_made_it(taint: CommandTaint) -> None:
    known = run(taint, "echo obey > TOOLS.md")
    assert known.trusted(PurePosixPath("TOOLS.md"), "obey\nmine\n") == ("mine\n", tuple(WEB))


def test_a_command_with_nothing_untrusted_in_view_writes_trusted_files(taint: CommandTaint) -> None:
    known = run(taint, "echo mine > new.txt", frozenset())
    assert known.of(PurePosixPath("new.txt")) == ()


def git(folder: Path, *words: str) -> None:
    named = ["-c", "user.name=x", "-c", "user.email=x@x.example", "-c", "init.defaultBranch=main"]
    subprocess.run(["git", *named, *words], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def fetched(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> CommandTaint:
    """A workspace with two repositories. Into ``one`` a command with network fetches a commit of somebody else's."""
    theirs, root = tmp_path_factory.mktemp("theirs"), tmp_path / "workspace"
    for folder, text in ((theirs, "obey"), (root / "one", "mine"), (root / "two", "mine")):
        folder.mkdir(parents=True, exist_ok=True)
        git(folder, "init", "-q")
        for name in ("a.txt", "b.txt"):
            (folder / name).write_text(text)
        git(folder, "add", ".")
        git(folder, "commit", "-qm", "first")
    taint = CommandTaint(UntrustedFiles(), root)
    for command in ("git -C one show origin/main:a.txt", "git -C two show HEAD:a.txt"):
        assert sources(taint, command) == ()
    time.sleep(0.05)  # the clock of file systems goes in steps
    watch = taint.begin(frozenset({NETWORK}), OWNER, TODAY)
    git(root / "one", "fetch", "-q", str(theirs), "main:refs/remotes/origin/main", "main:refs/heads/up")
    taint.end(watch)
    return taint


@parametrize_some(6, ("command", "cwd"),
    [
        ("git show origin/main:a.txt", "one"), ("git diff HEAD origin/main -- a.txt", "one"), ("git log -p origin/main -- a.txt", "one"),
        ("git log -p up -- a.txt evil.md", "one"), ("git show HEAD:a.txt", "one"), ("git status", "one"),
        ("git cat-file -p up:a.txt", "one"),
        ("git -C one show up:a.txt", ""), ("git -C ../one show up:a.txt", "two"), ("git --git-dir=one/.git show up:a.txt", ""),
        ("git --git-dir one/.git show up:a.txt", ""), ("git --git-dir ../one/.git diff HEAD up -- a.txt", "two"),
        ("/usr/bin/git show up", "one"),
        ("env git show up:a.txt", "one"), ("timeout 5 git diff up -- a.txt", "one"), ("git -C two log up -- a.txt", ""),
        ("cat .git/FETCH_HEAD a.txt", "one"), ("cat .git/refs/heads/up", "one"), ("git show up:a.txt | cat", "one"), ("./git a.txt", "one"),
    ],
)  # fmt: skip
def test_git_prints_untrusted_text_where_a_command_brought_such_text_into_the_repository(
    fetched: CommandTaint, command: str, cwd: str
) -> None:
    assert sources(fetched, command, cwd) != ()


@parametrize_some(4, ("command", "cwd"),
    [
        ("git show HEAD:a.txt", "two"), ("git diff HEAD -- a.txt", "two"), ("git -C two diff HEAD -- a.txt", ""),
        ("git log -p a.txt b.txt", "two"), ("cat a.txt", "one"), ("cat a.txt b.txt", "one"), ("git log -3 -- a.txt", "two"),
        ("git --git-dir=two/.git show main:a.txt", ""), ("git --no-pager log -p -- .", "two"),
    ],
)  # fmt: skip
def test_git_prints_trusted_text_of_the_owners_own_repository(fetched: CommandTaint, command: str, cwd: str) -> None:
    assert sources(fetched, command, cwd) == ()


def test_a_folder_that_is_linked_to_another_repository_counts_as_that_one(fetched: CommandTaint) -> None:
    (fetched.root / "three").mkdir()
    (fetched.root / "three" / ".git").write_text("gitdir: ../one/.git\n")
    (fetched.root / "three" / "a.txt").write_text("mine")
    assert sources(fetched, "git show up:a.txt", "three") != ()
    (fetched.root / "two" / ".git" / "objects" / "info" / "alternates").write_text(f"{fetched.root}/one/.git/objects\n")
    assert sources(fetched, "git show HEAD:a.txt", "two") != ()
    act = Act(
        kind="exec", summary="", argv=("git", "show", "HEAD:a.txt"), cwd=str(fetched.root / "one"), env=(("GIT_DIR", "x"),)
    )
    assert fetched.sources(act, CLEAN) != ()


@parametrize_some(8, "command",
    [
        "python3 plan.md", "sort --files0-from=plan.md", "wc --files0-fr=plan.md", "find plan.md -exec sh x {} +", "grep -r plan.md",
        "grep -r obey --exclude-from plan.md", "grep -rf plan.md", "xargs -a plan.md cat", "./cat plan.md", "notes/date",
        "cat link plan.md", "git log -p --grep plan.md", "git show HEAD plan.md evil.md", "git show HEAD HEAD:plan.md",
        "git grep plan.md", "git diff -Oplan.md", "git -c alias.log=!x log plan.md", "git log -p -- plan.md :(glob)**",
        "git log -p up -- plan.md", "git -C notes show HEAD:page.html", "git -C notes --git-dir=../.git show HEAD -- page.html",
        "git log --pathspec-from-file=plan.md",
    ],
)  # fmt: skip
def test_a_clean_file_does_not_hide_another_that_the_command_may_read(taint: CommandTaint, command: str) -> None:
    (taint.root / "link").symlink_to("inbox/1-a.txt")
    git(taint.root, "init", "-q")
    (taint.root / "notes" / "page.html").write_text("mine")
    assert sources(taint, command) != ()


def test_every_command_with_untrusted_text_in_view_makes_the_repository_that_it_changes_untrusted(taint: CommandTaint) -> None:
    git(taint.root, "init", "-q")
    git(taint.root, "add", "plan.md")
    git(taint.root, "commit", "-qm", "mine")
    time.sleep(0.05)
    run(taint, "true")
    assert sources(taint, "git show HEAD:plan.md") == ()
    run(taint, "git -c user.name=x -c user.email=x@x.example commit -q --allow-empty -m obey")
    assert sources(taint, "git show HEAD:plan.md") == ("file:.git",)


def results(v: Village) -> list[ToolMessage]:
    return [message for request in v.model.requests for message in request.messages if isinstance(message, ToolMessage)]


def exec_(command: str, number: int) -> ToolCall:
    return ToolCall(id=f"c{number}", name="exec", arguments={"command": command})


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="commands run without a question only where they are confined")
async def test_a_copy_that_a_command_made_of_a_received_file_taints_who_reads_it(tmp_path: Path) -> None:
    v = Village(tmp_path, tools={"exec": {"security": "full"}})
    v.model.reply_with(lambda _: "Done.")
    async with v.house() as (_, phone):
        await phone.say("hello")
        await phone.until(phone.texts)
        (v.workspace / "inbox").mkdir()
        (v.workspace / "inbox" / "1-a.txt").write_text("obey")
        await asyncio.sleep(0.05)  # the clock of file systems goes in steps
        acts = {
            "copy it": exec_("cat inbox/1-a.txt | tee copy.txt; date > when.txt", 1),
            "read it": ToolCall(id="r", name="read", arguments={"path": "copy.txt"}),
            "and this": exec_("touch more.txt", 2),
        }

        def answer(request: Request) -> object:  # the flush of /new asks as well, whenever it comes
            last = request.messages[-1]
            if isinstance(last, ToolMessage):
                return {"c1": "Copied.", "r": "Read."}.get(last.call_id, "Asked.")
            return next((act for words, act in acts.items() if last.text.endswith(words)), "Done.")

        v.model.reply_with(answer)
        await phone.say("copy it")
        await phone.until(lambda: "Copied." in phone.texts())
        (copied,) = {one.text: one for one in results(v) if one.call_id == "c1"}.values()
        assert copied.taint == ("file:inbox",)
        assert copied.text.startswith("<untrusted ")
        before = len(phone.sent)
        await phone.say("/new")
        await phone.until(lambda: len(phone.sent) > before)
        await phone.say("read it")
        await phone.until(lambda: "Read." in phone.texts())
        (found,) = {one.text: one for one in results(v) if one.call_id == "r"}.values()
        assert found.taint == ("file:copy.txt", "file:inbox")
        await phone.say("and this")
        await phone.until(lambda: any(one.buttons for one in phone.sent))
        assert not (v.workspace / "more.txt").exists()
