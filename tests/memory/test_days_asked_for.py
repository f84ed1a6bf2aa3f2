"""Questions that name a day or a range of days, with words that notes of other days hold."""

from __future__ import annotations

from datetime import date, timedelta
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.text.written_days import names_a_day
from tests.memory.dated_notes import MONTHS, dated_notes, days_found

if TYPE_CHECKING:
    from pathlib import Path

DAYS = st.dates(date(1990, 1, 1), date(2090, 12, 31))
WAYS = (
    "{d} {m}",
    "{d}. {m}",
    "{m} {d}",
    "the {d}th of {m}",
    "el {d} de {m} de {y}",
    "{m} {d}, {y}",
    "{d}.{n}.",
    "{d}/{n}",
    "{n}/{d}",
    "{d}.{n}.{y}",
)


def written(day: date, way: str, language: str) -> str:
    return way.format(d=day.day, m=MONTHS[language][day.month - 1], n=day.month, y=day.year)


@given(DAYS, st.sampled_from(WAYS), st.sampled_from(list(MONTHS)), st.integers(1, 9))
def test_a_text_names_a_day_however_it_is_written(day: date, way: str, language: str, more: int) -> None:
    text = f"The invoice of {written(day, way, language)} was paid."
    assert names_a_day(text, [day])
    assert names_a_day(f"On {day} it rained", [day])
    assert not names_a_day(f"On {day + timedelta(days=366)} it rained", [day])
    other = day + timedelta(days=more)
    if {(day.day, day.month), (day.month, day.day)}.isdisjoint({(other.day, other.month)}):
        assert not names_a_day(text, [other])


@pytest.mark.parametrize(
    "text", ["version 3.11.2", "3 knives in November", "room 311", "2025-11-03", "3.11.25", "13 November", "3.12.", ""]
)
def test_other_figures_name_no_day(text: str) -> None:
    assert not names_a_day(text, [date(2026, 11, 3)])


async def test_the_notes_of_the_day_come_before_others_with_words_of_the_question(tmp_path: Path) -> None:
    memory = dated_notes(tmp_path)
    doings = ("Die Steuer gemacht.", "Mit Petra telefoniert.", "Den Keller aufgeräumt.", "Talked about the dentist.")
    for number, note in enumerate(sorted((tmp_path / "ws/memory").glob("*.md"))):
        note.write_text(f"- {doings[number * 7 % 4]}\n- {doings[(number * 5 + 1) % 4]}\n")
    await memory.sync()
    for question, day in (
        ("Was habe ich am 22. November gemacht?", "2026-11-22"),
        ("Was haben wir am 9. November 2025 gemacht?", "2025-11-09"),
        ("11. Oktober", "2026-10-11"),
        ("¿Qué hicimos el 10 de noviembre?", "2026-11-10"),
        ("Che cosa abbiamo fatto il 10 novembre?", "2026-11-10"),
        ("Did we talk about the dentist on November 17?", "2026-11-17"),
        ("Wer hat am 21. November mit Petra telefoniert?", "2026-11-21"),
        ("Was war am 12.11. mit dem Keller?", "2026-11-12"),
        ("Was war letzten Dienstag mit dem Keller?", "2026-11-24"),
    ):
        days = await days_found(memory, question)
        assert days[0] == day, question
    for question in ("Mit Petra telefoniert 3.–7.11.", "Did we talk about the dentist from 3 to 7 November?"):
        days = await days_found(memory, question)
        assert all("2026-11-03" <= day <= "2026-11-07" for day in days[:4]), question
        assert len(days) == 6, question
    await memory.close()


async def test_what_names_the_day_and_answers_comes_first_and_notes_of_the_day_next(tmp_path: Path) -> None:
    memory = dated_notes(tmp_path)
    folder = tmp_path / "ws/memory"
    (folder / "2026-09-18.md").write_text("- The invoice of 3 November was sent to Doppler.\n")
    (folder / "2026-10-05.md").write_text("- Paid an invoice. Asked for the invoice of the roof.\n")
    (folder / "2026-09-20.md").write_text("- Die Hütte ist vom 3.–7.11. gebucht.\n")
    await memory.sync()
    for question in (
        "Who got the invoice of November 3?",
        "invoice of 3 November",
        "An wen ging die Rechnung (invoice) vom 3.11.?",
        "Who got the invoice of November 3rd, 2026?",
    ):
        assert (await days_found(memory, question))[:2] == ["2026-09-18", "2026-11-03"], question
    days = await days_found(memory, "Welche Hütte ist 3.–7.11. gebucht?")
    assert days[0] == "2026-09-20"
    assert all("2026-11-03" <= day <= "2026-11-07" for day in days[1:5])
    for day in ("2026-11-03", "2026-11-04"):
        (folder / f"{day}.md").unlink()
    await memory.sync()
    assert (await days_found(memory, "Who got the invoice of November 3?"))[0] == "2026-09-18"
    await memory.close()


async def test_a_note_of_the_day_that_answers_comes_before_one_that_names_the_day(tmp_path: Path) -> None:
    memory = dated_notes(tmp_path)
    folder = tmp_path / "ws/memory"
    (folder / "2026-11-03.md").write_text("- Otto mended the boat.\n")
    (folder / "2026-10-20.md").write_text("- Otto comes on 3 November.\n")
    (folder / "2026-10-21.md").write_text("- Otto mended the boat and the boat shed; Otto likes the boat.\n")
    await memory.sync()
    assert (await days_found(memory, "Which boat did Otto mend on 3 November?"))[0] == "2026-11-03"
    await memory.close()
