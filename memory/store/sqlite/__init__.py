"""The index as one SQLite file per agent: words by FTS5, vectors by sqlite-vec or numpy."""
