"""The gateway: the process that connects channels, agents and memory; the only package that imports all the others."""
