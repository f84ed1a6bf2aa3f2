"""Faults on disk, made for real: foreign owners, rights, links, missing folders, full disks, damaged files."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gateway.base.paths import Paths
from gateway.config.homes_beside import shared_workspaces
from gateway.doctor.checked_installation import Installation
from gateway.doctor.disk_space import DISK
from gateway.doctor.examination import examine
from gateway.doctor.file_access import PERMISSIONS
from gateway.doctor.ledger_checks import LEDGER_CHECK
from gateway.doctor.memory_index import MEMORY
from gateway.doctor.process_checks import GATEWAY
from gateway.doctor.settings_check import SETTINGS
from gateway.doctor.state_files import STATE_FILES
from gateway.doctor.transcript_checks import TRANSCRIPTS
from gateway.doctor.workspace_check import WORKSPACES
from tests.doctor.conftest import ROOT, House, program, said
from tests.patience import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

STRANGER = 54_321
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="another owner can be made by root alone")


async def test_a_whole_house_is_well(house: House) -> None:
    for check in (SETTINGS, PERMISSIONS, DISK, STATE_FILES, TRANSCRIPTS, MEMORY, GATEWAY):
        assert await house.wrong(check) == [], check.name


async def test_a_home_in_which_no_agent_has_worked_yet_lost_no_workspace(house: House) -> None:
    shutil.rmtree(house.workspace)
    assert [one.what for one in await house.wrong(PERMISSIONS)] == ["the workspace is not there"]
    shutil.rmtree(house.home / "agents")
    (house.home / "agents").mkdir(mode=0o700)
    assert await house.wrong(PERMISSIONS) == []


async def test_a_workspace_that_is_another_homes_too_is_named_with_a_folder_of_its_own(house: House) -> None:
    other = house.person / ".homebody-fam"
    other.mkdir()
    (other / "homebody.yaml").write_text(f"agents: {{defaults: {{workspace: '{house.workspace}'}}}}\n")
    (found,) = await house.wrong(WORKSPACES)
    assert found.what == f"{house.workspace}, the workspace of the agent main, is that of main of the profile fam, too"
    assert found.mend.endswith(f"homebody config set agents.defaults.workspace {house.workspace}-2")
    for kept in (".homebody.before-restore-20261128", ".homebody.to-restore-1a2b", ".homebody.restoring-1a2b"):
        shutil.copytree(other, house.person / kept)
    assert len(await house.wrong(WORKSPACES)) == 1, "what a restore keeps beside a home is nobody's"
    (other / "homebody.yaml").write_text("agents: {defaults: {workspace: ~/elsewhere}}\n")
    assert await house.wrong(WORKSPACES) == []
    (other / "homebody.yaml").write_bytes(b"\xff[")
    assert await house.wrong(WORKSPACES) == [], "its own commands tell that"
    house.env["HOMEBODY_HOME"] = "relative"
    assert shared_workspaces(house.installation().settings, house.installation().paths, house.env) == []


async def test_notes_in_another_encoding_are_said_to_be_read_and_all_are_named(house: House) -> None:
    notes = house.workspace / "memory"
    notes.mkdir(exist_ok=True)
    for number in range(5):
        (notes / f"old-{number}.md").write_bytes("Der Schlüssel hängt bei Käthe\n".encode("cp1252"))
    assert program("memory", "index", home=house.person).returncode == 0
    found = await house.wrong(MEMORY)
    assert {one.why for one in found if one.where} == {
        "The agent reads these lines as Windows-1252; from another encoding, letters with accents become others."
    }
    (more,) = (one.what for one in found if not one.where)
    assert more == "2 more notes of main cannot be read as they are: memory/old-3.md, memory/old-4.md"


@pytest.mark.parametrize(
    ("text", "level", "what"),
    [
        (None, "error", "cannot be read"),
        ("[1]", "error", "neither JSON nor YAML"),
        ("models:\n  box/m: {input: cheap, output: 2}\n", "error", "holds no price"),
        ("models:\n  box/m: {input: -2}\n  box/n: {input: 1, output: 2}\n", "warning", "no price can be read of box/m"),
        ("models:\n  box/n: {input: 1, output: 2}\n", "", ""),
    ],
)
async def test_a_file_of_prices_that_cannot_be_used_is_named(house: House, text: str | None, level: str, what: str) -> None:
    prices = house.home / "prices.yaml"
    if text is not None:
        prices.write_text(text)
    house.set(models={"pricesFile": str(prices)})
    found = [(one.level, what in one.what) for one in await house.wrong(SETTINGS)]
    assert found == ([(level, True)] if level else [])


async def test_a_house_that_does_not_exist_yet_is_not_made(house: House) -> None:
    shutil.rmtree(house.home)
    for check in (SETTINGS, PERMISSIONS, DISK, STATE_FILES, TRANSCRIPTS, MEMORY, GATEWAY):
        assert await house.wrong(check) == [], check.name
    assert not house.home.exists()


@needs_root
@pytest.mark.parametrize("place", ["state/ledger.sqlite", "agents/main/sessions", "homebody.yaml", "memory/main.sqlite"])
async def test_a_foreign_owner_is_named_with_chown(house: House, place: str) -> None:
    os.chown(house.home / place, STRANGER, STRANGER)
    (found,) = await house.wrong(PERMISSIONS)
    assert (found.level, found.where, found.fix) == ("error", str(house.home / place), None)
    assert f'sudo chown -R "$USER" {house.home / place}' in found.mend
    assert "chmod" not in found.mend
    assert str(STRANGER) in found.what


@needs_root
async def test_a_foreign_note_is_named_by_two_checks(house: House) -> None:
    note = next((house.workspace / "memory").glob("2*.md"))
    os.chown(note, STRANGER, STRANGER)
    (found,) = await house.wrong(PERMISSIONS)
    assert found.where == str(note)
    assert "sudo chown" in found.mend


@needs_root
def test_what_root_left_in_the_home_of_another_is_found_and_given_back(house: House) -> None:
    for path in (house.person, *house.person.rglob("*")):
        os.chown(path, STRANGER, STRANGER, follow_symlinks=False)
    refused = program("config", "set", "logging.level", "debug", home=house.person)
    assert refused.returncode == 6
    assert [path for path in house.home.rglob("*") if path.lstat().st_uid == 0] == []
    (house.home / "state/of-an-earlier-version.json").touch()  # whose commands did not refuse root
    (house.home / "homebody.json.bak").write_text("{}")
    found = program("doctor", "--offline", "--only", "permissions", "--json", home=house.person)
    assert found.returncode != 0
    wrong = [one for one in json.loads(found.stdout)["findings"] if one["level"] == "error"]
    assert wrong
    assert all(one["fixable"] for one in wrong), wrong
    program("doctor", "--offline", "--only", "permissions", "--fix", home=house.person)
    assert [path for path in house.home.rglob("*") if path.lstat().st_uid == 0] == []


def as_stranger(house: House, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `homebody` as another user than root.

    What it imports is imported by a run before that, in a home of root's, as root's Python is closed to others.
    """
    of_root = house.person.parent / "of-root"
    if not of_root.exists():
        shutil.copytree(house.person, of_root, symlinks=True)
    code = (
        "import contextlib, io, os, sys\nfrom gateway.cli import main\n"
        f"os.environ['HOME'] = {str(of_root)!r}\n"
        "with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()): main(sys.argv[1:])\n"
        f"os.setgroups([]); os.setresgid(*[{STRANGER}] * 3); os.setresuid(*[{STRANGER}] * 3)\n"
        f"os.environ['HOME'] = {str(house.person)!r}\n"
        "sys.exit(main(sys.argv[1:]))"
    )
    env = {"PATH": os.environ["PATH"], "HOME": str(house.person), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, env=env, cwd=house.person, capture_output=True, text=True, check=False, timeout=PATIENCE)


