"""The owner's calls in a cluster: each is answered by the gateway that holds what it is about, or by all of them together."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from inspect import signature
from typing import Any, Final, Protocol, TypeAlias

from gateway.api.forwarding.answer_merging import merged, merged_status
from gateway.api.forwarding.call_table import ROUTES, Each, Holder, agent_of, asks_each, order_of
from gateway.api.forwarding.peers import Elsewhere, Peers, Space
from gateway.base.errors import HolderAway, UsageError, unknown_agent
from gateway.cluster.cells import ACCOUNT, AGENT
from gateway.cluster.directory import Directory, Peer
from gateway.settings.root import Settings

Call: TypeAlias = "Callable[..., Awaitable[Any]]"
EACH_SECONDS: Final = 5.0
"""How long the answers of all gateways may take. Those that are not there by then are named instead."""
AGAIN: Final = "Try again in a moment; who holds what: homebody cluster status"


class Member(Protocol):
    """What is known of this gateway's own part in the cluster."""

    def holds(self, token: str) -> bool:
        """Return whether this gateway works for an agent or account now."""
        ...

    def known(self, token: str) -> bool:
        """Return whether any gateway works for an agent or account, by the settings."""
        ...


class ForwardedCalls:
    """Wraps calls, so that each reaches its holder. Agents are those of ``settings``."""

    def __init__(
        self, directory: Directory, peers: Peers, member: Member, settings: Callable[[], Settings], label: str
    ) -> None:
        self._directory = directory
        self._peers = peers
        self._member = member
        self._settings = settings
        self._label = label

    def around(self, calls: Mapping[str, Call], space: Space = "call") -> dict[str, Call]:
        """Return the same calls for all agents of the cluster."""
        return {name: self._wrapped(name, call, space) if name in ROUTES else call for name, call in calls.items()}

    async def token_of(self, name: str, given: Mapping[str, Any]) -> str:
        """Return what a call is about: an agent or account; "" if that is not known. Raises UsageError for an agent that there is not."""
        route = ROUTES[name]
        assert isinstance(route, Holder)
        value = given.get(route.argument)
        if route.way == "account":
            return f"{ACCOUNT}{value}:{given.get('account') or 'default'}"
        if route.way == "row":
            if route.kind == "session" and agent_of(value):
                return self._agent(agent_of(value))
            wanted = str(value).lstrip("#").casefold().partition("-")[0] if route.kind == "approval" else str(value)
            found = await self._directory.tokens_of(route.kind, wanted)
            if len(found) > 1:
                raise UsageError(
                    f"several agents have a {route.kind} of the name {value!r}", hint="Take one by its id: homebody cron list"
                )
            return found[0] if found else ""
        if route.way == "session":
            return self._agent(agent_of(value))
        return self._agent(value or agent_of(given.get("session")) or self._settings().default_agent)

    async def at(self, token: str, name: str, given: Mapping[str, Any], local: Call, space: Space) -> Any:
        """Make a call where a token is held. A holder that changes meanwhile, or is not reached, is looked up once more.

        Raises:
            HolderAway: nobody holds it, or its holder is not reached.
        """
        why = ""
        for fresh in (False, True):
            if not token or self._member.holds(token) or not self._member.known(token):
                return await local(**given)
            holder = await self.holder(token, fresh=fresh)
            if holder is not None:
                try:
                    return await self._peers.call(holder, space, name, given, token=token)
                except Elsewhere as error:
                    why = str(error)
        raise away(token, why)

    async def holder(self, token: str, *, fresh: bool) -> Peer | None:
        """Return the other gateway that holds a token."""
        standing = await self._directory.standing(fresh=fresh)
        name = standing.holders.get(token)
        return standing.peers.get(name) if name is not None and name != self._directory.own else None

    def _agent(self, agent: object) -> str:
        if agent is None:
            return ""
        known = str(agent).lower()
        if known not in self._settings().agent_ids:
            raise unknown_agent(agent, self._settings().agent_ids)
        return f"{AGENT}{known}"

    def _wrapped(self, name: str, call: Call, space: Space) -> Call:
        async def forwarded(**given: Any) -> Any:
            if asks_each(name, given):
                return await self._of_each(name, given, call, space)
            return await self.at(await self.token_of(name, given), name, given, call, space)

        forwarded.__signature__ = signature(call)  # type: ignore[attr-defined]  # the API checks arguments by it
        return forwarded

    async def _of_each(self, name: str, given: Mapping[str, Any], call: Call, space: Space) -> Any:
        """Return the answers of all gateways as one, with those that did not answer under ``unreached``."""
        peers = [None, *await self._directory.others()]
        wanted = [self._directory.own if peer is None else peer.name for peer in peers]
        each = _places(given, wanted) if name == "sessions.search" else dict.fromkeys(wanted, given)

        async def ask(peer: Peer | None, given: Mapping[str, Any]) -> Any:
            if peer is None:
                return await call(**given)
            async with asyncio.timeout(EACH_SECONDS):
                return await self._peers.call(peer, space, name, given)

        asked = [
            (self._label if peer is None else peer.label, process, asyncio.ensure_future(ask(peer, each[process])))
            for peer, process in zip(peers, wanted, strict=True)
            if process in each
        ]
        await asyncio.gather(*(task for _, _, task in asked), return_exceptions=True)
        return self._together(name, asked)

    def _together(self, name: str, asked: Sequence[tuple[str, str, asyncio.Future[Any]]]) -> Any:
        answers, unreached, refused = [], [], []
        for label, process, task in asked:
            error = task.exception()
            if error is None:
                answers.append((label, process, task.result()))
            elif isinstance(error, Elsewhere | HolderAway | TimeoutError):
                unreached.append(str(error) or f"{label} did not answer within {EACH_SECONDS:g} seconds")
            else:
                refused.append(error)
        route = ROUTES[name]
        if refused and not (isinstance(route, Each) and route.some and answers):
            raise refused[0]
        if name == "status":
            return merged_status([(label, answer) for label, _, answer in answers], unreached)
        answer = merged([one for _, _, one in answers], order_of(name))
        if name == "sessions.search":
            answer["more"] = _further({process: one.get("more") for _, process, one in answers})
        if isinstance(answer, dict) and unreached:
            answer["unreached"] = unreached
        return answer


def away(token: str, why: str) -> HolderAway:
    """Return the error for what nobody holds, or whose holder is not reached (``why``)."""
    kind, _, name = token.partition(":")
    what = f"the {kind} {name}"
    return HolderAway(
        f"{what} is with another gateway: {why}" if why else f"no gateway works for {what} at the moment", hint=AGAIN
    )


def _places(given: Mapping[str, Any], names: list[str]) -> dict[str, Mapping[str, Any]]:
    """Return what each gateway is asked that still has something behind the place ``after``, which ``_further`` made."""
    try:
        after = json.loads(given.get("after") or "null")
    except ValueError:
        after = None
    if not isinstance(after, dict):
        return {name: {**given, "after": ""} for name in names}
    return {name: {**given, "after": str(after[name])} for name in names if after.get(name)}


def _further(more: Mapping[str, Any]) -> str | None:
    """Return the place behind which a search goes on at each gateway."""
    left = {name: place for name, place in more.items() if place}
    return json.dumps(left) if left else None
