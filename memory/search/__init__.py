"""Search: a query, its candidates from the index, their ranking and the passages that are returned."""
