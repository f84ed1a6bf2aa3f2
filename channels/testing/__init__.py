"""What every channel must do, as checks that anybody can run against their own.

A channel is put on a ``Stage``: the platform, or a program that stands for it, as a person there sees and handles it. Run all of it
with ``await check(stage_factory)``, or each of ``CHECKS`` as a test of its own::

    @pytest.mark.parametrize("rule", CHECKS, ids=lambda rule: rule.__name__)
    async def test_my_channel_conforms(rule):
        async with my_stage() as stage:
            if rule.__name__ not in stage.lacks:
                await rule(stage)

A rule raises ``Nonconforming`` with what was expected and what was seen. A stage says by ``lacks`` which rules its platform makes
impossible, of those in ``MAY_LACK``; ``check`` leaves those out. A channel made with a ``FastClock`` waits for nothing.

``EXTRAS`` are the rules of what a channel may offer beyond messages, and need a ``FullPeer``.

``docs/adding-a-channel.md`` walks through an example.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from channels.testing import event_kinds, groups, optional, outages, receive, send
from channels.testing.harness import FastClock, Nonconforming, RecordingSink, expect
from channels.testing.peer import FullPeer, Peer, Trouble

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager

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
"""The rules of what a channel may offer beyond messages, each of which takes a full stage."""

CHECKS: Final = (
    receive.receives_what_is_written,
    receive.keeps_the_order,
    receive.takes_a_repetition_once,
    receive.offers_again_what_could_not_be_stored,
    receive.catches_up_after_a_restart,
    receive.survives_a_broken_connection,
    receive.tells_that_it_is_alive,
    event_kinds.goes_on_after_every_event,
    event_kinds.survives_garbage,
    groups.hears_no_echo,
    groups.gives_up_on_a_wrong_password,
    outages.goes_on_after_an_outage,
    send.sends_in_order,
    send.cuts_what_is_too_long,
    send.shows_typing,
    send.knows_a_refusal,
    send.obeys_a_rate_limit,
    send.repeats_what_did_not_arrive,
    send.says_a_doubtful_message_once,
    outages.sends_after_an_outage,
    outages.loses_nothing_that_an_outage_cut_off,
    receive.ends_when_asked,
    *EXTRAS,
)
"""All rules, each of which takes a stage."""


_NO_HISTORY: Final = "the platform neither keeps what nobody took nor can be asked for it"
_NO_KEY: Final = "the platform recognises no key and cannot be read back; a repetition is marked as one by the house"

MAY_LACK: Final = {
    **{rule.__name__: "the platform has nothing of the kind" for rule in EXTRAS},
    "sends_a_doubtful_file_once": _NO_KEY,
    "says_a_doubtful_message_once": _NO_KEY,
    "shows_typing": "the platform shows no such sign in private",
    "obeys_a_rate_limit": "the platform asks nobody to wait",
    "knows_a_refusal": "the platform does not say that it refuses",
    "gives_up_on_a_wrong_password": "the platform asks for no password, token or key",
    "takes_a_repetition_once": "the platform never repeats itself",
    "catches_up_after_a_restart": _NO_HISTORY,
    "goes_on_after_an_outage": _NO_HISTORY,
}
"""The rules that a stage may lack, by name, and the one reason for which it may. All others every platform makes possible."""


async def check(stage: Callable[[], AbstractAsyncContextManager[Any]]) -> list[str]:
    """Run every rule on a stage of its own, and return the names of those that held.

    Raises:
        Nonconforming: one does not; the name of the rule is its note. Or the stage lacks one that is not in ``MAY_LACK``.
    """
    held = []
    for rule in CHECKS:
        async with stage() as made:
            expect(set(made.lacks) <= MAY_LACK.keys(), f"no other rules among what a stage lacks than {', '.join(MAY_LACK)}")
            if rule.__name__ in made.lacks:
                continue
            try:
                await rule(made)
            except Nonconforming as error:
                error.add_note(f"rule: {rule.__name__}")
                raise
            held.append(rule.__name__)
    return held
