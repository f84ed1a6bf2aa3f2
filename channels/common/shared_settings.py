"""Settings that the sections of all chat platforms have, and the reading of their tokens."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Generic, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from channels.errors import ChannelBroken

if TYPE_CHECKING:
    from pydantic import SecretStr

DEFAULT = "default"
"""The account that a platform's section itself describes."""
A = TypeVar("A", bound="BaseModel")
R = TypeVar("R", bound="GroupSection")

DmPolicy = Literal["pairing", "allowlist", "open", "disabled"]
GroupPolicy = Literal["allowlist", "open", "disabled"]
ReplyToMode = Literal["off", "first", "all"]
Reactions = Literal["off", "own", "all"]


def empty_list() -> list[Any]:
    """Make the default of a field. pydantic looks at a factory's signature, and that of ``list`` takes Python's parser 2 ms."""
    return []


class Section(BaseModel):
    """A part of the settings: camelCase keys; unknown keys are left out, and the reader of the file warns of them."""

    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, frozen=True, extra="ignore", defer_build=True, allow_inf_nan=False
    )

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        """Return itself, as it cannot change: each validation copies the sections that are defaults of others."""
        return self


class BlockCoalescing(Section):
    """How long blocks are gathered before they are sent."""

    idle_ms: Annotated[int, Field(ge=50, le=60_000)] = 1000
    """After so many milliseconds in which nothing more was written, what ends with a sentence is sent, if it is long enough."""
    min_chars: Annotated[int, Field(ge=1, le=4000)] | None = None
    """Letters that a block has at least; unset: as ``blockStreamingChunk`` says, or 1500 on Discord and Slack where that says nothing."""
    max_chars: Annotated[int, Field(ge=100, le=16_000)] | None = None
    """Letters that a block has at most; unset: as many as ``blockStreamingChunk`` says, or room for ``minChars``."""


class GroupTools(Section):
    """Tools in one group. It can only narrow what the agent has: a group gives no rights."""

    allow: tuple[str, ...] = ("*",)
    """Names of tools that may be used here, with `*`, or groups such as `group:memory`."""
    deny: tuple[str, ...] = ()
    """Names of tools that may not be used here, with `*`, or groups; this wins over `allow`."""


class GroupSection(Section):
    """One group, or one server of groups."""

    tools: GroupTools | None = None
    """Which of its tools the agent may use here; all that it has when not set."""
    model: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    """The model that answers here, written as in `agents.defaults.model`; the agent's own when not set. `/model` goes before it."""
    language: Annotated[str, Field(pattern=r"^[^\W\d_][\w -]{1,39}$")] | None = None
    """The language that the agent writes here, such as `de` or `German`; that of the message it answers when not set."""
    welcome: bool | Annotated[str, Field(max_length=2000)] | None = None
    """What the agent says when it is added here: who it is, how to address it and what it keeps (`true`, also when not set), nothing
    (`false`), or a text of yours."""


class DirectMessages(Section):
    """Private messages."""

    enabled: bool = True
    """Whether private messages are read."""
    policy: DmPolicy = "pairing"
    """Who may write in private: those approved after a pairing code, those in `allowFrom` only, everybody if it lists `*`, or nobody."""


class AccountSection(Section):
    """One account on a platform."""

    chunk_mode: Literal["length", "newline"] = "length"
    """Whether a reply is cut only where it is too long, or each of its paragraphs becomes a message."""
    block_streaming: bool | None = None
    """Whether answers are sent in blocks while they are written; as `agents.defaults.blockStreamingDefault` says when not set."""
    block_streaming_coalesce: BlockCoalescing | None = None
    """How long blocks are gathered before they are sent; as `agents.defaults.blockStreamingCoalesce` says when not set."""
    history_limit: Annotated[int, Field(ge=0, le=200)] | None = None
    """How many messages of a group that were not for the agent are kept to be told with the next one that is; as
    `messages.groupChat.historyLimit` says when not set."""


class RoomAccount(AccountSection):
    """One account on a platform of rooms (Matrix), servers (Discord) or channels (Slack).

    Each platform names its places and what a rule of one holds; which rule holds for a place is the same on all.
    """

    group_policy: GroupPolicy = "allowlist"
    """Which groups the agent reads: those that are listed, all that it was added to, or none."""
    reply_to_mode: ReplyToMode = "off"
    """Whether answers are shown as replies to the message that they answer: none, the first part of each, or all parts."""
    reaction_notifications: Reactions = "own"
    """Which emoji under messages the agent is told of: none, those under its own messages, or all."""

    def rule_among(self, rules: Mapping[str, R], place: str, usual: type[R]) -> R | None:
        """Return the rule for a place: its own, that of all others (`*`), or the usual one where all are read; None when it is not read."""
        if self.group_policy == "disabled":
            return None
        found = rules.get(place) or rules.get("*")
        return usual() if found is None and self.group_policy == "open" else found

    def reactions_by(self, own: Reactions | None) -> Reactions:
        """Return which reactions are told in a place whose rule says ``own``."""
        return self.reaction_notifications if own is None else own


class SeveralAccounts(Generic[A]):
    """A section that is the account `default`, and has further accounts by name under ``accounts``.

    ``OWN`` are the fields that an account never takes from the section, ``SECRETS`` those by which the section itself is an account.
    """

    ACCOUNT: ClassVar[type[BaseModel]]
    OWN: ClassVar[tuple[str, ...]]
    SECRETS: ClassVar[tuple[str, ...]]

    def names(self) -> list[str]:
        """Return the names of the enabled accounts that have a token; empty when the platform is off."""
        section: Any = self
        own = any(getattr(section, key) is not None for key in self.SECRETS)
        named = [name for name, account in section.accounts.items() if account.enabled]
        return ([DEFAULT] if own and DEFAULT not in section.accounts else []) + named if section.enabled else []

    def account(self, name: str) -> A:
        """Return the settings in force for an account.

        Raises:
            KeyError: there is no such account.
        """
        section: Any = self
        found: A = laid_over(section, self.ACCOUNT, section.accounts, name, own=self.OWN)
        return found


def laid_over(section: BaseModel, kind: type[A], accounts: Mapping[str, A], name: str, *, own: Collection[str]) -> A:
    """Return the settings in force for an account. What it does not set comes from the section, but never the fields ``own``.

    Raises:
        KeyError: there is no such account.
    """
    shared = {key: getattr(section, key) for key in kind.model_fields}
    if name == DEFAULT and name not in accounts:
        return kind.model_construct(**shared)
    account = accounts[name]
    said = {key: getattr(account, key) for key in account.model_fields_set}
    alone = dict.fromkeys(own) if name != DEFAULT or said.keys() & set(own) else {}
    return kind.model_construct(**{**shared, **alone, **said})


def read_token(token: "SecretStr | None", file: Path | None, *, key: str, file_key: str, hint: str) -> str:
    """Return a token, from the settings or else from its file. ``key`` and ``file_key`` are where the settings name them.

    Raises:
        ChannelBroken: there is none, or the file cannot be read.
    """
    if token is not None and token.get_secret_value().strip():
        return token.get_secret_value().strip()
    if file is None:
        raise ChannelBroken(f"{key} is not set", hint=hint)
    try:
        found = file.expanduser().read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ChannelBroken(f"cannot read {file_key} {file}: {error}", hint=hint) from error
    if not found:
        raise ChannelBroken(f"{file_key} {file} is empty", hint=hint)
    return found
