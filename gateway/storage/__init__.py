"""Where the state is kept: the ledger, sessions and transcripts, in files or in PostgreSQL."""
