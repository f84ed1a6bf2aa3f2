"""It knows your tools: mail, calendar, voice messages, documents and lists, with real servers and questions before anything leaves.

Parts whose programs are missing are left out, and are told as broken where CI is set.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import shutil
import signal
import sys
import tempfile
import threading
import time
from base64 import b64encode
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email import message_from_bytes
from email.message import EmailMessage
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aiosmtpd.smtp import AuthResult

from tests.documents.made import pdf
from tests.mail.dovecot import PASSWORD, Dovecot, free_port, make
from tests.stories.botapi import BotApi
from tests.stories.model import Asked, Said, echo
from tests.stories.stage import Story, settings, until
from tests.stories.wire import Port, reply
from tests.voice.recordings import opus

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from aiohttp import web
    from aiosmtpd.smtp import Envelope

    from tests.stories.house import House
    from tests.stories.model import Model
    from tests.stories.stage import Stage

OWNER = 5_500_000_031
ANNA = "anna@example.org"
PAGES, WANTED = 300, 287
NEWS = "what is new in my mail?"
ANSWER = "answer Anna that Thursday is fine"
FREE = "am I free on Friday afternoon?"
MOVE = "move the dentist to next week"
BRIEFING = "every weekday at 7 a briefing"
SPOKEN = "put oat milk on the shopping list"
LONG_FILE = f"what does page {WANTED} say?"
PROMPT = "Write the briefing: mail and calendar."
WAIT = 45.0
"""Seconds in which an answer must be seen, on a machine that may be busy with other things."""
_ID = re.compile(r"^(\S+) .*Anna", re.MULTILINE)
_QUESTION = re.compile(r"/approve (\S+) once")


def friday() -> datetime:
    """Return noon of the next Friday that is not today."""
    now = datetime.now(UTC).replace(hour=12, minute=0, second=0, microsecond=0)
    return now + timedelta(days=(4 - now.weekday()) % 7 or 7)


class Mind:
    """The model: for each of the owner's sentences the calls that it takes, then words made of what came back."""

    def __init__(self) -> None:
        self.called: list[tuple[str, dict[str, Any]]] = []

    def __call__(self, asked: Asked) -> Said:
        """Answer one request."""
        words, results = asked.last_words, asked.results
        if asked.is_flush or asked.is_summary:
            return echo(asked)
        if words.startswith("[Approval") or "[Approval #" in words:
            return Said("It is done.")
        for sentence, steps in self._plans().items():
            if sentence in words:
                step = steps[len(results)] if len(results) < len(steps) else None
                return self._call(step, results) if step is not None else self._told(sentence, results)
        return Said("I am here.")

    def _plans(self) -> dict[str, list[Any]]:
        day = friday()
        afternoon = {"from": f"{day:%Y-%m-%d}T12:00", "to": f"{day:%Y-%m-%d}T18:00"}
        week = {"from": f"{datetime.now(UTC):%Y-%m-%d}", "to": f"{day + timedelta(days=7):%Y-%m-%d}"}
        mails = ("mail", {"action": "list"})
        return {
            NEWS: [mails],
            ANSWER: [mails, lambda found: ("mail", {"action": "reply", "id": _found(_ID, found), "text": "Thursday is fine."})],
            FREE: [("calendar", {"action": "free", **afternoon})],
            MOVE: [("calendar", {"action": "search", "text": "dentist"}), _moved],
            BRIEFING: [("cron", {"action": "add", "when": "0 7 * * 1-5", "kind": "task", "text": PROMPT, "name": "briefing"})],
            PROMPT: [mails, ("calendar", {"action": "list", **week})],
            SPOKEN: [("todo", {"action": "add", "text": "oat milk", "section": "Shopping list"})],
            LONG_FILE: [lambda _: ("read", {"path": self._file, "page": WANTED})],
        }

    _file = ""

    def _call(self, step: Any, results: list[str]) -> Said:
        name, arguments = step(results[-1] if results else "") if callable(step) else step
        self.called.append((name, arguments))
        return Said(calls=((name, arguments),))

    def _told(self, sentence: str, results: list[str]) -> Said:
        last = results[-1]
        if sentence in {NEWS, PROMPT}:
            subjects = re.findall(r": (Thursday\?|Your parcel)", results[0])
            events = re.findall(r"Team talk|Dentist", last) if sentence == PROMPT else []
            return Said(f"{'Briefing: ' if events else ''}{len(subjects)} mails: {', '.join(subjects)}. {' '.join(events)}")
        if sentence == FREE:
            busy = re.search(r"(\d\d:\d\d)–(\d\d:\d\d) (Team talk)", last)
            return Said(f"Busy with {busy[3]} from {busy[1]}." if busy else f"I could not tell: {last[:300]}")
        if sentence == LONG_FILE:
            found = re.search(r"The word of page (\d+) is (\w+)", last)
            return Said(f"Page {found[1]} says {found[2]}." if found else f"I could not tell: {last[:300]}")
        if sentence == BRIEFING:
            return Said(f"Set: {last[:200]}")
        return Said(f"Done: {last[:200]}")

    def file(self, path: str) -> None:
        """Say where the long file lies."""
        self._file = path


