"""Logging: JSON lines in a file, readable lines on the terminal, secrets redacted in both."""
