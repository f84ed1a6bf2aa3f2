"""Messages that wait: which of them belong together, and what becomes of them while a turn runs."""
