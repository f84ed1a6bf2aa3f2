"""Moves ledger, sessions and transcripts between files and PostgreSQL, while no gateway runs.

Nothing is deleted: what was left gets another name.
"""

from __future__ import annotations

import secrets
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gateway.base.errors import StorageFailed, UsageError
from gateway.base.paths import Paths
from gateway.ledger.open_ledger import LEDGER, need_driver
from gateway.settings.storage_settings import StorageSettings
from gateway.storage.open_storage import SIDES, conversations_in_files, finish_renames

if TYPE_CHECKING:
    from gateway.ledger.postgres.transfer import Connection

_UNFINISHED: Final = "sessions.moving"
_SET: Final = "Name one first, as postgresql://USER:PASSWORD@HOST/DATABASE: homebody config set storage.url"


_BACK: Final = (
    "If it is of a move that was ended in the middle: `homebody storage migrate --to postgresql` compares it and puts it aside."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """What was moved: the rows by table, from where and to where, and what the former places are called now (none after a trial)."""

    rows: dict[str, int]
    source: str
    target: str
    former: str = ""
    former_folders: tuple[str, ...] = ()


def to_postgres(
    paths: Paths, storage: StorageSettings, now: datetime, *, dry_run: bool, told: Callable[[str, int], None] = lambda *_: None
) -> Moved:
    """Move ledger, sessions and transcripts from files into the database of the settings, in one transaction.

    Where the ledger is in the database already, the conversations alone are moved. What the database holds is compared: if it is the same,
    a move that was ended in the middle is finished by renaming the files. Blocking; the caller holds the state lock.

    Raises:
        UsageError: there are no such files, or the settings name no database.
        StorageFailed: they cannot be read or written, or the database holds such already; nothing is changed then.
    """
    url = _url(storage)
    finish_renames(paths.state)
    file, folders = paths.state / LEDGER, conversations_in_files(paths)
    if not file.exists() and not folders:
        there = server_facts(storage)["version"]
        hint = "The database has one: there is nothing to move." if there else "The gateway makes a new one when it starts."
        raise UsageError(f"there is no ledger in {file}", hint=hint)
    from gateway.ledger.ledger_file import examined

    if file.exists() and (condition := examined(file)).damage:
        recovered = "Start the gateway once without storage.url: it recovers what it can. Then move it."
        what = "cannot be used" if condition.mend else "is damaged"
        raise StorageFailed(f"the ledger {what}: {condition.damage}", where=str(file), hint=condition.mend or recovered)
    from gateway.ledger.postgres.postgres_connection import place
    from gateway.storage.conversation_transfer import into_tables

    rows = _filled(paths, storage, partial(into_tables, folders, told=told), told, keep=not dry_run)
    where = place(url, storage.schema_name)
    source = str(file) if file.exists() else ", ".join(map(str, folders))
    if dry_run:
        return Moved(rows=rows, source=source, target=where)
    try:
        former, former_folders = _renamed(file, folders, now)
    except OSError as error:
        raise StorageFailed(
            f"all of it is in the database, but the files could not be renamed: {error.strerror or error}",
            where=str(file),
            hint="Run the same command again: it compares both sides and renames what is left.",
        ) from error
    return Moved(rows=rows, source=source, target=where, former=former, former_folders=former_folders)


def _renamed(file: Path, folders: list[Path], now: datetime) -> tuple[str, tuple[str, ...]]:
    """Rename what was moved, the ledger's main file first: without its log it would be taken for a whole ledger. Returns the new names."""
    ending = f"moved-{now:%Y%m%dT%H%M%SZ}"
    former = [str(folder.rename(folder.with_name(f"{folder.name}.{ending}"))) for folder in folders]
    if not file.exists():
        return "", tuple(former)
    moved = f"{file}.{ending}"
    for side in ("", *SIDES):
        if (beside := Path(f"{file}{side}")).exists():
            beside.rename(f"{moved}{side}")
    return moved, tuple(former)


def _filled(
    paths: Paths,
    storage: StorageSettings,
    also: Callable[[Connection], dict[str, int]],
    told: Callable[[str, int], None],
    *,
    keep: bool,
) -> dict[str, int]:
    """Fill the database from the ledger's file, if there is one, and by ``also``, in one transaction."""
    import psycopg

    from gateway.ledger.postgres.postgres_connection import place
    from gateway.ledger.postgres.postgres_errors import storage_error
    from gateway.ledger.postgres.transfer import from_file, into_database
    from gateway.ledger.snapshot import copy_closed

    url, schema, file = _url(storage), storage.schema_name, paths.state / LEDGER
    if not file.exists():
        try:
            return into_database(url, schema, secrets.token_hex(10), also, keep=keep)
        except psycopg.Error as error:
            raise storage_error(error, place(url, schema)) or error from error
    folder = Path(tempfile.mkdtemp(prefix=".moving-", dir=paths.state))
    try:
        copy = folder / LEDGER
        copy_closed(file, copy)
        return from_file(copy, url, schema, secrets.token_hex(10), told, keep=keep, also=also)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def to_file(
    paths: Paths, storage: StorageSettings, now: datetime, *, dry_run: bool, told: Callable[[str, int], None] = lambda *_: None
) -> Moved:
    """Move ledger, sessions and transcripts from the database of the settings into files. Blocking; the caller holds the state lock.

    No gateway can open the database meanwhile, and nothing is written before it is known that none has it open.

    Raises:
        UsageError: there are such files already, or the settings name no database.
        StorageFailed: it cannot be read or written, or a gateway uses it; nothing is changed then.
    """
    url = _url(storage)
    finish_renames(paths.state)
    file = paths.state / LEDGER
    if file.exists():
        raise UsageError(f"there is a ledger in {file} already", hint=f"Move it away first. {_BACK}")
    if folders := conversations_in_files(paths):
        raise UsageError(f"there are conversations in {folders[0]} already", hint=f"Move the folder away first. {_BACK}")
    from gateway.ledger.postgres import transfer
    from gateway.ledger.postgres.postgres_connection import place
    from gateway.storage.conversation_transfer import into_folders

    unfinished = file.with_name(f".{LEDGER}.moving")
    former = f"{storage.schema_name}_moved_{now:%Y%m%d_%H%M%S}"
    also = partial(into_folders, agents=paths.agents, name=_UNFINISHED, told=told)
    put = partial(_put_in_place, paths, unfinished, file)
    with transfer.held_alone(url, storage.schema_name) as there:
        _clear(paths, unfinished)
        try:
            rows = transfer.to_file(url, storage.schema_name, unfinished, secrets.token_hex(10), told, also=also)
            if not dry_run:
                transfer.rename(there, url, storage.schema_name, former, put)
        finally:
            _clear(paths, unfinished)
    return Moved(rows=rows, source=place(url, storage.schema_name), target=str(file), former="" if dry_run else former)


def _put_in_place(paths: Paths, unfinished: Path, file: Path) -> Callable[[], None]:
    """Give the files their names. Returns what takes them away again, which is done at once where it fails.

    Whoever is killed between this and leaving the database leaves both: then no gateway starts, and moving to PostgreSQL compares them
    and takes the files away.
    """
    put: list[Path] = []

    def undo() -> None:
        for folder in put:
            shutil.rmtree(folder, ignore_errors=True)
        file.unlink(missing_ok=True)

    try:
        for folder in sorted(paths.agents.glob(f"*/{_UNFINISHED}")):
            target = folder.with_name("sessions")
            if target.is_dir():  # it holds no conversations
                target.rename(free_name(target))
            put.append(folder.rename(target))
        unfinished.replace(file)
    except BaseException:  # also when interrupted
        undo()
        raise
    return undo


def free_name(folder: Path) -> Path:
    """Return a name beside a folder that nothing has."""
    return next(one for n in range(1, 1000) if not (one := folder.with_name(f"{folder.name}.before-{n}")).exists())


def _clear(paths: Paths, unfinished: Path) -> None:
    unfinished.unlink(missing_ok=True)
    for folder in paths.agents.glob(f"*/{_UNFINISHED}"):
        shutil.rmtree(folder, ignore_errors=True)


def copy_conversations(storage: StorageSettings, agents: Path) -> bool:
    """Write sessions and transcripts of the database, if the settings name one, as files into ``agents/AGENT/sessions``. Blocking.

    A gateway may run. Returns whether the settings name a database. Raises StorageFailed.
    """
    if storage.url is None:
        return False
    need_driver()
    import psycopg

    from gateway.ledger.postgres.postgres_connection import connected, place
    from gateway.ledger.postgres.postgres_errors import storage_error
    from gateway.storage.conversation_transfer import into_folders

    url = storage.url.get_secret_value()
    try:
        with connected(url, storage.schema_name) as there, there.transaction():
            there.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            into_folders(there, agents, "sessions")
    except psycopg.Error as error:
        where = place(url, storage.schema_name)
        raise storage_error(error, where) or StorageFailed(str(error), where=where) from error
    return True


def _url(storage: StorageSettings) -> str:
    if storage.url is None:
        raise UsageError("the settings name no PostgreSQL database", hint=_SET)
    need_driver()
    return storage.url.get_secret_value()


def server_facts(storage: StorageSettings) -> dict[str, object]:
    """Return what the database of the settings says of itself. Blocking. Raises UsageError, StorageFailed."""
    url = _url(storage)
    import psycopg

    from gateway.ledger.postgres.postgres_connection import connected, place
    from gateway.ledger.postgres.postgres_errors import storage_error
    from gateway.ledger.postgres.postgres_schema import version_of

    where = place(url, storage.schema_name)
    try:
        with connected(url, storage.schema_name) as there:
            size = "SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::bigint FROM pg_class WHERE relnamespace = to_regnamespace(%s)"
            return {
                "server": there.info.parameter_status("server_version"),
                "version": version_of(there, storage.schema_name, where),
                "bytes": int((there.execute(size, (storage.schema_name,)).fetchone() or (0,))[0]),
                "sessions": _count(there, "session"),
                "transcripts": _count(there, "transcript"),
                "readOnly": (there.execute("SHOW transaction_read_only").fetchone() or ("",))[0] == "on",
                "replica": bool((there.execute("SELECT pg_is_in_recovery()").fetchone() or (False,))[0]),
                "missing": _missing(there, storage.schema_name),
            }
    except psycopg.Error as error:
        raise storage_error(error, where) or StorageFailed(str(error), where=where) from error


def _missing(there: Connection, schema: str) -> list[str]:
    """Return the tables that the schema should have and has not, of one that was made."""
    from gateway.ledger.postgres.postgres_schema import version_of
    from gateway.ledger.raw_tables import SHAPES

    if not version_of(there, schema, schema):
        return []
    query = "SELECT table_name FROM information_schema.tables WHERE table_schema = %s"
    found = {row[0] for row in there.execute(query, (schema,)).fetchall()}
    return sorted({*SHAPES, "session", "transcript", "transcript_line"} - found)


def _count(there: Connection, table: str) -> int:
    if (there.execute("SELECT to_regclass(%s)", (table,)).fetchone() or (None,))[0] is None:
        return 0
    return int((there.execute(f"SELECT count(*) FROM {table}").fetchone() or (0,))[0])
