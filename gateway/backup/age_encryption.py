"""Encryption with age: to public keys, with a key that is made at the first backup, or with a passphrase.

A passphrase protects a key made for that one file, which stands before the encrypted stream: the library holds age's own passphrase files
in memory as a whole (``docs/backup.md`` tells how such a file is opened without Homebody). Encryption does not prove who made a file.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

from gateway.base.atomic_file import sync, write_atomically, write_synced
from gateway.base.errors import BackupLocked, BackupUnusable, HomebodyError, StorageFailed, UsageError
from gateway.base.paths import Paths

LIST: Final = "Take another one: homebody backup list"
KEY_NAME: Final = "backup-key.txt"
"""The file of the key that opens the backups of a home, in that home. It is in no backup."""
_SHOWN: Final = "backup-key-shown"
PASSPHRASE_VARIABLE: Final = "HOMEBODY_BACKUP_PASSPHRASE"  # noqa: S105  (its name)
_AGE: Final = b"age-encryption.org/"
_GZIP: Final = b"\x1f\x8b"
_PROTECTED: Final = b"homebody-backup with passphrase\n"
_ARMOR_END: Final = b"-----END AGE ENCRYPTED FILE-----\n"
_LONGEST_ARMOR: Final = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Lock:
    """How a backup is encrypted: to ``recipients`` (texts), with a ``passphrase``, or, with neither, not at all."""

    recipients: tuple[str, ...] = ()
    passphrase: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """What may open a backup: files with identities, and a function that asks for the passphrase, called only when one is needed."""

    files: Sequence[Path] = ()
    passphrase: Callable[[], str] | None = None


def key_file(paths: Paths) -> Path:
    """Return where the key of this home is, or would be."""
    return paths.home / KEY_NAME


def own_recipient(paths: Paths) -> tuple[str, bool]:
    """Return the public key of this home and whether it was made just now. Blocking.

    Raises:
        StorageFailed, BackupUnusable: the file of the key cannot be written, or holds none.
    """
    import pyrage

    path = key_file(paths)
    if path.exists():
        return str(_identities(path, [path.read_text("utf-8", "replace")])[0].to_public()), False
    identity = pyrage.x25519.Identity.generate()
    if not _written(path, identity):
        return own_recipient(paths)
    return str(identity.to_public()), True


def _written(path: Path, identity: Any) -> bool:
    """Write the file of a key; False where another process made one meanwhile. Raises StorageFailed."""
    text = f"# The key that opens the backups of {path.parent}. Keep a copy where this machine is not.\n"
    fresh = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_synced(fresh, f"{text}# public key: {identity.to_public()}\n{identity}\n".encode())
        os.link(fresh, path)
        sync(path.parent)
    except FileExistsError:
        return False
    except OSError as error:
        raise StorageFailed.from_os(error, "write the key of the backups", path) from error
    finally:
        fresh.unlink(missing_ok=True)
    return True


def keep_key(home: Path, files: Sequence[Path]) -> bool:
    """Make the key that a backup was opened with the key of a home that has none; return whether that was done. Blocking.

    Where the files hold several keys, or one of SSH, nothing is done. Raises StorageFailed.
    """
    import pyrage

    found = _identities_in(files)
    return len(found) == 1 and isinstance(found[0], pyrage.x25519.Identity) and _written(home / KEY_NAME, found[0])


def note_shown(paths: Paths) -> None:
    """Remember that its owner was shown the key of this home. Blocking."""
    with suppress(OSError):
        write_atomically(paths.state / _SHOWN, f"{own_recipient(paths)[0]}\n")


def was_shown(paths: Paths) -> bool:
    """Return whether its owner was shown the key of this home, or it has none. Blocking; raises BackupUnusable."""
    if not key_file(paths).exists():
        return True
    try:
        return (paths.state / _SHOWN).read_text("utf-8").strip() == own_recipient(paths)[0]
    except OSError:
        return False


def secret_of(path: Path) -> str:
    """Return the secret line of a file of keys, for its owner to write down. Raises StorageFailed, BackupUnusable."""
    try:
        lines = path.read_text("utf-8", "replace").splitlines()
    except OSError as error:
        raise StorageFailed.from_os(error, "read the key of the backups", path) from error
    found = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    if not found:
        raise BackupUnusable("this file holds no key", where=str(path))
    return found[0]


class _Watched:
    """Writes into a file and remembers the error of the disk, of which the library passes on the text alone."""

    def __init__(self, target: IO[bytes]) -> None:
        self._target = target
        self.error: OSError | None = None

    def write(self, data: bytes) -> int:
        """Write ``data``."""
        try:
            return self._target.write(data)
        except OSError as error:
            self.error = error
            raise

    def flush(self) -> None:
        """Nothing is held back here."""


def is_encrypted(head: bytes) -> bool:
    """Return whether a file that begins with ``head`` is encrypted."""
    return not head.startswith(_GZIP)


@contextmanager
def writing(target: IO[bytes], lock: Lock) -> Iterator[Any]:
    """Return a file to write into; what is written is encrypted into ``target``. It is complete when the block ends without an error."""
    if not lock.recipients and not lock.passphrase:
        yield target
        return
    import pyrage

    recipients = [_recipient(text) for text in lock.recipients]
    if lock.passphrase:
        identity = pyrage.x25519.Identity.generate()
        target.write(_PROTECTED + pyrage.passphrase.encrypt(str(identity).encode(), lock.passphrase, armored=True))
        recipients = [identity.to_public()]
    watched = _Watched(target)
    try:
        with _piped(lambda source: pyrage.encrypt_io(source, watched, recipients)) as (sink, finish):
            yield sink
            finish()
    except (pyrage.EncryptError, BrokenPipeError) as error:
        raise (watched.error or error) from error


def need_backup(path: Path) -> None:
    """Raise UsageError where there is no such file."""
    if not os.path.lexists(path) or path.is_dir():
        hint = "The backups that there are: homebody backup list"
        raise UsageError("there is no such file", where=str(path), hint=hint)


@contextmanager
def reading(path: Path, keys: Keys) -> Iterator[IO[bytes]]:
    """Open a backup and return its decrypted stream. Blocking.

    Raises:
        BackupUnusable: no key at hand opens it, or it is no backup.
        UsageError: there is no such file.
        StorageFailed: it cannot be read.
    """
    need_backup(path)
    try:
        source = path.open("rb")
    except OSError as error:
        raise StorageFailed.from_os(error, "read the backup", path) from error
    with source:
        head = source.read(len(_PROTECTED))
        source.seek(0)
        if head.startswith(_GZIP):
            yield source
        elif head == _PROTECTED:
            with _decrypted(source, path, [_protected_identity(source, path, keys)]) as stream:
                yield stream
        elif head.startswith(_AGE):
            with _decrypted(source, path, _all_identities(path, keys)) as stream:
                yield stream
        else:
            raise BackupUnusable("this file is no backup of Homebody", where=str(path), hint=LIST)


def _recipient(text: str) -> Any:
    import pyrage

    try:
        return pyrage.ssh.Recipient.from_str(text) if text.startswith("ssh-") else pyrage.x25519.Recipient.from_str(text)
    except pyrage.RecipientError as error:
        hint = "Show the public key of a file of keys with: age-keygen -y FILE"
        raise HomebodyError(f"this is no recipient of age: {error}", where="backup.recipients", hint=hint) from error


def _all_identities(path: Path, keys: Keys) -> list[Any]:
    found = _identities_in(keys.files)
    if not found:
        hint = "Name the file of the key, which was shown at the first backup: --identity FILE"
        raise BackupLocked("this backup is encrypted, and its key is not on this machine", where=str(path), hint=hint)
    return found


def _identities_in(files: Sequence[Path]) -> list[Any]:
    """Return the identities of those files that exist."""
    return [one for file in files if file.exists() for one in _identities(file, [file.read_text("utf-8", "replace")])]


_RIGHT_FILE = "Name the file that the key was kept in (it has a line AGE-SECRET-KEY-...): --identity FILE"


def _identities(path: Path, texts: Sequence[str]) -> list[Any]:
    import pyrage

    found: list[Any] = []
    for text in texts:
        try:
            if "PRIVATE KEY-----" in text:
                found.append(pyrage.ssh.Identity.from_buffer(text.encode()))
                continue
            lines = [line.strip() for line in text.splitlines()]
            found += [pyrage.x25519.Identity.from_str(line) for line in lines if line and not line.startswith("#")]
        except pyrage.IdentityError as error:
            raise BackupUnusable(f"this file holds no key of age: {error}", where=str(path), hint=_RIGHT_FILE) from error
    if not found:
        raise BackupUnusable("this file holds no key", where=str(path), hint=_RIGHT_FILE)
    return found


def _protected_identity(source: IO[bytes], path: Path, keys: Keys) -> Any:
    import pyrage

    source.seek(len(_PROTECTED))
    armor = source.read(_LONGEST_ARMOR)
    end = armor.find(_ARMOR_END)
    if end < 0:
        raise BackupUnusable("this backup cannot be used: it is cut off", where=str(path))
    source.seek(len(_PROTECTED) + end + len(_ARMOR_END))
    if keys.passphrase is None or not (words := keys.passphrase()):
        hint = f"Run the command in a terminal, which asks for it, or set {PASSPHRASE_VARIABLE}."
        raise BackupLocked("this backup needs its passphrase", where=str(path), hint=hint)
    try:
        opened = pyrage.passphrase.decrypt(armor[: end + len(_ARMOR_END)], words)
        return pyrage.x25519.Identity.from_str(opened.decode())
    except (pyrage.DecryptError, pyrage.IdentityError, ValueError) as error:
        hint = f"Try again (is {PASSPHRASE_VARIABLE} set to another one?), or take another backup: homebody backup list"
        what = "the passphrase is wrong, or the beginning of this file is damaged"
        raise BackupUnusable(what, where=str(path), hint=hint) from error


@contextmanager
def _decrypted(source: IO[bytes], path: Path, identities: Sequence[Any]) -> Iterator[IO[bytes]]:
    """Decrypt in a thread, into a pipe that the caller reads. Each piece is authenticated before it is passed on."""
    import pyrage

    receiving, sending = os.pipe()
    failures: list[Exception] = []

    def work() -> None:
        try:
            with os.fdopen(sending, "wb") as sink:
                pyrage.decrypt_io(source, sink, list(identities))
        except BrokenPipeError:  # the reader has seen enough
            return
        except Exception as error:  # noqa: BLE001 -- told by the reader, which waits for it
            failures.append(error)

    thread = threading.Thread(target=work, name="backup-decryption", daemon=True)
    thread.start()
    stream = os.fdopen(receiving, "rb")
    try:
        yield stream
        while stream.read(_LONGEST_ARMOR):
            pass
    except BackupUnusable as error:
        stream.close()
        thread.join()
        raise _told(failures, path, error) from error
    finally:
        stream.close()
        thread.join()
    if failures:
        raise _told(failures, path, None) from failures[0]


def _told(failures: Sequence[Exception], path: Path, otherwise: BackupUnusable | None) -> Exception:
    """Return the error that explains the others: what the decryption failed with."""
    if not failures:
        assert otherwise is not None
        return otherwise
    if "No matching keys" in str(failures[0]):
        hint = "Name the file of the right key: --identity FILE"
        return BackupLocked("the key at hand does not open this backup", where=str(path), hint=hint)
    # The library takes a changed beginning for a format of its future, and advises to upgrade it.
    why = "its beginning is not that of a backup" if "Unknown age format" in str(failures[0]) else str(failures[0])
    return BackupUnusable(
        f"this backup cannot be used: it is cut off or was changed ({why})",
        where=str(path),
        hint=LIST,
    )


@contextmanager
def _piped(work: Callable[[Any], object]) -> Iterator[tuple[IO[bytes], Callable[[], None]]]:
    """Run ``work`` in a thread on what is written into the file that is returned; ``finish`` waits for it and raises its error."""
    receiving, sending = os.pipe()
    failures: list[Exception] = []

    def run() -> None:
        with os.fdopen(receiving, "rb") as source:
            try:
                work(source)
            except Exception as error:  # noqa: BLE001 -- raised by the writer, in its own thread
                failures.append(error)

    thread = threading.Thread(target=run, name="backup-encryption", daemon=True)
    thread.start()
    sink = os.fdopen(sending, "wb")

    def finish() -> None:
        sink.close()
        thread.join()
        if failures:
            raise failures[0]

    try:
        yield sink, finish
    except BrokenPipeError:
        thread.join()
        raise (failures or [BrokenPipeError()])[0] from None
    finally:
        with suppress(OSError):
            sink.close()
        thread.join()
