"""Before and after an update: whether this program can read the state, and a rehearsal on a copy of it."""
