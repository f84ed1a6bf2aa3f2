"""Times of a year whose year is counted from today, in five languages: read as the days they mean, and asked of notes of many days."""

from __future__ import annotations

from calendar import monthrange
from datetime import date, timedelta
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.text.dates import Span, spans, spelt_out, time_words
from tests.memory.dated_notes import MONTHS, TODAY, dated_notes, days_found

if TYPE_CHECKING:
    from pathlib import Path


DAYS = st.dates(date(1990, 1, 1), date(2090, 12, 31))
LAST_YEAR = {
    "English": ("What did we do in {} last year?", "{} last year", "last year in {}", "in {} of last year", "last year's {}"),
    "German": (
        "Was war im {} letztes Jahr?",
        "{} letztes Jahr",
        "letztes Jahr im {}",
        "im {} des letzten Jahres",
        "{} vorigen Jahres",
    ),
    "French": (
        "en {} de l'année dernière",
        "{} l'an dernier",
        "l’année dernière, en {}",
        "qu'a-t-on fait en {} de l'année passée ?",
    ),
    "Spanish": ("en {} del año pasado", "{} del pasado año", "el año pasado en {}", "¿qué hicimos el año pasado, en {}?"),
    "Italian": ("in {} dell'anno scorso", "{} dello scorso anno", "l’anno scorso in {}", "lo scorso anno in {}"),
}
NUMBERS = {
    "English": ("a", "two", "3"),
    "German": ("einem", "zwei", "3"),
    "French": ("un", "deux", "3"),
    "Spanish": ("un", "dos", "3"),
    "Italian": ("un", "due", "3"),
}
YEARS_AGO = {
    "English": ("in {} {} years ago", "{1} years ago in {0}", "{}, {} years ago"),
    "German": ("im {} vor {} Jahren", "vor {1} Jahren im {0}"),
    "French": ("en {} d'il y a {} ans", "il y a {1} ans, en {0}", "{} il y a {} ans"),
    "Spanish": ("en {} de hace {} años", "hace {1} años en {0}"),
    "Italian": ("in {} di {} anni fa", "{1} anni fa in {0}"),
}
DAY_OF_MONTH = {
    "English": ("on {0} {1} last year", "{1} {0} last year", "last year on {1} {0}th"),
    "German": ("am {0}. {1} letztes Jahr", "letztes Jahr am {0}. {1}", "am {0}. {1} letzten Jahres"),
    "French": ("le {0} {1} de l'année dernière",),
    "Spanish": ("el {0} de {1} del año pasado",),
    "Italian": ("il {0} {1} dell'anno scorso",),
}

PARTS = {
    "English": (
        ("early {}", "at the beginning of {}", "what did we do at the start of {}?"),
        ("mid {}", "mid-{}", "in the middle of {}"),
        ("late {}", "towards the end of {}", "by the end of {}"),
    ),
    "German": (("Anfang {}", "Was war Anfang {}?"), ("Mitte {}", "seit Mitte {}"), ("Ende {}", "gegen Ende {}")),
    "French": (
        ("début {}", "au début du mois de {}", "qu'a-t-on fait début {} ?"),
        ("mi-{}", "à la mi-{}", "au milieu du mois de {}"),
        ("fin {}", "à la fin du mois de {}", "fin de {}"),
    ),
    "Spanish": (
        ("a principios de {}", "al inicio de {}", "a primeros de {}", "¿qué hicimos a comienzos del mes de {}?"),
        ("a mediados de {}", "hacia mediados del mes de {}"),
        ("a finales de {}", "a fines de {}", "al final de {}"),
    ),
    "Italian": (
        ("inizio {}", "all'inizio di {}", "ai primi di {}"),
        ("metà {}", "a metà {}", "a metà di {}"),
        ("fine {}", "alla fine di {}", "verso la fine di {}"),
    ),
}
OF_LAST_YEAR = {
    "English": ("{} last year", "{} of last year"),
    "German": ("{} letztes Jahr", "{} letzten Jahres", "letztes Jahr {}"),
    "French": ("{} de l'année dernière", "l'an dernier, {}"),
    "Spanish": ("{} del año pasado", "el año pasado {}"),
    "Italian": ("{} dell'anno scorso", "l'anno scorso {}"),
}


