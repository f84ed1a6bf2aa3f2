"""Where the owner asks which agent would answer somebody, and why: what ``homebody route`` asks, in a running gateway or without."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from msgspec.structs import replace

from channels.messages import ChatAddress, Sender
from channels.platform import Policy
from gateway.base.errors import UsageError
from gateway.inbound.authorise import patterns_of
from gateway.routing.access import GROUP_NOT_LISTED, NOT_AMONG_SPEAKERS, Access, Actor, Allowed, Decision, Ignored, Pair
from gateway.routing.group_settings import command_that_lists, commands_that_allow
from gateway.routing.router import Router
from gateway.settings.root import Settings
from memory.audience import Audience


class RouteHandlers:
    """Explains. Changes nothing: a stranger who is asked about gets no pairing code. All answers are JSON values."""

    def __init__(
        self,
        settings: Callable[[], Settings],
        router: Callable[[], Router],
        access: Access,
        policies: Callable[[], Mapping[tuple[str, str], Policy]],
    ) -> None:
        self._settings = settings
        self._router = router
        self._access = access
        self._policies = policies

    def calls(self) -> dict[str, Callable[..., Awaitable[dict[str, Any]]]]:
        """The calls by name, for ``POST /admin/CALL``."""
        return {"route.explain": self.explain}

    async def explain(
        self,
        channel: str,
        peer: str,
        *,
        account: str = "default",
        group: str | None = None,
        thread: str | None = None,
        space: str | None = None,
        chat: str | None = None,
    ) -> dict[str, Any]:
        """Tell what would become of a message by ``peer``: in a ``group``, or in private (in the chat ``chat``, else one of their own id).

        Raises:
            UsageError: there is no such channel.
        """
        policies = self._policies()
        if (channel, account) not in policies:
            known = ", ".join(f"{name}:{one}" for name, one in sorted(policies))
            hint = f"There is: {known}. `homebody channels status` shows each." if known else "`homebody setup` sets one up."
            raise UsageError(f"no channel {channel}:{account} is set up", hint=hint)
        kind, place = ("group", group) if group else ("direct", chat or peer)
        conversation = ChatAddress(channel=channel, account=account, kind=kind, id=place, thread=thread, space=space)  # type: ignore[arg-type]
        sender = Sender(id=peer)
        decision = await self._access.decide(conversation, sender, mentioned=True)
        actor = decision.actor if isinstance(decision, Allowed) else await self._access.who(channel, peer)
        router = self._router()
        agents = router.answering(conversation)
        return {
            "conversation": conversation.address,
            "peer": peer,
            "speaks": _speaks(decision, actor),
            "mend": await self._mend(conversation, policies[channel, account], peer, decision),
            "mention": self._mention(conversation, policies[channel, account], agents),
            "answers": [self._answer(router, agent, conversation, actor) for agent in agents],
            "broadcast": len(agents) > 1,
            "rules": [
                {"rule": f"bindings[{one.place}]", "agent": one.agent, "holds": one.holds, "wins": one.wins, "why": one.why}
                for one in router.weighed(conversation)
            ],
            "default": self._settings().default_agent,
        }

    async def _mend(self, conversation: ChatAddress, policy: Policy, peer: str, decision: Decision) -> list[str]:
        """Return the commands that let somebody speak in a group; none where the settings of its topics or platform decide."""
        section = getattr(self._settings().channels, conversation.channel, None)
        of_account = None if section is None else section.account(conversation.account)
        whole = replace(conversation, thread=None)
        if (
            not isinstance(decision, Ignored)
            or getattr(of_account, "group_policy", "") == "disabled"
            or policy.group(conversation) != policy.group(whole)
        ):
            return []
        speakers = policy.speakers(whole)
        if decision.reason == NOT_AMONG_SPEAKERS:
            return [command_that_lists(whole, [*speakers, peer])]
        if decision.reason != GROUP_NOT_LISTED:
            return []
        owners = await self._access.owner_ids(conversation)
        return list(commands_that_allow(whole, speakers=speakers, owners=owners, listed=policy.group(whole) is not None))

    def _answer(self, router: Router, agent: str, conversation: ChatAddress, actor: Actor) -> dict[str, Any]:
        route = router.route(agent, conversation, actor)
        profile = self._settings().agent(agent)
        return {
            "agent": agent,
            "sessionKey": route.session,
            "memory": route.audience.kind,
            "folder": _folder(route.audience),
            "workspace": str(profile.workspace),
        }

    def _mention(self, conversation: ChatAddress, policy: Policy, agents: tuple[str, ...]) -> dict[str, Any] | None:
        rule = policy.group(conversation) if conversation.kind == "group" else None
        if rule is None:
            return None
        patterns = [pattern for agent in agents for pattern in patterns_of(self._settings(), agent)]
        return {"required": rule.require_mention, "patterns": patterns}


def _speaks(decision: Decision, actor: Actor) -> dict[str, Any]:
    may = isinstance(decision, Allowed)
    reason = "" if may else "a stranger, who is given a pairing code" if isinstance(decision, Pair) else decision.reason  # type: ignore[union-attr]
    return {"may": may, "role": actor.role, "person": actor.person, "reason": reason}


def _folder(audience: Audience) -> str:
    return "memory" if audience.kind == "owner" else str(audience.folder)
