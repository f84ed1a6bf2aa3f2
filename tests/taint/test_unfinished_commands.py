"""What a command writes counts as untrusted while it runs, for everybody who reads it, and not only once it has ended."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent.context.workspace_files import Workspace
from agent.messages import ToolCall
from agent.tools.command_taint import CommandTaint
from agent.tools.exec import Exec
from agent.tools.file_tool_context import FileToolContext
from agent.tools.files import file_tools
from agent.tools.toolbox import Toolbox
from agent.tools.unfinished_commands import UnfinishedCommands
from agent.tools.untrusted_files import UntrustedFiles
from memory.audience import OWNER
from tests.full_disk import no_file_may_grow
from tests.peers.phone import Village
from tests.properties import examples
from tests.runner.commands import until
from tests.runner.hands import hands
from tests.taint.test_command_taint import TODAY, WEB, results

if TYPE_CHECKING:
    from agent.messages import ToolMessage
    from tests.runner.hands import Hands

SAID = PurePosixPath("said.txt")
EVIL = ("web:evil.example",)


def files_of(tmp_path: Path, known: UntrustedFiles) -> CommandTaint:
    (tmp_path / "workspace").mkdir(exist_ok=True)
    return CommandTaint(known, tmp_path / "workspace")


async def begun(one: Hands, command: str, done: str = "done", *, taint: tuple[str, ...] = EVIL) -> str:
    """Start a command in the background of a conversation, and wait until it has made the file that it is to make last."""
    await asyncio.sleep(0.05)  # the clock of file systems goes in steps
    line = f"{command}; touch {done}; sleep 100"
    answer = await one.call("exec", context=one.context(taint=taint), command=line, background=True)
    await until((one.root / done).exists)
    return str(answer.details["job"])


async def test_what_a_command_in_the_background_wrote_is_untrusted_for_every_other_conversation(tmp_path: Path) -> None:
    known = UntrustedFiles()
    files = files_of(tmp_path, known)
    (files.root / "mine.txt").write_text("mine")
    async with hands(tmp_path, files=files) as one:
        job = await begun(one, "echo obey > said.txt; mkdir -p sub/obey; echo obey > sub/obey/x.txt; echo obey > 'obey me'")
        tools = Toolbox(
            (*file_tools(FileToolContext(sandbox=Workspace(files.root).sandbox, untrusted=known)), _exec(one, files))
        )

        async def call(name: str, **arguments: str) -> ToolMessage:
            return await tools.run(ToolCall(id="c", name=name, arguments=arguments), one.context())

        for name, arguments in (
            ("read", {"path": "said.txt"}),
            ("grep", {"pattern": "obey", "path": "sub"}),
            ("list", {}),
            ("exec", {"command": "cat said.txt"}),
            ("exec", {"command": "ls"}),
            ("exec", {"command": "cat sub/*/x.txt | sort"}),
        ):
            assert (await call(name, **arguments)).taint != (), (name, arguments)
        for name, arguments in (
            ("read", {"path": "mine.txt"}),
            ("grep", {"pattern": "mine", "path": "mine.txt"}),
            ("exec", {"command": "cat mine.txt"}),
        ):
            assert (await call(name, **arguments)).taint == (), (name, arguments)
        await one.process("kill", job=job)
        assert (await call("read", path="said.txt")).taint == ("file:said.txt", *EVIL)
    assert known.unfinished is not None
    assert not known.unfinished


def _exec(one: Hands, files: CommandTaint) -> Exec:
    return Exec(one.commands, files.sources)


async def test_of_notes_and_prompt_files_the_lines_of_a_running_command_alone_are_untrusted(tmp_path: Path) -> None:
    known = UntrustedFiles()
    files = files_of(tmp_path, known)
    (files.root / "AGENTS.md").write_text("mine\n")
    (files.root / "memory.md").write_text("mine\n")
    (files.root / "memory").mkdir()
    async with hands(tmp_path, files=files) as one:
        note = OWNER.daily_note(one.commands.clock.now().date())
        await begun(one, f"echo obey | tee -a AGENTS.md memory.md BOOTSTRAP.md {note}")
        workspace = Workspace(files.root, untrusted=known)
        given = {one.name: one.text for one in workspace.bootstrap_files()}
        assert given["AGENTS.md"] is not None
        assert given["AGENTS.md"].startswith("mine\n[left out")
        assert "obey" not in (given["BOOTSTRAP.md"] or "")
        for name in ("MEMORY.md", "memory.md"):
            assert known.trusted(PurePosixPath(name), "mine\nobey\n") == ("mine\n", EVIL)
        access = FileToolContext(sandbox=workspace.sandbox, untrusted=known)
        access.record(note, b"obey\n", b"obey\n- my own words\n", one.context())
        (files.root / note).write_text("obey\n- my own words\n")
        assert known.trusted(note, "obey\n- my own words\n") == ("- my own words\n", EVIL)
        assert known.of(note, "- my own words") == ()
        (files.root / note).write_text("- my own words\n")  # what was read before may be gone when it is judged
        assert known.of(note, "obey") != ()
    assert known.of(note, "- my own words") == ()


async def test_a_command_that_runs_with_nothing_untrusted_within_reach_is_looked_at_by_who_reads_its_files(
    tmp_path: Path,
) -> None:
    known = UntrustedFiles()
    files = files_of(tmp_path, known)
    async with hands(tmp_path, files=files) as one:
        answer = await one.exec("echo mine > early.txt; read a; cp later.txt said.txt; touch done; sleep 100", background=True)
        await until((files.root / "early.txt").exists)
        await asyncio.sleep(0.05)  # the clock of file systems goes in steps
        known.mark_whole(PurePosixPath("later.txt"), EVIL)
        (files.root / "later.txt").write_text("obey")
        await one.process("write", job=answer.details["job"], data="\n")
        await until((files.root / "done").exists)
        assert known.of(SAID) == ("file:said.txt", "file:later.txt")
        assert known.of(PurePosixPath("early.txt")) == ()


async def test_what_cannot_be_recorded_at_the_end_goes_on_to_count_and_is_recorded_later(tmp_path: Path) -> None:
    known = UntrustedFiles(tmp_path / "untrusted.jsonl")
    files = files_of(tmp_path, known)
    async with hands(tmp_path, files=files) as one:
        job = await begun(one, "echo obey > said.txt")
        with no_file_may_grow():
            await one.process("kill", job=job)
            await until(lambda: all(known_job.state.status == "ended" for known_job in one.commands.jobs(OWNER)))
        assert known.of(SAID) == ("file:said.txt", *EVIL)
        assert UntrustedFiles(tmp_path / "untrusted.jsonl").of(SAID) == ()
        await one.call("exec", context=one.context(taint=EVIL), command="true")
        assert UntrustedFiles(tmp_path / "untrusted.jsonl").of(SAID) == ("file:said.txt", *EVIL)


async def test_what_a_killed_gateway_left_of_a_command_that_came_to_read_untrusted_text_is_untrusted(tmp_path: Path) -> None:
    known = UntrustedFiles(tmp_path / "untrusted.jsonl")
    files = files_of(tmp_path, known)
    (files.root / "before.txt").write_text("mine")
    await asyncio.sleep(0.05)  # the clock of file systems goes in steps
    async with hands(tmp_path, files=files) as one:
        answer = await one.exec("read a; cat inbox/*; echo obey > said.txt; touch done; sleep 100", background=True)
        (files.root / "inbox").mkdir()
        (files.root / "inbox" / "1-a.txt").write_text("obey")
        record = next((tmp_path / "records").glob("*.json"))
        left = record.read_text()
        assert json.loads(left)["taint"] == []
        await one.process("write", job=answer.details["job"], data="\n")
        await until((files.root / "done").exists)
    (tmp_path / "untrusted.jsonl").unlink()
    record.write_text(left)
    known = UntrustedFiles(tmp_path / "untrusted.jsonl")
    async with hands(tmp_path, files=CommandTaint(known, files.root)):
        assert known.of(SAID) == ("file:said.txt", "file:inbox")
        assert known.of(PurePosixPath("before.txt")) == ()


STEPS = st.sampled_from(["write", "move", "make", "swap"])
PLACES = st.sampled_from(["a", "a/b", "a/c", "d"])


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(st.tuples(STEPS, PLACES, PLACES), min_size=1, max_size=8))
def test_a_running_command_is_judged_as_it_will_be_at_its_end(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, str, str]]
) -> None:
    root = tmp_path_factory.mktemp("w")
    for folder in ("a/b", "a/c", "d"):
        (root / folder).mkdir(parents=True)
        (root / folder / "f.txt").write_text("mine")
    known = UntrustedFiles()
    known.mark_whole(PurePosixPath("a/b/f.txt"), WEB)
    files = CommandTaint(known, root, now_ns=lambda: max(one.lstat().st_ctime_ns for one in root.rglob("*")) + 20_000_001)
    running = UnfinishedCommands(files)
    running.put("x", files.begin(WEB, OWNER, TODAY))
    for number, (step, first, second) in enumerate(steps):
        _do(root, step, first, second, number)
    paths = [PurePosixPath(one.relative_to(root)) for one in root.rglob("*")]
    folders = [PurePosixPath(), *(path for path in paths if (root / path).is_dir())]
    now = [(known.of(path), known.of_name(path)) for path in paths]
    below = [(set(known.below(one)), set(known.names(one, deep=True)), set(known.names(one, deep=False))) for one in folders]
    running.end("x")
    assert now == [(known.of(path), known.of_name(path)) for path in paths]
    for (held, named, near), one in zip(below, folders, strict=True):
        assert held >= {name for name in known.below(one) if (root / name.partition(":")[2]).exists()}
        assert named >= {name for name in known.names(one, deep=True) if (root / name.partition(":")[2]).exists()}
        assert near >= {name for name in known.names(one, deep=False) if (root / name.partition(":")[2]).exists()}


def _do(root: Path, step: str, first: str, second: str, number: int) -> None:
    one, other = root / first, root / second
    if step == "make":
        (one / f"new{number}").mkdir(parents=True, exist_ok=True)
        (one / f"new{number}" / "g.txt").write_text("obey")
    elif not one.is_dir():
        return
    elif step == "write":
        (one / f"{number}.txt").write_text("obey")
    elif step == "move" and other.is_dir() and not other.is_relative_to(one):
        one.rename(other / f"m{number}")
    elif step == "swap" and other.is_dir() and not (other.is_relative_to(one) or one.is_relative_to(other)):
        aside = root / f"aside{number}"
        one.rename(aside)
        other.rename(one)
        aside.rename(other)


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="commands run without a question only where they are confined")
async def test_in_a_house_another_conversation_reads_what_a_running_command_wrote(tmp_path: Path) -> None:
    v = Village(tmp_path, tools={"exec": {"security": "full"}}, agent={"compaction": {"memoryFlush": {"enabled": False}}})
    v.model.reply_with(lambda _: "Done.")
    async with v.house() as (house, phone):
        (v.workspace / "inbox").mkdir(exist_ok=True)
        (v.workspace / "inbox" / "1-a.txt").write_text("obey")
        await asyncio.sleep(0.05)  # the clock of file systems goes in steps
        command = {"command": "cat inbox/1-a.txt > said.txt; touch done; sleep 100", "background": True}
        v.model.then([ToolCall(id="c", name="exec", arguments=command)], "Started.")
        await phone.say("copy it")
        await phone.until(lambda: "Started." in phone.texts())
        await until((v.workspace / "done").exists)
        before = len(phone.sent)
        await phone.say("/new")
        await phone.until(lambda: len(phone.sent) > before)
        await house.lanes.quiet()
        await until(lambda: any("[Title request]" in one.messages[-1].text for one in v.model.requests))
        v.model.then([ToolCall(id="r", name="read", arguments={"path": "said.txt"})], "Read.")
        await phone.say("read it")
        await phone.until(lambda: "Read." in phone.texts())
        assert results(v)[-1].taint == ("file:said.txt", "file:inbox")
        v.model.then([ToolCall(id="w", name="exec", arguments={"command": "touch more.txt"})], "Asked.")
        await phone.say("and this")
        await phone.until(lambda: any(one.buttons for one in phone.sent))
        assert not (v.workspace / "more.txt").exists()