def whole_month(year: int, month: int) -> Span:
    return Span(date(year, month, 1), date(year, month, monthrange(year, month)[1]))


VOCABULARY = (
    "early mid late the end of Anfang Mitte Ende fin début mi- a finales de fine year years ago last this Jahr letztes vor zwei hace 3 "
    "October October's may Februar mars octobre octubre winter été spring 29 30. 31st first zweite last week Woche KW 45 53 weekend "
    "Novemberwoche Tuesday Dienstag mardi on am le und and to bis – - / , 2025 2024 3/11 7/11 1900 day month 2025-W45 kw53 ago?"
)


@given(st.lists(st.sampled_from(VOCABULARY.split()), max_size=10).map(" ".join), DAYS)
def test_whatever_is_asked_times_go_forward(question: str, today: date) -> None:
    assert all(span.first <= span.last for span in spans(question, today=today, order="day first"))
    assert isinstance(spelt_out(question, today=today), str)
    words = time_words(question, today=today)
    assert words.names.isdisjoint(words.beside)


@pytest.mark.parametrize("language", list(MONTHS))
@given(DAYS, st.integers(1, 12))
def test_a_month_of_last_year_is_that_month(language: str, today: date, month: int) -> None:
    for written in LAST_YEAR[language]:
        question = written.format(MONTHS[language][month - 1])
        assert spans(question, today=today) == [whole_month(today.year - 1, month)], question


@pytest.mark.parametrize("language", list(MONTHS))
@given(DAYS, st.integers(1, 12), st.integers(1, 3))
def test_a_month_some_years_ago_is_that_month_or_the_one_a_year_before(
    language: str, today: date, month: int, ago: int
) -> None:
    for written in YEARS_AGO[language]:
        question = written.format(MONTHS[language][month - 1], NUMBERS[language][ago - 1])
        [span] = spans(question, today=today)
        year = today.year - ago
        near = whole_month(year, month).last - today > timedelta(days=183 - 365 * ago)
        assert span == whole_month(year - near, month), question


@pytest.mark.parametrize("language", list(MONTHS))
@given(DAYS, DAYS)
def test_a_day_of_last_year_is_that_day(language: str, today: date, day: date) -> None:
    days = monthrange(today.year - 1, day.month)[1]
    for written in DAY_OF_MONTH[language]:
        question = written.format(min(day.day, days), MONTHS[language][day.month - 1])
        meant = date(today.year - 1, day.month, min(day.day, days))
        assert spans(question, today=today) == [Span(meant, meant)], question


@pytest.mark.parametrize("language", list(MONTHS))
@given(DAYS, st.integers(1, 12), st.integers(0, 2))
def test_a_part_of_a_month_is_a_third_of_it(language: str, today: date, month: int, part: int) -> None:
    def third(year: int) -> Span:
        first, last = whole_month(year, month).first, whole_month(year, month).last
        start = first + timedelta(days=10 * part)
        return Span(start, last if part == 2 else start + timedelta(days=9))

    this = third(today.year)
    for written in PARTS[language][part]:
        name = MONTHS[language][month - 1]
        phrase = written.format(name)
        for question, year in ((written.format(f"{name} 2024"), 2024), (phrase, today.year - (this.first > today))):
            assert spans(question, today=today) == [third(year)], question
        if "?" not in phrase:
            for of_last_year in OF_LAST_YEAR[language]:
                question = of_last_year.format(phrase)
                assert spans(question, today=today) == [third(today.year - 1)], question


