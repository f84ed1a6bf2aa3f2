"""The chat with a scripted model: drafts as they grow, tools that unfold, questions, files, stopping; nothing typed is lost."""

from __future__ import annotations

import asyncio
import json
import re
import socket
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from playwright.async_api import Page, expect

from agent.events import TextDelta
from agent.messages import Text, ToolCall, UserMessage
from agent.models.scripted import Stall
from agent.taint import fenced
from agent.transcript.entries import Entry, Said, encode
from channels.messages import Button, Outbound, OutboundFile
from channels.web.channel import place_of
from channels.web.conversation_log import ConversationLog
from gateway.base.clock import SystemClock
from tests.page.browser.kit import GATEWAY_GONE, LOOKS
from tests.page.conftest import PageVillage
from tests.page.hostile_texts import TEXTS
from tests.page.world import fill

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from playwright.async_api import Route

    from tests.page.browser.kit import BrowserTab
    from tests.page.conftest import ServedPage

    Visit = Callable[..., Awaitable[BrowserTab]]


async def keep(_: str) -> None:
    """Nothing is recorded."""


def free_port() -> int:
    with socket.socket() as plug:
        plug.bind(("127.0.0.1", 0))
        found: int = plug.getsockname()[1]
        return found


def say_elsewhere(served: ServedPage, text: str) -> None:
    """Add what a person said in another chat to the transcript that `fill` wrote."""
    past, now = Path(served.house.agents["main"].store.transcript("s-now").where), datetime.now(UTC)
    entry = Entry(id="t99:0", parent=None, at=now, body=Said(message=UserMessage(content=(Text(text=text),), at=now)))
    past.write_bytes(past.read_bytes() + encode(entry))


ANSWER = """It lies **under the blue pot**, as you noted in `memory/2026-11-21.md`.

1. Go to the terrace
2. Lift the pot

| what | where |
|---|---|
| key | blue pot |

```sh
ls -l pot
```
<img src=x onerror=alert(1)> [a page](https://example.org/) [no page](javascript:alert(1))"""


@pytest.mark.parametrize("look", LOOKS)
async def test_a_conversation_with_a_tool_and_a_draft_that_grows(village: PageVillage, visit: Visit, look: str) -> None:
    go_on = asyncio.Event()
    village.model.then(
        [TextDelta("Let me look."), ToolCall(id="c1", name="read", arguments={"path": "MEMORY.md"})],
        [TextDelta("It lies "), Stall(go_on), TextDelta(ANSWER.removeprefix("It lies "))],
    )
    village.model.then(ANSWER)
    async with village.page() as served:
        tab = await visit(served, look)
        await tab.go("chat", title="Chat")
        await tab.check("chat-empty")
        await tab.page.get_by_label("Message", exact=True).fill("Where is the spare key?")
        await tab.page.get_by_role("button", name="Send").click()
        await tab.page.locator(".growing .said", has_text="It lies").wait_for()
        await tab.page.get_by_role("button", name="Stop").wait_for()
        await tab.check("chat-growing")
        go_on.set()
        await tab.page.locator(".bubble.theirs strong").wait_for()
        await tab.page.locator(".growing").wait_for(state="detached")
        assert await tab.page.locator(".bubble.mine", has_text="Where is the spare key?").count() == 1
        await tab.page.wait_for_function("() => document.querySelectorAll('.bubble.theirs').length === 1")
        assert await tab.page.locator("main img").count() == 0
        assert await tab.page.locator("main a[href^='javascript']").count() == 0
        tool = tab.page.locator("details.tool")
        await tab.check("chat")
        await tool.locator("summary").click()
        assert "MEMORY.md" in await tool.inner_text()
        await tab.check("chat-unfolded")
        await tab.page.reload()
        await tab.page.locator(".bubble.theirs strong").wait_for()
        assert await tab.page.locator(".bubble").count() == 2


