"""Dates in figures and phrases such as "the week before last" in questions, and questions for a time alone, in five languages."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.base.clock import ManualClock
from memory.audience import OWNER, Audience
from memory.settings import MemorySettings
from memory.store.sqlite.sqlite_index import SqliteIndex
from memory.text.dates import Span, evenly, of_each_day, spans, spread
from memory.text.figure_dates import order_in
from memory.text.terms import query_terms
from memory.workspace_memory import WorkspaceMemory
from tests.memory.memory_engines import memory_at

if TYPE_CHECKING:
    from pathlib import Path

TODAY = date(2026, 11, 26)  # a Thursday
BEFORE = {"English": "what was on", "German": "Was war am", "French": "qu'est-ce qui s'est passé le", "Spanish": "qué pasó el"}
SHORT = MemorySettings.model_validate({"chunking": {"tokens": 16, "overlap": 0}})
DAYS = st.dates(date(1990, 1, 1), date(2090, 1, 1))


@given(DAYS, DAYS, st.sampled_from(list(BEFORE.values())))
def test_each_date_in_figures_is_read_back_as_itself(day: date, today: date, before: str) -> None:
    d, m, y = day.day, day.month, day.year
    for written in (f"{day}", f"{y}/{m}/{d}", f"{y}.{m:02}.{d:02}", f"{d:02}.{m:02}.{y}", f"{d}.{m}.{y}", f"{d}. {m}. {y}"):
        for question in (f"{before} {written}?", f"{before} {written}", f"Tom, {written}: {before} that"):
            assert spans(question, today=today) == [Span(day, day)], question


@given(DAYS, st.sampled_from(["am {}.{}.", "Was war am {:02}.{:02}.?", "was war am {}.{}", "le {}/{}", "qué pasó el {}/{}"]))
def test_figures_without_a_year_are_the_newest_such_day(day: date, written: str) -> None:
    for ahead in (0, 1, 100, 364):
        question = written.format(day.day, day.month)
        assert spans(question, today=day + timedelta(days=ahead), order="day first") == [Span(day, day)], question


@given(DAYS)
def test_a_short_year_is_read_after_a_word_that_leads_to_a_date(day: date) -> None:
    question = f"Was war am {day:%d.%m.%y}?"
    assert spans(question, today=day + timedelta(days=30)) == [Span(day, day)]


@given(DAYS, DAYS)
def test_dates_with_slashes_are_in_the_order_of_the_language_or_the_owners(day: date, today: date) -> None:
    d, m, y = day.day, day.month, day.year
    for before in list(BEFORE.values())[1:]:
        assert spans(f"{before} {d}/{m}/{y}?", today=today, order="month first") == [Span(day, day)]
    assert spans(f"what was on {d}/{m}/{y}?", today=today, order="day first") == [Span(day, day)]
    assert spans(f"what was on {m:02}/{d:02}/{y}?", today=today, order="month first") == [Span(day, day)]
    both = spans(f"what was on {m}/{d}/{y}?", today=today)
    assert Span(day, day) in both
    assert len(both) == (1 if d > 12 or d == m else 2)


@pytest.mark.parametrize(
    ("zone", "order"),
    [
        ("America/New_York", "month first"),
        ("America/Indiana/Knox", "month first"),
        ("Europe/London", "day first"),
        ("America/Mexico_City", "day first"),
        ("America/Toronto", "unknown"),
        ("UTC", "unknown"),
        ("Etc/GMT+5", "unknown"),
    ],
)
def test_the_owners_time_zone_tells_the_order(zone: str, order: str) -> None:
    assert order_in(ZoneInfo(zone)) == order
    assert order_in(UTC) == "unknown"


@pytest.mark.parametrize(
    "question",
    [
        "Which project needs Python 3.11?",
        "release 1.2.26 of the tool",
        "the address 10.11.12.13",
        "a score of 3/4",
        "on 24/7/x",
        "https://example.org/a/11/03/2026/b",
        "was war am 31.02.2026?",
        "on 2026-13-45",
        "version 2.10.1",
    ],
)
def test_figures_that_are_no_date_name_none(question: str) -> None:
    assert spans(question, today=TODAY) == []


@pytest.mark.parametrize(
    ("question", "first", "last"),
    [
        *((q, "2026-11-09", "2026-11-15") for q in ("a fortnight ago", "the week before last", "a couple of weeks ago")),
        *((q, "2026-11-09", "2026-11-15") for q in ("vor vierzehn Tagen", "vorletzte Woche", "in der vorletzten Woche")),
        *((q, "2026-11-09", "2026-11-15") for q in ("il y a quinze jours", "il y a une quinzaine", "l’avant-dernière semaine")),
        *((q, "2026-11-09", "2026-11-15") for q in ("hace quince días", "hace una quincena", "la semana antepasada")),
        *((q, "2026-11-09", "2026-11-15") for q in ("quindici giorni fa", "la penultima settimana", "un paio di settimane fa")),
        *((q, "2026-11-12", "2026-11-26") for q in ("the last fortnight", "in den letzten zwei Wochen", "in the past 14 days")),
        *((q, "2026-09-01", "2026-09-30") for q in ("the month before last", "im vorletzten Monat", "el mes antepasado")),
        *((q, "2024-01-01", "2024-12-31") for q in ("the year before last", "vorletztes Jahr", "l'avant-dernière année")),
        *((q, "2025-06-01", "2025-08-31") for q in ("the summer before last", "vorletzten Sommer", "la penultima estate")),
        *((q, "2026-11-14", "2026-11-15") for q in ("the weekend before last", "vorletztes Wochenende")),
        *(
            (q, "2026-11-17", "2026-11-17")
            for q in ("the Tuesday before last", "am vorletzten Dienstag", "el martes antepasado")
        ),
        *(
            (q, "2026-11-20", "2026-11-25")
            for q in ("a few days ago", "vor ein paar Tagen", "hace unos días", "qualche giorno fa")
        ),
        *((q, "2026-11-23", "2026-11-23") for q in ("vorvorgestern", "trasanteayer", "vor etwa drei Tagen")),
        *(
            (q, "2025-10-01", "2025-10-31")
            for q in ("the October before last", "im vorletzten Oktober", "el octubre antepasado")
        ),
        *((q, "2025-10-01", "2025-10-31") for q in ("l'avant-dernier octobre", "il penultimo ottobre")),
        *((q, "2024-11-01", "2024-11-30") for q in ("in the November before last?", "vorletzter November")),
        ("in der letzten Woche", "2026-11-16", "2026-11-22"),
        ("vor zwölf Tagen", "2026-11-14", "2026-11-14"),
    ],
)
def test_phrases_for_more_than_the_last_time_are_counted(question: str, first: str, last: str) -> None:
    assert spans(question, today=TODAY) == [Span(date.fromisoformat(first), date.fromisoformat(last))]


@pytest.mark.parametrize(
    ("question", "first", "last"),
    [
        *(
            (q, "2026-11-03", "2026-11-07")
            for q in ("Was war 3.–7.11.?", "vom 3. bis 7.11.", "am 3.-7.11", "3.11. - 7.11.2026")
        ),
        *(
            (q, "2026-11-03", "2026-11-07")
            for q in ("Nov 3-7", "November 3rd to 7th, 2026", "3–7 November", "Nov. 3 – Nov. 7?")
        ),
        *(
            (q, "2026-11-03", "2026-11-07")
            for q in ("vom 3. bis zum 7. November", "zwischen dem 3. und 7. November", "3.–7.11.26")
        ),
        *(
            (q, "2026-11-03", "2026-11-07")
            for q in ("du 3 au 7 novembre", "entre le 3 et le 7 novembre", "dal 3 al 7 novembre")
        ),
        *((q, "2026-11-03", "2026-11-07") for q in ("del 3 al 7 de noviembre de 2026", "2026-11-03 to 2026-11-07")),
        *(
            (q, "2026-10-30", "2026-11-02")
            for q in ("October 30 to November 2", "30.10.–2.11.", "between 30 October and 2 November")
        ),
        *(
            (q, "2025-12-30", "2026-01-02")
            for q in ("30.12.–2.1.", "Dec 30 - Jan 2, 2026", "from 30 December 2025 to 2 January")
        ),
        ("Nov 24-30", "2026-11-24", "2026-11-30"),
        ("Nov 27-30", "2025-11-27", "2025-11-30"),
        ("28.–29.2.", "2024-02-28", "2024-02-29"),
    ],
)
def test_a_range_of_days_is_read_as_one_time(question: str, first: str, last: str) -> None:
    assert spans(question, today=TODAY) == [Span(date.fromisoformat(first), date.fromisoformat(last))]


@given(DAYS, st.integers(1, 300), DAYS)
def test_each_range_is_read_back_as_itself(first: date, days: int, today: date) -> None:
    last = first + timedelta(days=days)
    for way in (
        "{0:%d.%m.%Y} - {1:%d.%m.%Y}",
        "{0} to {1}",
        "from {0:%d %B %Y} to {1:%d %B %Y}",
        "{0:%b %d, %Y} – {1:%b %d, %Y}?",
    ):
        assert spans(way.format(first, last), today=today) == [Span(first, last)], way.format(first, last)


@pytest.mark.parametrize(
    "question",
    [
        "version 1.-2.3",
        "version 3.11.26",
        "rooms 3-7",
        "2-3 weeks",
        "a score of 7-3.",
        "31.-32.11.",
        "3.–7.13.",
        "between 3 and 7 people",
    ],
)
def test_other_ranges_name_no_days(question: str) -> None:
    assert spans(question, today=TODAY) == []


@given(st.text(alphabet=st.sampled_from("0123456789-–. may nov to and bis between"), max_size=60), DAYS)
def test_ranges_go_forward(question: str, today: date) -> None:
    for span in spans(question, today=today):
        assert span.first <= span.last


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 9)), max_size=200, unique=True), st.integers(1, 60))
def test_chunks_of_a_time_are_spread_over_its_days(rows: list[tuple[int, int]], most: int) -> None:
    dated = [(TODAY + timedelta(days=day), day * 10 + number) for day, number in rows]
    chosen = spread(dated, most)
    assert len(chosen) == len(set(chosen)) <= most
    assert set(chosen) <= {id_ for _, id_ in dated}
    days = sorted({day for day, _ in dated})
    assert {TODAY + timedelta(days=id_ // 10) for id_ in chosen} == set(evenly(days, most))
    if len(rows) <= most and len(days) <= most:
        assert len(chosen) == len(rows)
    assert of_each_day(len(days), most) * max(1, min(len(days), most)) >= most


def memory_clock() -> ManualClock:
    return ManualClock(datetime(2026, 11, 26, 12, tzinfo=UTC))


def large(tmp_path: Path, *, without: tuple[date, ...] = (), a_day: int = 90) -> WorkspaceMemory:
    """A memory whose days have more chunks than are looked up of a day."""
    folder = tmp_path / "ws/memory"
    folder.mkdir(parents=True)
    doings = ("watered", "painted", "sold", "mended", "carried", "measured")
    things = ("fence", "ladder", "boat", "table", "kettle", "wheel", "basket")
    for back in range(70):
        day = TODAY - timedelta(days=back)
        if day not in without:
            lines = [
                f"- {doings[(back + k) % 6]} the {things[(back + 2 * k) % 7]} number {k % 31} of {k % 12}" for k in range(a_day)
            ]
            (folder / f"{day}.md").write_text(f"# {day}\n\n" + "\n".join(lines) + "\n")
    return memory_at(
        folder.parent, tmp_path / "i.sqlite", SHORT, agent="main", clock=memory_clock(), zone=ZoneInfo("Europe/Berlin")
    )


FIGURES = (
    "Was war am 03.11.2026?",
    "am 3.11.",
    "what happened on 3/11/2026?",
    "2026-11-03",
    "le 3/11",
    "the dentist on 2026-11-03",
)


async def test_figures_bring_the_notes_of_their_day_in_a_large_memory(tmp_path: Path) -> None:
    memory = large(tmp_path)
    await memory.sync()
    for question in FIGURES:
        hits = (await memory.search(question, audience=OWNER)).hits
        assert hits, question
        assert hits[0].path == "memory/2026-11-03.md", question
    await memory.close()


async def test_figures_of_a_day_without_notes_bring_nothing_but_what_tells_of_it(tmp_path: Path) -> None:
    memory = large(tmp_path, without=(date(2026, 11, 3), date(2026, 11, 4)), a_day=20)
    await memory.sync()
    for question in (*FIGURES, "what did Otto mend on 03.11.2026?", "was war vor 23 Tagen?"):
        assert (await memory.search(question, audience=OWNER)).hits == (), question
    (tmp_path / "ws/memory/2026-10-20.md").write_text("- The dentist's appointment is on 03.11.2026 at nine.\n")
    await memory.sync()
    hits = (await memory.search("Was war am 03.11.2026?", audience=OWNER)).hits
    assert [hit.path for hit in hits] == ["memory/2026-10-20.md"]
    await memory.close()


async def test_a_range_in_figures_brings_the_notes_of_its_days_before_those_of_other_years(tmp_path: Path) -> None:
    memory = large(tmp_path, a_day=3)
    for note in list((tmp_path / "ws/memory").glob("2026-*.md")):
        (note.parent / note.name.replace("2026", "2025")).write_text(note.read_text().replace("2026", "2025"))
    await memory.sync()
    for question, year in (
        ("Was war 3.–7.11.?", 2026),
        ("2026-11-03 to 2026-11-07", 2026),
        ("03.11.-07.11.2025", 2025),
        ("entre le 3 et le 7 novembre 2025", 2025),
    ):
        found = {hit.path for hit in (await memory.search(question, audience=OWNER)).hits[:5]}
        assert found <= {f"memory/{year}-11-{day:02}.md" for day in range(3, 8)}, question
        assert len(found) > 2, question
    await memory.close()


async def test_a_range_brings_the_notes_of_its_days_and_what_tells_of_it(tmp_path: Path) -> None:
    memory = large(tmp_path, a_day=20)
    (tmp_path / "ws/memory/2026-09-18.md").write_text("- We booked the cabin in the Alps, 3.–7.11.\n")
    await memory.sync()
    for question in (
        "Was war 3.–7.11.?",
        "what happened Nov 3-7?",
        "what did we do between 3 and 7 November?",
        "du 3 au 7 novembre",
    ):
        days = [hit.path[7:17] for hit in (await memory.search(question, audience=OWNER)).hits]
        assert days, question
        assert len([day for day in days if "2026-11-03" <= day <= "2026-11-07"]) == 5, question
    hits = (await memory.search("Which cabin is booked 3.–7.11.?", audience=OWNER)).hits
    assert "memory/2026-09-18.md" in [hit.path for hit in hits]
    strange = "which spaceship launched the orbital telescope with rockets Nov 3-7, 2024?"
    assert (await memory.search(strange, audience=OWNER)).hits == ()
    await memory.close()


async def test_a_time_alone_brings_days_from_all_of_it(tmp_path: Path) -> None:
    memory = large(tmp_path)
    await memory.sync()
    for question, first, last in (
        ("what did we do last month?", "2026-10-01", "2026-10-31"),
        ("in October", "2026-10-01", "2026-10-31"),
        ("Was war im Herbst?", "2026-09-18", "2026-11-26"),
        ("in 2026", "2026-09-18", "2026-11-26"),
    ):
        days = [date.fromisoformat(hit.path[7:17]) for hit in (await memory.search(question, audience=OWNER)).hits]
        start, end = date.fromisoformat(first), date.fromisoformat(last)
        assert days == sorted(days)
        assert all(start <= day <= end for day in days)
        quarter = (end - start) / 4
        assert days[0] < start + quarter < end - quarter < days[-1], question
    await memory.close()


async def test_a_group_gets_its_own_notes_of_a_time(tmp_path: Path) -> None:
    memory = large(tmp_path)
    group = tmp_path / "ws/memory/groups/g1"
    group.mkdir(parents=True)
    (group / "2026-10-07.md").write_text("- we chose the harbour for the picnic\n")
    await memory.sync()
    for question in ("what did we do in October?", "what was on 2026-10-07?", "last month"):
        hits = (await memory.search(question, audience=Audience("group", "g1"))).hits
        assert [hit.path for hit in hits] == ["memory/groups/g1/2026-10-07.md"], question
    await memory.close()


async def test_a_year_is_looked_up_without_reading_all_of_its_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    await large(tmp_path, a_day=60).close()
    at_file = WorkspaceMemory(tmp_path / "ws", tmp_path / "file.sqlite", SHORT, agent="main", clock=memory_clock())
    await at_file.sync()
    chunks = (await at_file.status()).chunks
    await at_file.close()
    index = SqliteIndex.open(tmp_path / "file.sqlite", SHORT, now=memory_clock().now())
    rows, read = index.database.rows, list[int]()

    def counted(*asked: Any) -> list[Any]:
        found = list(rows(*asked))
        read.append(len(found))
        return found

    monkeypatch.setattr(index.database, "rows", counted)
    found = index.lookup(query_terms(""), None, days=[Span(date(2026, 1, 1), date(2026, 12, 31))], audience=None, limit=60)
    index.close()
    assert len(found.candidates) == 60
    assert sum(read) < 70 + 4 * 60 + 60 + 20 < chunks  # days, some chunks of each, candidates
