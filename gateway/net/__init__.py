"""HTTP requests to addresses that somebody else chose: the guarded fetcher."""
