"""What every step of setup needs: the draft, the questions, and where to tell."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from gateway.base.errors import HomebodyError
from gateway.setup.draft import Draft
from gateway.setup.found import Found
from gateway.setup.questions import Questions


@dataclass(kw_only=True)
class Screen:
    """One run of setup. ``alone``: a single step is done again. ``interactive``: a person answers.

    ``told`` are remarks that are part of the result, ``typed`` answers that are offered again where another one was wrong.
    """

    draft: Draft
    found: Found
    questions: Questions
    tell: Callable[[str], None]
    interactive: bool = True
    alone: bool = False
    told: list[str] = field(default_factory=list)
    typed: dict[str, str] = field(default_factory=dict)

    def complain(self, error: HomebodyError) -> None:
        """Tell what is wrong and what to do about it."""
        first, *rest = error.as_text().splitlines()
        self.tell("\n".join([f"✗ {first}", *rest]))
