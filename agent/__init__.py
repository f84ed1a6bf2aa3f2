"""One turn of one agent: what it sees, what it does, what it remembers. This room knows ``memory`` and nothing else."""
