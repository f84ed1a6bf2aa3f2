"""Tells the owner of channels in which the app is mentioned and that the settings do not list, with the command that lists each."""

from __future__ import annotations

from channels.common.log import Log
from channels.slack.settings import SlackAccount

MOST = 1000
"""Channels that are remembered as told."""


class UnreadChannels:
    """Logs each channel once."""

    def __init__(self, settings: SlackAccount, account: str, log: Log) -> None:
        self._settings = settings
        self._account = account
        self._log = log
        self._told: set[str] = set()

    def mentioned(self, channel: str) -> None:
        """Tell of a mention in a channel that is not read."""
        if channel in self._told or len(self._told) >= MOST or self._settings.reads(channel):
            return
        self._told.add(channel)
        key = "channels.slack" + ("" if self._account == "default" else f".accounts.{self._account}")
        listing = f"homebody config set {key}.channels.{channel}.allow true"
        self._log.warning(
            "the app was mentioned in a channel that is not read",
            channel=channel,
            hint="" if self._settings.group_policy == "disabled" else listing,
            account=self._account,
        )
