"""The chat with a scripted model: drafts as they grow, tools that unfold, questions, files, stopping; nothing typed is lost."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from agent.events import TextDelta
from agent.messages import ToolCall
from agent.models.scripted import Stall
from tests.page.browser.kit import LOOKS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tests.page.browser.kit import BrowserTab
    from tests.page.conftest import PageVillage

    Visit = Callable[..., Awaitable[BrowserTab]]

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
        [TextDelta("It lies under "), Stall(go_on), TextDelta(ANSWER.removeprefix("It lies "))],
    )
    village.model.then(ANSWER)
    async with village.page() as served:
        tab = await visit(served, look)
        await tab.go("chat", title="Chat")
        await tab.check("chat-empty")
        await tab.page.get_by_label("Message", exact=True).fill("Where is the spare key?")
        await tab.page.get_by_role("button", name="Send").click()
        await tab.page.locator(".growing .said", has_text="It lies under").wait_for()
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
        await tool.locator("summary").click()
        assert "MEMORY.md" in await tool.inner_text()
        await tab.check("chat")
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
        tab.expected.append("401")
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
        await tab.page.locator("main > .notice").get_by_role("button", name="Try again").click()
        assert await box.input_value() == "a long thought"
        await tab.page.get_by_role("button", name="Send").click()
        await tab.page.locator(".bubble.theirs", has_text="Good.").wait_for()
        assert await box.input_value() == ""


async def test_a_command_is_asked_about_and_approved_by_a_button(village: PageVillage, visit: Visit) -> None:
    village.model.then([ToolCall(id="c1", name="exec", arguments={"command": "touch made-by-yes"})], "Done, it is made.")
    async with village.page() as served:
        tab = await visit(served, "phone-dark")
        await tab.go("chat", title="Chat")
        await tab.page.get_by_label("Message", exact=True).fill("make the file")
        await tab.page.get_by_label("Message", exact=True).press("Enter" if "desktop" in tab.look else "Tab")
        await tab.page.get_by_role("button", name="Send").click()
        buttons = tab.page.locator(".buttons button")
        await buttons.first.wait_for()
        await tab.check("chat-question")
        await buttons.first.click()
        await tab.page.get_by_text("You chose").wait_for()
        await tab.page.locator(".bubble.theirs", has_text="Done, it is made.").wait_for()
        assert (village.workspace / "made-by-yes").exists()


async def test_a_turn_is_stopped(village: PageVillage, visit: Visit) -> None:
    village.model.then([TextDelta("I go on and on"), Stall(asyncio.Event())])
    async with village.page() as served:
        tab = await visit(served)
        await tab.go("chat", title="Chat")
        await tab.page.get_by_label("Message", exact=True).fill("talk")
        await tab.page.get_by_label("Message", exact=True).press("Enter")
        await tab.page.get_by_role("button", name="Stop").click()
        await tab.page.locator(".growing").wait_for(state="detached")


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