async def test_what_was_typed_is_kept_when_the_cookie_expires_meanwhile(village: PageVillage, visit: Visit) -> None:
    village.model.then("Good.")
    async with village.page() as served:
        tab = await visit(served, "phone-light")
        await tab.go("chat", title="Chat")
        box = tab.page.get_by_label("Message", exact=True)
        await box.fill("a long thought")
        tab.expected += ["401"]
        await served.house.page.revoke("all")
        await tab.page.get_by_text("What you typed is kept").wait_for()
        await tab.page.get_by_role("button", name="Send").click()
        assert await box.input_value() == "a long thought"
        await tab.check("chat-expired")
        made = await served.house.page.open()
        again = await tab.context.new_page()
        await again.goto(f"{served.base}/enter#{made['code']}")
        await again.wait_for_url(f"{served.base}/")
        await again.close()
        await tab.page.get_by_text("What you typed is kept").wait_for(state="detached")  # without a press of "Try again"
        assert await box.input_value() == "a long thought"
        await tab.page.get_by_role("button", name="Send").click()
        await tab.page.locator(".bubble.theirs", has_text="Good.").wait_for()
        assert await box.input_value() == ""


async def test_two_tabs_of_one_browser_keep_the_message_that_each_has_begun(village: PageVillage, visit: Visit) -> None:
    village.model.then("Good.")
    async with village.page() as served:
        tab = await visit(served)
        await tab.go("chat", title="Chat")
        box = tab.page.get_by_label("Message", exact=True)
        await box.fill("begun in the first")
        second = await tab.context.new_page()
        await second.goto(f"{served.base}/#/chat")
        beside = second.get_by_label("Message", exact=True)
        await expect(beside).to_have_value("begun in the first")
        await beside.fill("said in the second")
        await beside.press("Enter")
        await second.locator(".bubble.theirs", has_text="Good.").wait_for()
        await second.close()
        await tab.page.reload()
        await expect(box).to_have_value("begun in the first")


async def test_a_command_is_asked_about_and_approved_by_a_button(village: PageVillage, visit: Visit) -> None:
    village.model.then([ToolCall(id="c1", name="exec", arguments={"command": "touch made-by-yes"})], "Done, it is made.")
    async with village.page() as served:
        tab = await visit(served, "phone-dark")
        await tab.go("chat", title="Chat")
        await tab.page.get_by_label("Message", exact=True).fill("make the file")
        await tab.page.get_by_label("Message", exact=True).press("Enter" if "desktop" in tab.look else "Tab")
        await tab.page.get_by_role("button", name="Send").click()
        buttons, tool = tab.page.locator(".buttons button"), tab.page.locator("details.tool summary")
        await buttons.first.wait_for()
        await expect(tool).to_have_text(re.compile(r"^… exec waiting"))
        await tool.click()
        await tab.page.locator(".hint", has=tab.page.get_by_role("link", name="Approvals")).wait_for()
        assert await tab.page.get_by_text("do not call it again").count() == 0, "that is said to the model"
        await tab.check("chat-question")
        await tool.click()
        await buttons.first.click()
        await tab.page.get_by_text("Decision: approved").wait_for()
        assert await buttons.count() == 0
        await tab.page.locator(".bubble.theirs", has_text="Done, it is made.").wait_for()
        await expect(tool).to_have_text(re.compile(r"^✓ exec(?! waiting)"))
        await tool.click()
        await tab.page.locator("details.tool pre", has_text="Result of exec").wait_for()
        assert (village.workspace / "made-by-yes").exists()


async def test_a_command_that_was_denied_reads_as_denied(village: PageVillage, visit: Visit) -> None:
    village.model.then([ToolCall(id="c1", name="exec", arguments={"command": "touch never-made"})], "As you like.")
    async with village.page() as served:
        tab = await visit(served)
        await tab.go("chat", title="Chat")
        await tab.page.get_by_label("Message", exact=True).fill("make the file")
        await tab.page.get_by_label("Message", exact=True).press("Enter")
        await tab.page.get_by_role("button", name="Deny").click()
        await tab.page.locator(".bubble.theirs", has_text="As you like.").wait_for()
        tool = tab.page.locator("details.tool summary")
        await expect(tool).to_have_text(re.compile(r"^✗ exec denied"))
        await tool.click()
        await tab.page.locator("details.tool pre", has_text="It was not run").wait_for()


