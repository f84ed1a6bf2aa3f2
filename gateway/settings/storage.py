"""The section ``storage``: where messages and conversations are kept."""

from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, SecretStr

from agent.section import Section


def _address(url: SecretStr) -> SecretStr:
    try:
        parts = urlsplit(url.get_secret_value())
        readable = parts.scheme in {"postgresql", "postgres"} and bool(parts.path.strip("/")) and (parts.port or 0) >= 0
    except ValueError:
        readable = False
    if not readable:
        address = "postgresql://USER:PASSWORD@HOST:5432/DATABASE"
        raise ValueError(f"is no address of PostgreSQL: write {address}, with %2F for / and %23 for # in a password")
    return url


class StorageSettings(Section):
    """Where messages and conversations are kept (docs/postgresql.md)."""

    url: Annotated[SecretStr, AfterValidator(_address)] | None = None
    """A PostgreSQL database, as postgresql://USER:PASSWORD@HOST:5432/DATABASE (needs the extra `homebody[postgres]`). Unset: files."""
    schema_name: Annotated[str, Field(pattern=r"^[a-z_][a-z0-9_]{0,39}$")] = "homebody"
    """The schema in that database. Each gateway needs one of its own."""
