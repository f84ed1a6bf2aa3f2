"""Tool rules of groups, found by session key."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from agent.tool_settings import ToolRules
from channels.messages import ChatAddress
from channels.platform import GroupRule, Policy
from gateway.sessions.record import SessionRecord


class GroupToolRules:
    """Asks the policies in force. ``formers`` gives a conversation under the ids that its group had before."""

    def __init__(
        self,
        policies: Callable[[], Mapping[tuple[str, str], Policy]],
        formers: Callable[[ChatAddress], Sequence[ChatAddress]] = lambda _: (),
    ) -> None:
        self._policies = policies
        self._formers = formers

    def __call__(self, record: SessionRecord) -> tuple[ToolRules, ...]:
        """Return the rules of the group that a session belongs to; none for a session with one person."""
        place = group_of(record)
        policy = self._policies().get((place.channel, place.account)) if place else None
        if place is None or policy is None:
            return ()
        found = (policy.group(one) for one in (place, *self._formers(place)))
        rule = next((rule for rule in found if rule is not None), None)
        return rules_of(rule) if rule else ()


def rules_of(rule: GroupRule) -> tuple[ToolRules, ...]:
    """Return what a group's settings say of tools, as rules. Raises pydantic's ValidationError for a group of tools that is not there."""
    return tuple(ToolRules(allow=one.allow, deny=one.deny) for one in rule.tools)


def group_of(record: SessionRecord) -> ChatAddress | None:
    """Return the group that a session last spoke with, or None for a session with one person."""
    try:
        place = ChatAddress.parse(record.address, space=record.space or None)
    except ValueError:  # a session that never spoke with anybody
        return None
    return place if place.kind == "group" else None
