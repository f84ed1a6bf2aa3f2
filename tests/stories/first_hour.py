"""The first hour of somebody who has just installed it: without a key, then with a model of their own, with slips on the way."""

from __future__ import annotations

import asyncio
import json
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.stories.house import command
from tests.stories.model import Asked, Said, text_of
from tests.stories.stage import Story, settings, until
from tests.stories.terminal import CTRL_C, Terminal

if TYPE_CHECKING:
    from tests.stories.house import House
    from tests.stories.model import Model
    from tests.stories.stage import Stage

README = Path(__file__).resolve().parents[2] / "README.md"
KEY = "sk-story-7f3a9c2e5b8d1046"
STARTS = 15.0
"""Seconds of CPU and waiting within which the first prompt of a terminal must be there, on a busy machine."""
HISTORY_OF_ROME = "Rome " + " ".join(f"word{number}" for number in range(400))


def patient(asked: Asked) -> Said:
    """Tell of Rome slowly; answer everything else at once, with the words that were asked."""
    if "Rome" in text_of(asked.open[-1] if asked.open else {}):
        return Said(HISTORY_OF_ROME, pause=0.15)
    return Said(f"You said: {asked.last_words.splitlines()[-1] if asked.last_words else ''}")


async def first_hour(stage: Stage) -> None:
    """The README's conversation, a model by OPENAI_BASE_URL, Ctrl-C, /new, a wrong key, a typo, exit and quit."""
    async with stage.house("newcomer") as house:
        await _without_key(stage, house)
    async with stage.model(mind=patient, names=("tiny-embed", "house-chat-7b"), key=KEY) as model:
        more = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": model.address}
        async with stage.house("own-model", more=more) as house:
            await _own_model(stage, house, model)
        async with stage.house("wrong-key", more={**more, "OPENAI_API_KEY": KEY[::-1]}) as house:
            await _wrong_key(stage, house)
        async with stage.house("terminal") as house:
            model.names = ("story-1",)
            house.settle(settings(model))
            await _terminal(stage, house, model)
    async with stage.house("typo") as house:
        await _typo(stage, house)