def given_away(house: House) -> None:
    for folder, _, files in os.walk(house.person):
        for path in (folder, *(str(Path(folder, name)) for name in files)):
            os.chown(path, STRANGER, STRANGER)


@needs_root
def test_one_who_is_not_root_is_told_the_same(house_in_the_open: House) -> None:
    """A run with sudo left the settings and the ledger to root; the owner runs the doctor."""
    house = house_in_the_open
    given_away(house)
    os.chown(house.home / "homebody.yaml", 0, 0)
    os.chown(house.state, 0, 0)
    run = as_stranger(house, "doctor", "--offline", "--only", "permissions", "--only", "settings")
    assert run.returncode == 1, run.stderr
    assert f'Run: sudo chown -R "$USER" {house.state}' in run.stdout
    assert "change it. This happens" not in run.stdout
    assert f'Run: sudo chown -R "$USER" {house.home / "homebody.yaml"}' in run.stdout


@needs_root
async def test_root_leaves_no_file_of_its_own_in_the_home_of_another(house: House) -> None:
    given_away(house)
    found = await house.found(LEDGER_CHECK, MEMORY, PERMISSIONS)
    assert "run the doctor as that user, without sudo" in said(found)
    assert {path.stat().st_uid for path in house.person.rglob("*")} == {STRANGER}
    assert [one.level for one in found if one.check == "permissions"] == ["ok"]


