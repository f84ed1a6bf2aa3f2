"""Moves the ledger between its file and PostgreSQL, while no gateway runs. Nothing is deleted: what was left gets another name."""

from __future__ import annotations

import secrets
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from gateway.base.errors import StorageFailed, UsageError
from gateway.ledger.storage import LEDGER, need_driver
from gateway.settings.storage import StorageSettings

_SET: Final = "Name one first, as postgresql://USER:PASSWORD@HOST/DATABASE: homebody config set storage.url"


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """What was moved: the rows by table, from where and to where, and what the former place is called now ("" after a trial)."""

    rows: dict[str, int]
    source: str
    target: str
    former: str = ""


def to_postgres(
    state: Path, storage: StorageSettings, now: datetime, *, dry_run: bool, told: Callable[[str, int], None] = lambda *_: None
) -> Moved:
    """Move the ledger from its file into the database of the settings. Blocking; the caller holds the state lock.

    Raises:
        UsageError: there is no such file, or the settings name no database.
        StorageFailed: it cannot be read or written, or the database holds a ledger already; nothing is changed then.
    """
    url = _url(storage)
    file = state / LEDGER
    if not file.exists():
        raise UsageError(f"there is no ledger in {file}", hint="The gateway makes a new one in PostgreSQL when it starts.")
    from gateway.ledger.postgres.database import place
    from gateway.ledger.postgres.transfer import from_file
    from gateway.ledger.snapshot import copy_closed

    folder = Path(tempfile.mkdtemp(prefix=".moving-", dir=state))
    try:
        copy = folder / LEDGER
        copy_closed(file, copy)
        rows = from_file(copy, url, storage.schema_name, secrets.token_hex(10), told, keep=not dry_run)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    former = file.with_name(f"{LEDGER}.moved-{now:%Y%m%dT%H%M%SZ}")
    if not dry_run:
        for side in ("-wal", "-shm", "-open"):
            if (beside := Path(f"{file}{side}")).exists():
                beside.rename(f"{former}{side}")
        file.rename(former)
    return Moved(rows=rows, source=str(file), target=place(url, storage.schema_name), former="" if dry_run else str(former))


def to_file(
    state: Path, storage: StorageSettings, now: datetime, *, dry_run: bool, told: Callable[[str, int], None] = lambda *_: None
) -> Moved:
    """Move the ledger from the database of the settings into its file. Blocking; the caller holds the state lock.

    Raises:
        UsageError: there is such a file already, or the settings name no database.
        StorageFailed: it cannot be read or written; nothing is changed then.
    """
    url = _url(storage)
    file = state / LEDGER
    if file.exists():
        raise UsageError(f"there is a ledger in {file} already", hint="Move it away first.")
    from gateway.ledger.postgres import transfer
    from gateway.ledger.postgres.database import place

    unfinished = file.with_name(f".{LEDGER}.moving")
    unfinished.unlink(missing_ok=True)
    former = f"{storage.schema_name}_moved_{now:%Y%m%d_%H%M%S}"
    try:
        rows = transfer.to_file(url, storage.schema_name, unfinished, secrets.token_hex(10), told)
        if not dry_run:
            unfinished.replace(file)  # with both, no gateway starts
            try:
                transfer.rename(url, storage.schema_name, former)
            except BaseException:  # also when interrupted: with both, no gateway starts
                file.unlink()
                raise
    finally:
        unfinished.unlink(missing_ok=True)
    return Moved(rows=rows, source=place(url, storage.schema_name), target=str(file), former="" if dry_run else former)


def _url(storage: StorageSettings) -> str:
    if storage.url is None:
        raise UsageError("the settings name no PostgreSQL database", hint=_SET)
    need_driver()
    return storage.url.get_secret_value()


def server_facts(storage: StorageSettings) -> dict[str, object]:
    """Return what the database of the settings says of itself. Blocking. Raises UsageError, StorageFailed."""
    url = _url(storage)
    import psycopg

    from gateway.ledger.postgres.database import connected, place
    from gateway.ledger.postgres.failures import storage_error
    from gateway.ledger.postgres.schema import version_of

    where = place(url, storage.schema_name)
    try:
        with connected(url, storage.schema_name) as there:
            size = "SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::bigint FROM pg_class WHERE relnamespace = to_regnamespace(%s)"
            return {
                "server": there.info.parameter_status("server_version"),
                "version": version_of(there, storage.schema_name, where),
                "bytes": int((there.execute(size, (storage.schema_name,)).fetchone() or (0,))[0]),
            }
    except psycopg.Error as error:
        raise storage_error(error, where) or StorageFailed(str(error), where=where) from error
