"""The table of slash commands."""
