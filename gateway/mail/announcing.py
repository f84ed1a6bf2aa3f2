"""What becomes of new mail: a notice to the owner without a model, or a message to the agent."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import tzinfo
from typing import TYPE_CHECKING, Final, Protocol

from agent.taint import fenced
from agent.timing import Clock
from channels.common.mail.stored_mail import Summary
from channels.messages import ChatAddress, Inbound, Sender
from gateway.ledger.rows import InboxRow, NewOutbound, Unasked
from gateway.mail import mail_words
from gateway.mail.message_text import MessageTexts
from gateway.mail.watching import NewMail
from gateway.routing.routed_message import Automation
from gateway.routing.router import Route
from gateway.settings.mail_settings import MailAccount
from memory.audience import OWNER

if TYPE_CHECKING:
    Submit = Callable[[Inbound, Route, Automation], Awaitable[InboxRow | None]]

    class QueueNotice(Protocol):
        """Queues a text, and tells the chat's session of it."""

        async def __call__(self, message: NewOutbound, line: str, *, agent: str, sources: Sequence[str]) -> bool:
            """Return whether they are new."""
            ...


MOST_NAMED: Final = 5
"""Mails that a notice to the owner names."""
BEGINNING: Final = 600
"""Characters of a mail that the agent is given at once."""
_INSTRUCTION: Final = "New mail has come. Tell the owner briefly what matters in it, or nothing if nothing does."


class MailAnnouncements:
    """Announces new mail, each once. ``submit`` stores a message for an agent, ``queue`` a notice; both know keys of before.

    ``latest`` is the owner's latest chat with an agent, ``name_at`` the name that stands before its words in a chat that other agents
    answer, whose models are told nothing; ``agent_of`` is the agent of an account, ``unasked`` the rule by which an agent's unasked
    messages wait, ``zone`` the owner's time zone.
    """

    def __init__(
        self,
        *,
        submit: Submit,
        queue: QueueNotice,
        latest: Callable[[str], Awaitable[ChatAddress]],
        name_at: Callable[[str, ChatAddress], str],
        agent_of: Callable[[str], str],
        unasked: Callable[[str, str], Unasked],
        zone: Callable[[str], tzinfo | None],
        clock: Clock,
        texts: MessageTexts | None = None,
    ) -> None:
        self._submit = submit
        self._queue = queue
        self._latest = latest
        self._name_at = name_at
        self._agent_of = agent_of
        self._unasked = unasked
        self._zone = zone
        self._clock = clock
        self._texts = texts or MessageTexts()

    async def announce(self, mail: NewMail, account: MailAccount) -> bool:
        """Announce mails as the account says; return whether they were new.

        Raises:
            StorageFailed: it could not be stored.
        """
        sources = mail_words.sources_of(summary.headers.from_address for _, summary in mail.shown)
        if account.watch == "agent":
            return await self._to_agent(mail, account, sources)
        return await self._to_owner(mail, sources)

    async def _to_owner(self, mail: NewMail, sources: tuple[str, ...]) -> bool:
        agent = self._agent_of(mail.account)
        named = [f"- {_who(summary)}: {summary.headers.subject or '(no subject)'}" for _, summary in mail.shown[-MOST_NAMED:]]
        more = [f"- and {mail.count - len(named)} more"] if mail.count > len(named) else []
        head = f"📬 {mail.count} new mail{'s' if mail.count > 1 else ''} in {mail.account}:"
        place = await self._latest(agent)
        if name := self._name_at(agent, place):
            head = f"{name}: {head}"
        line = "" if name else f"[A notice of new mail for this chat]\n{fenced(self._list(mail, agent), sources)}"
        message = NewOutbound(
            conversation=place,
            text="\n".join([head, *named, *more]),
            ttl=None,
            key=mail.key,
            unasked=self._unasked(agent, mail.account),
        )
        return await self._queue(message, line, agent=agent, sources=sources)

    async def _to_agent(self, mail: NewMail, account: MailAccount, sources: tuple[str, ...]) -> bool:
        agent = self._agent_of(mail.account)
        parts = [self._list(mail, agent)]
        for name, stored in mail.texts:
            text = await self._texts.text_of(stored)
            parts.append(f"{name} begins:\n{text[:BEGINNING]}{'…' if len(text) > BEGINNING else ''}")
        inbound = Inbound(
            conversation=await self._latest(agent),
            sender=Sender(id=f"mail:{mail.account}", name=f"mail {mail.account}"),
            text="\n\n".join(parts),
            at=self._clock.now(),
            key=mail.key,
            alias=mail.key,
            message_id=mail.key,
        )
        automation = Automation(
            origin="webhook",
            name=f"mail {mail.account}",
            source=f"mail:{mail.account}",
            fresh=True,
            daily_usd=account.watch_daily_usd,
            sources=sources,
            instruction=account.watch_instruction or _INSTRUCTION,
        )
        route = Route(agent=agent, session=f"agent:{agent}:hook:mail-{mail.account}", audience=OWNER)
        return await self._submit(inbound, route, automation) is not None

    def _list(self, mail: NewMail, agent: str) -> str:
        lines = [mail_words.listed(summary, name, self._zone(agent)) for name, summary in mail.shown]
        more = [f"and {mail.count - len(lines)} more"] if mail.count > len(lines) else []
        return "\n".join([f"{mail.count} new in the mail account {mail.account}:", *lines, *more])


def _who(summary: Summary) -> str:
    return summary.headers.sender[0].shown if summary.headers.sender else "(no sender)"
