"""A module is found by its name alone: few names stand more than once, and those say the same role in each place."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("agent", "channels", "gateway", "memory")
ONE_IN_EACH_PACKAGE = frozenset({"__init__.py", "errors.py", "protocol.py", "settings.py"})
SAME_ROLE = frozenset(
    {
        "api_errors.py",  # what the errors of a platform's API mean
        "attachments.py",  # the files of a platform's message
        "channel.py",
        "inbound.py",  # a platform's event becomes a message
        "markup.py",  # Markdown as a platform writes it
        "messages.py",  # of chats in `channels`, of models in `agent`
        "receiving.py",
        "sending.py",
    }
)
"""Names that may stand more than once. At most 15; a channel's parts may share theirs, other modules are named after what they hold."""


def shared_names() -> set[str]:
    """Return the names of modules that stand more than once in the product."""
    names = Counter(path.name for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
    return {name for name, count in names.items() if count > 1} - ONE_IN_EACH_PACKAGE


def test_each_module_has_a_name_of_its_own() -> None:
    assert shared_names() == SAME_ROLE, "name a new module after what it holds, with a word that tells it from the other"
    assert len(SAME_ROLE) <= 15
