"""The search index: one SQLite file per agent, derived from the notes and rebuilt from them at any time."""
