"""The agent: its loop, its context, its models and its tools. Imports nothing of the other packages but ``memory``."""
