"""The section ``storage``: where messages and conversations are kept."""

from agent.section import Section
from memory.settings import DatabaseUrl, SchemaName


class StorageSettings(Section):
    """Where messages and conversations are kept (docs/postgresql.md)."""

    url: DatabaseUrl | None = None
    """A PostgreSQL database, as postgresql://USER:PASSWORD@HOST:5432/DATABASE (needs the extra `homebody[postgres]`). Unset: files."""
    schema_name: SchemaName = "homebody"
    """The schema in that database. Each gateway needs one of its own."""