async def test_a_turn_is_stopped(village: PageVillage, visit: Visit) -> None:
    village.model.then([TextDelta("I go on and on"), Stall(asyncio.Event())])
    async with village.page() as served:
        tab = await visit(served)
        await tab.go("chat", title="Chat")
        await tab.page.get_by_label("Message", exact=True).fill("talk")
        await tab.page.get_by_label("Message", exact=True).press("Enter")
        await tab.page.get_by_role("button", name="Stop").click()
        await tab.page.locator(".growing").wait_for(state="detached")


async def test_an_error_stays_until_something_else_is_sent(village: PageVillage, visit: Visit) -> None:
    village.model.then([TextDelta("I go on and on"), Stall(asyncio.Event())], "Good.")
    async with village.page() as served:
        tab = await visit(served)
        await tab.go("chat", title="Chat")
        box = tab.page.get_by_label("Message", exact=True)
        await box.fill("talk")
        await box.press("Enter")
        stop = tab.page.get_by_role("button", name="Stop")
        await stop.wait_for()
        tab.expected += ["409"]
        refusal = {"status": 409, "json": {"error": {"type": "Conflict", "message": "it cannot be stopped now", "hint": ""}}}
        await tab.page.route("**/page/call/chat.stop", lambda route: route.fulfill(**refusal))
        await stop.click()
        told = tab.page.get_by_text("it cannot be stopped now")
        await told.wait_for()
        async with tab.page.expect_response("**/page/call/chat.history"):
            await fill(served.house)  # other conversations change, and the page looks again
        await tab.page.wait_for_timeout(500)
        await told.wait_for()
        await tab.page.unroute("**/page/call/chat.stop")
        await box.fill("another thing")
        await box.press("Enter")
        await told.wait_for(state="detached")


async def test_a_file_goes_in_and_comes_out(village: PageVillage, visit: Visit) -> None:
    village.model.then([ToolCall(id="c1", name="send_file", arguments={"path": "out.txt"})], "Here it is.")
    village.workspace.mkdir(parents=True)
    (village.workspace / "out.txt").write_text("what came out")
    async with village.page() as served:
        tab = await visit(served)
        await tab.go("chat", title="Chat")
        body = b"x" * 1_300_000
        await tab.page.locator("input[type=file]").set_input_files(
            [{"name": "in <b>.txt", "mimeType": "text/plain", "buffer": body}]
        )
        await tab.page.get_by_text("in <b>.txt").wait_for()
        await tab.page.get_by_role("button", name="Send").click()
        link = tab.page.locator("a.file", has_text="out.txt")
        await link.wait_for()
        async with tab.page.expect_download() as saved:
            await link.click()
        assert (await (await saved.value).path()).read_text() == "what came out"
        assert await tab.page.locator(".bubble.mine a.file", has_text="in <b>.txt").count() == 1
        assert any(path.stat().st_size == len(body) for path in village.workspace.rglob("*.txt"))
        await tab.check("chat-files")


async def test_a_file_that_is_too_large_is_refused_with_a_sentence_and_not_sent(tmp_path: Path, visit: Visit) -> None:
    village = PageVillage(tmp_path, messages={"attachments": {"maxBytes": 1024 * 1024}})
    async with village.page() as served:
        tab = await visit(served)
        await tab.go("chat", title="Chat")
        tab.expected += ["400"]
        sent: list[int] = []
        tab.page.on("request", lambda one: sent.append(len(one.post_data_buffer or b"")) if "/page/upload" in one.url else None)
        large = {"name": "large.bin", "mimeType": "application/octet-stream", "buffer": b"x" * 1_300_000}
        await tab.page.locator("input[type=file]").set_input_files([large])
        await tab.page.get_by_role("button", name="Send").click()
        await tab.page.get_by_text("a file may have 1 MB at most").wait_for()
        assert sent == [0], "nothing of it was sent"
        assert await tab.page.locator(".bubble.mine").count() == 0
        assert await tab.page.locator(".files", has_text="large.bin").count() == 1


