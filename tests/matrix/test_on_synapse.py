"""The published rules, on a real homeserver, in rooms without and with encryption."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from channels.testing import CHECKS
from tests.matrix.stage import RealStage

if TYPE_CHECKING:
    from pathlib import Path

    from tests.matrix.middleman import Middleman
    from tests.matrix.synapse import Synapse

RULES = [rule for rule in CHECKS if rule.__name__ not in RealStage.lacks]
SEALED = {
    *(
        "receives_what_is_written",
        "goes_on_after_every_event",
        "catches_up_after_a_restart",
        "survives_a_broken_connection",
        "hears_no_echo",
        "sends_in_order",
    ),
    *(
        "cuts_what_is_too_long",
        "says_a_doubtful_message_once",
        "loses_nothing_that_an_outage_cut_off",
        "tells_of_an_edit",
        "tells_of_a_reaction",
        "answers_in_the_thread",
    ),
    *("fetches_a_file_whole", "leaves_nothing_of_a_file_it_cannot_have", "sends_a_file_whole", "sends_a_doubtful_file_once"),
    *("shows_buttons_and_tells_of_a_press", "tells_who_is_meant_in_a_group"),
}
"""The rules for which it matters whether a room is encrypted."""
PLAYED = [(rule, False) for rule in RULES] + [(rule, True) for rule in RULES if rule.__name__ in SEALED]


@pytest.mark.parametrize(
    ("rule", "encrypted"), PLAYED, ids=[f"{rule.__name__}-{'encrypted' if sealed else 'plain'}" for rule, sealed in PLAYED]
)
async def test_the_channel_keeps_the_rule(
    rule: Any, encrypted: bool, homeserver: Synapse, middleman: Middleman, tmp_path: Path
) -> None:
    stage = await RealStage.made(homeserver, middleman, tmp_path, encrypted=encrypted)
    try:
        await rule(stage)
    finally:
        await stage.close()
