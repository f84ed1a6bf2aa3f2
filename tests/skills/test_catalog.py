"""Which skills there are, in which order they count, what they lack, and when the owner is asked again."""

from __future__ import annotations

import os
import shutil
import socket
import threading
from typing import TYPE_CHECKING, Any

import pytest

from gateway.settings.root import SettingsStore
from gateway.skills.catalog import SkillCatalog
from tests.skills.conftest import Shelf, write_skill

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.sec(60)
def test_a_new_skill_counts_once_it_is_approved_and_no_more_when_a_file_changes(shelf: Shelf):
    folder = write_skill(shelf.workspace / "skills" / "bread")
    (folder / "scripts").mkdir()
    script = folder / "scripts" / "bake.sh"
    script.write_text("echo 1\n")
    assert (shelf.own()["bread"].state, shelf.catalog.ready() == shelf.own().get("x")) == ("unapproved", False)
    shelf.approve("bread")
    assert shelf.own()["bread"].state == "ready"
    script.write_text("echo 2\n")
    assert shelf.own()["bread"].state == "changed"
    assert "homebody skills approve bread" in shelf.own()["bread"].hint
    script.write_text("echo 1\n")
    assert shelf.own()["bread"].state == "ready"
    script.chmod(0o755)
    assert shelf.own()["bread"].state == "changed"
    script.chmod(0o644)
    (folder / "new.md").write_text("")
    assert shelf.own()["bread"].state == "changed"
    (folder / "new.md").unlink()
    script.rename(folder / "scripts" / "toast.sh")
    assert shelf.own()["bread"].state == "changed"


def test_a_change_within_the_clock_of_the_file_system_is_seen(shelf: Shelf):
    folder = write_skill(shelf.workspace / "skills" / "bread")
    shelf.approve("bread")
    for n in range(50):
        write_skill(folder, body="# Do ix\n" if n % 2 == 0 else "# Do it\n")
        assert shelf.own()["bread"].state == ("changed" if n % 2 == 0 else "ready")


def test_of_one_name_the_workspace_goes_before_the_installed_before_ours_before_others(shelf: Shelf):
    name = "notes-and-lists"
    for place in (shelf.extra, shelf.home / "skills", shelf.workspace / "skills"):
        write_skill(place / name, description=f"In {place.name}.", body=str(place))

    def first() -> str:
        return next(one.place for one in shelf.catalog.ready() if one.name == name)

    assert first() == "bundled"  # what nobody approved hides nothing
    places = {one.place: one for one in shelf.catalog.scan() if one.name == name}
    shelf.trust.approve(name, places["extra"].digest)
    assert first() == "bundled"
    shelf.trust.approve(name, places["managed"].digest)
    assert first() == "managed"
    shelf.trust.approve(name, places["workspace"].digest)
    assert first() == "workspace"
    assert {one.place: one.state for one in shelf.catalog.scan() if one.name == name} == {
        "workspace": "ready",
        "managed": "hidden",
        "bundled": "hidden",
        "extra": "hidden",
    }


@pytest.mark.parametrize(
    ("more", "said", "what"),
    [
        ("requires: {bins: [no-such-program]}", {}, "there is no program no-such-program"),
        ("requires: {bins: [../../bin/sh]}", {}, "there is no program"),
        ("requires: {bins: [sh], anyBins: [no-such, sh]}", {}, ""),
        ("requires: {anyBins: [no-such, nor-this]}", {}, "there is none of the programs no-such, nor-this"),
        ("requires: {env: [TOKEN]}", {}, "the variable TOKEN is not set"),
        ("requires: {env: [TOKEN]}", {"skills": {"entries": {"x": {"env": {"TOKEN": "abc"}}}}}, ""),
        (
            "metadata: {openclaw: {primaryEnv: KEY, requires: {env: [KEY]}}}",
            {"skills": {"entries": {"x": {"apiKey": "abc"}}}},
            "",
        ),
        ("requires: {config: [channels.discord.token]}", {}, "the setting channels.discord.token is not made"),
        ("requires: {config: [channels.discord.token]}", {"channels": {"discord": {"token": "abc"}}}, ""),
        ("requires: {config: [skills.entries.x.config.city]}", {"skills": {"entries": {"x": {"config": {"city": "Ulm"}}}}}, ""),
        ("requires: {config: [no.such.key]}", {}, "the setting no.such.key is not made"),
        ("os: [darwin]", {}, "it is for darwin alone"),
        ("os: [darwin, linux]", {}, ""),
        ("metadata: {clawdbot: {always: true, os: [win32], requires: {bins: [nope]}}}", {}, ""),
    ],
)
def test_what_a_skill_needs_is_checked(shelf: Shelf, more: str, said: dict[str, Any], what: str):
    write_skill(shelf.extra / "x", more=f"{more}\n")
    shelf.said.update(said)
    shelf.approve("x")
    one = shelf.own()["x"]
    assert (one.state, what in one.reason, bool(one.hint)) == ("needs" if what else "ready", True, bool(what))


def test_skills_are_switched_off_by_settings(shelf: Shelf):
    write_skill(shelf.extra / "x")
    shelf.approve("x")
    shelf.said["skills"] = {"entries": {"x": {"enabled": False}}, "allowBundled": ["morning-briefing"]}
    states = {one.name: one.state for one in shelf.catalog.scan()}
    assert (states["x"], states["morning-briefing"], states["project-tracking"]) == ("off", "ready", "off")
    shelf.said["agents"] = {"defaults": {"workspace": str(shelf.workspace)}, "list": [{"id": "main", "skills": ["x"]}]}
    shelf.said["skills"] = {}
    assert [one.name for one in shelf.catalog.ready()] == ["x"]


def _link(folder: Path) -> None:
    (folder / "out").symlink_to("/etc")


