"""The section ``channels.matrix`` of the configuration."""

import re
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, SecretStr

from channels.common.shared_settings import (
    DirectMessages,
    GroupPolicy,
    GroupSection,
    Reactions,
    RoomAccount,
    SeveralAccounts,
    empty_list,
    read_token,
)
from channels.errors import ChannelBroken

SET_UP = "homebody setup matrix"
PERSON = r"@[^\s:@]{1,200}:[^\s@]{1,200}"
ROOM = r"![^\s]{1,250}"
_PERSON = re.compile(PERSON)
_ROOM = re.compile(ROOM)


def _person(value: object) -> str:
    text = str(value).strip().removeprefix("matrix:")
    if _PERSON.fullmatch(text) or text == "*":
        return text
    raise ValueError(
        f"{text[:80]!r} is not a Matrix id: give it in full, such as @anna:example.org (display names can be copied)"
    )


def _room(value: object) -> str:
    text = str(value).strip()
    if _ROOM.fullmatch(text) or text == "*":
        return text
    raise ValueError(
        f"{text[:80]!r} is not the id of a room, and an alias can move to another room: give the internal id, which begins with ! "
        "(Element: Room settings, Advanced), or *"
    )


def _homeserver(value: str) -> str:
    if not re.fullmatch(r"https?://[^\s/?#@]+(/[^\s?#]*)?", value.strip()):
        raise ValueError(f"{value[:80]!r} is not the address of a homeserver: give it as https://matrix.example.org")
    return value.strip().rstrip("/")


Person = Annotated[str, BeforeValidator(_person)]
Room = Annotated[str, BeforeValidator(_room)]
Homeserver = Annotated[str, AfterValidator(_homeserver)]


class MatrixDirect(DirectMessages):
    """Private messages: rooms that hold the agent and one person."""

    allow_from: list[Person] = Field(default_factory=empty_list)
    """Full ids (@anna:example.org) of the people who may write without pairing; the first is the owner."""


class MatrixRoomRule(GroupSection):
    """One room. Its threads follow it."""

    allow: bool = True
    """Whether the agent reads this room."""
    require_mention: bool = True
    """Whether it answers only when it is mentioned or replied to."""
    users: list[Person] | None = None
    """Full ids of those who may speak to it here; those in `dm.allowFrom` when not set, nobody when empty."""
    reaction_notifications: Reactions | None = None
    """Which reactions in this room the agent is told of; as the account says when not set."""


class MatrixAccount(RoomAccount):
    """One account on a homeserver."""

    enabled: bool = True
    """Whether this account is used."""
    homeserver: Homeserver | None = None
    """The address of the homeserver, such as https://matrix.example.org."""
    user_id: Person | None = None
    """The account's full id, such as @homebody:example.org. Needed with `password`."""
    password: SecretStr | None = None
    """The account's password. It is used once, to sign in as a device of its own, which is kept in the state folder."""
    access_token: SecretStr | None = None
    """The access token of a device, in place of `password`. Use it for nothing else: two programs with one token lose messages."""
    token_file: Path | None = None
    """A file that holds the access token, in place of `accessToken`."""
    device_name: str = "Homebody"
    """The name of the device, as other people see it, when it signs in by password."""
    encryption: bool = True
    """Whether encrypted rooms are read and written (needs the extra `matrix`). Off: they are left alone, with a line in the log."""
    dm: MatrixDirect = MatrixDirect.model_construct()
    """Private messages."""
    group_policy: GroupPolicy = "allowlist"
    """Which rooms of several people the agent reads: those in `groups`, all that it is in, or none."""
    groups: dict[Room, MatrixRoomRule] = Field(default_factory=dict)
    """Rooms of several people by their internal id (!abc:example.org), or `*` for all others."""
    auto_join: Literal["off", "allowed", "always"] = "allowed"
    """Which invitations are accepted: none, those of the owner and of people who are paired or listed (and, with the policy `pairing`,
    private chats of anybody, so that they can get a code), or all."""
    text_chunk_limit: int = Field(default=4000, ge=200, le=16_000)
    """The longest message that is sent, in letters; longer replies become several messages."""
    allow_bots: bool = False
    """Whether notices, which programs write, are heard, by the same rules as people; the agent never hears itself."""
    read_receipts: bool = True
    """Whether people see that a message was read, which is when the gateway has stored it."""
    media_max_mb: Annotated[float, Field(gt=0, le=500)] | None = None
    """The largest file that is taken or sent, in MB (1,048,576 bytes). When it is not set, files are taken as
    `messages.attachments.maxBytes` says, and sent as the homeserver allows."""
    timeout_seconds: float = Field(default=30, gt=0, le=600)
    """How long one request may take."""
    sync_seconds: float = Field(default=30, ge=0, le=300)
    """How long the homeserver may hold a request for news while there is none."""
    streaming: Literal["off", "edit"] = "edit"
    """Whether an answer that takes longer than three seconds is shown while it is written, by editing its message."""

    def server(self) -> str:
        """Return the address of the homeserver. Raises ChannelBroken if it is not set."""
        if self.homeserver is None:
            raise ChannelBroken("channels.matrix.homeserver is not set", hint=f"run: {SET_UP}")
        return self.homeserver

    def token(self) -> str | None:
        """Return the access token of the settings; None where a password takes its place. Raises ChannelBroken if there is neither."""
        if self.access_token is None and self.token_file is None and self.password is not None:
            return None
        return read_token(
            self.access_token,
            self.token_file,
            key="channels.matrix.accessToken",
            file_key="channels.matrix.tokenFile",
            hint=f"run: {SET_UP}",
        )

    def rule(self, room: str) -> MatrixRoomRule | None:
        """Return the rule for a room of several people, or None when it is not read."""
        return self.rule_among(self.groups, room, MatrixRoomRule)

    def reactions_told(self, room: str) -> Reactions:
        """Return which reactions in a room are told."""
        found = self.groups.get(room) or self.groups.get("*")
        return self.reactions_by(None if found is None else found.reaction_notifications)


class MatrixSettings(MatrixAccount, SeveralAccounts[MatrixAccount]):
    """The account `default`, and further accounts by name."""

    ACCOUNT: ClassVar[type[BaseModel]] = MatrixAccount
    OWN: ClassVar[tuple[str, ...]] = ("access_token", "token_file", "password", "user_id")
    SECRETS: ClassVar[tuple[str, ...]] = ("access_token", "token_file", "password")

    accounts: dict[str, MatrixAccount] = Field(default_factory=dict)
    """Further accounts by name; what one does not set it takes from the section itself, but for the id and the secrets."""
