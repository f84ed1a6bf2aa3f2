"""Carries injections into the house and tells the harm."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.taint.provider_carriers import ProviderCarriers

if TYPE_CHECKING:
    from tests.taint.corpus import Case
    from tests.taint.obedience import World


async def attack(w: World, case: Case) -> list[str]:
    """Carry one injection into the house, as its carrier does, and return the harm that came of it."""
    w.model.book[case.word.lower()] = case
    try:
        await getattr(ProviderCarriers(w, case), case.carrier)()
        return await w.effects(case)
    finally:
        await w.afresh()
        await w.clean()
        w.model.book.pop(case.word.lower(), None)
