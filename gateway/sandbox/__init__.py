"""Confinement of commands: what the processes that an agent starts may see, change and reach."""
