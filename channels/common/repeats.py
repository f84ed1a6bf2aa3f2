"""The mark on a message that may have been delivered already, for platforms that cannot recognise a repeated message."""

from __future__ import annotations

from channels.messages import Outbound

REPEATED = "(repeated after restart)\n"
"""Precedes a message whose earlier attempt was interrupted by the end of the process."""
PERHAPS = "(possibly repeated)\n"
"""Precedes a message whose earlier attempt ended without a known result in this process."""
MARKS = (REPEATED, PERHAPS)


def mark(outbound: Outbound) -> str:
    """Return what precedes the text: nothing for a message that certainly has not arrived yet."""
    if not outbound.uncertain:
        return ""
    return REPEATED if outbound.restarted else PERHAPS
