"""The files of memory: which they are, how they are read, and the history of their changes."""
