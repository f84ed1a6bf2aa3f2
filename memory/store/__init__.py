"""The search index: derived from the notes and rebuilt from them at any time; one SQLite file per agent, or tables in PostgreSQL."""
