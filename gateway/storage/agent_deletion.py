"""Deletes the conversations of an agent that is not in the settings any more, wherever they are kept."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from msgspec import Struct

from gateway.base.errors import StorageFailed

if TYPE_CHECKING:
    from gateway.base.paths import Paths
    from gateway.settings.storage_settings import StorageSettings


class Kept(Struct, frozen=True):
    """What there is of an agent: its sessions and transcripts, and where they are in words."""

    sessions: int
    transcripts: int
    where: str


def kept_of(paths: Paths, storage: StorageSettings, agent: str) -> Kept:
    """Return what is kept of an agent. Blocking. Raises StorageFailed."""
    return _of(paths, storage, agent, delete=False)


def forget(paths: Paths, storage: StorageSettings, agent: str) -> Kept:
    """Delete it, and return what it was. Blocking. Raises StorageFailed."""
    return _of(paths, storage, agent, delete=True)


def _of(paths: Paths, storage: StorageSettings, agent: str, *, delete: bool) -> Kept:
    if storage.url is not None:
        return _in_database(storage.url.get_secret_value(), storage.schema_name, agent, delete=delete)
    folder = paths.sessions(agent)
    transcripts = sum(1 for path in folder.glob("**/*.jsonl*") if path.is_file()) if folder.is_dir() else 0
    if delete and folder.is_dir():
        try:
            shutil.rmtree(folder)
        except OSError as error:
            raise StorageFailed.from_os(error, "delete the conversations", folder) from error
    return Kept(transcripts, transcripts, str(folder))


def _in_database(url: str, schema: str, agent: str, *, delete: bool) -> Kept:
    from gateway.ledger.open_ledger import need_driver

    need_driver()
    import psycopg

    from gateway.ledger.postgres.postgres_connection import connected, place
    from gateway.ledger.postgres.postgres_errors import storage_error

    where = place(url, schema)
    words = ("DELETE FROM session WHERE agent = %s", "DELETE FROM transcript WHERE agent = %s")
    counts = ("SELECT count(*) FROM session WHERE agent = %s", "SELECT count(*) FROM transcript WHERE agent = %s")
    try:
        with connected(url, schema) as there, there.transaction():
            if there.execute("SELECT to_regclass('transcript')").fetchone() == (None,):
                return Kept(0, 0, where)
            sessions, transcripts = (int((there.execute(one, (agent,)).fetchone() or (0,))[0]) for one in counts)
            if delete:
                for one in words:
                    there.execute(one, (agent,))
    except psycopg.Error as error:
        raise storage_error(error, where) or StorageFailed(str(error), where=where) from error
    return Kept(sessions, transcripts, where)
