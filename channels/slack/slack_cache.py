"""What one app remembers of its conversations while it runs. Everything is bounded and may be lost."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from channels.common.recent import Recent

if TYPE_CHECKING:
    from channels.slack.assistant import AssistantThread

PLACE = tuple[str, str]
"""A channel, and the time stamp of a message in it."""


@dataclass(slots=True)
class SlackCache:
    """What outlives a connection.

    ``dms``: the private channel of each person. ``threads``: the thread that a message of ours is in ("" for none). ``starters``: what
    the messages say that a thread may begin with. ``fresh``: the messages that were new to this process. ``names``: what people are
    called. ``writers``: who wrote last in a conversation, by its address. ``former``: the id that a group had before Slack gave it
    another. ``commands``: the names that the gateway offered for a menu. ``assistant``: the threads of the side panel.
    """

    dms: dict[str, str] = field(default_factory=dict)
    threads: Recent[PLACE, str] = field(default_factory=Recent)
    starters: Recent[PLACE, str] = field(default_factory=Recent)
    fresh: Recent[PLACE, bool] = field(default_factory=Recent)
    names: Recent[str, str] = field(default_factory=Recent)
    writers: Recent[str, str] = field(default_factory=Recent)
    former: dict[str, str] = field(default_factory=dict)
    commands: frozenset[str] = frozenset()
    assistant: Recent[PLACE, AssistantThread] = field(default_factory=Recent)
