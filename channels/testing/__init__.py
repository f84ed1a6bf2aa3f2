"""The rules that every channel must keep, as checks to run against a channel of your own.

A channel is connected to a ``Peer``: the platform, or a program in its place, as a person there sees and uses it. Run all rules
with ``await check(peer_factory)``, or each of ``CHECKS`` as a test of its own::

    @pytest.mark.parametrize("rule", CHECKS, ids=lambda rule: rule.__name__)
    async def test_my_channel_conforms(rule):
        async with my_peer() as peer:
            if rule.__name__ not in peer.lacks:
                await rule(peer)

A rule raises ``Nonconforming`` with what was expected and what was seen. A peer lists in ``lacks`` the rules that its platform makes
impossible, of those in ``MAY_LACK``; ``check`` skips them. A channel made with a ``FastClock`` does not wait.

``EXTRAS`` are the rules for optional features, and need a ``FullPeer``.

``docs/adding-a-channel.md`` walks through an example.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, Final

from channels.testing import groups, optional, receive, send
from channels.testing.harness import FastClock, Nonconforming, RecordingSink, expect
from channels.testing.peer import FullPeer, Peer, Trouble

__all__ = [
    "CHECKS",
    "EXTRAS",
    "MAY_LACK",
    "FastClock",
    "FullPeer",
    "Nonconforming",
    "Peer",
    "RecordingSink",
    "Trouble",
    "check",
]

EXTRAS: Final = (
    groups.tells_who_is_meant_in_a_group,
    groups.tells_what_programs_wrote,
    optional.tells_of_an_edit,
    optional.tells_of_a_reaction,
    optional.puts_one_reaction,
    optional.answers_in_the_thread,
    optional.fetches_a_file_whole,
    optional.leaves_nothing_of_a_file_it_cannot_have,
    optional.sends_a_file_whole,
    optional.sends_a_doubtful_file_once,
    optional.shows_buttons_and_tells_of_a_press,
    optional.offers_its_menu_once,
)
"""The rules for optional features, each of which needs a full peer."""

CHECKS: Final = (
    receive.receives_what_is_written,
    receive.keeps_the_order,
    receive.takes_a_repetition_once,
    receive.offers_again_what_could_not_be_stored,
    receive.catches_up_after_a_restart,
    receive.survives_a_broken_connection,
    receive.tells_that_it_is_alive,
    receive.goes_on_after_every_event,
    receive.survives_garbage,
    groups.hears_no_echo,
    groups.gives_up_on_a_wrong_password,
    send.goes_on_after_an_outage,
    send.sends_in_order,
    send.cuts_what_is_too_long,
    send.shows_typing,
    send.knows_a_refusal,
    send.obeys_a_rate_limit,
    send.repeats_what_did_not_arrive,
    send.says_a_doubtful_message_once,
    send.sends_after_an_outage,
    send.loses_nothing_that_an_outage_cut_off,
    receive.ends_when_asked,
    *EXTRAS,
)
"""All rules, each of which needs a peer."""


_NO_HISTORY: Final = "the platform neither queues undelivered messages nor has a history"
_NO_KEY: Final = "the platform recognises no key and has no history; a repeated message is marked"

MAY_LACK: Final = {
    **{rule.__name__: "the platform has no such feature" for rule in EXTRAS},
    "sends_a_doubtful_file_once": _NO_KEY,
    "says_a_doubtful_message_once": _NO_KEY,
    "shows_typing": "the platform shows no typing in private chats",
    "obeys_a_rate_limit": "the platform has no rate limits",
    "knows_a_refusal": "the platform does not report a refusal",
    "gives_up_on_a_wrong_password": "the platform has no password, token or key",
    "takes_a_repetition_once": "the platform never redelivers",
    "catches_up_after_a_restart": _NO_HISTORY,
    "goes_on_after_an_outage": _NO_HISTORY,
}
"""The rules that a peer may lack, by name, and the only valid reason for each. Every platform supports the others."""


async def check(peer: Callable[[], AbstractAsyncContextManager[Any]]) -> list[str]:
    """Run every rule on a new peer, and return the names of those that held.

    Raises:
        Nonconforming: a rule does not hold (its name is the error's note), or ``lacks`` lists one that is not in ``MAY_LACK``.
    """
    held = []
    for rule in CHECKS:
        async with peer() as made:
            expect(set(made.lacks) <= MAY_LACK.keys(), f"only these rules in ``lacks``: {', '.join(MAY_LACK)}")
            if rule.__name__ in made.lacks:
                continue
            try:
                await rule(made)
            except Nonconforming as error:
                error.add_note(f"rule: {rule.__name__}")
                raise
            held.append(rule.__name__)
    return held
