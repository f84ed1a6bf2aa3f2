"""The tools exec and process, against the real runner."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
import threading
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.models.token_estimate import Calibration, weight_of_tools
from agent.tool_settings import ExecSettings
from agent.tools.command_runner import JobState
from agent.tools.command_taint import CommandTaint, Watch
from agent.tools.process import typed
from agent.tools.untrusted_files import UntrustedFiles
from gateway.app.commands import announcement
from gateway.logs.redaction import Redactor
from gateway.runner import output
from gateway.runner.output import Output, lines_of
from memory.audience import OWNER, Audience
from tests.full_disk import no_file_may_grow
from tests.properties import examples
from tests.runner.commands import alive, mark, sh, until
from tests.runner.hands import hands

if TYPE_CHECKING:
    from gateway.sandbox.protocol import Confined, Request
    from tests.runner.hands import Hands

ROOT = Path(__file__).parents[2]
BASH = Path("/bin/bash").read_bytes()


async def told_by(one: Hands, job: str, words: str, told: str = "", *, timeout: int = 10) -> None:  # noqa: ASYNC109 - of one poll
    """Poll a job until it has said these words."""
    while words not in told:
        told += (await one.process("poll", job=job, timeout=timeout)).text


async def test_a_command_says_what_it_printed_its_exit_code_and_how_long_it_took(tmp_path: Path) -> None:
    async with hands(tmp_path) as one:
        answer = await one.exec("echo hello; exit 3")
        assert re.fullmatch(r"hello\n\[exit code 3 after \d+\.\d s\]", answer.text)
        assert answer.is_error
        assert answer.details["exitCode"] == 3
        quiet = await one.exec("true")
        assert re.fullmatch(r"\[exit code 0 after \d+\.\d s\]", quiet.text)
        assert not quiet.is_error
        assert not list(one.root.glob(".homebody/output/*"))


async def test_plain_words_run_without_a_shell_and_everything_else_with_one(tmp_path: Path) -> None:
    async with hands(tmp_path) as one:
        assert (await one.exec("echo 'a $HOME; b'")).text.startswith("a $HOME; b\n")
        assert one.sandbox.asked[-1].argv == ("echo", "a $HOME; b")
        assert (await one.exec("echo x | tr x y")).text.startswith("y\n")
        assert one.sandbox.asked[-1].argv[1:] == ("-c", "echo x | tr x y")
        assert (await one.call("exec", command=["echo", "two words", "$HOME"])).text.startswith("two words $HOME\n")


async def test_the_act_of_a_command_is_what_will_run(tmp_path: Path) -> None:
    async with hands(tmp_path) as one:
        (one.root / "notes").mkdir()
        tool = one.tools[0]
        act = tool.act_of(
            {"cmd": " du -sh notes\n", "cwd": "~/notes", "env": {"B": "1", "A": "2"}, "network": True}, one.context()
        )
        assert act is not None
        assert (act.kind, act.command, act.argv) == ("exec", "du -sh notes", ("du", "-sh", "notes"))
        assert (act.cwd, act.env, act.network) == (str(one.root / "notes"), (("A", "2"), ("B", "1")), True)
        assert act.summary == "run `du -sh notes` in notes with network access"
        hidden = tool.act_of({"command": "rm -rf x\recho harmless\r\nls"}, one.context())
        assert hidden is not None
        assert hidden.summary == "run `rm -rf x⟨CR⟩echo harmless ls`"
        shell = tool.act_of({"command": "a && b"}, one.context())
        assert shell is not None
        assert shell.argv is None
        assert tool.act_of({"command": "ls", "workdir": "/etc"}, one.context()) is None
        assert tool.act_of({"commando": "ls"}, one.context()) is None


@pytest.mark.parametrize("folder", ["/etc", "..", "notes/../..", "~/..", "link", "missing", "file", "a\0b"])
async def test_a_command_starts_in_a_folder_of_the_workspace_alone(tmp_path: Path, folder: str) -> None:
    async with hands(tmp_path) as one:
        (one.root / "notes").mkdir()
        (one.root / "link").symlink_to("/etc")
        (one.root / "file").write_text("x")
        answer = await one.exec("pwd", workdir=folder)
        assert answer.is_error
        assert "workdir" in answer.text
        assert not one.sandbox.asked
        assert (await one.exec("pwd", workdir="notes")).text.startswith(f"{one.root}/notes\n")
        assert (await one.exec("pwd", workdir=str(one.root / "notes"))).text.startswith(f"{one.root}/notes\n")


async def test_what_is_wrong_with_a_command_is_told(tmp_path: Path) -> None:
    async with hands(tmp_path) as one:
        assert "exit code 127" in (await one.exec("no-such-program --help")).text
        assert "No such file" in (await one.exec("/no/such/program")).text
        assert "command" in (await one.exec("")).text
        assert "not in the workspace" in (await one.exec("ls", workdir="/")).text
        assert "did you mean" in (await one.exec("ls", timout=3)).text


async def test_long_output_is_shown_in_part_and_kept_whole_in_a_file(tmp_path: Path) -> None:
    async with hands(tmp_path) as one:
        answer = await one.exec("for i in {1..20000}; do echo line $i; done", context=one.context(max_chars=4000))
        assert len(answer.text) <= 4000
        assert answer.text.startswith("line 1\n")
        assert "line 20000\n" in answer.text
        assert "bytes in all; the middle is left out" in answer.text
        path = answer.details["output"]
        assert f"all of the output: {path}]" in answer.text
        assert (one.root / path).read_text().splitlines() == [f"line {i}" for i in range(1, 20_001)]


async def test_the_file_of_very_much_output_is_capped_and_says_so(tmp_path: Path) -> None:
    async with hands(tmp_path) as one:
        answer = await one.exec("echo first; head -c 60000000 /dev/zero | tr '\\0' 'x'; echo; echo last", yieldMs=100_000)
        path = answer.details["output"]
        assert "the beginning and end of the output" in answer.text
        text = (one.root / path).read_text()
        assert text.startswith("first\nxxx")
        assert text.endswith("xxx\nlast\n")
        assert "60,000,012 bytes in all: the file has the first 16,777,216" in text
        assert output.MOST_BYTES < len(text) < output.MOST_BYTES + 3 * output.KEPT


async def test_binary_output_is_named_as_such_and_kept(tmp_path: Path) -> None:
    async with hands(tmp_path) as one:
        answer = await one.exec("head -c 100000 /bin/bash")
        assert answer.text.startswith("[binary output, 100,000 bytes; it begins with 7f 45 4c 46")
        assert len(answer.text) < 400
        assert (one.root / answer.details["output"]).read_bytes() == BASH[:100_000]


async def test_terminal_codes_and_overwritten_lines_are_not_shown(tmp_path: Path) -> None:
    async with hands(tmp_path) as one:
        answer = await one.exec(r"printf '\033[31mred\033[0m\r\n10%%\r50%%\r100%%\nbell\a \033]0;title\007end\n'")
        assert answer.text.startswith("red\n100%\nbell end\n[")


@pytest.mark.sec(73)
async def test_secrets_are_removed_however_they_are_cut(tmp_path: Path) -> None:
    secret = "sk-ant-0123456789abcdef"
    async with hands(tmp_path, secrets=(secret,)) as one:
        answer = await one.exec(f"printf {secret[:9]}; sleep 0.3; printf '{secret[9:]} rest\n'")
        assert answer.text.startswith("[secret] rest\n")
        script = f"import sys, time\nfor letter in 'x {secret} y ' * 3:\n    print(letter, end='', flush=True)\n    time.sleep(0.01)\n"
        started = await one.exec(f"cat > slow.py <<'END'\n{script}END\n{sys.executable} slow.py", background=True)
        job, polled = started.details["job"], started.text
        while (told := await one.process("poll", job=job, timeout=0.05)).details["status"] == "running":
            polled += told.text
        polled += told.text
        assert secret not in re.sub(r"\n?(\(nothing new\))?\n?\[[^]]*\]\n?", "", polled).replace("\n", "")
        assert secret not in (one.root / told.details["output"]).read_text()
        assert (one.root / told.details["output"]).read_text() == "x [secret] y " * 3
        flood = await one.exec(f"for i in {{1..40000}}; do echo {secret}$i; done", yieldMs=60_000)
        assert secret not in flood.text + (one.root / flood.details["output"]).read_text()


async def test_a_command_that_takes_long_goes_on_in_the_background(tmp_path: Path) -> None:
    async with hands(tmp_path) as one:
        answer = await one.exec("echo a; read x; echo b; exit 5", background=True)
        job = answer.details["job"]
        assert "[runs in the background as " in answer.text
        assert answer.details["status"] == "running"
        listed = await one.process("list")
        assert f"{job}: running" in listed.text
        await one.process("write", job=job, data="go\n")
        polled = await one.process("poll", job=job, timeout=60)
        while "exit code" not in polled.text:
            polled = await one.process("poll", job=job, timeout=60)
        assert "exit code 5 after" in polled.text
        assert (await one.process("log", job=job)).text.startswith("a\nb\n[lines 1 to 2 of 2]\n")
        assert (await one.process("log", job=job, offset=2, limit=1)).text.startswith("b\n[lines 2 to 2 of 2]\n")
        assert (await one.process("clear")).text == "Forgot 1 commands that had ended."
        assert (await one.process("list")).text == "No background commands."


async def test_the_end_of_a_background_command_is_announced_once(tmp_path: Path) -> None:
    async with hands(tmp_path) as one:
        started = await one.exec("sleep 0.3; exit 4", background=True)
        await until(lambda: one.ended)
        key, state = one.ended[0]
        assert (key, state.id, state.code, state.command) == ("agent:main:main", started.details["job"], 4, "sleep 0.3; exit 4")
        again = await one.exec("sleep 0.3", background=True)
        assert "exit code 0" in (await one.process("poll", job=again.details["job"], timeout=60)).text  # the model knows
        killed = await one.exec("sleep 100", background=True)
        assert "it was stopped" in (await one.process("kill", job=killed.details["job"])).text
        await one.commands.settled()
        assert len(one.ended) == 1


async def test_a_quiet_setting_announces_nothing(tmp_path: Path) -> None:
    async with hands(tmp_path, settings=ExecSettings(notify_on_exit=False)) as one:
        await one.exec("true", background=True)
        await until(lambda: all(job.state.code == 0 for job in one.commands.jobs(OWNER)))
        await one.commands.settled()
        assert one.ended == []


async def test_a_background_command_takes_input(tmp_path: Path) -> None:
    async with hands(tmp_path) as one:
        job = (await one.exec("while read line; do echo got $line; done; echo over", background=True)).details["job"]
        await told_by(one, job, "got one", (await one.process("write", job=job, data="one\n")).text)
        await told_by(one, job, "exit code 0", (await one.process("write", job=job, data="two\n", eof=True)).text)
        assert "got two\nover" in (await one.process("log", job=job)).text
        refused = await one.process("write", job=job, data="three\n")
        assert refused.is_error
        assert "it has ended" in refused.text
        shut = (await one.exec("sleep 100", yieldMs=50)).details["job"]
        assert "takes no input" in (await one.process("write", job=shut, data="x")).text


async def test_a_terminal_program_takes_keys(tmp_path: Path) -> None:
    async with hands(tmp_path) as one:
        text = "stty size; trap 'echo caught; exit 9' INT; echo up; while :; do sleep 0.1; done"
        job = (await one.exec(text, pty=True, yieldMs=0)).details["job"]
        await told_by(one, job, "up")
        assert "40 120" in (await one.process("log", job=job)).text
        await told_by(one, job, "exit code 9", (await one.process("send-keys", job=job, keys=["ctrl-c"])).text)
        assert "caught" in (await one.process("log", job=job)).text


def test_keys_are_spelled_as_terminals_send_them() -> None:
    assert typed(["ctrl-c", "C-d", "^Z", "enter", "Up", "abc", "ctrl-[", "tab"]) == "\x03\x04\x1a\r\x1b[Aabc\x1b\t"
    with pytest.raises(ValueError, match="ctrl-1"):
        typed(["ctrl-1"])


async def test_input_is_judged_like_a_command(tmp_path: Path) -> None:
    async with hands(tmp_path) as one:
        job = (await one.exec("bash", background=True)).details["job"]
        tool = one.tools[1]
        act = tool.act_of({"action": "write", "job": job, "data": "rm -rf notes\n"}, one.context())
        assert act is not None
        assert (act.kind, act.command, act.argv) == ("exec", "rm -rf notes\n", None)
        keys = tool.act_of({"action": "send-keys", "sessionId": job, "keys": ["l", "s", "enter"]}, one.context())
        assert keys is not None
        assert keys.command == "ls\r"
        for harmless in ({"action": "list"}, {"action": "kill", "job": job}, {"action": "write", "job": job, "eof": True}):
            assert tool.act_of(harmless, one.context()) is None


async def test_commands_of_one_audience_are_hidden_from_another(tmp_path: Path) -> None:
    async with hands(tmp_path) as one:
        job = (await one.exec("echo private; sleep 100", background=True)).details["job"]
        group = one.context(audience=Audience("group", "family"), key="agent:main:telegram:group:-1")
        assert (await one.call("process", action="list", context=group)).text == "No background commands."
        for action in ("poll", "log", "kill", "write", "remove"):
            refused = await one.call("process", action=action, job=job, data="x", context=group)
            assert refused.is_error
            assert "there is none" in refused.text
        assert one.commands.stop_sessions(lambda key: key == "agent:main:telegram:group:-1") == 0
        assert (await one.process("poll", job=job)).details["status"] == "running"


@pytest.mark.sec(75)
async def test_stopping_a_session_ends_its_background_commands(tmp_path: Path) -> None:
    async with hands(tmp_path) as one:
        this = mark()
        await one.exec(f"(setsid sleep {this} &); trap '' TERM; sleep {this}", background=True)
        await until(lambda: alive(f"sleep {this}"))
        assert one.commands.stop_sessions(lambda key: key == "agent:main:main") == 1
        await until(lambda: alive(this) == [])


@pytest.mark.sec(75)
async def test_a_cancelled_call_ends_its_whole_tree(tmp_path: Path) -> None:
    async with hands(tmp_path) as one:
        this = mark()
        running = asyncio.create_task(one.exec(f"trap '' TERM; (setsid sleep {this} &); sleep {this}", yieldMs=500_000))
        await until(lambda: len(alive(f"sleep {this}")) > 1)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        await until(lambda: alive(this) == [])


async def test_too_many_commands_are_refused(tmp_path: Path) -> None:
    async with hands(tmp_path, settings=ExecSettings(max_jobs=2)) as one:
        for _ in range(2):
            await one.exec("sleep 100", background=True)
        refused = await one.exec("true")
        assert refused.is_error
        assert "tools.exec.maxJobs" in refused.text
        await one.process("kill", job=(await one.process("list")).details["jobs"][0]["job"])
        assert not (await one.exec("true")).is_error


async def test_the_time_limit_of_the_settings_is_the_longest(tmp_path: Path) -> None:
    async with hands(tmp_path, settings=ExecSettings(timeout_sec=1)) as one:
        answer = await one.exec("sleep 100", timeout=500)
        assert "it was ended after 1 s, the longest it may run" in answer.text
        assert answer.is_error


async def test_a_large_file_tells_why_its_writer_was_ended(tmp_path: Path) -> None:
    async with hands(tmp_path) as one:
        answer = await one.exec("(ulimit -f 100; exec head -c 1000000 /dev/zero > big)")
        assert "a file would have grown larger than files may" in answer.text


async def test_a_runner_that_dies_is_told(tmp_path: Path) -> None:
    async with hands(tmp_path) as one:
        running = asyncio.create_task(one.exec("echo a; sleep 100", yieldMs=500_000))
        await until(lambda: one.runner.pid is not None and any(one.root.glob(".homebody/output/*")))
        assert one.runner.pid is not None
        os.kill(one.runner.pid, signal.SIGKILL)
        answer = await running
        assert answer.text.startswith("a\n[outcome unknown: ")
        assert (await one.exec("echo b")).text.startswith("b\n")


async def test_a_workspace_that_cannot_be_written_keeps_output_in_memory(tmp_path: Path) -> None:
    (tmp_path / "workspace").mkdir()
    (tmp_path / "workspace" / ".homebody").write_text("in the way")
    async with hands(tmp_path) as one:
        answer = await one.exec("for i in {1..20000}; do echo line $i; done", context=one.context(max_chars=4000))
        assert answer.text.startswith("line 1\n")
        assert "output" not in answer.details
        assert "no file holds them all" in answer.text
    async with hands(tmp_path, access="ro") as one:
        assert (await one.exec("echo a")).text.startswith("a\n")
        assert one.sandbox.asked[-1].access == "ro"


async def test_a_link_in_the_place_of_the_output_folder_is_not_followed(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "workspace").mkdir()
    (tmp_path / "workspace" / ".homebody").symlink_to(elsewhere)
    async with hands(tmp_path) as one:
        await one.exec("for i in {1..20000}; do echo line $i; done")
        assert list(elsewhere.iterdir()) == []


async def test_after_a_restart_the_outcome_is_unknown_and_the_output_is_there(tmp_path: Path) -> None:
    this = mark()
    code = f"""
