"""Where the house keeps its things, and what it refuses."""

import os
import shlex
import stat
import sys
from pathlib import Path

import pytest

import gateway
from gateway.base.errors import StorageFailed, UsageError
from gateway.base.paths import Paths, private_folder
from tests import programs

ROOT = Path(gateway.__file__).resolve().parents[1]


def test_the_command_line_wins_over_the_environment_and_that_over_the_default(tmp_path):
    env = {"HOME": "/home/ann", "HOMEBODY_HOME": "~/house", "HOMEBODY_CONFIG": str(tmp_path / "a.yaml")}
    assert Paths.find({"HOME": "/home/ann"}).home == Path("/home/ann/.homebody")
    assert Paths.find({"HOME": "/home/ann", "HOMEBODY_HOME": ""}).home == Path("/home/ann/.homebody")
    assert Paths.find(env).home == Path("/home/ann/house")
    assert Paths.find(env).config_file() == tmp_path / "a.yaml"
    assert Paths.find(env, home=tmp_path).home == tmp_path
    assert Paths.find(env, config=tmp_path / "b.json").config_file() == tmp_path / "b.json"


def test_a_relative_home_is_made_absolute(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert Paths.find({}, home=Path("here/../there")).home == tmp_path / "there"


@pytest.mark.parametrize("given", ["st", "./st", "../st", "~ann/st", " "])
def test_a_relative_home_of_the_environment_is_refused_with_the_full_path(tmp_path, monkeypatch, given):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="is not a full path") as refused:
        Paths.find({"HOME": "/home/ann", "HOMEBODY_HOME": given}, profile="work")
    assert refused.value.where == "HOMEBODY_HOME"
    assert f"export HOMEBODY_HOME={shlex.quote(str(tmp_path / given))}" in refused.value.hint
    assert Paths.find({"HOMEBODY_HOME": given}, home=tmp_path).home == tmp_path


def test_a_tilde_in_the_home_of_the_environment_is_the_home_folder():
    assert Paths.find({"HOME": "/home/ann", "HOMEBODY_HOME": "~/st"}, profile="work").home == Path("/home/ann/st-work")
    assert Paths.find({"HOME": "/home/ann", "HOMEBODY_HOME": "~"}).home == Path("/home/ann")


@pytest.mark.parametrize(
    "command", [["status"], ["agent", "-m", "hello"], ["setup", "--yes"], ["gateway"], ["doctor"], ["start"], ["upgrade"]]
)
def test_no_command_makes_a_state_in_the_folder_that_one_stands_in(tmp_path, command):
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "HOMEBODY_HOME": "st", "PYTHONPATH": str(ROOT)}
    run = programs.run(
        [sys.executable, "-m", "gateway", *command], env=env, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (run.returncode, "HOMEBODY_HOME: 'st' is not a full path" in run.stderr) == (2, True), run.stderr
    assert f"export HOMEBODY_HOME={tmp_path / 'st'}" in run.stderr
    assert list(tmp_path.iterdir()) == []


def test_folders_are_made_for_their_owner_alone(tmp_path):
    paths = Paths(tmp_path / "deep" / "house")
    paths.prepare()
    folders = [paths.home, paths.state, paths.memory, paths.logs, paths.home / "agents"]
    assert {stat.S_IMODE(folder.stat().st_mode) for folder in folders} == {0o700}
    paths.prepare()


def test_a_folder_that_was_open_to_others_is_closed(tmp_path):
    (tmp_path / "state").mkdir(mode=0o755)
    Paths(tmp_path).prepare()
    assert stat.S_IMODE((tmp_path / "state").stat().st_mode) == 0o700


def test_state_is_not_kept_behind_a_link(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "house").symlink_to(tmp_path / "real")
    with pytest.raises(StorageFailed, match="symbolic link") as caught:
        Paths(tmp_path / "house").prepare()
    assert str(tmp_path / "real") in caught.value.hint


def test_a_dangling_link_is_refused_too(tmp_path):
    (tmp_path / "state").symlink_to(tmp_path / "nowhere")
    with pytest.raises(StorageFailed, match="symbolic link"):
        private_folder(tmp_path / "state")
    assert not (tmp_path / "nowhere").exists()


def test_a_file_in_a_folders_place_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageFailed, match="is not a folder"):
        Paths(tmp_path / "file").prepare()
    with pytest.raises(StorageFailed, match="parent of this path is a file"):
        Paths(tmp_path / "file" / "below").prepare()


def test_every_agent_has_folders_of_its_own(tmp_path):
    assert Paths(tmp_path).sessions("work") == tmp_path / "agents" / "work" / "sessions"


def test_a_file_system_that_is_read_only_is_called_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = os.statvfs(tmp_path)
    fields = (*found[:8], found.f_flag | os.ST_RDONLY, found[9])
    monkeypatch.setattr(os, "statvfs", lambda _: os.statvfs_result(fields))
    with pytest.raises(StorageFailed, match="could not write to this folder: Read-only file system") as failed:
        Paths(tmp_path / "home").prepare()
    assert "chmod" not in failed.value.hint
    assert failed.value.hint
