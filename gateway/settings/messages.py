"""The section ``messages``: handling of messages on all channels."""

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
    """Messages on all channels."""

    queue: QueueSettings = QueueSettings()
    """Messages that arrive while their session is busy."""
    attachments: AttachmentSettings = AttachmentSettings()
    """Files received with messages, and files that an agent sends."""
    block_streaming: BlockSettings = BlockSettings()
    """Sending text between tool calls as separate messages."""
    inbound: InboundSettings = InboundSettings()
    """Messages that one person sends in quick succession."""
    group_chat: GroupChatSettings = GroupChatSettings()
    """Mentions in groups, and the history of messages without a mention."""
    group_commands: dict[str, Literal["owner", "members"]] = Field(default_factory=dict)
    """Ids of people who may use commands that change a group's conversation (/new, /stop, /model, /pin and such), by `platform:group id`, `platform` or `*`. Default: only the owner."""  # noqa: E501
    ack_reaction: Annotated[str, Field(max_length=64)] = "👀"
    """Emoji reaction to received messages, on channels with reactions. Empty: none."""
    ack_reaction_scope: AckScope = "group-mentions"
    """Messages that get it: group messages that mention the agent, all group messages it receives, private messages, all, or none."""
    remove_ack_after_reply: bool = False
    """Remove the emoji when the message is answered."""
    reactions: Reactions = "context"
    """What happens when somebody reacts with an emoji: it is ignored, added to the next message, or answered."""
    bots_in_a_row: Annotated[int, Field(ge=0, le=1000)] = 4
    """Maximum number of consecutive messages from bots in a conversation, on channels that accept bots, until a person writes again."""