@needs_root
def test_a_home_behind_a_closed_folder_is_an_error(house_in_the_open: House) -> None:
    house = house_in_the_open
    given_away(house)
    house.person.chmod(0o700)
    os.chown(house.person, 0, 0)
    run = as_stranger(house, "doctor", "--offline", "--only", "permissions")
    assert (run.returncode, "cannot be looked at" in run.stdout, "sudo chown" in run.stdout) == (1, True, True), run.stdout


@needs_root
def test_a_home_that_cannot_be_made_is_an_error_with_the_command_that_mends_it(house_in_the_open: House) -> None:
    house = house_in_the_open
    shutil.rmtree(house.home)
    house.person.chmod(0o755)
    mend = f'sudo chown -R "$USER" {house.person}'
    run = as_stranger(house, "doctor", "--offline", "--only", "permissions")
    assert (run.returncode, mend in run.stdout) == (1, True), run.stdout
    assert "could not make this folder: Permission denied" in " ".join(run.stdout.split())
    for arguments in (
        ["setup", "--yes", "--dry-run"],
        ["setup"],
        ["setup", "model"],
    ):  # none that would start a gateway as root
        run = as_stranger(house, *arguments)
        assert (run.returncode, run.stdout) == (6, ""), (arguments, run.stdout)
        assert f"{house.home}: could not make this folder: Permission denied" in run.stderr
        assert mend in run.stderr


@pytest.mark.parametrize("place", [".", "below/it"])
def test_a_home_that_is_a_file_or_below_one_is_told_with_the_mend(home_of_the_test: Path, place: str) -> None:
    file = home_of_the_test / "file"
    file.touch()
    env = {"HOMEBODY_HOME": str(file / place)}
    run = program("doctor", "--offline", "--only", "permissions", home=home_of_the_test, env=env)
    assert (run.returncode, "Mend: Move" in run.stdout) == (1, True), run.stdout
    for command in (["setup", "--yes"], ["status"], ["agent", "-m", "hello"]):
        run = program(*command, home=home_of_the_test, env=env)
        assert run.returncode != 0
        assert "ove" in run.stderr


@pytest.mark.parametrize("place", ["state", "homebody.yaml", "logs/homebody.jsonl", "agents/main"])
async def test_rights_of_others_are_found_and_taken_off(house: House, place: str) -> None:
    house.home.chmod(0o755)
    (house.home / Path(place).parts[0]).chmod(0o755)
    (house.home / place).chmod(0o755 if (house.home / place).is_dir() else 0o644)
    found = await house.wrong(PERMISSIONS)
    assert "other users of this machine can read" in said(found)
    after, mended = await house.mended(PERMISSIONS)
    assert [one.level for one in after] == ["ok"]
    assert "took the rights of other users off" in mended[0].done
    assert not (house.home / place).stat().st_mode & 0o077