def _loop(folder: Path) -> None:
    (folder / "loop").symlink_to(folder)


def _hard_link(folder: Path) -> None:
    (folder.parent.parent / "secret").write_text("7731")
    os.link(folder.parent.parent / "secret", folder / "notes.md")


def _linked_text(folder: Path) -> None:
    (folder / "SKILL.md").rename(folder / "other.md")
    (folder / "SKILL.md").symlink_to("other.md")


def _pipe(folder: Path) -> None:
    os.mkfifo(folder / "pipe")


def _socket(folder: Path) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        here = os.open(folder, os.O_RDONLY)
        one.bind(f"/proc/self/fd/{here}/s")
        os.close(here)


def _huge(folder: Path) -> None:
    (folder / "SKILL.md").write_text("---\nname: x\ndescription: d\n---\n" + "a" * 10_000_000)


def _heavy(folder: Path) -> None:
    with (folder / "model.bin").open("wb") as file:
        file.truncate(30_000_000)


def _many(folder: Path) -> None:
    (folder / "many").mkdir()
    for n in range(1001):
        (folder / "many" / str(n)).touch()


def _deep(folder: Path) -> None:
    (folder / "/".join("abcdefghij")).mkdir(parents=True)


def _binary(folder: Path) -> None:
    (folder / "SKILL.md").write_bytes(b"---\nname: x\ndescription: \xff\xfe\n---\n")


def _nul(folder: Path) -> None:
    (folder / "SKILL.md").write_bytes(b"---\nname: x\ndescription: a\0b\n---\n")


def _folder_for_text(folder: Path) -> None:
    (folder / "SKILL.md").unlink()
    (folder / "SKILL.md").mkdir()


def _odd_name(folder: Path) -> None:
    (folder / "a\nb").touch()


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (_link, "is a link"),
        (_loop, "is a link"),
        (_hard_link, "hard link"),
        (_linked_text, "is a link"),
        (_pipe, "not a plain file"),
        (_socket, "not a plain file"),
        (_huge, "it may have 256,000"),
        (_heavy, "a skill may have 20,000,000"),
        (_many, "more than 1,000 files"),
        (_deep, "nested deeper"),
        (_binary, "not UTF-8"),
        (_nul, "NUL"),
        (_folder_for_text, "no SKILL.md"),
        (_odd_name, "cannot be shown"),
    ],
)
def test_a_folder_that_cannot_be_a_skill_says_why_and_harms_no_other(shelf: Shelf, make: Any, said: str):
    write_skill(shelf.extra / "good")
    make(write_skill(shelf.extra / "x"))
    found = shelf.own()
    assert (found["x"].state, found["good"].state) == ("broken", "unapproved")
    assert said in found["x"].reason


@pytest.mark.sec(60)
def test_a_place_that_is_a_link_of_the_workspace_is_not_followed(shelf: Shelf):
    write_skill(shelf.extra / "x")
    (shelf.workspace / "skills").symlink_to(shelf.extra)
    assert [one.place for one in shelf.catalog.scan() if one.name == "x"] == ["extra"]
    (shelf.extra / "y").symlink_to(shelf.extra / "x")
    assert "y" not in shelf.own()


def test_a_skill_that_goes_while_it_is_looked_at_does_no_harm(shelf: Shelf):
    template, done = write_skill(shelf.root / "template" / "x"), threading.Event()

    def stir() -> None:
        while not done.is_set():
            shutil.copytree(template, shelf.extra / "x", dirs_exist_ok=True)
            shutil.rmtree(shelf.extra / "x")

    stirring = threading.Thread(target=stir)
    stirring.start()
    try:
        seen = {one.state for _ in range(200) for one in shelf.catalog.scan() if one.name == "x"}
    finally:
        done.set()
        stirring.join()
    assert seen <= {"unapproved", "broken"}


@pytest.mark.sec(60)
def test_a_record_of_approvals_that_is_broken_approves_nothing(shelf: Shelf):
    write_skill(shelf.extra / "x")
    shelf.approve("x")
    shelf.trust.path.write_text("{")
    assert shelf.own()["x"].state == "unapproved"
    assert {one.state for one in shelf.catalog.scan() if one.place == "bundled"} <= {"ready", "needs"}


def test_skills_are_judged_anew_only_when_something_changed(shelf: Shelf, tmp_path: Path):
    programs = tmp_path / "programs"
    programs.mkdir()
    shelf.said["agents"] = {
        "defaults": {"workspace": str(shelf.workspace)},
        "list": [{"id": "main", "tools": {"exec": {"pathPrepend": [str(programs)]}}}],
    }
    settings = shelf.settings()
    catalog = SkillCatalog("main", SettingsStore(settings), shelf.paths, shelf.trust, {})
    x = write_skill(shelf.extra / "x", more="requires: {bins: [needed-one]}\n")
    os.utime(x / "SKILL.md", (1, 1))

    def own() -> str:
        first = catalog.scan()
        while (again := catalog.scan()) is not first:  # until a change of the files would show in their times
            first = again
        return " ".join(one.state for one in again if one.place == "extra")

    assert own() == "unapproved"
    shelf.trust.approve("x", next(one.digest for one in catalog.scan() if one.name == "x"))
    assert own() == "needs"
    (programs / "needed-one").write_text("#!/bin/sh\n")
    (programs / "needed-one").chmod(0o755)
    assert own() == "ready"
    (x / "more.md").write_text("more")
    assert own() == "changed"
    write_skill(shelf.extra / "y")
    assert own() == "changed unapproved"
    shutil.rmtree(x)
    assert own() == "unapproved"
    shelf.trust.approve("y", next(one.digest for one in catalog.scan() if one.name == "y"))
    assert own() == "ready"
