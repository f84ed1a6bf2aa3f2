"""``homebody channels new``: the package that it writes keeps the rules as it is, and is found once it is installed."""

from __future__ import annotations

import json
import os
import sys
import tomllib
from typing import TYPE_CHECKING, Any

import pytest

from channels.testing import CHECKS, new_package
from tests import programs

if TYPE_CHECKING:
    from pathlib import Path


def homebody(folder: Path, *arguments: str) -> Any:
    env = {**os.environ, "HOMEBODY_HOME": str(folder / "home")}
    command = [sys.executable, "-m", "gateway", *arguments]
    return programs.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)


def test_the_package_of_a_new_channel_passes_its_tests_and_is_listed(tmp_path: Path) -> None:
    written = homebody(tmp_path, "channels", "new", "rocket-chat", "--json")
    assert written.returncode == 0, written.stderr
    told = json.loads(written.stdout)
    package = tmp_path / told["folder"]
    assert sorted(told["files"]) == sorted(str(path.relative_to(package)) for path in package.rglob("*") if path.is_file())
    assert "linechat" not in "".join(path.read_text().casefold() for path in package.rglob("*") if path.is_file())

    run = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "channels.conformance_plugin",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:randomly",
    ]
    env = {**os.environ, "PYTHONPATH": str(package)}
    report = tmp_path / "report"
    tested = programs.run(
        [*run, "--channel-report", str(report)], cwd=package, env=env, capture_output=True, text=True, check=False
    )
    assert tested.returncode == 0, tested.stdout + tested.stderr
    results = {(line["channel"], line["rule"]): line["result"] for line in map(json.loads, report.read_text().splitlines())}
    assert {rule for _, rule in results} == {rule.__name__ for rule in CHECKS}
    assert {channel for channel, _ in results} == {"rocket-chat"}
    assert set(results.values()) == {"held", "lacks"}

    install(package)
    listed = json.loads(homebody(package, "channels", "list", "--json").stdout)["channels"]
    assert {"name": "rocket-chat", "from": "homebody-rocket-chat 0.1.0", "on": False} in listed
    again = homebody(package, "channels", "new", "rocket-chat", "--into", "elsewhere")
    assert again.returncode == 2
    assert "there is a channel 'rocket-chat' already" in again.stderr


def install(package: Path) -> None:
    """Make the package one that is installed, as pip does."""
    project = tomllib.loads((package / "pyproject.toml").read_text())["project"]
    info = package / "homebody_rocket_chat-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    [(group, entries)] = project["entry-points"].items()
    (info / "entry_points.txt").write_text("\n".join([f"[{group}]", *(f"{name} = {value}" for name, value in entries.items())]))


@pytest.mark.parametrize("name", ["", "x", "Irc", "9chat", "my_chat", "a--b", "-a", "a-", "../x", "é", "a" * 31, "irc\n"])
def test_a_name_that_cannot_be_one_is_refused(name: str) -> None:
    assert "cannot be the name of a channel" in new_package.why_not(name, ())


@pytest.mark.parametrize("name", ["terminal", "web", "telegram", "con", "com1"])
def test_a_name_that_is_taken_is_refused(name: str) -> None:
    assert new_package.why_not(name, {"telegram"})
    assert not new_package.why_not("irc", {"telegram"})


def test_nothing_is_written_over(tmp_path: Path) -> None:
    mine = tmp_path / "homebody-irc" / "notes.txt"
    mine.parent.mkdir()
    mine.write_text("mine")
    refused = homebody(tmp_path, "channels", "new", "irc")
    assert refused.returncode == 2
    assert "is there already, and is not empty" in refused.stderr
    assert [path.name for path in mine.parent.iterdir()] == ["notes.txt"]
    mine.unlink()
    assert homebody(tmp_path, "channels", "new", "irc").returncode == 0
