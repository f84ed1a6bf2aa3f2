"""Discord. Only ``settings``, ``channel`` and ``markup`` are light; the other modules load the client library off the event loop."""
