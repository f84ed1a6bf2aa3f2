"""Indexing: watches the files, indexes what changed and embeds new chunks."""
