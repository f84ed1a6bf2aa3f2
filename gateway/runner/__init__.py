"""The runner: a small process that starts the commands of agents and ends them, and the gateway's client for it."""