def _found(pattern: re.Pattern[str], text: str) -> str:
    found = pattern.search(text)
    return found[1] if found else "none"


def _moved(found: str) -> tuple[str, dict[str, Any]]:
    event = re.search(r"Dentist \| \w+ \| (\S+)", found)
    day = friday() - timedelta(days=1) + timedelta(days=7)
    return "calendar", {"action": "change", "event": event[1] if event else "none", "from": f"{day:%Y-%m-%d}"}


@dataclass
class Smtp:
    """A real SMTP server (aiosmtpd) that keeps what it takes."""

    port: int = field(default_factory=free_port)
    taken: list[bytes] = field(default_factory=list)
    arrived: threading.Event = field(default_factory=threading.Event)

    async def handle_DATA(self, _server: Any, _session: Any, envelope: Envelope) -> str:  # noqa: N802 -- aiosmtpd calls it
        content = envelope.content if isinstance(envelope.content, bytes) else str(envelope.content).encode()
        self.taken.append(content)
        self.arrived.set()
        return "250 OK"

    def let_in(self, _server: Any, _session: Any, _envelope: Envelope, _mechanism: str, data: Any) -> AuthResult:
        return AuthResult(success=data.password == PASSWORD.encode())

    def to(self, address: str) -> list[EmailMessage | Any]:
        """Return the mails to an address."""
        return [mail for mail in map(message_from_bytes, self.taken) if address in str(mail["To"])]