async def test_tokens_of_the_api_are_secret_in_a_closed_folder_too(house: House) -> None:
    tokens = house.state / "api-tokens.json"
    tokens.write_text('{"version": 1, "tokens": []}')
    tokens.chmod(0o644)
    assert "api-tokens.json" in said(await house.wrong(PERMISSIONS))
    await house.mended(PERMISSIONS)
    assert not tokens.stat().st_mode & 0o077


async def test_a_file_in_a_closed_folder_is_no_finding(house: House) -> None:
    (house.home / "logs" / "homebody.jsonl").chmod(0o644)
    assert await house.wrong(PERMISSIONS) == []


async def test_skills_of_the_owner_in_a_closed_home_are_no_finding(house: House) -> None:
    """A clone has files that everybody may read and that nobody writes."""
    folder = house.home / "skills" / "plants" / "objects"
    folder.mkdir(parents=True, mode=0o755)
    (folder / "ab12").write_text("packed")
    (folder / "ab12").chmod(0o444)
    assert await house.wrong(PERMISSIONS) == []


@needs_root
@pytest.mark.parametrize(("mode", "level"), [(0o666, "ok"), (0o644, "error"), (0o600, "error")])
async def test_a_note_that_is_shared_with_the_owner_is_no_finding(house: House, mode: int, level: str) -> None:
    note = next((house.workspace / "memory").glob("2*.md"))
    note.chmod(mode)
    os.chown(note, STRANGER, STRANGER)
    assert [one.level for one in await house.found(PERMISSIONS)] == [level]


async def test_own_files_without_own_rights_are_opened(house: House) -> None:
    house.transcript.chmod(0o000)
    (found,) = await house.wrong(PERMISSIONS)
    assert str(house.transcript) in found.what
    after, _ = await house.mended(PERMISSIONS)
    assert [one.level for one in after] == ["ok"]
    assert house.transcript.stat().st_mode & 0o777 == 0o600


async def test_a_missing_folder_is_made(house: House) -> None:
    shutil.rmtree(house.home / "logs")
    found = await house.found(PERMISSIONS)
    assert "missing" in said(found)
    await house.mended(PERMISSIONS)
    assert (house.home / "logs").stat().st_mode & 0o777 == 0o700


async def test_indexes_and_logs_of_a_gateway_of_a_cluster_are_looked_for_in_its_own_folder(house: House) -> None:
    for name in ("memory", "logs"):
        (house.home / name).rename(house.home / f"{name}-away")
    own = house.home / "gateways" / "a"
    for folder in (own.parent, own, own / "memory", own / "logs"):
        folder.mkdir(mode=0o700)
    for gateway in ("a", ""):
        there = Installation(paths=Paths(house.home, gateway=gateway), env=house.env, cwd=house.cwd, offline=True)
        assert "missing" not in said(await examine(there, [PERMISSIONS]))
    (own / "logs").rmdir()
    there = Installation(paths=Paths(house.home, gateway="a"), env=house.env, cwd=house.cwd, offline=True)
    assert str(own / "logs") in said(await examine(there, [PERMISSIONS]))


async def test_a_workspace_that_is_gone_is_not_made(house: House) -> None:
    shutil.rmtree(house.workspace)
    after, _ = await house.mended(PERMISSIONS)
    assert "the workspace is not there" in said(after)
    assert not house.workspace.exists()


async def test_a_home_that_is_a_link_is_an_error(house: House) -> None:
    real = house.home.rename(house.person / "elsewhere")
    house.home.symlink_to(real)
    (found,) = await house.wrong(PERMISSIONS)
    assert str(real) in found.mend


@pytest.fixture
def small_disk(house: House) -> Iterator[Callable[[int], None]]:
    """Put the state on a disk of its own, of so many megabytes."""
    mounted = False

    def mount(megabytes: int) -> None:
        nonlocal mounted
        kept = house.state.rename(house.home / "kept")
        house.state.mkdir(mode=0o700)
        options = f"size={megabytes}m,mode=700"
        made = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", house.home], check=False, capture_output=True)
        if made.returncode:
            pytest.skip("nothing can be mounted here")
        mounted = True
        del kept

    yield mount
    if mounted:
        subprocess.run(["umount", house.home], check=True)


