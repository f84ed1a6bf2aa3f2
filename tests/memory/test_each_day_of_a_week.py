"""Questions for a few days alone: each of the days is in the results, and the one that is asked for comes first."""

from __future__ import annotations

from datetime import date, timedelta
from typing import TYPE_CHECKING

import pytest

from memory.audience import OWNER
from tests.memory.dated_notes import TODAY, dated_notes, days_found

if TYPE_CHECKING:
    from pathlib import Path

AGO = {
    "What did I do three weeks ago?": 21,
    "What happened a week ago?": 7,
    "What did we do a couple of weeks ago?": 14,
    "a fortnight ago": 14,
    "Was war vor zwei Wochen?": 14,
    "Was habe ich vor vierzehn Tagen gemacht?": 14,
    "Qu'ai-je fait il y a quinze jours ?": 14,
    "Cosa ho fatto una settimana fa?": 7,
    "¿Qué hice hace cuatro semanas?": 28,
}
WEEKS = {
    "What did we do last week?": date(2026, 11, 16),
    "Was war vorletzte Woche?": date(2026, 11, 9),
    "¿Qué hicimos la semana pasada?": date(2026, 11, 16),
    "Was war in KW 45?": date(2026, 11, 2),
    "the week of 5 October": date(2026, 10, 5),
    "What happened in the first week of October?": date(2026, 10, 1),
    "What did I do from 2 to 8 November?": date(2026, 11, 2),
}


@pytest.mark.parametrize("lines", [1, 40])
async def test_the_day_so_many_weeks_ago_comes_first_and_then_those_nearest_to_it(tmp_path: Path, lines: int) -> None:
    memory = dated_notes(tmp_path)
    for note in (tmp_path / "ws/memory").glob("2026-*.md"):
        note.write_text(f"# {note.stem}\n\n" + "".join(f"- Swept yard {n} of the long street.\n\n" for n in range(lines)))
    await memory.sync()
    for question, back in AGO.items():
        day = TODAY - timedelta(days=back)
        found = await days_found(memory, question)
        assert sorted(found) == [str(day + timedelta(days=n)) for n in range(-3, 4)], question
        assert found[0] == str(day), question
        assert set(found[1:3]) == {str(day - timedelta(days=1)), str(day + timedelta(days=1))}, question
    await memory.close()


async def test_each_day_of_a_week_is_among_the_results(tmp_path: Path) -> None:
    memory = dated_notes(tmp_path)
    await memory.sync()
    for question, first in WEEKS.items():
        assert sorted(await days_found(memory, question)) == [str(first + timedelta(days=n)) for n in range(7)], question
        few = await memory.search(question, audience=OWNER, max_results=3)
        assert len(few.hits) == 3, question
    await memory.close()


async def test_the_day_some_months_ago_comes_first(tmp_path: Path) -> None:
    memory = dated_notes(tmp_path)
    await memory.sync()
    for question, day in {
        "What happened a month ago?": "2026-10-27",
        "Was war vor zwei Monaten?": "2026-09-27",
        "Qu'ai-je fait il y a un an ?": "2025-11-27",
    }.items():
        found = await days_found(memory, question)
        assert found[0] == day, question
        assert len(found) == 6, question
    await memory.close()


async def test_a_few_weeks_ago_and_a_season_bring_days_from_all_of_it(tmp_path: Path) -> None:
    memory = dated_notes(tmp_path)
    await memory.sync()
    for question in ("What did we do a few weeks ago?", "What did we do last autumn?", "What did we do in October?"):
        found = sorted(await days_found(memory, question))
        assert len(found) == 6, question
        assert date.fromisoformat(found[-1]) - date.fromisoformat(found[0]) > timedelta(days=15), question
    await memory.close()