def shown_in_readme() -> tuple[list[str], list[str]]:
    """Return what the person says in the README's conversation, and the lines that are answered."""
    block = re.search(r"<!-- conversation:.*?-->\n```\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert block is not None
    lines = block[1].splitlines()
    return [line[2:] for line in lines if line.startswith("› ")], [
        line.strip() for line in lines if line.strip() and not line.startswith("› ")
    ]


def not_said(lines: list[str], out: str) -> list[str]:
    """Return the lines of the README that were not said, dates and the name of the command aside."""

    def bare(text: str) -> str:
        return re.sub(r"\S*homebody(?= )", "homebody", re.sub(r"\d{4}-\d\d-\d\d", "DATE", text))

    return [line for line in lines if bare(line) not in bare(out)]


async def _without_key(stage: Stage, house: House) -> None:
    said, answered = shown_in_readme()
    done = await house.run("chat", given="\n".join(said) + "\n")
    missing = not_said(answered, done.out)
    stage.hold(
        "without a key: the README's conversation takes place",
        done.code == 0 and not missing,
        f"not said: {missing}" if missing else "",
    )
    stage.control(
        "a line of the README that is not said",
        "" if not_said([answered[0]], done.out.replace("blue pot", "red pot")) else "missed",
    )
    noted = [path for path, text in house.notes().items() if "spare key is under the blue pot" in text]
    stage.hold("without a key: the note is Markdown of one's own", noted, str(noted))
    for word in ("exit", "quit"):
        window = Terminal()
        try:
            await window.open(house, "chat")
            await window.until("›", 60)
            await window.say(word)
            code = await window.until_ended(20)
        finally:
            await window.close()
        searched = word in "".join(house.notes().values()) or "found nothing" in window.shown
        stage.hold(f"without a key: `{word}` leaves the terminal", code == 0 and not searched, f"exit {code}")


async def _shell(house: House, line: str) -> int:
    """Paste a line into a shell from which the command was started by its path, as after `make chat`."""
    own = str(Path(command()).parent)
    environ = {**house.environ(), "PATH": ":".join(part for part in house.environ()["PATH"].split(":") if part != own)}
    shell = await asyncio.create_subprocess_exec(
        "/bin/sh", "-c", line, env=environ, cwd=house.folder, stdout=asyncio.subprocess.DEVNULL
    )
    return await shell.wait()


async def _own_model(stage: Stage, house: House, model: Model) -> None:
    done = await house.run("agent", "-m", "is anybody there?", "--json")
    answered = "is anybody there?" in done.out and done.code == 0
    asked = model.asked[-1]["model"] if model.asked else None
    stage.hold(
        "OPENAI_BASE_URL: the server is asked which models it has, and one of them answers",
        answered,
        f"exit {done.code}, asked {asked}; {(done.err or done.out).strip()[-160:]}",
    )
    stage.hold("the key is in no file that it was not put into", KEY not in "".join(_everything(house)))


def _everything(house: House) -> list[str]:
    return [file.read_text(errors="replace") for file in house.state.rglob("*") if file.is_file()]


async def _wrong_key(stage: Stage, house: House) -> None:
    await house.run("config", "set", "agents.defaults.model", "openai/house-chat-7b")
    done = await house.run("agent", "-m", "hello")
    told = done.out + done.err
    good = done.code == 4 and "key" in told and KEY[::-1] not in told and "Traceback" not in told
    hint = re.search(r"\S*homebody( [a-z]+)+", told)
    ran = await _shell(house, hint[0]) if hint else -1
    stage.hold(
        "the command that is named can be pasted into the shell", ran == 0, f"`{hint[0] if hint else None}` ends with {ran}"
    )
    stage.hold("a wrong key: said as such, with exit code 4, and never shown", good, f"exit {done.code}: {told.strip()[:160]}")


async def _typo(stage: Stage, house: House) -> None:
    file = house.state / "homebody.yaml"
    file.write_text("agents:\n  defualts:\n    model: openai/gpt\n")
    file.chmod(0o600)
    done = await house.run("config", "validate")
    told = done.out + done.err
    stage.hold(
        "a mistyped key: the file, the line and the right key are named",
        "homebody.yaml:2" in told and "agents.defaults" in told,
        told.strip()[:160],
    )
    file.write_text("gateway:\n  port: many\n")
    done = await house.run("agent", "-m", "hello")
    told = done.out + done.err
    stage.hold(
        "a wrong value: exit code 3, file and line",
        done.code == 3 and "homebody.yaml:2" in told,
        f"exit {done.code}: {told.strip()[:160]}",
    )
    done = await house.run("gatway")
    stage.hold(
        "a mistyped command: the right one is named",
        "homebody gateway" in done.out + done.err and done.code == 2,
        (done.out + done.err).strip()[:160],
    )


async def _terminal(stage: Stage, house: House, model: Model) -> None:
    window = Terminal()
    try:
        began = time.monotonic()
        await window.open(house, "chat")
        ready = await window.until("›", 60)
        stage.hold(
            f"a terminal: the prompt within {STARTS:.0f} s",
            ready and time.monotonic() - began < STARTS,
            f"{time.monotonic() - began:.1f} s",
        )
        await window.say("tell me all about Rome")
        writes = await window.until("word12", 60)
        cut_off = model.cut_off
        window.press(CTRL_C)
        stopped = await until(lambda: model.cut_off > cut_off, 20)
        stage.hold("Ctrl-C stops a request: the model is hung up on", writes and stopped is not None, f"after {stopped}")
        at = len(window.shown)
        await window.say("what is 2+2?")
        answered = await window.until("You said", 60, since=at)
        stage.hold("the next message is answered by itself", answered, window.shown[at:][-200:] if not answered else "")
        _judge_stopped(stage, model)
        at, calls = len(window.shown), model.calls
        await window.say("/new")
        fresh = await until(lambda: re.search(r"(?i)fresh|anew|new (session|conversation)", window.shown[at:]) is not None, 60)
        at = len(window.shown)
        await window.say("are you there?")
        answered = await window.until("You said", 60, since=at)
        last = [text_of(one) for one in model.asked[-1]["messages"] if one["role"] != "system"]
        stage.hold(
            "/new: said at once, and the next message begins afresh",
            fresh is not None and answered and "Rome" not in " ".join(last),
        )
        calls = model.calls
        await window.say("quit")
        code = await window.until_ended(20)
        stage.hold(
            "`quit` closes the conversation and asks no model",
            code == 0 and model.calls == calls,
            f"exit {code}, {model.calls - calls} calls",
        )
    finally:
        await window.close()


def _judge_stopped(stage: Stage, model: Model) -> None:
    body = next((one for one in reversed(model.asked) if "2+2" in json.dumps(one["messages"][-1])), None)
    wrong = glued(body["messages"] if body else [])
    stage.hold("what was stopped is not asked again", not wrong, wrong)
    bad: list[dict[str, Any]] = [{"role": "user", "content": "tell me all about Rome\n\nwhat is 2+2?"}]
    stage.control("a stopped request that is asked again", "" if glued(bad) else "missed")


def glued(messages: list[dict[str, Any]]) -> str:
    """Tell whether the stopped request still waits for its answer, or nothing: an answer that was stopped must stand between the two."""
    first = next((n for n, one in enumerate(messages) if one["role"] == "user" and "Rome" in text_of(one)), None)
    last = next((n for n, one in enumerate(messages) if one["role"] == "user" and "2+2" in text_of(one)), None)
    if first is None or last is None:
        return "one of the two is missing"
    between = [text_of(one) for one in messages[first + 1 : last] if one["role"] == "assistant"]
    if not between:
        return "both stand in one request, with no answer between them"
    return "" if any("word" in text for text in between) else f"what was written is not kept: {between[0][:80]}"


STORIES = {"first-hour": Story(first_hour, 300)}
