"""Writes docs/channel-rules.md: checks every channel against every rule, and shows what came of it.

python -m tests.channels.rules_page [CHANNEL]
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from channels.testing import CHECKS, MAY_LACK

ROOT: Final = Path(__file__).resolve().parents[2]
PAGE: Final = ROOT / "docs" / "channel-rules.md"
ASKED: Final = (
    "tests/channels/test_conformance.py::test_our_channels_keep_the_rule",
    "tests/channels/test_example_channel.py::test_the_example_keeps_the_rule",
    "tests/email_channel/test_email_rules.py::test_the_email_channel_keeps_the_rule",
)
"""The tests that check our channels."""
_HEAD: Final = """\
# Rules of channels

What every channel does, whichever the platform, so that no message is lost and none is said twice. `channels.testing` checks a channel
against a peer that plays the platform, and your own channel too ([adding-a-channel.md](adding-a-channel.md)).

This page is made by running the checks (`make channel-rules`): Telegram, Discord, Slack, Matrix and WhatsApp on strict peers, email on
a real dovecot, linechat (the example) on its server. – stands where the platform makes the rule impossible.

"""
_LACKS: Final = """
## Rules that a platform may make impossible

A peer lists them in `lacks` (a mapping gives the reason for each), each for one reason. Every other rule is kept by every channel.

| rule | when |
|---|---|
"""
SHOWN: Final = {"held": "yes", "lacks": "–", "failed": "**no**"}


def meaning(rule: object) -> str:
    """Return the sentence that a rule is described by."""
    return " ".join((rule.__doc__ or "").replace("``", "`").split())


def results(channel: str = "") -> dict[str, dict[str, str]]:
    """Check every channel, or one, and return what came of each rule, by channel.

    Raises:
        SystemExit: a channel breaks a rule, or a check could not be run.
    """
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report"
        chosen = ["-k", channel] if channel else []
        command = [sys.executable, "-m", "pytest", "-n", "0", "-q", "-p", "no:randomly", "--channel-report", str(report)]
        ended = subprocess.run([*command, *chosen, *ASKED], cwd=ROOT, check=False)
        if ended.returncode:
            raise SystemExit("A channel breaks a rule, or a check could not be run: see above. The page is as it was.")
        lines = [json.loads(line) for line in report.read_text("utf-8").splitlines()]
    found: dict[str, dict[str, str]] = {}
    for line in lines:  # a rule is noted as failed until it has held
        found.setdefault(line["channel"], {})[line["rule"]] = line["result"]
    return found


def page(found: dict[str, dict[str, str]]) -> str:
    """Return the page."""
    table = [f"| rule | {' | '.join(found)} |", f"|---|{'---|' * len(found)}"]
    for rule in CHECKS:
        cells = " | ".join(SHOWN[channel.get(rule.__name__, "failed")] for channel in found.values())
        table.append(f"| `{rule.__name__}`: {meaning(rule)} | {cells} |")
    lacks = "\n".join(f"| `{name}` | {why} |" for name, why in MAY_LACK.items())
    return f"{_HEAD}{chr(10).join(table)}\n{_LACKS}{lacks}\n"


def read(written: str) -> dict[str, dict[str, str]]:
    """Return the results on a page."""
    head, *rows = (line[2:-2].split(" | ") for line in written.partition(_LACKS)[0].splitlines() if line.startswith("| "))
    told = {shown: result for result, shown in SHOWN.items()}
    return {
        channel: {row[0].split("`")[1]: told[row[place]] for row in rows} for place, channel in enumerate(head) if place > 0
    }


if __name__ == "__main__":
    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    before = read(PAGE.read_text("utf-8")) if wanted else {}
    PAGE.write_text(page(before | results(wanted)), "utf-8")
