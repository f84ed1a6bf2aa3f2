"""Telegram. Only ``settings`` and ``channel`` are light; the other modules load the client library and are imported off the event loop."""
