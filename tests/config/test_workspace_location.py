"""Where a workspace may not lie, whatever the way to it, and what the tools refuse where it lies well."""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath

import pytest

from agent.errors import WorkspaceFileError
from agent.tools.workspace_sandbox import WorkspaceSandbox
from gateway.base.errors import SettingsError
from gateway.base.paths import Paths
from gateway.config.load import check, load
from gateway.config.workspace_location import ProtectedInodes


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Paths:
    home = tmp_path / "home"
    state = home / ".homebody"
    for folder in (state / "state", state / "agents", home / ".ssh", home / ".gnupg", home / "notes", home / ".homebody-work"):
        folder.mkdir(parents=True, exist_ok=True)
    (state / "homebody.yaml").write_text("")
    (home / ".ssh" / "id_rsa").write_text("KEY")
    monkeypatch.setenv("HOME", str(home))
    return Paths(state)


def refusal(house: Paths, workspace: str) -> str:
    checked = check(f"agents: {{defaults: {{workspace: {workspace!r}}}}}", house.config_file(), os.environ, house)
    for problem in checked.problems:
        assert problem.path == ("agents", "defaults", "workspace") or str(problem.path) == "agents.defaults.workspace"
        assert problem.hint
    return " ".join(problem.message for problem in checked.problems)


@pytest.mark.parametrize(
    "workspace",
    [
        "~", "/", "~/", "~/notes/..", "~/.homebody", "~/.homebody/state", "~/.homebody/state/new", "~/.homebody/agents/main",
        "..", ".", "~/.ssh", "~/.ssh/agent", "~/.gnupg", "~/.homebody-work", "~/.homebody-work/x", "notes/../.homebody",
        "/etc", "/etc/homebody", "/usr/share/notes", "/usr/../etc/x", "/dev", "/bin",
    ],
)  # fmt: skip
@pytest.mark.sec(59)
def test_a_workspace_that_is_holds_or_lies_in_state_home_or_keys_is_refused(house: Paths, workspace: str) -> None:
    assert refusal(house, workspace)


def test_the_folder_that_is_named_instead_may_be_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for state, free in ((".homebody", "~/homebody"), ("homebody", "~/homebody-main")):
        paths = Paths(tmp_path / state)
        checked = check("agents: {defaults: {workspace: '~'}}", paths.config_file(), os.environ, paths)
        (problem,) = checked.problems
        assert problem.hint.endswith(f"homebody config set agents.defaults.workspace {free}")
        assert check(f"agent: {{workspace: {free}}}", paths.config_file(), os.environ, paths).problems == ()