@pytest.mark.parametrize(
    ("question", "first", "last"),
    [
        ("early 2025", "2025-01-01", "2025-04-30"),
        ("Was war Mitte 2025?", "2025-05-01", "2025-08-31"),
        ("a finales del año pasado", "2025-09-01", "2025-12-31"),
        ("Ende letzten Jahres", "2025-09-01", "2025-12-31"),
        ("début de l'année dernière", "2025-01-01", "2025-04-30"),
        ("fine dell'anno scorso", "2025-09-01", "2025-12-31"),
        ("at the beginning of the year", "2026-01-01", "2026-04-30"),
        ("late summer", "2026-08-01", "2026-08-31"),
        ("Ende des Winters", "2026-02-01", "2026-02-28"),
        ("early last November", "2026-11-01", "2026-11-10"),
        ("late last November", "2025-11-21", "2025-11-30"),
        ("fin novembre dernier", "2025-11-21", "2025-11-30"),
    ],
)
def test_years_and_seasons_have_parts_too(question: str, first: str, last: str) -> None:
    assert [(str(span.first), str(span.last)) for span in spans(question, today=TODAY)] == [(first, last)]


@pytest.mark.parametrize(
    "question",
    [
        "one fine May morning",
        "la final de 2025",
        "the Meta 2025 report",
        "the end of part 2",
        "at the end we may march",
        "mi mayo",
    ],
)
def test_common_words_that_are_parts_too_are_none(question: str) -> None:
    assert spans(question, today=TODAY) == []


@pytest.mark.parametrize(
    ("question", "first", "last"),
    [
        ("What happened in the summer of last year?", "2025-06-01", "2025-08-31"),
        ("letztes Jahr im Sommer", "2025-06-01", "2025-08-31"),
        ("im Herbst vor zwei Jahren", "2024-09-01", "2024-11-30"),
        ("im Herbst des vorletzten Jahres", "2024-09-01", "2024-11-30"),
        ("l'été de l'année dernière", "2025-06-01", "2025-08-31"),
        ("en verano del año pasado", "2025-06-01", "2025-08-31"),
        ("nell'estate di due anni fa", "2024-06-01", "2024-08-31"),
        ("in the fall of the year before last", "2024-09-01", "2024-11-30"),
        ("im Frühling dieses Jahres", "2026-03-01", "2026-05-31"),
        ("this year in winter", "2025-12-01", "2026-02-28"),
        ("May last year", "2025-05-01", "2025-05-31"),
        ("en mars de l'année dernière", "2025-03-01", "2025-03-31"),
        ("im Oktober des Vorjahres", "2025-10-01", "2025-10-31"),
        ("autumn 2025", "2025-09-01", "2025-11-30"),
        ("Herbst 2025", "2025-09-01", "2025-11-30"),
        ("été 2025", "2025-06-01", "2025-08-31"),
        ("otoño de 2025", "2025-09-01", "2025-11-30"),
        ("the fall of 2025", "2025-09-01", "2025-11-30"),
    ],
)
def test_a_season_or_month_and_a_year_in_words_are_one_time(question: str, first: str, last: str) -> None:
    assert [(str(span.first), str(span.last)) for span in spans(question, today=TODAY)] == [(first, last)]


@pytest.mark.parametrize(
    "question",
    [
        "où as-tu été l'année dernière ?",
        "il y en avait sept l'année dernière",
        "did prices fall last year?",
        "how did prices fall in 2025?",
        "did we march last year?",
        "how long may last year's stock keep?",
        "non ci siamo visti mai l'anno scorso",
    ],
)
def test_common_words_that_are_names_of_months_and_seasons_too_are_none(question: str) -> None:
    assert spans(question, today=TODAY) == [Span(date(2025, 1, 1), date(2025, 12, 31))]


def test_words_of_the_phrase_only_point_at_its_time() -> None:
    words = time_words("What did Tom repair in October last year?", today=TODAY)
    assert words.names == {"october"}
    assert {"last", "year"} <= words.beside
    assert words.months == ("October",)
    assert spelt_out("Wer kam am 3. Oktober letztes Jahr?", today=TODAY) == "Wer kam am 2025-10-03 (3 October 2025, Friday)?"


