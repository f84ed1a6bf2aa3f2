"""Several houses on one machine."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gateway.base.errors import SettingsError, UsageError
from gateway.base.paths import Paths
from gateway.cli import main
from gateway.config.document import read_text
from gateway.config.effective import compare
from gateway.config.load import load
from gateway.settings.root import Settings

if TYPE_CHECKING:
    from collections.abc import Callable

HOME = {"HOME": "/people/anna"}


def test_a_profile_has_a_home_of_its_own_beside_the_usual_one() -> None:
    assert Paths.find(HOME).home == Path("/people/anna/.homebody")
    assert Paths.find(HOME, profile="work").home == Path("/people/anna/.homebody-work")
    assert Paths.find(HOME | {"HOMEBODY_PROFILE": "work"}).home == Path("/people/anna/.homebody-work")
    assert Paths.find(HOME | {"HOMEBODY_PROFILE": "work"}, profile="play").home == Path("/people/anna/.homebody-play")
    assert Paths.find(HOME | {"HOMEBODY_HOME": "/srv/h"}, profile="work").home == Path("/srv/h-work")
    assert Paths.find(HOME, profile="default") == Paths.find(HOME)
    assert Paths.find(HOME | {"HOMEBODY_PROFILE": "work"}, profile="default") == Paths.find(HOME)


def test_what_is_named_by_hand_counts_and_a_profile_does_not_read_another_houses_settings() -> None:
    env = HOME | {"HOMEBODY_CONFIG": "/etc/usual.yaml"}
    assert Paths.find(env).chosen_config == Path("/etc/usual.yaml")
    assert Paths.find(env, profile="work").chosen_config is None
    assert Paths.find(env, profile="work", config=Path("/etc/work.yaml")).chosen_config == Path("/etc/work.yaml")
    assert Paths.find(env, profile="work", home=Path("/srv/x")).home == Path("/srv/x")


@pytest.mark.parametrize("name", ["Work", "../x", "a b", "-x", "x" * 33, "a/b"])
def test_a_name_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="is not a valid profile name"):
        Paths.find(HOME, profile=name)


def test_each_profile_has_a_workspace_and_a_port_of_its_own(tmp_path: Path) -> None:
    found = {}
    for name in ("", "work", "play"):
        settings = load(Paths(tmp_path / name, profile=name), {}).settings
        found[name] = (settings.agent("main").workspace.name, settings.gateway.port)
    assert [workspace for workspace, _ in found.values()] == ["homebody", "homebody-work", "homebody-play"]
    assert found[""][1] == 18790
    assert len({port for _, port in found.values()}) == 3
    two = Settings.model_validate({"agents": {"list": [{"id": "main"}, {"id": "x"}]}, "gateway": {"port": 5}}).of_profile(
        "work"
    )
    assert (two.agent("x").workspace.name, two.gateway.port) == ("homebody-work-x", 5)


def test_a_change_of_the_settings_keeps_the_profile() -> None:
    work, more = Settings().of_profile("work"), Settings.model_validate({"budgets": {"day": {"usd": 1}}}).of_profile("work")
    found = compare(work, more)
    assert (found.taken, found.waiting) == (("budgets.day.usd",), ())
    assert found.settings.agent("main").workspace.name == "homebody-work"
    assert found.settings.gateway.port == work.gateway.port


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    def run(*arguments: str) -> tuple[int, str]:
        code = main(arguments)
        return code, capsys.readouterr().out

    return run


def test_two_profiles_know_nothing_of_each_other(run: Callable[..., tuple[int, str]]) -> None:
    for name in ("one", "two"):
        assert (
            run("--profile", name, "config", "set", "agents.defaults.promptMode", "none" if name == "one" else "minimal")[0]
            == 0
        )
        assert run("--profile", name, "agent", "-m", f"Remember that the {name} door is green.")[0] == 0
    said = [
        json.loads(run("--profile", name, "config", "get", "agents.defaults.promptMode", "--json")[1])
        for name in ("one", "two")
    ]
    assert [answer["value"] for answer in said] == ["none", "minimal"]
    homes = [Path(json.loads(run("--profile", name, "status", "--json")[1])["home"]) for name in ("one", "two")]
    assert homes == [Path(f"{os.environ['HOMEBODY_HOME']}-{name}") for name in ("one", "two")]
    notes = {
        name: "\n".join(note.read_text() for note in (Path.home() / f"homebody-{name}").rglob("*.md"))
        for name in ("one", "two")
    }
    assert "one door is green" in notes["one"]
    assert "one door is green" not in notes["two"]
    assert not (Path.home() / "homebody").exists()
    for home in homes:
        assert (home / "logs" / "homebody.jsonl").exists()
        assert (home / "state" / "ledger.sqlite").exists()
    assert not Path(os.environ["HOMEBODY_HOME"], "state").exists()


def test_a_home_below_a_file_is_refused_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SettingsError) as refused:
        read_text(tmp_path / "file" / "homebody.yaml")
    (problem,) = refused.value.problems
    assert (problem.message, problem.hint) == (
        "cannot be read: Not a directory",
        "A parent of this path is a file. Move that file away.",
    )
