"""Parametrisations of which `make test` tries a few cases, and `make thorough` and .ci/run all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def parametrize_some(most: int, names: str | Sequence[str], cases: Iterable[Any], **how: Any) -> pytest.MarkDecorator:
    """Parametrise as ``pytest.mark.parametrize`` does; ``most`` of the cases, from the first on and evenly apart, are not ``long``."""
    several = not isinstance(names, str) or "," in names
    every = list(cases)
    shown = {number * len(every) // most for number in range(most)}

    def marked(number: int, case: Any) -> Any:
        if not hasattr(case, "marks"):  # of pytest.param()
            case = pytest.param(*(case if several else (case,)))
        return case if number in shown else pytest.param(*case.values, id=case.id, marks=[*case.marks, pytest.mark.long])

    return pytest.mark.parametrize(names, [marked(number, case) for number, case in enumerate(every)], **how)