class Radicale:
    """A real CalDAV server (radicale) with the calendar "personal" of the user anna."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> bool:
        self.folder.mkdir()
        (self.folder / "users").write_text(f"anna:{PASSWORD}\n")
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "radicale", "--server-hosts", f"127.0.0.1:{self.port}"),
            *("--storage-filesystem-folder", str(self.folder / "collections"), "--auth-type", "htpasswd"),
            *("--auth-htpasswd-filename", str(self.folder / "users"), "--auth-htpasswd-encryption", "plain"),
            *("--auth-delay", "0", "--config", "", "--logging-level", "error"),
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        for _ in range(300):
            with contextlib.suppress(OSError):
                _, writer = await asyncio.open_connection("127.0.0.1", self.port)
                writer.close()
                return True
            await asyncio.sleep(0.1)
        return False

    async def stop(self) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()

    async def fill(self, events: dict[str, tuple[str, datetime]]) -> bool:
        """Make the calendar and its events of an hour, by name."""
        made = await self._ask(
            "MKCOL", "/anna/personal/",
            '<?xml version="1.0"?><D:mkcol xmlns:D="DAV:"><D:set><D:prop><D:resourcetype><D:collection/>'
            '<C:calendar xmlns:C="urn:ietf:params:xml:ns:caldav"/></D:resourcetype><D:displayname>personal</D:displayname>'
            "</D:prop></D:set></D:mkcol>",
        )  # fmt: skip
        good = made == 201
        for uid, (summary, at) in events.items():
            text = "\r\n".join(
                [
                    "BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//story//", "BEGIN:VEVENT", f"UID:{uid}", "DTSTAMP:20260101T000000Z",
                    f"SUMMARY:{summary}", f"DTSTART:{at:%Y%m%dT%H%M%SZ}", f"DTEND:{at + timedelta(hours=1):%Y%m%dT%H%M%SZ}",
                    "END:VEVENT", "END:VCALENDAR", "",
                ]
            )  # fmt: skip
            good = good and await self._ask("PUT", f"/anna/personal/{uid}.ics", text, "text/calendar") == 201
        return good

    def objects(self) -> str:
        """Return the events as they lie on the disk."""
        folder = self.folder / "collections" / "collection-root" / "anna" / "personal"
        return "\n".join(path.read_text() for path in sorted(folder.glob("*.ics")))

    async def _ask(self, method: str, path: str, body: str, media_type: str = "application/xml") -> int:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        login = b64encode(f"anna:{PASSWORD}".encode()).decode()
        head = (
            f"{method} {path} HTTP/1.1\r\nHost: story\r\nContent-Length: {len(body.encode())}\r\nConnection: close\r\n"
            f"Content-Type: {media_type}; charset=utf-8\r\nAuthorization: Basic {login}\r\n\r\n"
        )
        writer.write((head + body).encode())
        answer = await reader.read()
        writer.close()
        return int(answer.split(b" ", 2)[1])


@dataclass
class World:
    """The servers around the house."""

    bots: BotApi
    smtp: Smtp
    dovecot: Dovecot | None
    radicale: Radicale | None
    speech: Port
    mind: Mind

    def sections(self) -> dict[str, Any]:
        """Return the sections of the settings that name them."""
        found: dict[str, Any] = {
            "channels": {"telegram": self.bots.settings([OWNER])},
            "tools": {"media": {"audio": {"baseUrl": f"{self.speech.root}/v1"}}},
        }
        if self.dovecot is not None:
            server = {"host": "127.0.0.1", "security": "none"}
            account = {
                "imap": {**server, "port": self.dovecot.port}, "smtp": {**server, "port": self.smtp.port}, "user": "ada",
                "password": PASSWORD, "fromAddress": "Ada <ada@example.net>",
            }  # fmt: skip
            found["mail"] = {"accounts": {"home": account}}
        if self.radicale is not None:
            account = {"url": f"http://127.0.0.1:{self.radicale.port}/", "user": "anna", "password": PASSWORD}
            found["calendar"] = {"accounts": {"personal": account}}
        return found


@contextlib.asynccontextmanager
async def world(stage: Stage) -> AsyncIterator[World]:
    """Start the servers that are there."""
    from aiosmtpd.controller import Controller

    async def heard(request: web.Request) -> web.Response:
        await request.read()
        return reply({"text": SPOKEN} if request.path.endswith("/transcriptions") else {}, 200)

    async with contextlib.AsyncExitStack() as stack:
        bots, speech, smtp = BotApi(seed=stage.seed), Port(heard), Smtp()
        await bots.port.open()
        stack.push_async_callback(bots.port.close)
        await speech.open()
        stack.push_async_callback(speech.close)
        taking = Controller(
            smtp,
            hostname="127.0.0.1",
            port=smtp.port,
            authenticator=smtp.let_in,
            auth_require_tls=False,
            auth_exclude_mechanism=["LOGIN"],
        )
        await asyncio.to_thread(taking.start)
        stack.callback(taking.stop)
        dovecot = None
        if shutil.which("dovecot") is not None:
            base = Path(tempfile.mkdtemp(prefix="dc"))  # sockets need a short path
            stack.callback(shutil.rmtree, base, ignore_errors=True)
            dovecot = await asyncio.to_thread(make, base)
            await asyncio.to_thread(dovecot.start)
            stack.callback(dovecot.stop)
        radicale: Radicale | None = Radicale(stage.folder / "radicale")
        assert radicale is not None
        stack.push_async_callback(radicale.stop)
        if not await radicale.start():
            radicale = None
        for name, there in (("dovecot", dovecot), ("radicale", radicale)):
            if there is None and os.environ.get("CI"):
                stage.hold(f"{name} is installed", held=False)
        yield World(bots, smtp, dovecot, radicale, speech, Mind())


async def knows_your_tools(stage: Stage) -> None:
    """A house with everything connected, and its owner, who writes in Telegram."""
    async with world(stage) as w, stage.model(mind=w.mind) as model, stage.house("tools") as house:
        house.settle(settings(model, **w.sections()))
        _mail(w)
        day = friday()
        if w.radicale is not None:
            events = {
                "talk": ("Team talk", day.replace(hour=14)),
                "dentist": ("Dentist", day.replace(hour=10) - timedelta(days=1)),
            }
            stage.hold("the calendar server takes events", await w.radicale.fill(events))
        await house.start()
        if w.dovecot is not None:
            await _reads_and_answers(stage, w, house)
        if w.radicale is not None:
            await _keeps_the_calendar(stage, w)
        if w.dovecot is not None and w.radicale is not None:
            await _briefs(stage, w, house)
        await _hears(stage, w, house)
        await _reads_the_file(stage, w, house)
        _nothing_wrong(stage, w, model, house)
        await house.end()


def _mail(w: World) -> None:
    if w.dovecot is None:
        return
    for sender, subject, text in (
        ("Anna <anna@example.org>", "Thursday?", "Can we meet on Thursday?"),
        ("Parcels <no-reply@parcels.example>", "Your parcel", "It comes tomorrow."),
    ):
        mail = EmailMessage()
        mail["From"], mail["To"], mail["Subject"] = sender, "ada@example.net", subject
        mail["Date"], mail["Message-ID"] = datetime.now(UTC), f"<{subject[:4]}@story.example>"
        mail.set_content(text)
        w.dovecot.deliver("ada", mail.as_bytes())


async def _ask(w: World, text: str, wanted: str) -> str:
    """Say something and return the first message after it that holds the wanted words; "" if none comes."""
    before = len(w.bots.shown)
    w.bots.say(OWNER, text)
    return await _next(w, before, wanted)


async def _next(w: World, before: int, wanted: str) -> str:
    def found() -> str:
        return next((one.text for one in w.bots.shown[before:] if re.search(wanted, one.text)), "")

    await until(lambda: bool(found()), WAIT, 0.05)
    return found()


async def _reads_and_answers(stage: Stage, w: World, house: House) -> None:
    told = await _ask(w, NEWS, r"\d mails:")
    stage.hold(f"“{NEWS}” is answered from the mailbox", "Thursday?" in told and "Your parcel" in told, told[:200])
    question = await _ask(w, ANSWER, _QUESTION.pattern)
    name = _QUESTION.search(question)
    stage.hold(
        f"“{ANSWER}” asks once, with address and text",
        name and ANNA in question and "Thursday is fine." in question,
        question[:300],
    )
    stage.hold("nothing is sent before the yes", not w.smtp.taken, f"{len(w.smtp.taken)} mails")
    before = len(w.bots.shown)
    w.bots.say(OWNER, f"/approve {name[1] if name else 'none'} once")
    await asyncio.to_thread(w.smtp.arrived.wait, WAIT)
    await house.end(signal.SIGKILL)
    await house.start()
    done = await _next(w, before, r"It is done|sent")
    await asyncio.sleep(1)
    mails = w.smtp.to(ANNA)
    held = len(mails) == 1 and "Thursday is fine." in str(mails[0].get_payload(decode=True))
    stage.hold(
        "one mail goes to Anna, although the gateway is killed as it leaves", held, f"{len(mails)} mails; told: {done[:100]}"
    )
    answered = str(mails[0]["In-Reply-To"]) if mails else ""
    stage.hold("it answers Anna's mail", answered == "<Thur@story.example>", answered)
    asked = [one.text for one in w.bots.shown if _QUESTION.search(one.text) and ANNA in one.text]
    stage.hold("and one question about it", len(asked) == 1, f"{len(asked)} questions")


async def _keeps_the_calendar(stage: Stage, w: World) -> None:
    assert w.radicale is not None
    w.bots.say(OWNER, "/new")
    await asyncio.sleep(1)
    told = await _ask(w, FREE, r"Busy with|could not tell")
    stage.hold(f"“{FREE}” is answered from the calendar", "Team talk from 14:00" in told, told[:300])
    before = w.radicale.objects()
    question = await _ask(w, MOVE, _QUESTION.pattern)
    name = _QUESTION.search(question)
    stage.hold(f"“{MOVE}” asks with the old and the new day", name and "Dentist" in question, question[:300])
    stage.hold("nothing is moved before the yes", w.radicale.objects() == before)
    w.bots.say(OWNER, f"/approve {name[1] if name else 'none'} once")
    wanted = f"{friday() - timedelta(days=1) + timedelta(days=7):%Y%m%dT1000}"
    moved = await until(lambda: w.radicale is not None and wanted in w.radicale.objects(), WAIT)
    stage.hold("the dentist is a week later", moved is not None, re.sub(r"\s+", " ", w.radicale.objects())[-300:])


async def _briefs(stage: Stage, w: World, house: House) -> None:
    w.bots.say(OWNER, "/new")
    await asyncio.sleep(1)
    told = await _ask(w, BRIEFING, r"Set:")
    stage.hold(f"“{BRIEFING}” becomes a job with its times", "Monday through Friday" in told, told[:300])
    before = len(w.bots.shown)
    done = await house.run("cron", "run", "briefing")
    stage.hold("`homebody cron run` starts it", done.code == 0, done.err[:200])
    briefing = await _next(w, before, r"Briefing:")
    stage.hold("the briefing has mail and calendar", "Thursday?" in briefing and "Team talk" in briefing, briefing[:300])


async def _hears(stage: Stage, w: World, house: House) -> None:
    w.bots.say(OWNER, "/new")
    await asyncio.sleep(1)
    before = len(w.bots.shown)
    w.bots.send_file(OWNER, "voice", opus(2.0), duration=2, mime_type="audio/ogg")
    told = await _next(w, before, r"Done:")
    stage.hold("a voice message is answered", "oat milk" in told, told[:200])
    stage.hold("what was understood is shown", any(SPOKEN in one.text for one in w.bots.shown[before:]))
    listed = await _ask(w, "/todo", r"To do")
    stage.hold("and what it asked for is on the list", "oat milk" in listed, listed[:200])
    done = await house.run("todo", "done", "oat milk")
    text = (house.workspace / "TODO.md").read_text()
    stage.hold(
        "`homebody todo done` ticks it off in the file",
        done.code == 0 and "- [x] oat milk" in text,
        text[:200] + done.err[:200],
    )


async def _reads_the_file(stage: Stage, w: World, house: House) -> None:
    words = [f"word{number * 7919 % 10007}" for number in range(1, PAGES + 1)]
    data = pdf([f"The word of page {number} is {word}." for number, word in enumerate(words, 1)])
    inbox = house.workspace / "inbox"
    known = {path.name for path in inbox.iterdir()} if inbox.is_dir() else set()
    w.bots.send_file(OWNER, "document", data, file_name="book.pdf", mime_type="application/pdf")
    await until(
        lambda: inbox.is_dir() and any(path.name not in known and path.suffix == ".pdf" for path in inbox.iterdir()), WAIT
    )
    fresh = next((path.name for path in inbox.iterdir() if path.name not in known and path.suffix == ".pdf"), "none")
    w.mind.file(f"inbox/{fresh}")
    began = time.monotonic()
    told = await _ask(w, LONG_FILE, r"Page \d+ says|could not tell")
    held = told == f"Page {WANTED} says {words[WANTED - 1]}."
    stage.hold(f"a page of a PDF of {PAGES} is read", held, f"{time.monotonic() - began:.1f} s; {told[:200]}")


def _nothing_wrong(stage: Stage, w: World, model: Model, house: House) -> None:
    stage.hold("nothing that the model was asked was out of order", not model.wrong, "; ".join(model.wrong)[:200])
    leaked = [name for name, text in (("the model", json.dumps(model.asked)), ("a log", house.printed)) if PASSWORD in text]
    stage.hold("no password is shown to the model or logged", not leaked, ", ".join(leaked))


STORIES = {"knows-your-tools": Story(knows_your_tools, 300)}