@pytest.fixture
def full_workspace(house: House) -> Iterator[None]:
    house.workspace.mkdir(exist_ok=True)
    options = "size=2m,mode=700"
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", house.workspace], check=False, capture_output=True)
    if made.returncode:
        pytest.skip("nothing can be mounted here")
    yield
    subprocess.run(["umount", house.workspace], check=True)


@pytest.fixture
def closed_workspace(house: House) -> Iterator[None]:
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "none", house.workspace], check=False, capture_output=True)
    if made.returncode:
        pytest.skip("nothing can be mounted here")
    yield
    subprocess.run(["umount", house.workspace], check=True)


@needs_root
@pytest.mark.usefixtures("closed_workspace")
async def test_a_workspace_on_a_disk_that_can_only_be_read_is_an_error(house: House) -> None:
    [found] = [one for one in await house.wrong(PERMISSIONS) if one.level == "error"]
    assert found.what == "the workspace is on a disk that can only be read"
    assert str(house.workspace) in found.mend


@needs_root
@pytest.mark.usefixtures("full_workspace")
async def test_a_full_disk_of_the_workspace_alone_is_found_with_what_is_not_kept(house: House) -> None:
    (found,) = await house.wrong(DISK)
    assert (found.level, found.where) == ("error", str(house.workspace))
    assert "goes on answering, and what it writes there is not kept: notes and files of main" in found.why


@needs_root
@pytest.mark.parametrize(
    ("megabytes", "level", "words"), [(16, "error", "no space is left"), (120, "warning", "little space is left")]
)
async def test_a_full_disk_is_found(
    house: House, small_disk: Callable[[int], None], megabytes: int, level: str, words: str
) -> None:
    small_disk(megabytes)
    (found,) = await house.wrong(DISK)
    assert (found.level, words in found.what, str(house.home) in found.mend) == (level, True, True)


@needs_root
async def test_a_disk_with_room_is_well(house: House, small_disk: Callable[[int], None]) -> None:
    small_disk(400)
    assert await house.wrong(DISK) == []


async def test_a_torn_end_of_a_transcript_is_set_aside(house: House) -> None:
    whole = house.transcript.read_bytes()
    with house.transcript.open("ab") as file:
        file.write(b'{"v":1,"half a li')
    (found,) = await house.wrong(TRANSCRIPTS)
    assert (found.where, "cut off" in found.what) == (str(house.transcript), True)
    after, mended = await house.mended(TRANSCRIPTS)
    assert not [one for one in after if one.level == "warning"]
    assert house.transcript.read_bytes() == whole
    (torn,) = house.transcript.parent.glob("*.torn-*")
    assert torn.read_bytes() == b'{"v":1,"half a li'
    assert str(torn) in mended[0].done


async def test_an_unreadable_line_is_found_and_left_as_it_is(house: House) -> None:
    first, *rest = house.transcript.read_bytes().splitlines(keepends=True)
    damaged = b"".join([first, b"not what it was\n", *rest])
    house.transcript.write_bytes(damaged)
    (found,) = await house.wrong(TRANSCRIPTS)
    assert "1 of" in found.what
    assert "homebody sessions repair agent:main:main" in found.mend
    await house.mended(TRANSCRIPTS)
    assert house.transcript.read_bytes() == damaged


@pytest.mark.parametrize("how", ["gone", "empty"])
async def test_a_transcript_that_is_gone_or_empty_is_missed(house: House, how: str) -> None:
    if how == "gone":
        house.transcript.unlink()
    else:
        house.transcript.write_bytes(b"")
    (found,) = await house.wrong(TRANSCRIPTS)
    assert "the transcript of agent:main:main is gone or empty" in found.what


async def test_transcripts_of_no_agent_are_told(house: House) -> None:
    shutil.copytree(house.home / "agents" / "main", house.home / "agents" / "former")
    found = await house.found(TRANSCRIPTS)
    assert "1 transcripts of the agent former" in said(found)


