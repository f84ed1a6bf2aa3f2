"""Outbound pipeline: splitting, redaction and ordered delivery of replies, previews, typing and reactions."""
