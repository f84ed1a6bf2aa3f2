"""Where the owner decides who may talk to the agents: what ``homebody pairing`` asks, in a running gateway or without one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from gateway.base.errors import UsageError
from gateway.ledger.pairing_rows import PAIRING_TTL
from gateway.ledger.protocol import Ledger
from gateway.ledger.rows import ApprovedSender, NewOutbound, PairingRequest, Role
from gateway.routing.access import WELCOME_OWNER, Access, digest_of, new_invitation
from gateway.schedules.schedule_words import span_in_words

_WELCOME: Mapping[Role, str] = {
    "owner": WELCOME_OWNER,
    "peer": "You may talk to me now.",
}


class PairingHandlers:
    """Lists, lets in, and shuts out. All answers are JSON values."""

    def __init__(self, ledger: Ledger, access: Access) -> None:
        self._ledger = ledger
        self._access = access

    def calls(self) -> dict[str, Callable[..., Awaitable[dict[str, Any]]]]:
        """The calls by name, for ``POST /admin/CALL``."""
        return {
            "pairing.list": self.list,
            "pairing.approve": self.approve,
            "pairing.revoke": self.revoke,
            "pairing.invite": self.invite,
            "pairing.invitation": self.invitation,
        }

    async def list(self, channel: str | None = None) -> dict[str, Any]:
        """Tell who asks to be let in and who was, on one channel or all."""
        approved = await self._ledger.pairing.approved()
        return {
            "pending": [
                _request(one) for one in await self._ledger.pairing.pending() if channel is None or one.channel == channel
            ],
            "approved": [self._guest(one, approved) for one in approved if channel is None or one.channel == channel],
        }

    async def approve(self, channel: str, code: str, *, owner: bool = False) -> dict[str, Any]:
        """Let the person with this code in: as the owner when there is none yet or ``owner`` says so, otherwise as a guest.

        A guest has a session and a memory folder of their own; the owner is told in their own chat.
        Raises UsageError when no such request is open.
        """
        channel, code = channel.strip().lower(), code.strip().upper()
        pending = await self._ledger.pairing.pending()
        request = next((one for one in pending if (one.channel, one.code) == (channel, code)), None)
        if request is None:
            raise UsageError(f"no open pairing request on {channel} has the code {code}", hint=_hint(channel, pending))
        before = await self._ledger.pairing.approved()
        owners = self._access.owners(before)
        is_owner = owner or not owners or self._access.person(channel, request.sender) in owners
        role: Role = "owner" if is_owner else "peer"
        found = await self._ledger.pairing.approve(channel, code, role, _WELCOME[role])
        if found is None:
            raise UsageError("the request expired just now", hint="Let them write again; they get a new code.")
        if role == "peer":
            await self._tell_owner(found, before)
        return {"approved": self._guest(found, await self._ledger.pairing.approved())}

    async def invite(self, channel: str, account: str = "default") -> dict[str, Any]:
        """Make a code for the owner: whoever sends it to the bot in private within ``PAIRING_TTL`` is the owner there, once."""
        code = new_invitation()
        expires = await self._ledger.pairing.invite(channel, account, digest_of(code))
        return {"channel": channel, "account": account, "code": code, "expiresAt": expires.isoformat(timespec="seconds")}

    async def invitation(self, channel: str, account: str = "default") -> dict[str, Any]:
        """Tell whether the code of an account was used, and by whom."""
        found = await self._ledger.pairing.invitation(channel, account)
        approved = await self._ledger.pairing.approved()
        by = next(
            (one for one in approved if found and (one.channel, one.account, one.sender) == (channel, account, found.by)), None
        )
        return {"open": found is not None and found.by is None, "owner": self._guest(by, approved) if by else None}

    async def revoke(self, channel: str, sender: str) -> dict[str, Any]:
        """Shut a person out again. Raises UsageError for one who was never let in by a code."""
        before = await self._ledger.pairing.approved()
        gone = await self._ledger.pairing.revoke(channel.strip().lower(), sender.strip())
        if not gone:
            hint = "`homebody pairing list` shows who was. People in allowFrom are removed in the settings."
            raise UsageError(f"nobody with the id {sender} was let in on {channel}", hint=hint)
        left = self._access.owners(await self._ledger.pairing.approved())
        return {"revoked": [self._guest(one, before) for one in gone], "ownersLeft": len(left)}

    async def _tell_owner(self, guest: ApprovedSender, before: Sequence[ApprovedSender]) -> None:
        owner = next((one for one in before if one.role == "owner"), None)
        if owner is not None:
            text = (
                f"{guest.name or guest.sender} ({guest.channel} {guest.sender}) may talk to me now, as a guest: "
                "in a session of their own, and without sight of your notes."
            )
            await self._ledger.outbox.enqueue([NewOutbound(conversation=replace(owner.conversation, thread=None), text=text)])

    def _guest(self, one: ApprovedSender, approved: Sequence[ApprovedSender]) -> dict[str, Any]:
        person = self._access.person(one.channel, one.sender)
        return {
            "channel": one.channel,
            "account": one.account,
            "sender": one.sender,
            "name": one.name,
            "role": "owner" if person in self._access.owners(approved) else one.role,
            "approvedAt": one.approved_at.isoformat(timespec="seconds"),
        }


def _request(one: PairingRequest) -> dict[str, Any]:
    return {
        "channel": one.channel,
        "account": one.account,
        "sender": one.sender,
        "name": one.name,
        "code": one.code,
        "requestedAt": one.requested_at.isoformat(timespec="seconds"),
        "expiresAt": one.expires.isoformat(timespec="seconds"),
    }


def _hint(channel: str, pending: Sequence[PairingRequest]) -> str:
    open_here = sorted({one.channel for one in pending})
    if channel in open_here:
        return "Look at the code again: `homebody pairing list` shows the open ones."
    if open_here:
        return f"Requests are open on {', '.join(open_here)}: `homebody pairing list` shows them."
    lifetime = span_in_words(int(PAIRING_TTL.total_seconds()))
    return f"None is open now; a code is good for {lifetime}. Write to the bot again to get a new one."