async def test_a_viewer_reads_and_cannot_write(village: PageVillage, visit: Visit) -> None:
    village.model.then("Hello.")
    async with village.page() as served:
        owner, viewer = await visit(served), await visit(served, "phone-dark", viewer=True)
        await owner.go("chat", title="Chat")
        await viewer.go("chat", title="Chat")
        await owner.page.get_by_label("Message", exact=True).fill("hi")
        await owner.page.get_by_label("Message", exact=True).press("Enter")
        await viewer.page.locator(".bubble.theirs", has_text="Hello.").wait_for()
        assert await viewer.page.locator("textarea").count() == 0
        await viewer.check("chat-viewer")


async def test_hostile_texts_are_shown_and_run_nowhere(village: PageVillage, visit: Visit) -> None:
    async with village.page() as served:
        channel = served.house.page.channel
        place = place_of("agent:main:main")
        folder = village.root / "files"
        folder.mkdir()
        (folder / "f").write_bytes(b"<script>window.__hit=1</script>")
        for number, text in enumerate(TEXTS):
            enclosed = OutboundFile(path=folder / "f", name=text, media_type="text/html") if number % 10 == 0 else None
            button = (Button(label=text[:80], value="/x"),) if number % 7 == 0 else ()
            await channel.send(
                Outbound(key=f"k{number}", conversation=place, text=text, enclosure=enclosed, buttons=button), keep
            )
        tab = await visit(served)
        tab.page.on("dialog", lambda dialog: tab.lines.append(f"dialog: {dialog.message}"))
        await tab.go("chat", title="Chat")
        await tab.page.locator(".bubble").first.wait_for()
        shown = set()
        for _ in range(400):
            shown |= set(await tab.page.eval_on_selector_all("[data-key]", "all => all.map(one => one.dataset.key)"))
            bad = await tab.page.evaluate(
                "() => [...document.querySelectorAll('main :is(script,iframe,object,embed,svg script,style,link,base,meta,form form)')]"
                ".concat([...document.querySelectorAll('main img')].filter(i => !i.src.startsWith(location.origin + '/page/file/')))"
                ".concat([...document.querySelectorAll('main a')].filter(a => !/^(https?|mailto):/.test(a.href)))"
                ".map(one => one.outerHTML)"
            )
            assert bad == []
            if len(shown) >= len(TEXTS):
                break
            await tab.page.evaluate("() => document.querySelector('.virtual').scrollBy(0, -600)")
            await tab.page.wait_for_timeout(30)
        assert len(shown) >= len(TEXTS)
        assert await tab.page.evaluate("window.__hit") is None
        assert tab.unexpected() == []


async def test_a_conversation_of_five_thousand_messages_scrolls_smoothly(village: PageVillage, visit: Visit) -> None:
    """Frames as Chromium's tracing counts them. How many depends on the machine; so they are compared with those of a plain text."""
    async with village.page() as served:
        log = ConversationLog(served.state / "web", "agent:main:main")
        at = SystemClock().now()
        log.add({"who": "user", "key": "first", "uid": "first", "text": "first", "at": at.isoformat()})
        lines = [
            {"who": "agent" if n % 2 else "user", "key": f"k{n}", "uid": f"u{n}", "text": f"message {n} " * (1 + n % 9)}
            | {"at": (at + timedelta(milliseconds=n)).isoformat()}
            for n in range(5000)
        ]
        [file] = (served.state / "web").glob("*.jsonl")
        file.write_text("".join(json.dumps(line) + "\n" for line in lines))
        tab = await visit(served)
        await tab.go("chat", title="Chat")
        await tab.page.get_by_text("message 4999").first.wait_for()
        browser = tab.context.browser
        assert browser is not None
        figures = {}
        for name, box, many in (("plain", "#plain", 1), ("chat", ".virtual", 80)):
            if name == "plain":
                await tab.page.evaluate(PLAIN)
            await browser.start_tracing(page=tab.page, categories=["disabled-by-default-devtools.timeline.frame", FRAMES])
            found = await tab.page.evaluate(SCROLL, box)
            traced = json.loads(await browser.stop_tracing())["traceEvents"]
            if name == "plain":
                await tab.page.evaluate("() => document.querySelector('#plain').remove()")
            found |= {kind: sum(one["name"] == kind for one in traced) for kind in ("DrawFrame", "DroppedFrame")}
            found["drawn"] = found["DrawFrame"] * 1000 / found["ms"]
            figures[name] = found
            print(f"{name}: {found['drawn']:.0f} frames/s drawn: { {key: round(value) for key, value in found.items()} }")  # noqa: T201
            assert found["most"] < many  # elements of the list that exist at a time
            assert found["far"] > 1000
        assert figures["chat"]["drawn"] > figures["plain"]["drawn"] / 2


