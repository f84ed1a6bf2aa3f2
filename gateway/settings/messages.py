"""The section ``messages`` of the settings: how the house deals with messages, whatever the channel."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from gateway.settings.block_streaming import BlockSettings
from gateway.settings.group_chat import GroupChatSettings
from gateway.settings.media import AttachmentSettings
from gateway.settings.queue import InboundSettings, QueueSettings
from gateway.settings.section import Section

Reactions = Literal["off", "context", "turn"]
AckScope = Literal["group-mentions", "group-all", "direct", "all", "off"]


class MessagesSettings(Section):
    """Messages, whatever the channel."""

    queue: QueueSettings = QueueSettings()
    """Messages that arrive while their session is at work."""
    attachments: AttachmentSettings = AttachmentSettings()
    """Files that come with messages, and files that an agent sends."""
    block_streaming: BlockSettings = BlockSettings()
    """Words between tools, sent as messages of their own."""
    inbound: InboundSettings = InboundSettings()
    """Messages that one person sends in quick succession."""
    group_chat: GroupChatSettings = GroupChatSettings()
    """How agents are called in groups, and what is kept of what is said there to others."""
    group_commands: dict[str, Literal["owner", "members"]] = Field(default_factory=dict)
    """Who may use commands that change a group's conversation (/new, /stop, /model, /pin and such), by `platform:group id`, `platform` or `*`; the owner alone where nothing is said."""  # noqa: E501
    ack_reaction: Annotated[str, Field(max_length=64)] = "👀"
    """The emoji put under a message that was taken in, on channels that have reactions; empty for none."""
    ack_reaction_scope: AckScope = "group-mentions"
    """Which messages get it: those in groups that mention the agent, all that it hears in groups, private ones, all, or none."""
    remove_ack_after_reply: bool = False
    """Take the emoji off again when the message is answered."""
    reactions: Reactions = "context"
    """What becomes of an emoji that somebody puts under a message: nothing, it is told with the next message, or it is answered."""
    bots_in_a_row: Annotated[int, Field(ge=0, le=1000)] = 4
    """Most messages by programs, where a channel lets them in at all, that are heard in a conversation before a person speaks again."""
