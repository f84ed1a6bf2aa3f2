"""The ledger in a PostgreSQL database. Imported only where the settings name one: it needs the extra ``homebody[postgres]``."""