import asyncio, sys
sys.path.insert(0, {str(ROOT)!r})
from pathlib import Path
from tests.runner.hands import hands

async def main():
    async with hands(Path({str(tmp_path)!r})) as one:
        await one.exec("echo done; exit 6", background=True)
        await one.exec("echo half; sleep " + input(), background=True)
        await one.exec("echo foreground; sleep 300", yieldMs=100000)

asyncio.run(main())
"""
    house = await asyncio.create_subprocess_exec(sys.executable, "-c", code, stdin=asyncio.subprocess.PIPE)
    assert house.stdin is not None
    house.stdin.write(f"{this}\n".encode())
    await house.stdin.drain()
    records = tmp_path / "records"
    await until(
        lambda: (
            len(list(tmp_path.glob("workspace/.homebody/output/*"))) == 3
            and '"code": 6' in "".join(map(_read, records.glob("*.json")))
        )
    )
    house.kill()
    await house.wait()
    await until(lambda: alive(this) == [])
    async with hands(tmp_path) as one:
        listed = (await one.process("list")).text
        assert "exit code 6 after" in listed
        assert "outcome unknown" in listed
        job = next(line.partition(":")[0] for line in listed.splitlines() if "echo half" in line)
        told = await one.process("log", job=job)
        assert told.text.startswith("half\n[lines 1 to 1 of 1]\n")
        assert "outcome unknown" in told.text
        assert (await one.process("write", job=job, data="x")).is_error
        assert (await one.process("poll", job=job)).text.startswith("half\n")
        known = one.tools[0].known_of({"command": "echo foreground; sleep 300"}, one.context())
        assert known.startswith("The command was started, and nobody saw it end. What it had printed is in .homebody/output/")
        assert one.tools[0].known_of({"command": "echo other"}, one.context()) == ""
        assert (await one.process("remove", job=job)).text
        await one.commands.settled()
        assert job not in (await one.process("list")).text
        assert len(_files(tmp_path)) == 2


def _files(folder: Path) -> list[Path]:
    return list(folder.glob("workspace/.homebody/output/*"))


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


async def test_live_output_is_shown_from_time_to_time(tmp_path: Path) -> None:
    async with hands(tmp_path) as one:
        await one.exec("for i in {1..40}; do echo step $i; sleep 0.1; done", yieldMs=100_000)
        assert 1 <= len(one.shown) <= 5
        assert all(len(text.splitlines()) <= 8 for text in one.shown)
        assert re.fullmatch(r"(step \d+\n?)+", one.shown[-1])


async def test_both_tools_cost_few_tokens(tmp_path: Path) -> None:
    async with hands(tmp_path) as one:
        assert Calibration().apply(weight_of_tools([tool.spec for tool in one.tools])) <= 600


@given(st.lists(st.binary(max_size=30), max_size=30), st.integers(150, 400))
@settings(max_examples=examples(60))
async def test_what_is_shown_is_bounded_and_holds_no_part_of_a_secret(pieces: list[bytes], most: int) -> None:
    secret = b"topsecretvalue"
    chunks = [chunk for piece in pieces for chunk in (piece.replace(b"\0", b""), secret[:6], secret[6:], b" ")]
    shown = Output(Redactor([secret.decode()]), None, "x.txt")
    polled = ""
    for chunk in chunks:
        await shown.add(chunk)
        polled += shown.unread(10_000)
        assert len(shown.ends(most)) <= most + 100
    await shown.end()
    polled += shown.unread(10_000)
    assert secret.decode() not in polled
    assert "topsec" not in polled.replace("[secret]", "")
    assert secret.decode() not in shown.ends(100_000)


@given(
    st.lists(st.text(alphabet="ab ", max_size=12), max_size=40), st.one_of(st.none(), st.integers(1, 50)), st.integers(1, 50)
)
def test_lines_are_those_that_were_asked_for(lines: list[str], offset: int | None, limit: int) -> None:
    told = lines_of(lines, offset, limit, 100_000).split("\n")
    expected = lines[-limit:] if offset is None else lines[offset - 1 : offset - 1 + limit]
    assert told[:-1] == expected
    assert len(lines_of(lines, offset, limit, 200)) <= 300


async def test_on_a_full_disk_commands_still_run_and_say_that_no_file_has_their_output(tmp_path: Path) -> None:
    async with hands(tmp_path) as one:
        await one.exec("true")  # the runner is there, without the limit that stands for the full disk
        with no_file_may_grow():
            answer = await one.exec("for i in {1..20000}; do echo line $i; done", context=one.context(max_chars=4000))
            assert "line 20000" in answer.text
            assert "exit code 0" in answer.text
            job = (await one.exec("echo a; sleep 100", background=True)).details["job"]
            assert "a" in (await one.process("poll", job=job, timeout=10)).text
            assert "it was stopped" in (await one.process("kill", job=job)).text


async def test_a_command_that_fills_the_disk_is_ended_before_it_is_full(tmp_path: Path) -> None:
    disk = tmp_path / "workspace"
    disk.mkdir()
    mounted = await asyncio.create_subprocess_exec(
        "mount", "-t", "tmpfs", "-o", "size=120m", "tmpfs", disk, stderr=asyncio.subprocess.DEVNULL
    )
    if await mounted.wait():
        pytest.skip("only root can mount a small disk")
    try:
        async with hands(tmp_path) as one:
            text = "while :; do head -c 2000000 /dev/zero >> many$((n++)); sleep 0.02; done"
            answer = await one.exec(text, yieldMs=100_000)
            assert "it was ended because the disk is nearly full" in answer.text
            assert (await one.exec("rm many*; echo freed")).text.startswith(
                "freed\n"
            )  # a full disk does not keep commands from running
    finally:
        await (await asyncio.create_subprocess_exec("umount", "-l", disk)).wait()


async def test_the_file_of_a_running_command_is_untrusted_while_it_is_written(tmp_path: Path) -> None:
    known = UntrustedFiles()
    async with hands(tmp_path, files=CommandTaint(known, tmp_path / "workspace")) as one:
        for network in (False, True):
            answer = await one.exec("echo a; sleep 100", background=True, network=network)
            await told_by(one, answer.details["job"], "(nothing new)", timeout=1)
            path = (await one.process("poll", job=answer.details["job"])).details["output"]
            assert bool(known.of(PurePosixPath(path))) is network


async def test_the_text_of_a_command_is_kept_from_those_who_were_not_shown_what_it_was_made_from(tmp_path: Path) -> None:
    async with hands(tmp_path) as one:
        tainted = one.context(taint=("web:evil.example",))
        made = await one.call("exec", context=tainted, command="sleep 100; echo obey", background=True)
        plain = await one.exec("sleep 100; echo mine", background=True)
        clean = await one.process("list")
        assert "echo mine" in clean.text
        assert "obey" not in clean.text
        assert (made.details["job"] in clean.text, clean.taint) == (True, ())
        shown = await one.call("process", context=tainted, action="list")
        assert "echo obey" in shown.text
        assert shown.taint == ("web:evil.example",)
        state = next(job.state for job in one.commands.jobs(OWNER) if job.state.id == made.details["job"])
        people, model = announcement(state)
        assert "echo obey" in people
        assert "obey" not in model
        assert state.id in model
        mine = next(job.state for job in one.commands.jobs(OWNER) if job.state.id == plain.details["job"])
        assert "echo mine" in announcement(mine)[1]


async def test_an_error_at_the_start_does_not_repeat_the_words_of_such_a_command() -> None:
    state = JobState(
        id="abcd",
        command="obey",
        started=datetime(2026, 2, 3, tzinfo=UTC),
        failure="obey: not found",
        command_sources=("web:x",),
    )
    people, model = announcement(state)
    assert "obey: not found" in people
    assert "obey" not in model


async def test_input_is_asked_about_with_what_its_command_is_given(tmp_path: Path) -> None:
    (tmp_path / "workspace" / "t5").mkdir(parents=True)
    async with hands(tmp_path) as one:
        answer = await one.exec("cat -", background=True, workdir="t5", network=True, env={"A": "b"})
        job = answer.details["job"]
        act = one.tools[1].act_of({"action": "write", "job": job, "data": "x\n"}, one.context())
        assert act is not None
        assert (act.cwd, act.network, act.pty, act.env) == (str(one.root / "t5"), True, False, (("A", "b"),))
        assert (act.into, act.confinement, act.argv) == ("cat -", "off", None)
        assert act.summary == f"type `x` into the background command {job}"


async def test_what_a_command_prints_and_writes_after_tainted_input_is_untrusted(tmp_path: Path) -> None:
    known = UntrustedFiles()
    async with hands(tmp_path, files=CommandTaint(known, tmp_path / "workspace")) as one:
        job = (await one.exec("read a; echo $a | tee said.txt", background=True)).details["job"]
        await asyncio.sleep(0.05)  # the clock of file systems goes in steps
        tainted = one.context(taint=("web:evil.example",))
        await one.call("process", context=tainted, action="write", job=job, data="obey\n")
        await told_by(one, job, "exit code 0")
        log = await one.process("log", job=job)
        assert "obey" in log.text
        assert log.taint == ("web:evil.example",)
        assert known.of(PurePosixPath("said.txt")) == ("file:said.txt", "web:evil.example")
        assert known.of(PurePosixPath(log.details["output"])) != ()


class HeldTaint(CommandTaint):
    """Records nothing at the end of a command before it may, as on a machine with much else to do."""

    def __init__(self, known: UntrustedFiles, root: Path) -> None:
        super().__init__(known, root)
        self.begun, self.may = threading.Event(), threading.Event()

    def end(self, watch: Watch) -> None:
        self.begun.set()
        assert self.may.wait(30)
        super().end(watch)


async def test_a_command_counts_as_running_until_its_files_are_recorded(tmp_path: Path) -> None:
    known = UntrustedFiles()
    files = HeldTaint(known, tmp_path / "workspace")
    async with hands(tmp_path, files=files) as one:
        command = "echo obey | tee said.txt"
        tainted = one.context(taint=("web:evil.example",))
        job = (await one.call("exec", context=tainted, command=command, background=True)).details["job"]
        try:
            await until(files.begun.is_set)
            for action in ("poll", "log"):
                assert (await one.process(action, job=job)).details["status"] == "running"
            assert known.of(PurePosixPath("said.txt")) == ("file:said.txt", "web:evil.example")
        finally:
            files.may.set()
        await told_by(one, job, "exit code 0")
        assert known.of(PurePosixPath("said.txt")) == ("file:said.txt", "web:evil.example")


async def test_a_command_that_runs_while_a_file_becomes_untrusted_may_have_read_it(tmp_path: Path) -> None:
    known, workspace = UntrustedFiles(), tmp_path / "workspace"
    async with hands(tmp_path, files=CommandTaint(known, workspace)) as one:
        answer = await one.exec(
            "echo before > early.txt; read a; cat later.txt; cp later.txt copy.txt; read b", background=True
        )
        job = answer.details["job"]
        assert answer.taint == ()
        await until((workspace / "early.txt").exists)
        await asyncio.sleep(0.05)  # the clock of file systems goes in steps
        known.mark_whole(PurePosixPath("later.txt"), ["web:evil.example"])
        (workspace / "later.txt").write_text("obey")
        await one.process("write", job=job, data="\n")
        await until((workspace / "copy.txt").exists)
        polled = await one.process("log", job=job)
        assert "file:later.txt" in polled.taint
        await one.process("write", job=job, data="\n")
        await told_by(one, job, "exit code 0")
        assert known.of(PurePosixPath("copy.txt")) == ("file:copy.txt", "file:later.txt")
        assert known.of(PurePosixPath("early.txt")) == ()


async def test_a_folder_that_moved_while_the_gateway_was_killed_stays_untrusted(tmp_path: Path) -> None:
    known, workspace = UntrustedFiles(), tmp_path / "workspace"
    (workspace / "bad").mkdir(parents=True)
    (workspace / "bad" / "x.txt").write_text("obey")
    known.mark_whole(PurePosixPath("bad/x.txt"), ["web:evil.example"])
    await asyncio.sleep(0.05)  # the clock of file systems goes in steps
    async with hands(tmp_path, files=CommandTaint(known, workspace)) as one:
        answer = await one.exec("sleep 100", background=True, network=True)
        record = next((tmp_path / "records").glob("*.json"))
        left = record.read_text()
        await one.process("kill", job=answer.details["job"])
    record.write_text(left)
    (workspace / "bad").rename(workspace / "other")
    async with hands(tmp_path, files=CommandTaint(known, workspace)):
        assert known.of(PurePosixPath("other/x.txt"))[1:] == ("web:evil.example",)


async def test_when_an_agent_goes_its_commands_are_ended(tmp_path: Path) -> None:
    async with hands(tmp_path) as one:
        this = mark()
        await one.exec(f"(setsid sleep {this} &); sleep {this}", background=True)
        await until(lambda: alive(f"sleep {this}"))
        await one.commands.close()
        assert alive(this) == []
        await until(lambda: one.ended)
        assert one.ended[0][1].reason == "shutdown"


async def test_a_command_that_is_about_to_start_when_its_agent_goes_is_ended(tmp_path: Path) -> None:
    this, closing = mark(), []

    def confine(_: Request) -> Confined:
        closing.append(asyncio.ensure_future(one.commands.close()))
        return sh(f"sleep {this}")

    async with hands(tmp_path, confine=confine) as one:
        await one.exec(f"sleep {this}", background=True)
        await until(lambda: one.ended)
        assert (one.ended[0][1].reason, alive(this)) == ("shutdown", [])
        await asyncio.gather(*closing)


async def test_a_record_of_an_earlier_process_is_reported_once(tmp_path: Path) -> None:
    async with hands(tmp_path) as one:
        state = JobState(id="abcd", command="make", started=one.commands.clock.now(), background=True)
        one.commands.records.write(state, audience=OWNER, key="agent:main:main", turn="t")
    async with hands(tmp_path) as one:
        assert [(key, state.id, state.status) for key, state in one.ended] == [("agent:main:main", "abcd", "unknown")]
        one.commands.report_lost()
        assert len(one.ended) == 1
