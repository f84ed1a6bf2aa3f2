"""The table of docs/security.md says what the tests show, and no more."""

from __future__ import annotations

import ast

from tests.security.rows import NOT_APPLICABLE, ROWS, SECTIONS
from tests.security.table import BEGIN, END, PAGE, functions_of, named, page, rows_of, share

LEAST = 0.9


def test_the_page_is_current() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert text.count(BEGIN) == text.count(END) == 1
    assert text == page(), "run: .venv/bin/python -m tests.security.table --write"


def test_tests_name_rows_that_there_are_and_that_can_happen() -> None:
    found = named()
    assert found.keys() <= ROWS.keys()
    assert not found.keys() & NOT_APPLICABLE.keys(), "a row with a test applies: take it out of NOT_APPLICABLE"
    assert NOT_APPLICABLE.keys() <= ROWS.keys()
    assert all(any(row in numbers for numbers in SECTIONS.values()) for row in ROWS)


def test_nine_of_ten_rows_that_apply_hold() -> None:
    holding, applying = share(named())
    assert holding >= LEAST * applying


def test_a_test_that_never_runs_holds_nothing() -> None:
    tree = ast.parse(
        "import pytest\n"
        "@pytest.mark.sec(2, 5)\ndef test_a(): pass\n"
        "@pytest.mark.skip\n@pytest.mark.sec(3)\ndef test_b(): pass\n"
        "@pytest.mark.xfail(reason='x')\ndef test_sec_04_c(): pass\n"
        "@pytest.mark.skipif(True, reason='x')\nasync def test_sec_07_d(): pass\n"
        "def helper_sec_08(): pass\n"
    )
    assert [(test.name, rows_of(test)) for test in functions_of(tree)] == [("test_a", [2, 5]), ("test_sec_07_d", [7])]
