"""How the program was installed decides how it is updated and removed."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from gateway.base.installation import Installation, Way, find_installation, links_of


def package(folder: Path) -> Path:
    file = folder / "gateway" / "__init__.py"
    file.parent.mkdir(parents=True)
    file.touch()
    return file


def test_a_clone_is_updated_by_git(tmp_path: Path) -> None:
    file = package(tmp_path / "clone")
    for name in ("pyproject.toml", "Makefile"):
        (tmp_path / "clone" / name).touch()
    found = find_installation({}, prefix=tmp_path / "clone/.venv", package=file)
    assert found.way == "checkout"
    assert f"git -C {tmp_path}/clone pull --ff-only" in found.update_command
    links = tmp_path / "home/.local/bin"
    links.mkdir(parents=True)
    (links / "homebody").symlink_to(tmp_path / "clone/.venv/bin/homebody")
    assert links_of(tmp_path / "home", found) == [links / "homebody"]
    (links / "homebody").unlink()
    (links / "homebody").symlink_to("/elsewhere/homebody")
    assert links_of(tmp_path / "home", found) == []
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/homebody").symlink_to(tmp_path / "clone/.venv/bin/homebody")
    assert links_of(tmp_path / "home", found, f"/usr/bin:{tmp_path}/bin") == [tmp_path / "bin/homebody"], (
        "LINKS=FOLDER chose it"
    )


def test_pipx_uv_pip_and_containers_are_told_apart(tmp_path: Path) -> None:
    file = package(tmp_path / "lib")
    for name, way, command in (
        ("pipx_metadata.json", "pipx", "pipx upgrade homebody"),
        ("uv-receipt.toml", "uv", "uv tool upgrade homebody"),
        ("other", "pip", f"{tmp_path}/pip/bin/python -m pip install --upgrade homebody"),
    ):
        (tmp_path / way).mkdir()
        (tmp_path / way / name).touch()
        found = find_installation({}, prefix=tmp_path / way, package=file)
        assert (found.way, found.update_command) == (way, command)
    assert find_installation({"HOMEBODY_CONTAINER": "1"}, prefix=tmp_path / "pip", package=file).way == "container"


def test_a_wheel_that_pipx_was_given_is_named_again(tmp_path: Path) -> None:
    (tmp_path / "pipx_metadata.json").write_text(json.dumps({"main_package": {"package_or_url": "/home/a/homebody-0.1.0.whl"}}))
    found = find_installation({}, prefix=tmp_path, package=package(tmp_path / "lib"))
    assert found.update_command == "pipx install --force /home/a/homebody-0.1.0.whl"


def test_a_clone_is_pulled_and_told_if_it_is_the_newest(tmp_path: Path) -> None:
    """The steps of `homebody update` in a clone of a clone, with the real git."""
    from gateway.cli.update import pull, version_of

    def git(*arguments: str, at: Path) -> None:
        own = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main"]
        subprocess.run(["git", *own, *arguments], cwd=at, check=True, capture_output=True)

    (tmp_path / "first").mkdir()
    git("init", at=tmp_path / "first")
    git("commit", "--allow-empty", "-m", "one", at=tmp_path / "first")
    git("clone", "first", "second", at=tmp_path)
    before = version_of(tmp_path / "second")
    pull(tmp_path / "second", quiet=True)
    assert version_of(tmp_path / "second") == before
    git("commit", "--allow-empty", "-m", "two", at=tmp_path / "first")
    pull(tmp_path / "second", quiet=True)
    assert version_of(tmp_path / "second") == version_of(tmp_path / "first") != before


@pytest.mark.parametrize(
    ("way", "source", "command"),
    [
        ("checkout", "homebody", "make -C /r extras"),
        ("pipx", "homebody", "pipx install --force 'homebody[mail]'"),
        ("uv", "homebody", "uv tool install --force 'homebody[mail]'"),
        ("pip", "homebody", "/r/bin/python -m pip install 'homebody[mail]'"),
    ],
)
def test_optional_parts_are_added_as_the_program_was_installed(way: Way, source: str, command: str) -> None:
    assert Installation(way, Path("/r"), source).extra_command("mail") == command


def test_the_model_for_search_by_meaning_is_added_by_a_target_of_its_own() -> None:
    assert Installation("checkout", Path("/r")).extra_command("meaning") == "make -C /r meaning"
    assert Installation("container", Path("/r")).extra_command("meaning").startswith("HOMEBODY_MEANING=1 docker compose")