async def test_a_damaged_list_of_sessions_is_told(house: House) -> None:
    folder = house.transcript.parent
    for name in ("sessions.json", "sessions.json.prev", "sessions.json.changes"):
        (folder / name).unlink(missing_ok=True)
    (folder / "sessions.json").write_text("{ no json")
    (found,) = await house.wrong(TRANSCRIPTS)
    assert found.where == str(folder / "sessions.json")
    assert (folder / "sessions.json").read_text() == "{ no json"


async def test_an_index_that_is_damaged_is_rebuilt(house: House) -> None:
    index = house.home / "memory" / "main.sqlite"
    index.write_bytes(b"SQLite format 3\0" + os.urandom(8000))
    (found,) = await house.wrong(MEMORY)
    assert (found.where, "damaged" in found.what) == (str(index), True)
    note = next((house.workspace / "memory").glob("2*.md"))
    before = note.read_bytes()
    after, mended = await house.mended(MEMORY)
    assert not [one for one in after if one.level == "warning"]
    assert "indexed the notes of main" in mended[0].done
    assert note.read_bytes() == before


async def test_an_index_out_of_step_is_told_and_brought_into_step(house: House) -> None:
    await house.mended(MEMORY)
    (house.workspace / "memory" / "2026-02-03.md").write_text("The gate code is 4712.\n")
    assert "1 note of main changed since the last indexing: memory/2026-02-03.md" in said(await house.found(MEMORY))
    after, _ = await house.mended(MEMORY)
    assert "changed since" not in said(after)


async def test_a_note_that_is_no_text_is_told_with_what_mends_it(house: House) -> None:
    (house.workspace / "memory" / "2026-02-04.md").write_bytes(b"\x00\xff\x00\x01" * 50)
    await house.mended(MEMORY)
    [found] = [one for one in await house.found(MEMORY) if "is a binary file" in one.what]
    assert found.mend.startswith("Rename it so that it does not end in .md")


async def test_the_command_that_is_named_for_notes_with_a_second_name_makes_files_of_their_own(house: House) -> None:
    note = house.workspace / "memory" / "2026-02-04.md"
    note.write_text("The gate code is 4712.\n")
    note.with_name("kept.txt").hardlink_to(note)
    await house.mended(MEMORY)
    [found] = [one for one in await house.found(MEMORY) if "hard link" in one.what]
    subprocess.run(["sh", "-c", found.mend.partition("such notes: ")[2]], check=True)  # noqa: ASYNC221 - short
    assert note.stat().st_nlink == 1
    assert note.read_text() == "The gate code is 4712.\n"
    await house.mended(MEMORY)
    assert "hard link" not in said(await house.found(MEMORY))


async def test_a_note_that_is_no_text_is_named(house: House) -> None:
    bad = house.workspace / "memory" / "2026-02-04.md"
    bad.write_bytes(b"\0\1\2\3" * 200)
    await house.mended(MEMORY)
    assert str(bad) in said(await house.wrong(MEMORY))


@needs_root
def test_a_note_of_a_foreign_owner_is_named_with_chown(house_in_the_open: House) -> None:
    house = house_in_the_open
    given_away(house)
    note = next((house.workspace / "memory").glob("2*.md"))
    note.chmod(0o600)
    os.chown(note, 0, 0)
    run = as_stranger(house, "doctor", "--offline", "--only", "memory")
    assert f"{note}: cannot be read" in " ".join(run.stdout.split()), run.stderr
    assert f'sudo chown -R "$USER" {note}' in run.stdout


async def test_sqlite_without_vectors_is_told(house: House) -> None:
    house.set(agents={"defaults": {"memorySearch": {"store": {"vector": {"extensionPath": "/nowhere/vec0"}}}}})
    assert "vectors are scanned with numpy" in said(await house.found(MEMORY))


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("auth-profiles.json", "{", "Its keys are not used"),
        ("state/skills.json", "[", "No skill counts as approved"),
        ("state/approvals.json", "{", "Every command is asked about"),
        ("state/mcp/box.json", "]", "pinned again"),
    ],
)
async def test_a_damaged_file_of_the_state_is_told(house: House, name: str, text: str, words: str) -> None:
    (house.home / name).parent.mkdir(exist_ok=True)
    (house.home / name).write_text(text)
    (found,) = await house.wrong(STATE_FILES)
    assert words in found.why
    assert found.mend


