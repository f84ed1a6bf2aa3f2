"""The ledger's SQL as PostgreSQL and psycopg read it."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from gateway.ledger.postgres.cluster_views import EVERYWHERE

_TOKEN: Final = re.compile(r"'(?:[^']|'')*'|::|:([a-z_]+)|\?|%")
"""Texts, which may hold any of the others; casts; parameters by name and by position; percent signs."""
_PHRASES: Final = {
    "SELECT id, min(place) FROM": "SELECT (array_agg(id ORDER BY place, id))[1] AS id FROM",
    " INDEXED BY inbox_waiting": "",
}
"""What is not in the SQL that both share. In SQLite a column beside ``min`` is of the row that has the minimum."""


@lru_cache(maxsize=2000)
def translated(statement: str, *, bound: bool, shared: bool = False) -> str:
    """Return a statement of the ledger for psycopg: ``?`` and ``:name`` as it writes parameters, where values are ``bound``.

    ``shared``: several gateways share the ledger, so that questions about all rows name the views that show all.
    """
    phrases = {**_PHRASES, **EVERYWHERE} if shared else _PHRASES
    for ours, theirs in phrases.items():
        statement = statement.replace(ours, theirs)
    return _TOKEN.sub(_token, statement) if bound else statement


def _token(found: re.Match[str]) -> str:
    text = found[0]
    if text == "?":
        return "%s"
    if found[1] is not None:
        return f"%({found[1]})s"
    return text.replace("%", "%%")
