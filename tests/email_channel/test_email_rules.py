"""The published rules, over a mailbox on a real dovecot: of a server that keeps copies of what it sends, and of one that does not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from channels.testing import CHECKS, MAY_LACK
from tests.email_channel.email_stage import EmailStage
from tests.sampling import parametrize_some

if TYPE_CHECKING:
    from channels.testing.conformance import Conformance
    from tests.mail.dovecot import Dovecot

WITHOUT_COPIES = ("says_a_doubtful_message_once", "sends_a_doubtful_file_once")
"""Where no server keeps a copy, a mail in doubt cannot be looked for: it is repeated with a mark, under the same Message-ID."""


async def test_the_email_channel_keeps_the_rule(dovecot: Dovecot, channel_conformance: Conformance) -> None:
    await channel_conformance(EmailStage(dovecot).open())


@parametrize_some(
    6, "rule", [one for one in CHECKS if one.__module__.endswith(("send", "optional"))], ids=lambda rule: rule.__name__
)
async def test_it_keeps_the_rule_where_the_server_keeps_no_copies(dovecot: Dovecot, rule: Any) -> None:
    if rule.__name__ in {*EmailStage.lacks, *WITHOUT_COPIES}:
        return
    async with EmailStage(dovecot, files=False).open() as stage:
        await rule(stage)


def test_the_stage_lacks_only_what_a_stage_may_lack() -> None:
    assert {*EmailStage.lacks, *WITHOUT_COPIES} <= MAY_LACK.keys()
