"""What becomes of a call of a hook: a message for its agent, or a text that is sent without a model."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from agent.taint import fenced, source
from agent.timing import Clock
from channels.messages import ChatAddress, Inbound, Sender
from channels.silent import silent_place
from gateway.agents.session_contexts import main_key
from gateway.hooks.refusal import HookRefused
from gateway.ledger.hook_rows import LATEST, NOWHERE, Hook
from gateway.ledger.rows import InboxRow, NewOutbound, Unasked
from gateway.routing.routed_message import Automation
from gateway.routing.router import Route
from memory.audience import OWNER, Audience

if TYPE_CHECKING:
    from gateway.hooks.payload import Payload

    Submit = Callable[[Inbound, Route, Automation], Awaitable[InboxRow | None]]

    class Announce(Protocol):
        """Queues a text, and tells the chat's session of it."""

        async def __call__(self, message: NewOutbound, line: str, *, agent: str, sources: Sequence[str]) -> bool:
            """Return whether they are new."""
            ...


NOT_TO_OTHERS: Final = "your main conversation cannot be answered to others"
_ISOLATED: Final = "Give it a conversation of its own: homebody hooks change {name} --session isolated"
NO_BODY: Final = "(the call had no body)"


class HookMessages:
    """Implements ``HookTarget``.

    ``submit`` stores a message for an agent and returns None if its key is known; ``announce`` queues a text and a line that tells the
    chat's session of it, with the sources of untrusted words in it, and returns whether they are new. ``latest`` is the owner's latest
    chat with an agent, ``name_at`` the name that stands before its words in a chat that other agents answer, whose models are told nothing;
    ``audience`` is who reads what an agent says in a conversation. ``agents`` are those there are; ``unasked`` returns the rule by
    which a hook's texts wait for the end of quiet hours; ``tell`` sends the owner a line.
    """

    def __init__(
        self,
        *,
        submit: Submit,
        announce: Announce,
        latest: Callable[[str], Awaitable[ChatAddress]],
        name_at: Callable[[str, ChatAddress], str],
        audience: Callable[[str, ChatAddress], Awaitable[Audience]],
        agents: Callable[[], Collection[str]],
        unasked: Callable[[Hook], Unasked],
        tell: Callable[[str], None],
        clock: Clock,
    ) -> None:
        self._submit = submit
        self._announce = announce
        self._latest = latest
        self._name_at = name_at
        self._audience = audience
        self._agents = agents
        self._unasked = unasked
        self._tell = tell
        self._told: set[str] = set()
        self._clock = clock

    async def take(self, hook: Hook, call: str, payload: Payload) -> bool:
        """See the protocol."""
        from gateway.hooks.template import render

        if hook.agent not in self._agents():
            hint = f"homebody hooks show {hook.name}"
            if hook.id not in self._told:
                self._told.add(hook.id)
                why = f"The webhook {hook.name} was called, but its agent {hook.agent!r} was removed."
                self._tell(f"⚠️ {why} Remove the webhook too: homebody hooks remove {hook.name}")
            raise HookRefused(409, "agent-gone", f"the agent {hook.agent!r} of this hook was removed", hint)
        key = session_of(hook)
        place = await self._place(hook)
        audience = await self._audience(hook.agent, place)
        if hook.rules.kind == "prompt" and hook.rules.session == "main" and audience != OWNER:
            if hook.id not in self._told:
                self._told.add(hook.id)
                self._tell(
                    f"⚠️ The webhook {hook.name} was called and not taken: {NOT_TO_OTHERS}. {_ISOLATED.format(name=hook.name)}"
                )
            raise HookRefused(409, "others-would-read", NOT_TO_OTHERS, _ISOLATED.format(name=hook.name))
        if hook.rules.kind == "message":
            text = render(hook.rules.text, payload)
            sources = [source("webhook", hook.name)]
            name = self._name_at(hook.agent, place)
            line = "" if name else f"[A text of the webhook “{hook.name}” for this chat]\n{fenced(text, sources)}"
            text = f"{name}: {text}" if name else text
            unasked = None if hook.rules.urgent else self._unasked(hook)
            message = NewOutbound(conversation=place, text=text, ttl=None, key=call, unasked=unasked)
            return await self._announce(message, line, agent=hook.agent, sources=sources)
        inbound = Inbound(
            conversation=place,
            sender=Sender(id=f"hook:{hook.name}", name=hook.name),
            text=payload.text or NO_BODY,
            at=self._clock.now(),
            key=call,
            alias=call,
            message_id=call,
        )
        route = Route(agent=hook.agent, session=key, audience=audience)
        return await self._submit(inbound, route, automation_of(hook)) is not None

    async def _place(self, hook: Hook) -> ChatAddress:
        if hook.rules.deliver == NOWHERE:
            return silent_place(session_of(hook))
        return await self._latest(hook.agent) if hook.rules.deliver == LATEST else ChatAddress.parse(hook.rules.deliver)


def session_of(hook: Hook) -> str:
    """Return the key of the session in which a hook's turns run."""
    return main_key(hook.agent) if hook.rules.session == "main" else f"agent:{hook.agent}:hook:{hook.name}"


def automation_of(hook: Hook) -> Automation:
    """Return the rules of the turns of a hook. Its body is untrusted, its instruction the owner's."""
    rules = hook.rules
    return Automation(
        origin="webhook",
        name=hook.name,
        source=f"hook:{hook.name}",
        fresh=rules.session == "isolated",
        model=rules.model,
        allow=rules.allow,
        deny=rules.deny,
        daily_usd=rules.daily_usd,
        daily_tokens=rules.daily_tokens,
        urgent=rules.urgent,
        sources=(source("webhook", hook.name),),
        instruction=rules.text,
    )
