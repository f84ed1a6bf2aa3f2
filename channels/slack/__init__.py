"""Slack. Modules that load the client library say so; they are imported off the event loop. The others are light."""
