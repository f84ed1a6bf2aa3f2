"""The messages that ask an owner: the chunks of a question and its buttons."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from msgspec.structs import replace

from channels.messages import Button, ChatAddress
from channels.protocol import Channel
from gateway.approvals.approval_gate import LIFETIME
from gateway.approvals.record import AskedAct, public_name
from gateway.ledger.rows import NewApproval, NewOutbound
from gateway.logs.secret_filter import SecretFilter


def buttons(question: NewApproval, *, always: bool) -> tuple[Button, ...]:
    """Return the buttons of a question."""
    name = public_name(question)
    once, for_good, deny = (
        Button(label=label, value=f"/approve {name} {word}")
        for label, word in (("✅ Once", "once"), ("♾️ Always", "always"), ("⛔ Deny", "deny"))
    )
    return (once, for_good, deny) if always else (once, deny)


class Asking:
    """Makes the chunks of questions. ``channel`` finds a conversation's channel; ``secret_filter`` removes secrets.

    ``why_not_always`` says why a question cannot be answered with "always"; None: it can. ``home`` is the owner's home folder.
    """

    def __init__(
        self,
        channel: Callable[[ChatAddress], Channel],
        why_not_always: Callable[[NewApproval], str | None],
        secret_filter: SecretFilter | None = None,
        *,
        home: str = "",
    ) -> None:
        self._home = home
        self._channel = channel
        self._why_not_always = why_not_always
        self._secret_filter = secret_filter

    def chunks(self, asked: NewApproval) -> list[NewOutbound]:
        """Return the chunks that ask a question, with its buttons below the last. Their keys let a repeat ask once. Blocking."""
        from gateway.approvals.question import Question, question_text

        about, why_not = AskedAct.decoded(asked.payload), self._why_not_always(asked)
        act = about.act
        if self._secret_filter is not None and act.details:  # before they are shortened, which may cut a secret in two
            act = replace(act, details=self._secret_filter.text(act.details, asked.place.address))
        question = Question(
            name=public_name(asked),
            agent=asked.agent,
            act=act,
            origin=about.origin,
            taint=about.taint,
            reason=about.reason,
            why_not_always=why_not,
            minutes=LIFETIME // timedelta(minutes=1),
        )
        text = question_text(question, home=self._home)
        if self._secret_filter is not None:
            text = self._secret_filter.text(text, asked.place.address)
        pieces = self._channel(asked.place).chunks(text)
        return [
            NewOutbound(
                conversation=asked.place,
                text=piece,
                ttl=LIFETIME,
                key=f"q.{asked.id}.{asked.round}.{n}",
                buttons=buttons(asked, always=why_not is None) if n == len(pieces) - 1 else (),
            )
            for n, piece in enumerate(pieces)
        ]