FRAMES = "devtools.timeline"
PLAIN = """() => {
  const box = document.createElement('div'), all = document.createElement('div');
  box.id = 'plain'; box.append(all); document.body.append(box);
  Object.assign(box.style, {position: 'fixed', inset: '0', overflow: 'auto', zIndex: 99, background: 'Canvas'});
  Object.assign(all.style, {height: '500000px', whiteSpace: 'pre'});
  all.textContent = Array.from({length: 2000}, (_, n) => `line ${n}`).join('\\n');
  box.scrollTop = 40000;
}"""
"""The same window with a long text in one element: what this machine draws of something that is easy to draw."""
SCROLL = """async place => {
  const step = 150, box = document.querySelector(place);
  const began = performance.now(), start = box.scrollTop;
  let last = began, frames = 0, longest = 0, most = 0;
  while (performance.now() - began < 2500) {
    await new Promise(requestAnimationFrame);
    const now = performance.now();
    longest = Math.max(longest, now - last); last = now; frames += 1;
    box.scrollBy(0, -step);
    most = Math.max(most, box.querySelectorAll('[data-key]').length);
  }
  const ms = performance.now() - began;
  return {frames, ms, rate: frames * 1000 / ms, longest, most, far: start - box.scrollTop};
}"""


async def test_words_are_found_and_a_new_conversation_is_begun(village: PageVillage, visit: Visit) -> None:
    village.model.then("The blue pot.", "Hello there.")
    async with village.page() as served:
        tab = await visit(served, "phone-light")
        await tab.go("chat", title="Chat")
        await tab.page.get_by_label("Message", exact=True).fill("Where is it?")
        await tab.page.get_by_role("button", name="Send").click()
        await tab.page.locator(".bubble.theirs", has_text="The blue pot.").wait_for()
        await tab.page.get_by_role("button", name="Search").click()
        await tab.page.get_by_label("Words to look for").fill("BLUE pot")
        await tab.page.get_by_role("button", name="Find").click()
        await tab.page.get_by_text("1 message found").wait_for()
        await tab.check("chat-search")
        await tab.page.locator(".plainlist button").click()
        await tab.page.get_by_role("button", name="Close").click()
        await tab.page.get_by_role("button", name="New: Conversation").click()
        await tab.page.get_by_label("Name").fill("Trip to Rome")
        await tab.check("chat-new")
        await tab.page.get_by_role("button", name="Begin").click()
        await tab.page.get_by_text("Nothing was said here yet").wait_for()
        await tab.page.get_by_label("Message", exact=True).fill("hi")
        await tab.page.get_by_role("button", name="Send").click()
        await tab.page.locator(".bubble.theirs", has_text="Hello there.").wait_for()
        assert served.house.agents["main"].store.get("agent:main:trip-to-rome") is not None


async def test_a_recording_is_sent_and_can_be_heard(village: PageVillage, visit: Visit) -> None:
    village.model.then("I hear you.")
    async with village.page() as served:
        tab = await visit(served, permissions=["microphone"])
        await tab.go("chat", title="Chat")
        await tab.page.get_by_role("button", name="Record a voice message").click()
        await tab.page.get_by_text("Recording …").wait_for()
        await tab.page.wait_for_timeout(600)
        await tab.check("chat-recording")
        await tab.page.get_by_role("button", name="Send recording").click()
        await tab.page.locator(".bubble.mine audio").wait_for()
        await tab.page.locator(".bubble.theirs").first.wait_for()