async def test_a_question_for_a_month_of_a_year_brings_notes_of_that_month_alone(tmp_path: Path) -> None:
    memory = dated_notes(tmp_path)
    await memory.sync()
    for question, month in (
        ("October last year", "2025-10"),
        ("Oktober letztes Jahr", "2025-10"),
        ("Was war im Oktober vor einem Jahr?", "2025-10"),
        ("en octobre de l'année dernière", "2025-10"),
        ("octobre d'il y a deux ans", "2024-10"),
        ("octubre del año pasado", "2025-10"),
        ("ottobre dell'anno scorso", "2025-10"),
    ):
        days = await days_found(memory, question)
        assert len(days) > 3, question
        assert all(day.startswith(month) for day in days), question
    assert await days_found(memory, "3 October last year") == ["2025-10-03", "2025-10-04"]
    await memory.close()


async def test_a_question_for_a_part_of_a_month_brings_notes_of_that_part_alone(tmp_path: Path) -> None:
    memory = dated_notes(tmp_path)
    await memory.sync()
    for question, first, last in (
        ("early November", "2026-11-01", "2026-11-10"),
        ("Anfang November", "2026-11-01", "2026-11-10"),
        ("Mitte Oktober", "2026-10-11", "2026-10-20"),
        ("What did we do at the end of October?", "2026-10-21", "2026-10-31"),
        ("fin octobre de l'année dernière", "2025-10-21", "2025-10-31"),
        ("a mediados de octubre", "2026-10-11", "2026-10-20"),
        ("fine ottobre", "2026-10-21", "2026-10-31"),
    ):
        days = await days_found(memory, question)
        assert len(days) > 3, question
        assert all(first <= day <= last for day in days), question
    await memory.close()


async def test_the_words_for_a_part_of_a_month_bring_no_notes_of_another_time(tmp_path: Path) -> None:
    memory = dated_notes(tmp_path)
    lines = "Gegenwind ohne Ende.\nDeux réunions sans fin.\nAlla fine tutto bene.\nThe late train, at the end of the line.\n"
    for day in ("2026-09-02", "2026-09-14", "2026-10-03", "2025-11-05", "2026-11-08"):
        (tmp_path / f"ws/memory/{day}.md").write_text(lines)
    (tmp_path / "ws/memory/2026-09-24.md").write_text("Mit Otto gegessen, mangé avec Otto, mangiato con Otto.\n")
    await memory.sync()
    for question in (
        "Was haben wir Ende September gegessen?",
        "Was geschah Ende September?",
        "Qu'avons-nous mangé fin septembre ?",
        "Cosa abbiamo mangiato a fine settembre?",
    ):
        days = await days_found(memory, question)
        assert len(days) == 6, question
        assert all("2026-09-21" <= day <= "2026-09-30" for day in days), question
    for question in ("What did Otto eat in late September, mangé?", "Was haben wir Ende September mit Otto gegessen?"):
        assert (await days_found(memory, question))[0] == "2026-09-24", question
    (tmp_path / "ws/memory/2026-10-05.md").write_text("Ende September fliegt Otto.\n")
    await memory.sync()
    assert "2026-10-05" in await days_found(memory, "Ende September")
    await memory.close()


async def test_words_that_ask_what_was_done_bring_no_notes_of_another_time(tmp_path: Path) -> None:
    memory = dated_notes(tmp_path)
    lines = "What happened to the tax is done. Die Steuer gemacht, es ist passiert. Fait. Hicimos pan. Abbiamo fatto il pane.\n"
    for day in ("2026-09-02", "2026-10-23", "2025-11-05", "2024-11-08"):
        (tmp_path / f"ws/memory/{day}.md").write_text(lines)
    await memory.sync()
    for question in (
        "What happened in early November?",
        "Was haben wir Anfang November gemacht?",
        "Was ist vom 1. bis 10. November passiert?",
        "Qu'avons-nous fait début novembre ?",
        "¿Qué hicimos a principios de noviembre?",
        "Che cosa abbiamo fatto a inizio novembre?",
    ):
        days = await days_found(memory, question)
        assert len(days) > 3, question
        assert all("2026-11-01" <= day <= "2026-11-10" for day in days), question
    (tmp_path / "ws/memory/2026-11-03.md").unlink()
    (tmp_path / "ws/memory/2026-11-04.md").unlink()
    await memory.sync()
    assert await days_found(memory, "Was habe ich am 3.11. gemacht?") == []
    await memory.close()
