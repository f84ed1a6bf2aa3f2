"""What one account knows while it runs: when people wrote, what was reported, and the newest messages."""

from __future__ import annotations

from dataclasses import dataclass, field

from channels.common.recent import Recent
from channels.whatsapp.delivery_reports import DeliveryReports
from channels.whatsapp.inbound import QUOTED
from channels.whatsapp.windows import Windows


@dataclass(slots=True)
class AccountMemory:
    """``latest``: the newest message of each conversation. ``texts``: how messages begin. ``ours``: those that this process sent.

    What is in ``Recent`` may be lost; the others store what must not be.
    """

    windows: Windows
    reports: DeliveryReports
    latest: Recent[str, str] = field(default_factory=Recent)
    texts: Recent[str, str] = field(default_factory=Recent)
    ours: Recent[str, bool] = field(default_factory=Recent)

    def note_text(self, message: str, text: str) -> None:
        """Remember what a message says, as far as it is quoted."""
        self.texts.put(message, text[:QUOTED])
