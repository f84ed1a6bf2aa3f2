"""The agent loop: one turn, its model calls and its tool calls."""
