"""The section ``messages``: queue, files, mentions and reactions on all channels."""

from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

from pydantic import BeforeValidator, Field

from agent.section import Section
from channels.messages import ChatAddress
from gateway.settings.block_streaming import BlockSettings
from gateway.settings.media_settings import TtsSettings
from gateway.settings.mention_patterns import Pattern

if TYPE_CHECKING:
    from gateway.settings.root import ChannelsSettings

Reactions = Literal["off", "context", "turn"]
AckScope = Literal["group-mentions", "group-all", "direct", "all", "off"]

MOST_PATTERNS = 20

QueueMode = Literal["collect", "steer", "followup", "interrupt"]
MODES: tuple[str, ...] = get_args(QueueMode)
OLDER_NAMES = {"queue": "steer", "steer-backlog": "steer", "steer+backlog": "steer"}
"""Accepted aliases of the modes."""

MB = 1024 * 1024


class AttachmentSettings(Section):
    """Files received with messages, and files that an agent sends."""

    max_bytes: Annotated[int, Field(ge=0, le=100 * MB)] = 20 * MB
    """Maximum size of a received or sent file, in bytes. 0: no files."""
    max_count: Annotated[int, Field(ge=0, le=100)] = 10
    """Maximum number of files downloaded per message. The agent is told the names of the others."""
    total_bytes: Annotated[int, Field(ge=0)] = 50 * MB
    """Maximum total size of the files downloaded per message, in bytes."""
    inline_chars: Annotated[int, Field(ge=0, le=200_000)] = 8000
    """Characters of a received text file that are added to the message; the model can read the rest from the file."""
    keep_days: Annotated[int, Field(ge=0)] = 30
    """Days after which received files are deleted from the ``inbox`` folders. 0: never."""
    keep_bytes: Annotated[int, Field(ge=0)] = 2048 * MB
    """Maximum total size of an agent's ``inbox`` folders in bytes; beyond it the oldest files are deleted. 0: unlimited."""


def largest_file(channels: "ChannelsSettings", place: ChatAddress) -> int | None:
    """Return ``mediaMaxMb`` of the conversation's account, or of its channel, in bytes."""
    said: float | None = getattr(channels.account(place.channel, place.account), "media_max_mb", None)
    return None if said is None else int(said * MB)


def _by_older_name(value: Any) -> Any:
    return OLDER_NAMES.get(value, value) if isinstance(value, str) else value


Mode = Annotated[QueueMode, BeforeValidator(_by_older_name)]
Milliseconds = Annotated[int, Field(ge=0, le=60_000)]


class QueueSettings(Section):
    """What happens to messages that arrive while their session is busy. None is dropped."""

    mode: Mode = "collect"
    """``collect``: answer waiting messages together in the next turn. ``steer``: add them to the running turn between tool calls. ``followup``: one turn for each. ``interrupt``: stop the running turn."""  # noqa: E501
    by_channel: dict[str, Mode] = Field(default_factory=dict)
    """Mode by channel, such as ``{discord: steer}``. ``/queue`` in a conversation takes precedence."""
    debounce_ms: Milliseconds = 500
    """Milliseconds without a new message before waiting messages are answered together."""
    debounce_ms_by_channel: dict[str, Milliseconds] = Field(default_factory=dict)
    """The same by channel, in milliseconds."""
    cap: Annotated[int, Field(ge=1, le=1000)] = 20
    """Maximum number of messages answered in one turn; further ones are answered in the next turn."""
    drop: Literal["none", "old", "new", "summarize"] = "none"
    """Accepted for compatibility but ignored: messages beyond ``cap`` wait and are never dropped."""

    def mode_on(self, channel: str) -> QueueMode:
        """Return the mode on a channel."""
        return self.by_channel.get(channel, self.mode)

    def quiet_on(self, channel: str) -> float:
        """Return the debounce time of a channel in seconds."""
        return self.debounce_ms_by_channel.get(channel, self.debounce_ms) / 1000


class InboundSettings(Section):
    """Messages that one person sends in quick succession."""

    debounce_ms: Milliseconds = 0
    """Texts of one person within this many milliseconds of each other are joined and answered as one. 0: off."""
    by_channel: dict[str, Milliseconds] = Field(default_factory=dict)
    """The same by channel, in milliseconds, such as ``{telegram: 1500}``."""

    def within(self, channel: str) -> float:
        """Return the time of a channel in seconds."""
        return self.by_channel.get(channel, self.debounce_ms) / 1000


class CallSettings(Section):
    """How one agent is mentioned in groups."""

    mention_patterns: Annotated[tuple[Pattern, ...], Field(max_length=MOST_PATTERNS)] | None = None
    """Regular expressions, ignoring case, that count as a mention. Unset: those of ``messages.groupChat``, else the agent's name."""


class GroupChatSettings(CallSettings):
    """Groups on all channels."""

    history_limit: Annotated[int, Field(ge=0, le=200)] = 20
    """Number of earlier group messages without a mention that are added to the next one with a mention. 0: none."""


class MessagesSettings(Section):
    """Messages on all channels."""

    queue: QueueSettings = QueueSettings.model_construct()
    """Messages that arrive while their session is busy."""
    attachments: AttachmentSettings = AttachmentSettings.model_construct()
    """Files received with messages, and files that an agent sends."""
    block_streaming: BlockSettings = BlockSettings.model_construct()
    """Sending text between tool calls as separate messages."""
    inbound: InboundSettings = InboundSettings.model_construct()
    """Messages that one person sends in quick succession."""
    group_chat: GroupChatSettings = GroupChatSettings.model_construct()
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
    tts: TtsSettings = TtsSettings.model_construct()
    """Answers as voice messages."""
    response_prefix: Annotated[str, Field(max_length=200)] | None = None
    """What each answer on a chat platform begins with; `{agent}` stands for the agent's name, and `auto` for `[name]`. Unset: nothing, or the name where several agents answer."""  # noqa: E501
    bots_in_a_row: Annotated[int, Field(ge=0, le=1000)] = 4
    """Maximum number of consecutive messages from bots in a conversation, on channels that accept bots, until a person writes again."""