async def test_the_page_goes_on_when_the_gateway_was_restarted_under_it(village: PageVillage, visit: Visit) -> None:
    village.model.then("Before.", "After.")
    port = free_port()
    village.settings = PageVillage(village.root, gateway={"port": port}).settings
    async with village.page() as served:
        tab = await visit(served)
        await tab.go("chat", title="Chat")
        await tab.page.get_by_label("Message", exact=True).fill("one")
        await tab.page.get_by_label("Message", exact=True).press("Enter")
        await tab.page.locator(".bubble.theirs", has_text="Before.").wait_for()
    await tab.page.get_by_text("Not connected").wait_for()
    tab.expected += GATEWAY_GONE
    await tab.page.get_by_label("Message", exact=True).fill("two")
    await tab.page.get_by_label("Message", exact=True).press("Enter")
    await tab.page.get_by_text("The gateway does not answer").wait_for()
    async with village.page():
        await tab.page.get_by_text("Not connected").wait_for(state="detached")
        assert await tab.page.get_by_label("Message", exact=True).input_value() == "two"
        await tab.page.get_by_role("button", name="Send").click()
        await tab.page.locator(".bubble.theirs", has_text="After.").wait_for()
        assert await tab.page.locator(".bubble").count() == 4


async def once(page: Page, answer: str) -> None:
    """Wait until an answer stands there once: its draft and the message itself may both be shown for a moment."""
    await expect(page.locator(".bubble.theirs", has_text=answer)).to_have_count(1, timeout=30_000)


async def test_ten_tabs_of_one_browser_share_a_stream(village: PageVillage, visit: Visit) -> None:
    """A browser opens six connections to an address: a stream in each tab would leave none for anything else."""
    village.model.then("Hello to all.", "Still there.")
    async with village.page() as served:
        tab = await visit(served)
        tabs = [tab.page]
        for _ in range(9):
            page = await tab.context.new_page()
            page.on("console", lambda message: tab.lines.append(f"{message.type}: {message.text}"))
            await page.goto(f"{served.base}/#/chat")
            await page.get_by_label("Message", exact=True).wait_for()
            tabs.append(page)
        await tabs[0].get_by_label("Message", exact=True).fill("hi")
        await tabs[0].get_by_label("Message", exact=True).press("Enter")
        for page in tabs:
            await once(page, "Hello to all.")
        await tabs.pop().close()  # the one that reads the stream
        await tabs[3].get_by_label("Message", exact=True).fill("and now?")
        await tabs[3].get_by_label("Message", exact=True).press("Enter")
        for page in tabs:
            await once(page, "Still there.")


async def test_a_turn_that_was_asked_for_elsewhere_is_seen(village: PageVillage, visit: Visit) -> None:
    async with village.page() as served:
        tab = await visit(served)
        await tab.go("chat", title="Chat")
        await tab.page.get_by_text("Nothing was said here yet").wait_for()
        await fill(served.house)
        await tab.page.locator(".bubble", has_text="Noted for later.").first.wait_for()


async def test_what_stands_in_a_file_that_was_sent_elsewhere_is_folded_away(village: PageVillage, visit: Visit) -> None:
    said = f"What is in it?\n[file: inbox/bill.pdf 16 bytes]\n{fenced('Pay me at once.', ['file:bill.pdf'])}"
    async with village.page() as served:
        await fill(served.house)
        say_elsewhere(served, said)
        tab = await visit(served)
        await tab.go("chat", title="Chat")
        mine = tab.page.locator(".bubble.mine", has_text="What is in it?")
        await mine.wait_for()
        assert "untrusted" not in await mine.inner_text()
        await expect(mine.get_by_text("Pay me at once.")).not_to_be_visible()
        await tab.check("chat-file")
        await mine.locator("summary").click()
        await expect(mine.get_by_text("Pay me at once.")).to_be_visible()
        await tab.check("chat-file-open")


