"""The mark on a message that a person may have read already, for platforms that cannot tell a repeated message from a new one."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from channels.messages import Outbound

REPEATED = "(repeated after restart)\n"
"""Before a message whose earlier attempt was cut off by the end of the process."""
PERHAPS = "(possibly repeated)\n"
"""Before a message whose earlier attempt the same process could not see the end of."""
MARKS = (REPEATED, PERHAPS)


def mark(outbound: Outbound) -> str:
    """Return what goes before the text: nothing for a message that surely did not arrive yet."""
    if not outbound.uncertain:
        return ""
    return REPEATED if outbound.restarted else PERHAPS
