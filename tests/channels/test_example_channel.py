"""The example of ``docs/adding-a-channel.md``: it keeps the published rules, and is found as an installed package would be."""

from __future__ import annotations

import importlib
import tomllib
from pathlib import Path
from typing import Any

import pytest

from channels.common.log import NoLog
from channels.errors import ChannelBroken
from gateway.settings.root import Settings
from gateway.supervision.platforms import platforms
from tests.peers.hasty import FastClock

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "linechat"


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(EXAMPLE))
    return importlib.import_module("homebody_linechat.server")


async def test_the_example_keeps_the_rule(example: Any, channel_conformance: Any) -> None:
    await channel_conformance(example.Server(FastClock(), NoLog()))


async def test_a_wrong_password_says_which_setting_it_is(example: Any) -> None:
    async with example.Server(FastClock(), NoLog()) as server:
        with pytest.raises(ChannelBroken) as caught:
            await server.intruder().run(WithoutCursors())
    assert "channels.plugins.linechat.settings.password" in caught.value.hint


class WithoutCursors:
    async def cursor(self, name: str) -> None:
        return None

    def alive(self) -> None:
        """Nobody asks."""


def test_the_example_is_found_by_its_entry_point(example: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    [(group, entries)] = project["entry-points"].items()
    installed = tmp_path / "homebody_linechat-1.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    (installed / "entry_points.txt").write_text(
        "\n".join([f"[{group}]", *(f"{name} = {value}" for name, value in entries.items())])
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    given = {"linechat": {"allowFrom": ["anna"], "settings": {"host": "127.0.0.1", "port": 7000, "password": "p"}}}
    settings = Settings.model_validate({"channels": {"plugins": given}})
    [(channel, policy)] = platforms(settings, FastClock(), {})  # type: ignore[arg-type]
    assert (channel.name, channel.account, policy.allow_from) == ("linechat", "default", ("anna",))
