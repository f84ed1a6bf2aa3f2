"""Sessions: the mapping of conversations to transcripts, resets, and the archive."""
