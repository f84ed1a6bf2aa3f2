"""A lock in the database, for files that gateways of a cluster share: locks of a network file system are no protection between machines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from gateway.base.errors import StorageFailed
from gateway.settings.storage_settings import StorageSettings

SECONDS: Final = 5
"""How long another one may have it, and how long whoever has it may stand still before it is taken from them."""


@contextmanager
def database_lock(storage: StorageSettings, name: str) -> Iterator[Callable[[], None]]:
    """Hold the lock ``name``. Blocking. Yields what is called right before something is written: it raises when the lock was lost.

    Raises:
        StorageFailed: the database does not answer, or somebody else has the lock for too long.
    """
    import psycopg

    assert storage.url is not None
    options = f"-c lock_timeout={SECONDS}s -c idle_in_transaction_session_timeout={SECONDS}s"
    try:
        with psycopg.connect(storage.url.get_secret_value(), options=options, connect_timeout=SECONDS) as connection:
            connection.execute(
                "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (f"homebody {name} {storage.schema_name}",)
            )
            yield lambda: _look(connection)
    except psycopg.Error as error:
        said = str(error).strip()
        raise StorageFailed(f"the other gateways cannot be locked out: {said}", hint="Look whether PostgreSQL runs.") from error


def _look(connection: object) -> None:
    connection.execute("SELECT 1")  # type: ignore[attr-defined]  # psycopg is imported where it is used
