"""What every channel must do, as checks that anybody can run against their own.

A channel is put on a ``Stage``: the platform, or a program that stands for it, as a person there sees and handles it. Run all of it
with ``await check(stage_factory)``, or each of ``CHECKS`` as a test of its own::

    @pytest.mark.parametrize("rule", CHECKS, ids=lambda rule: rule.__name__)
    async def test_my_channel_conforms(rule):
        async with my_stage() as stage:
            if rule.__name__ not in stage.lacks:
                await rule(stage)

A rule raises ``Nonconforming`` with what was expected and what was seen. A stage says by ``lacks`` which rules its platform makes
impossible; ``check`` leaves those out. A channel made with a ``HastyClock`` waits for nothing.

``EXTRAS`` are the rules of what a channel may offer beyond messages, and need a ``FullStage``.

``docs/adding-a-channel.md`` walks through an example.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from channels.conformance import extras, hearing, speaking
from channels.conformance.hasty import HastyClock
from channels.conformance.running import Nonconforming, RecordingDoor
from channels.conformance.stage import FullStage, Stage, Trouble

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager

__all__ = ["CHECKS", "EXTRAS", "FullStage", "HastyClock", "Nonconforming", "RecordingDoor", "Stage", "Trouble", "check"]

EXTRAS: Final = (
    extras.tells_of_an_edit,
    extras.tells_of_a_reaction,
    extras.puts_one_reaction,
    extras.answers_in_the_thread,
    extras.fetches_a_file_whole,
    extras.leaves_nothing_of_a_file_it_cannot_have,
    extras.sends_a_file_whole,
    extras.sends_a_doubtful_file_once,
    extras.shows_buttons_and_tells_of_a_press,
    extras.offers_its_menu_once,
)
"""The rules of what a channel may offer beyond messages, each of which takes a full stage."""

CHECKS: Final = (
    hearing.receives_what_is_written,
    hearing.keeps_the_order,
    hearing.takes_a_repetition_once,
    hearing.offers_again_what_could_not_be_stored,
    hearing.catches_up_after_a_restart,
    hearing.survives_a_broken_connection,
    hearing.tells_that_it_is_alive,
    speaking.sends_in_order,
    speaking.cuts_what_is_too_long,
    speaking.shows_typing,
    speaking.knows_a_refusal,
    speaking.obeys_a_rate_limit,
    speaking.repeats_what_did_not_arrive,
    speaking.says_a_doubtful_message_once,
    hearing.ends_when_asked,
    *EXTRAS,
)
"""All rules, each of which takes a stage."""


async def check(stage: Callable[[], AbstractAsyncContextManager[Any]]) -> list[str]:
    """Run every rule on a stage of its own, and return the names of those that held.

    Raises:
        Nonconforming: one does not; the name of the rule is its note.
    """
    held = []
    for rule in CHECKS:
        async with stage() as made:
            if rule.__name__ in made.lacks:
                continue
            try:
                await rule(made)
            except Nonconforming as error:
                error.add_note(f"rule: {rule.__name__}")
                raise
            held.append(rule.__name__)
    return held
