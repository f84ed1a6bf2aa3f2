"""What the fixture ``channel_conformance`` gives to a test: one rule, which a channel is checked against, and the report of the result."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from channels.testing import CHECKS, MAY_LACK
from channels.testing.harness import expect

Rule = Callable[[Any], Awaitable[None]]


def rules_named(names: Collection[str]) -> list[Any]:
    """Return the rules with these names in the order of ``CHECKS``, or all for no names.

    Raises:
        ValueError: there is no rule of a name.
    """
    if unknown := sorted(set(names) - {rule.__name__ for rule in CHECKS}):
        raise ValueError(f"there is no rule {', '.join(unknown)}; docs/channel-rules.md lists them all")
    return [rule for rule in CHECKS if not names or rule.__name__ in names]


class Conformance:
    """One rule. ``report`` is the file to which a line is appended for each result, for a page such as docs/channel-rules.md."""

    def __init__(self, rule: Any, *, report: str | None = None) -> None:
        self.rule = rule
        self._report = report

    async def __call__(self, peer: AbstractAsyncContextManager[Any]) -> None:
        """Open the peer, and check the channel on it. The test is skipped where the platform makes the rule impossible.

        Raises:
            Nonconforming: the rule does not hold, or ``lacks`` lists a rule that every platform makes possible.
        """
        import pytest

        name = self.rule.__name__
        async with peer as opened:
            expect(set(opened.lacks) <= MAY_LACK.keys(), f"only these rules in ``lacks``: {', '.join(MAY_LACK)}")
            if name in opened.lacks:
                why = opened.lacks[name] if isinstance(opened.lacks, Mapping) else MAY_LACK[name]
                self._note(opened, "lacks", why)
                pytest.skip(why)
            self._note(opened, "failed")
            await self.rule(opened)
            self._note(opened, "held")

    def _note(self, peer: Any, result: str, why: str = "") -> None:
        """Append what came of it. A rule counts as broken until it has held, so that a crash within it is not left out."""
        if self._report:
            line = {"channel": peer.channel().name, "rule": self.rule.__name__, "result": result, "why": why}
            with Path(self._report).open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
