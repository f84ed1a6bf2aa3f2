"""The settings in the browser: errors beside their field, the difference before it is written, secrets that are never shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.page.browser.kit import LOOKS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from tests.page.browser.kit import BrowserTab
    from tests.page.conftest import PageVillage

    Visit = Callable[..., Awaitable[BrowserTab]]

START = """\
# my house
agents:
  defaults:
    workspace: WORKSPACE
    model: scripted/model
channels:
  telegram: {enabled: false, botToken: "77:very-secret-token"}   # from BotFather
logging: {level: info}
"""


def read(file: Path) -> str:
    return file.read_text("utf-8")


def add(file: Path, line: str) -> None:
    file.write_text(read(file) + line)


@pytest.fixture
def file(village: PageVillage) -> Path:
    home = village.root / "home"
    home.mkdir(mode=0o700, exist_ok=True)
    file = home / "homebody.yaml"
    file.write_text(START.replace("WORKSPACE", str(village.settings.agent("main").workspace)))
    file.chmod(0o600)
    return file


@pytest.mark.parametrize("look", LOOKS)
async def test_the_settings_as_they_look(village: PageVillage, visit: Visit, file: Path, look: str) -> None:
    async with village.page() as served:
        tab = await visit(served, look)
        await tab.go("settings", title="Settings")
        await tab.page.get_by_role("link", name="logging").wait_for()
        await tab.check("settings")
        for section in ("logging", "channels", "agents"):
            await tab.go(f"settings/{section}", title="Settings")
            await tab.page.get_by_text(f"Written to {file}").wait_for()
            await tab.check(f"settings-{section}")
        assert "very-secret-token" not in await tab.page.content()


@pytest.mark.parametrize("look", ["desktop-light", "phone-dark"])
async def test_a_setting_is_changed_with_an_error_first(village: PageVillage, visit: Visit, file: Path, look: str) -> None:
    async with village.page() as served:
        tab = await visit(served, look)
        await tab.go("settings/logging", title="Settings")
        await tab.page.get_by_label("keep", exact=True).fill("many")
        await tab.page.get_by_label("level", exact=True).select_option("debug")
        await tab.page.get_by_role("button", name="Look at the difference").click()
        await tab.page.locator(".key .error", has_text="a whole number").wait_for()
        await tab.page.wait_for_function("() => document.activeElement.getAttribute('aria-invalid') === 'true'")
        await tab.check("settings-error")
        await tab.page.get_by_label("keep", exact=True).fill("7")
        await tab.page.get_by_role("button", name="Look at the difference").click()
        await tab.page.get_by_role("dialog").get_by_text("In force after a restart: logging.keep.").wait_for()
        await tab.check("settings-difference")
        await tab.page.get_by_role("button", name="Write", exact=True).click()
        await tab.page.get_by_text("Written.").wait_for()
        assert served.house.settings.current.logging.level == "debug"
        written = read(file)
        assert "# from BotFather" in written
        assert "keep: 7" in written


async def test_a_file_that_an_editor_changed_meanwhile_is_shown_anew(village: PageVillage, visit: Visit, file: Path) -> None:
    async with village.page() as served:
        tab = await visit(served)
        await tab.go("settings/logging", title="Settings")
        await tab.page.get_by_label("level", exact=True).select_option("warn")
        await tab.page.get_by_role("button", name="Look at the difference").click()
        await tab.page.get_by_role("dialog").wait_for()
        add(file, "# by hand\n")
        await tab.page.get_by_role("button", name="Write", exact=True).click()
        await tab.page.get_by_text("The file was changed meanwhile.").wait_for()
        assert "warn" not in read(file)
        await tab.page.get_by_role("button", name="Write", exact=True).click()
        await tab.page.get_by_text("Written.").wait_for()
        assert "# by hand" in read(file)


async def test_a_secret_is_written_and_never_shown(village: PageVillage, visit: Visit, file: Path) -> None:
    async with village.page() as served:
        tab = await visit(served)
        await tab.go("settings/channels", title="Settings")
        field = tab.page.get_by_label("botToken").first
        assert await field.input_value() == ""
        await field.fill("88:brand-new-token")
        await tab.page.get_by_role("button", name="Look at the difference").click()
        await tab.page.get_by_role("dialog").wait_for()
        assert "token" not in (await tab.page.locator(".diff").inner_text()).replace("botToken", "")
        await tab.page.get_by_role("button", name="Write", exact=True).click()
        await tab.page.get_by_text("Written.").wait_for()
        assert "88:brand-new-token" in read(file)
        await tab.page.reload()
        await tab.page.get_by_label("botToken").first.wait_for()
        assert "brand-new" not in await tab.page.content()
