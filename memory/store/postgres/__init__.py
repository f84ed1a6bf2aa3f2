"""The index in PostgreSQL, for all agents in one schema: words by tsvector, vectors by pgvector. Needs psycopg, which is an extra."""
