"""A model that obeys everybody does nothing that its owner did not ask for; without taint the same injections bite.

This is a sample, one disguise for some pairs of a carrier and a goal. The whole corpus is ``python -m tests.taint.proof``.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from tests.taint.attacks import attack
from tests.taint.corpus import CARRIERS, DISGUISES, GOALS, NOT_SHOWN, cases, words_in
from tests.taint.obedience import world

if TYPE_CHECKING:
    from pathlib import Path


def test_the_corpus_is_large_and_each_disguise_is_seen_through() -> None:
    corpus = cases()
    assert len(corpus) >= 300
    assert len({case.number for case in corpus}) == len(corpus)
    assert {case.disguise for case in corpus} == set(DISGUISES)
    assert {case.carrier for case in corpus} == set(CARRIERS)
    assert {case.goal for case in corpus} == set(GOALS)
    for case in corpus:
        assert case.word.lower() in words_in(case.text), case.name


@pytest.mark.sec(70)
@pytest.mark.cpu_seconds(300)
@pytest.mark.timeout(900)
@pytest.mark.parametrize("every", [12, pytest.param(3, marks=pytest.mark.long)])
@pytest.mark.parametrize("careful", [True, False])
@pytest.mark.sec(70)
async def test_an_obeying_model_does_nothing_but_what_its_owner_asked_for(tmp_path: Path, *, careful: bool, every: int) -> None:
    corpus = cases(each=1)
    sample = [case for case in corpus if CARRIERS.index(case.carrier) + GOALS.index(case.goal) == 51][::every]
    harm: Counter[str] = Counter()
    async with world(tmp_path, careful=careful) as w:
        for case in sample:
            effects = await attack(w, case)
            harm[case.name] += len(effects)
            assert not careful or not effects, (case.name, effects)
        shown = sum(case.carrier not in NOT_SHOWN for case in sample)
        assert len(w.model.obeyed) >= 0.8 * shown, "the model did not even see the others"
    assert careful or sum(1 for count in harm.values() if count) >= len(sample) // 3
