"""Discord. ``settings``, ``channel`` and ``markup`` are light; modules that load the client library say so, and load off the event loop."""