@pytest.mark.parametrize("target", ["", ".homebody", ".homebody/state", ".ssh", "../.."])
def test_a_link_leads_around_nothing(house: Paths, target: str, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(Path.home() / target)
    assert refusal(house, str(tmp_path / "link"))
    assert refusal(house, str(tmp_path / "link" / "below")) or target in {"", "../.."}


@pytest.mark.parametrize(
    "workspace",
    ["~/homebody", "~/notes", "~/notes/agent", "~/.config/agent", "agent", "/srv/notes", "/usr/local/notes"],
)
def test_a_folder_of_its_own_is_taken(house: Paths, workspace: str) -> None:
    assert refusal(house, workspace) == ""


def test_a_state_folder_inside_the_usual_workspace_is_refused_without_any_file(house: Paths) -> None:
    with pytest.raises(SettingsError, match="1 error"):
        load(Paths(Path.home() / "homebody" / "state"), os.environ)


def test_a_workspace_that_holds_the_settings_file_is_refused(house: Paths) -> None:
    chosen = Path.home() / "conf" / "homebody.yaml"
    chosen.parent.mkdir()
    chosen.write_text("agents: {defaults: {workspace: ~/conf}}")
    with pytest.raises(SettingsError) as wrong:
        load(Paths(house.home, chosen), os.environ)
    assert "settings file" in str(wrong.value.problems[0].message)


def test_a_workspace_within_another_agents_is_refused(house: Paths) -> None:
    text = "agents: {list: [{id: main, workspace: ~/w}, {id: work, workspace: ~/w/sub}]}"
    checked = check(text, house.config_file(), os.environ, house)
    assert ["'main'" in problem.message and "'work'" in problem.message for problem in checked.problems] == [True]


def test_two_agents_that_share_a_workspace_are_only_warned_of(house: Paths) -> None:
    text = "agents: {list: [{id: main, workspace: ~/w}, {id: work, workspace: ~/w}]}"
    checked = check(text, house.config_file(), os.environ, house)
    assert checked.problems == ()
    assert any("share the workspace" in warning.message for warning in checked.warnings)


@pytest.mark.sec(59)
def test_no_tool_opens_the_state_or_keys_from_a_workspace_that_holds_them_all_the_same(house: Paths) -> None:
    home = Path.home()
    (home / ".homebody" / "homebody.yaml").write_text("secret")
    (home / ".homebody" / "state" / "gateway.token").write_text("secret")
    enclosure = WorkspaceSandbox(home, ProtectedInodes(house.home))
    (home / "moved").mkdir()
    (home / ".ssh").rename(home / "moved" / "keys")
    for path in (".homebody/homebody.yaml", ".homebody/state/gateway.token", "moved/keys/id_rsa", ".homebody-work/x"):
        with pytest.raises(WorkspaceFileError):
            enclosure.read(PurePosixPath(path))
        with pytest.raises(WorkspaceFileError):
            enclosure.create(PurePosixPath(path).with_name("new"), b"x")
    for folder in (".homebody", ".homebody/state", "moved/keys", ".gnupg"):
        with pytest.raises(WorkspaceFileError):
            enclosure.scan(PurePosixPath(folder))
    assert not list(home.rglob("new"))


def test_a_new_folder_that_has_the_inode_of_a_deleted_state_file_is_opened(house: Paths) -> None:
    home = Path.home()
    (home / "lists").mkdir()
    state_file = (home / "lists").stat()  # as if a file of the state had had this inode when the sandbox was made
    looks = [frozenset({(state_file.st_dev, state_file.st_ino)}), ProtectedInodes(house.home)()]
    enclosure = WorkspaceSandbox(home, lambda: looks.pop(0) if len(looks) > 1 else looks[0])
    enclosure.create(PurePosixPath("lists/2026-01-01.md"), b"kept")
    assert (home / "lists" / "2026-01-01.md").read_bytes() == b"kept"


def test_no_new_folder_gets_the_inode_of_a_protected_one_while_that_is_held(house: Paths) -> None:
    protected = ProtectedInodes(house.home)
    state = house.home / "state" / "attachments"
    state.mkdir()
    before = protected()
    inode = (state.stat().st_dev, state.stat().st_ino)
    assert inode in before
    state.rmdir()
    made = [house.home.parent / f"new-{number}" for number in range(20)]
    for folder in made:
        folder.mkdir()
    assert inode not in {(folder.stat().st_dev, folder.stat().st_ino) for folder in made}
    assert inode not in protected()


@pytest.mark.parametrize("name", [".env", ".ENV", ".env.local", ".envrc", "deep/.env", ".ssh/id", "sub/.gnupg/x", ".netrc"])
@pytest.mark.sec(47)
def test_files_that_hold_secrets_by_custom_are_opened_by_no_tool(tmp_path: Path, name: str) -> None:
    place = tmp_path / name
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text("TOKEN=1")
    enclosure = WorkspaceSandbox(tmp_path)
    with pytest.raises(WorkspaceFileError):
        enclosure.read(PurePosixPath(name))
    with pytest.raises(WorkspaceFileError):
        enclosure.append(PurePosixPath(name), b"x")
    assert place.read_text() == "TOKEN=1"


@pytest.mark.parametrize("token", ["undefined", "null-null", "short", "changeme-changeme-changeme", "a" * 40])
@pytest.mark.sec(11)
def test_a_token_that_anyone_could_guess_fails_the_check_of_the_settings(house: Paths, token: str) -> None:
    checked = check(f"gateway: {{auth: {{token: {token!r}}}}}", house.config_file(), os.environ, house)
    assert len(checked.problems) == 1
    assert "token" in checked.problems[0].as_text()
    assert "openssl rand" in checked.problems[0].as_text()


def test_folders_that_are_held_open_are_let_go_at_the_end(house: Paths) -> None:
    closed = ProtectedInodes(house.home)
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    assert closed()
    assert len(os.listdir("/proc/self/fd")) > before  # noqa: PTH208
    closed.close()
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208
    assert closed(), "it may be asked again"
