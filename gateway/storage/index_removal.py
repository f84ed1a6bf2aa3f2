"""Removes the search index of an agent that is not in the settings any more: it holds the words of conversations, too."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from gateway.base.errors import StorageFailed

if TYPE_CHECKING:
    from gateway.base.paths import Paths
    from gateway.settings.root import Settings


def indexes_of(paths: Paths, settings: Settings, agent: str) -> list[str]:
    """Return where there is an index of an agent, in words for people. Blocking. Raises StorageFailed."""
    return _all(paths, settings, agent, delete=False)


def remove_indexes(paths: Paths, settings: Settings, agent: str) -> list[str]:
    """Delete them, and return where they were. Blocking. Raises StorageFailed."""
    return _all(paths, settings, agent, delete=True)


def _all(paths: Paths, settings: Settings, agent: str, *, delete: bool) -> list[str]:
    found = [where for url, schema in sorted(_schemas(settings)) for where in _in_database(url, schema, agent, delete=delete)]
    return [*_files(paths, settings, agent, delete=delete), *found]


def _files(paths: Paths, settings: Settings, agent: str, *, delete: bool) -> list[str]:
    named = settings.agents.defaults.memory_search.store.path
    file = (
        Path(named.replace("{agentId}", agent)).expanduser()
        if named and "{agentId}" in named
        else paths.memory / f"{agent}.sqlite"
    )
    beside = [file, *(Path(f"{file}{end}") for end in ("-wal", "-shm")), *sorted(file.parent.glob(f"{file.name}.broken-*"))]
    there = [one for one in beside if one.is_file()]
    for one in there if delete else ():
        try:
            one.unlink()
        except OSError as error:
            raise StorageFailed.from_os(error, "delete the search index", one) from error
    return [str(file)] if there else []


def _schemas(settings: Settings) -> set[tuple[str, str]]:
    """Return the databases and schemas that the settings name for indexes, of whatever agent."""
    storage = settings.storage
    found = set()
    if storage.url is not None:
        found.add((storage.url.get_secret_value(), f"{storage.schema_name}_memory"))
    memories = [settings.agents.defaults.memory_search, *(settings.agent(one).memory for one in settings.agent_ids)]
    for store in [one.store for one in memories if one.store.driver == "postgres"]:
        url = store.url or storage.url
        if url is not None:
            found.add((url.get_secret_value(), store.schema_name or f"{storage.schema_name}_memory"))
    return found


def _in_database(url: str, schema: str, agent: str, *, delete: bool) -> list[str]:
    from gateway.ledger.open_ledger import need_driver

    need_driver()
    import psycopg

    from gateway.ledger.postgres.postgres_connection import connected, place
    from gateway.ledger.postgres.postgres_errors import storage_error
    from memory.store.postgres.removal import is_indexed, remove_agent

    where = place(url, schema)
    try:
        with connected(url, schema) as there:
            if not is_indexed(there, agent):
                return []
            if delete:
                remove_agent(there, agent)
    except psycopg.Error as error:
        raise storage_error(error, where) or StorageFailed(str(error), where=where) from error
    return [where]