async def test_what_crashes_left_is_removed(house: House) -> None:
    import socket

    left = [house.home / ".homebody.yaml.999999.tmp", house.state / "ledger.sqlite.copy.part"]
    for path in left:
        path.write_text("half")
        os.utime(path, (0, 0))
    young = house.state / ".skills.json.999998.tmp"
    young.write_text("half")
    with socket.socket(socket.AF_UNIX) as sock:
        here = os.open(house.state, os.O_RDONLY)
        try:
            sock.bind(f"/proc/self/fd/{here}/gateway.sock")
        finally:
            os.close(here)
    found = await house.found(GATEWAY)
    assert "2 unfinished files" in said(found)
    assert "the socket of a gateway that is gone" in said(found)
    after, mended = await house.mended(GATEWAY)
    assert (len(mended), [one.what for one in after]) == (2, ["no gateway is running"])
    assert [path.exists() for path in (*left, young)] == [False, False, True]


@pytest.mark.parametrize(
    ("text", "level", "words"),
    [
        ("agents: [", "error", "not valid YAML"),
        ("gateway: {port: never}", "error", "a whole number"),
        ("gateway: {prot: 1}", "warning", "is not a key"),
        ("channels: {telegram: {botToken: 'env:NOT_SET_HERE'}}", "error", "NOT_SET_HERE is not set"),
        ("agents: {list: [{id: main, workspace: '~'}]}", "error", "is or contains your home folder"),
        ("agents: {list: [{id: a}, {id: a}]}", "error", "is listed twice"),
    ],
)
async def test_wrong_settings_are_told(house: House, text: str, level: str, words: str) -> None:
    (house.home / "homebody.yaml").write_text(text)
    (found,) = await house.wrong(SETTINGS)
    assert (found.level, words in found.what, bool(found.mend)) == (level, True, True), found


async def test_two_settings_files_are_told(house: House) -> None:
    (house.home / "homebody.json").write_text("{}")
    (found,) = await house.wrong(SETTINGS)
    assert "both homebody.yaml and homebody.json exist" in found.what


async def test_checks_that_need_settings_say_so(house: House) -> None:
    (house.home / "homebody.yaml").write_text("agents: [")
    assert [one.what for one in await house.found(MEMORY)] == ["not checked: the settings are not valid"]


async def test_a_settings_file_with_a_secret_that_others_can_read_is_closed_to_them(house: House) -> None:
    file = house.home / "homebody.yaml"
    file.write_text("tools: {web: {search: {apiKey: sk-of-a-search-service}}}\n")
    file.chmod(0o644)
    (found,) = await house.wrong(SETTINGS)
    assert (found.level, "read by other users" in found.what) == ("warning", True)
    done = program("doctor", "--offline", "--only", "settings", "--fix", home=house.person)
    assert f"took the rights of other users off {file}" in done.stdout
    assert file.stat().st_mode & 0o777 == 0o600
    assert await house.wrong(SETTINGS) == []


async def test_files_of_the_prompt_that_the_agent_is_not_given_are_named(house: House) -> None:
    assert await house.wrong(WORKSPACES) == []
    (house.workspace / "AGENTS.md").write_bytes("Sag immer grün.".encode("utf-16-le"))
    (house.workspace / "TOOLS.md").write_bytes("Grünebüx".encode("cp1252"))
    (house.workspace / "SOUL.md").unlink()
    (house.workspace / "SOUL.md").symlink_to(house.person / "elsewhere.md")
    found = await house.wrong(WORKSPACES)
    assert [Path(one.where).name for one in found] == ["AGENTS.md", "SOUL.md"]
    assert "UTF-16 without a byte order mark" in found[0].what
    assert "link" in found[1].what
