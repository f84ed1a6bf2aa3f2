"""From a home to a file and back: everything is in it, nothing else is touched, and what is refused changes nothing."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gateway.backup.age_encryption import Keys, key_file, own_recipient
from gateway.backup.extraction import verify
from gateway.base.errors import BackupUnusable, StorageFailed, UsageError
from gateway.base.paths import Paths
from gateway.base.state_lock import StateLock
from tests.backup.conftest import Lived, homebody, json_of, rewritten, tree, with_manifest
from tests.full_disk import no_file_may_hold_more_than

if TYPE_CHECKING:
    from collections.abc import Callable

    Run = Callable[..., tuple[int, str, str]]


def keys(lived: Lived) -> Keys:
    return Keys(files=(key_file(Paths(lived.home)),))


def kept_of(lived: Lived) -> dict[str, bytes]:
    """The files of a home that a backup must hold, byte for byte."""
    files = tree(lived.home)
    left = ("logs/", "backups/", "state/gateway.", "state/ledger.sqlite", "state/backup-work", "backup-key.txt")
    return {name: data for name, data in files.items() if not name.startswith(left) and ".sqlite" not in name}


def test_everything_comes_back_on_another_machine(lived: Lived, tmp_path: Path) -> None:
    awkward = lived.workspace / "files"
    (awkward / "empty").mkdir(parents=True)
    (awkward / os.fsdecode(b"na\xffme")).write_text("bytes for a name")
    (awkward / ("long" * 50)).write_text("long")
    (awkward / "link").symlink_to("empty")
    (awkward / "run.sh").write_text("#!/bin/sh")
    (awkward / "run.sh").chmod(0o755)
    made = lived.make()
    wanted, notes = kept_of(lived), tree(lived.workspace)
    assert wanted.keys() >= {"homebody.yaml", "memory/main.history/log.jsonl"}

    other = tmp_path / "other"
    other.mkdir()
    shutil.copy(lived.home / "backup-key.txt", other / "key.txt")
    done = homebody(other, "backup", "restore", str(made.path), "--identity", str(other / "key.txt"), "--json")
    assert done.returncode == 0, done.stderr
    there = Lived(other)
    assert {name: data for name, data in tree(there.home).items() if name in wanted} == wanted
    assert tree(there.workspace) == notes
    assert (there.workspace / "files/link").readlink().name == "empty"
    assert (there.workspace / "files/empty").is_dir()
    assert (there.workspace / "files/run.sh").stat().st_mode & 0o777 == 0o755
    found = homebody(other, "agent", "-m", "where is the spare key?")
    assert "blue pot" in found.stdout
    jobs = json.loads(homebody(other, "cron", "list", "--json").stdout)
    assert sorted(job["name"] for job in jobs) == ["Call the plumber", "Water the plants"]
    assert json.loads(done.stdout)["keyKept"] is True
    assert json.loads(homebody(other, "backup", "create", "--json").stdout)["keyMade"] is False
    (there.home / "backup-key.txt").unlink()
    opened = homebody(other, "backup", "verify", "--identity", str(other / "key.txt"))
    assert opened.returncode == 0, "the key that is kept elsewhere opens the new one, too"
    gone = homebody(other, "backup", "verify", "--identity", str(other / "gone.txt"))
    assert (gone.returncode, str(other / "gone.txt") in gone.stderr) == (2, True), gone.stderr
    (other / "junk.txt").write_text("no key\n")
    assert "AGE-SECRET-KEY" in homebody(other, "backup", "verify", "--identity", str(other / "junk.txt")).stderr


def test_a_backup_is_encrypted_and_no_secret_can_be_read_in_it(lived: Lived) -> None:
    made = lived.make()
    data = made.path.read_bytes()
    assert data.startswith(b"age-encryption.org/v1\n-> X25519")
    assert made.path.stat().st_mode & 0o777 == 0o600
    assert (lived.home / "backup-key.txt").stat().st_mode & 0o777 == 0o600
    assert "home/backup-key.txt" in made.manifest.left_out


def test_without_secrets_none_is_in_it(lived: Lived, tmp_path: Path) -> None:
    (lived.home / "auth-profiles.json").write_text('{"version": 1, "profiles": {"a": {"key": "sk-of-a-provider"}}}')
    (lived.home / "telegram.token").write_text("123:file-secret")
    homebody(lived.person, "config", "set", "channels.telegram.tokenFile", str(lived.home / "telegram.token"))
    made = lived.make(no_secrets=True)
    folder = tmp_path / "unpacked"
    folder.mkdir()
    shutil.unpack_archive(made.path, folder, "gztar", filter="data")
    everything = b"".join(tree(folder).values())
    for secret in (b"sk-secret-of-the-search-service", b"sk-of-a-provider", b"123:file-secret"):
        assert secret not in everything
    assert b"env:REMOVED_FROM_BACKUP" in (folder / "home/homebody.yaml").read_bytes()
    assert made.manifest.left_out["home/auth-profiles.json"] == made.manifest.left_out["home/telegram.token"] == "secrets"
    assert b"blue pot" in everything, "what was said is in it"


def test_own_recipients_open_it_and_nothing_else_does(lived: Lived, tmp_path: Path) -> None:
    other = Paths(tmp_path / "elsewhere")
    recipient, _ = own_recipient(other)
    made = lived.make(recipients=(recipient,))
    assert verify(made.path, Keys(files=(key_file(other),))).manifest.files
    own_recipient(Paths(lived.home))
    with pytest.raises(BackupUnusable, match="does not open"):
        verify(made.path, keys(lived))


@pytest.mark.parametrize("word", ["correct horse", pytest.param("battery", marks=pytest.mark.long)])
def test_its_passphrase_opens_it_and_nothing_else_does(lived: Lived, word: str) -> None:
    """Each look at the passphrase takes seconds of CPU time and a gigabyte, as it is to take who guesses."""
    protected = lived.make(passphrase="correct horse")
    if word == "correct horse":
        assert verify(protected.path, Keys(passphrase=lambda: word)).manifest.id == protected.manifest.id
    else:
        with pytest.raises(BackupUnusable, match="wrong"):
            verify(protected.path, Keys(passphrase=lambda: word))
    with pytest.raises(BackupUnusable, match="needs its passphrase"):
        verify(protected.path, Keys())


def test_a_file_that_is_cut_changed_or_foreign_is_refused(lived: Lived, tmp_path: Path) -> None:
    made = lived.make()
    whole = made.path.read_bytes()
    for number, data in enumerate(
        (whole[: len(whole) // 2], whole[:-1], whole[:300], b"", whole + b"x", bytes(100), whole[:5000] + b"?" + whole[5001:])
    ):
        bad = tmp_path / f"{number}.tar.gz.age"
        bad.write_bytes(data)
        with pytest.raises(BackupUnusable):
            verify(bad, keys(lived))
    with pytest.raises(UsageError):
        verify(tmp_path / "nowhere", keys(lived))


def test_a_backup_of_a_later_version_is_refused_with_its_version(lived: Lived, command: Run) -> None:
    made = lived.make(no_secrets=True)

    def later(name: str, data: bytes) -> bytes:
        if name != "backup.json":
            return data
        head = json.loads(data)
        head["state"]["ledger"] += 1
        return json.dumps(head | {"homebody": "9.9"}).encode()

    newer = rewritten(made.path, later)
    code, _, told = command("--home", str(lived.home), "backup", "restore", str(newer), "--force")
    assert code == 1
    assert "later version: its ledger are of version" in told
    assert "9.9" in told
    assert lived.workspace.exists()


def test_a_full_disk_leaves_nothing_half_and_the_earlier_backups(lived: Lived) -> None:
    (lived.workspace / "noise").write_bytes(os.urandom(600_000))
    first = lived.make()
    before = sorted(path.name for path in lived.backups.iterdir())
    with no_file_may_hold_more_than(400_000), pytest.raises(StorageFailed):
        lived.make()
    assert sorted(path.name for path in lived.backups.iterdir()) == before
    assert not (lived.home / "state/backup-work").exists()
    assert verify(first.path, keys(lived))
    assert lived.make().path != first.path


def test_a_full_disk_while_restoring_changes_nothing(lived: Lived, command: Run, tmp_path: Path) -> None:
    (lived.workspace / "noise").write_bytes(os.urandom(600_000))
    made = lived.make()
    before = tree(lived.person)
    with no_file_may_hold_more_than(400_000):
        code, _, told = command("--home", str(lived.home), "backup", "restore", str(made.path), "--force")
    assert code == 6, told
    assert tree(lived.person) == before
    assert sorted(path.name for path in lived.person.iterdir()) == [".homebody", "homebody"]


def test_a_backup_that_is_not_there_is_a_wrong_argument(lived: Lived, command: Run, tmp_path: Path) -> None:
    for absent in (tmp_path / "absent.age", tmp_path):
        code, _, told = command("--home", str(lived.home), "backup", "restore", str(absent), "--force")
        assert code == 2
        assert f"{absent}: there is no such file" in told
        assert "backup list" in told


def test_restoring_asks_for_force_and_keeps_what_was_there(lived: Lived, command: Run) -> None:
    made = lived.make()
    (lived.workspace / "later.md").write_text("written after the backup")
    before = tree(lived.workspace)
    code, _, told = command("--home", str(lived.home), "backup", "restore", str(made.path))
    assert (code, "--force" in told) == (2, True)
    code, printed, _ = command("--home", str(lived.home), "backup", "restore", str(made.path), "--dry-run", "--json")
    assert code == 0
    assert tree(lived.workspace) == before
    code, printed, told = command("--home", str(lived.home), "backup", "restore", str(made.path), "--force", "--json")
    assert code == 0, told
    moved = json_of(printed)["moved"]
    assert moved.keys() == {str(lived.home), str(lived.workspace)}
    assert not (lived.workspace / "later.md").exists()
    assert tree(lived.workspace.with_name(moved[str(lived.workspace)].rpartition("/")[2])) == before
    assert made.path.exists(), "the backups stay where they are"
    assert (lived.home / "backup-key.txt").exists()


def test_restoring_is_refused_while_a_gateway_runs(lived: Lived, command: Run) -> None:
    made = lived.make()
    lock = StateLock.acquire(lived.home / "state/gateway.lock")
    try:
        code, _, told = command("--home", str(lived.home), "backup", "restore", str(made.path), "--force")
        missing, _, first = command("--home", str(lived.home), "backup", "restore", str(made.path.with_name("nope")))
    finally:
        lock.release()
    assert code == 5, told
    assert "stop" in told
    assert (missing, "there is no such file" in first) == (2, True), "nobody stops a gateway for that"


def test_into_another_home_the_settings_name_the_restored_workspace(lived: Lived, command: Run, tmp_path: Path) -> None:
    made = lived.make()
    code, _, told = command("--home", str(lived.home), "backup", "restore", str(made.path), "--into", str(tmp_path / "new"))
    assert code == 0, told
    code, printed, _ = command("--home", str(tmp_path / "new"), "agent", "-m", "where is the spare key?")
    assert "blue pot" in printed
    assert (tmp_path / "new-workspaces/main/memory").is_dir()


def test_links_are_not_followed_and_those_that_lead_outside_are_not_made(lived: Lived, command: Run, tmp_path: Path) -> None:
    (tmp_path / "private").write_text("not yours")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/deep").write_text("nor this")
    (lived.workspace / "out").symlink_to(tmp_path / "private")
    (lived.workspace / "folder").symlink_to(tmp_path / "folder")
    os.link(lived.workspace / "TODO.md", lived.workspace / "twin.md")
    os.mkfifo(lived.workspace / "pipe")
    made = lived.make()
    assert not any("not yours" in str(one) or "deep" in one for one in made.manifest.files)
    assert made.manifest.left_out["workspace/main/pipe"] == "it is neither a file nor a folder"
    code, printed, _ = command(
        "--home", str(lived.home), "backup", "restore", str(made.path), "--into", str(tmp_path / "new"), "--json"
    )
    assert code == 0
    assert json_of(printed)["linksLeftOut"] == ["workspace/main/folder", "workspace/main/out"]
    new = tmp_path / "new-workspaces/main"
    assert not os.path.lexists(new / "out")
    assert (new / "twin.md").read_bytes() == (new / "TODO.md").read_bytes()


def test_a_forged_link_through_a_link_does_not_lead_outside(lived: Lived, command: Run, tmp_path: Path) -> None:
    deep = lived.workspace / "deep"
    deep.mkdir()
    (deep / "l").symlink_to("..")
    made = lived.make(no_secrets=True)
    forged = rewritten(
        made.path, with_manifest(lambda manifest: manifest["links"].update({"workspace/main/deep/l/x/y/z": "../../../.."}))
    )
    code, printed, told = command(
        "--home", str(lived.home), "backup", "restore", str(forged), "--into", str(tmp_path / "new"), "--json"
    )
    assert code == 0, told
    assert json_of(printed)["linksLeftOut"] == ["workspace/main/deep/l/x/y/z"]


@pytest.mark.parametrize(
    "path", ["home/../../escaped", "/escaped", "workspace/other/x", "home/state/../../../x", "elsewhere/x"]
)
def test_a_forged_path_is_refused_and_nothing_is_written(lived: Lived, command: Run, tmp_path: Path, path: str) -> None:
    made = lived.make(no_secrets=True)
    wrong = {path: {"size": 1, "sha256": hashlib.sha256(b"x").hexdigest(), "mode": 0o600}}
    forged = rewritten(made.path, with_manifest(lambda manifest: manifest["files"].update(wrong)), add={path: b"x"})
    code, _, told = command("--home", str(lived.home), "backup", "restore", str(forged), "--into", str(tmp_path / "a/new"))
    assert code == 1, told
    assert "cannot be used" in told
    assert list((tmp_path / "a").iterdir()) == []


def test_a_key_outside_of_the_home_comes_along_and_is_named_where_it_is_missing(lived: Lived, tmp_path: Path) -> None:
    key = lived.person / "keys" / "box"
    key.parent.mkdir()
    key.write_text("sk-outside-0123456789")
    settings = "models: {providers: {box: {baseUrl: 'http://127.0.0.1:9/v1', apiKey: 'file:~/keys/box'}}}\n"
    (lived.home / "homebody.yaml").write_text(settings)
    made = homebody(lived.person, "backup", "create", "--json")
    assert made.returncode == 0, made.stderr
    facts = json.loads(made.stdout)
    assert not [path for path in facts["leftOut"] if "keys" in path]
    drilled = homebody(lived.person, "backup", "drill")
    assert drilled.returncode == 0, drilled.stdout
    into = tmp_path / "other" / ".homebody"
    restore = ("backup", "restore", facts["file"], "--identity", str(lived.home / "backup-key.txt"), "--into", str(into))
    here = json.loads(homebody(lived.person, *restore, "--json").stdout)
    assert here["outside"] == {}, "it is there still"
    assert "file:~/keys/box" in (into / "homebody.yaml").read_text()
    shutil.rmtree(into)
    key.unlink()
    there = homebody(lived.person, *restore, "--force", "--json")
    assert there.returncode == 0, there.stderr
    [(name, copy)] = json.loads(there.stdout)["outside"].items()
    assert name == "~/keys/box"
    assert Path(copy).read_text() == "sk-outside-0123456789"
    assert f"file:{copy}" in (into / "homebody.yaml").read_text()
    key.write_text("sk-outside-0123456789")
    plain = json.loads(homebody(lived.person, "backup", "create", "--no-secrets", "--json").stdout)
    assert plain["leftOut"][str(key)] == "secrets"
