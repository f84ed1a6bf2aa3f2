"""Slack. Only ``settings``, ``channel`` and ``mrkdwn`` are light; the other modules load the client library off the event loop."""