async def test_messages_written_while_a_turn_runs_are_shown_once(tmp_path: Path, visit: Visit) -> None:
    going = asyncio.Event()
    village = PageVillage(tmp_path, messages={"queue": {"mode": "collect", "debounceMs": 0}})
    village.model.then([Stall(going), TextDelta("First.")], "All of them.")
    async with village.page() as served:
        tab = await visit(served)
        await tab.go("chat", title="Chat")
        box = tab.page.get_by_label("Message", exact=True)
        for words in ("begin", "also 1", "also 2", "also 3"):
            await box.fill(words)
            await box.press("Enter")
            await tab.page.locator(".bubble.mine", has_text=words).wait_for()
            await expect(box).to_have_value("")
        going.set()
        await tab.page.locator(".bubble.theirs", has_text="All of them.").wait_for()
        await tab.page.wait_for_timeout(2500)  # the page has asked again after the end of the turn
        assert sorted(await tab.page.locator(".bubble.mine .said").all_inner_texts()) == ["also 1", "also 2", "also 3", "begin"]
        assert await tab.page.locator(".bubble.theirs").count() == 2


async def test_an_open_chat_follows_when_its_former_conversation_is_restored(village: PageVillage, visit: Visit) -> None:
    village.model.reply_with(lambda asked: "NO_REPLY" if "pot" not in asked.messages[-1].text else "The blue one.")
    async with village.page() as served:
        tab = await visit(served)
        await tab.go("chat", title="Chat")
        box = tab.page.get_by_label("Message", exact=True)
        await box.fill("Which pot?")
        await box.press("Enter")
        await tab.page.locator(".bubble.theirs", has_text="The blue one.").wait_for()
        await box.fill("/new")
        await box.press("Enter")
        await tab.page.locator(".bubble.theirs", has_text="The blue one.").wait_for(state="detached")
        other = await served.tab()
        await other.call("sessions.undo", key="agent:main:main")
        await tab.page.locator(".bubble.theirs", has_text="The blue one.").wait_for()
        assert await tab.page.locator(".bubble").count() == 3, "with the command that ended it"


async def test_a_question_that_is_decided_elsewhere_has_no_buttons_any_more(village: PageVillage, visit: Visit) -> None:
    village.model.then([ToolCall(id="c1", name="exec", arguments={"command": "touch never"})], "Then not.")
    async with village.page() as served:
        tab = await visit(served, "phone-light")
        await tab.go("chat", title="Chat")
        await tab.page.get_by_label("Message", exact=True).fill("make the file")
        await tab.page.get_by_role("button", name="Send").click()
        await tab.page.locator(".buttons button").first.wait_for()
        [open_] = await served.house.ledger.approvals.latest(["pending"])
        await served.house.approvals.decisions.decide(open_.id, "deny", "command line, deny")
        await tab.page.get_by_text("Decision: denied").wait_for()
        assert await tab.page.locator(".buttons button").count() == 0
        await tab.check("chat-decided")
        await tab.page.reload()
        await tab.page.get_by_text("Decision: denied").wait_for()
        assert await tab.page.get_by_text("You chose").count() == 0


async def test_what_is_typed_while_a_message_is_sent_stays(village: PageVillage, visit: Visit) -> None:
    village.model.then("Good.", "Good again.", "And again.")
    async with village.page() as served:
        tab = await visit(served)
        await tab.go("chat", title="Chat")
        going = asyncio.Event()

        async def slowly(route: Route) -> None:
            await going.wait()
            await route.continue_()

        await tab.page.route("**/page/call/chat.say", slowly)
        box = tab.page.get_by_label("Message", exact=True)
        await box.fill("one")
        await box.press("Enter")
        await box.press_sequentially(" and two")
        going.set()
        await tab.page.locator(".bubble.mine", has_text="one").wait_for()
        await expect(box).to_have_value("and two")
        going.clear()
        await box.press("Enter")
        await box.press("Home")
        await box.press_sequentially("before ")
        await box.press("End")
        await box.press_sequentially(" behind")
        await box.press("Control+ArrowLeft")
        await box.press("Control+ArrowLeft")
        await box.press_sequentially("into ")
        await expect(box).to_have_value("before and into two behind")
        going.set()
        await tab.page.locator(".bubble.mine", has_text="and two").wait_for()
        await expect(box).to_have_value("before into  behind")
        going.clear()
        await box.fill("three")
        await box.press("Enter")
        await box.press("Control+a")
        await box.press_sequentially("three is written anew")
        going.set()
        await tab.page.locator(".bubble.mine", has_text="three").wait_for()
        await expect(box).to_have_value("three is written anew")
