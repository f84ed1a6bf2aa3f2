"""Markdown to index to hits. This room knows no other room."""
