"""What setup shows: lines that end between words, and nothing of what is typed while it asks a server."""

from __future__ import annotations

import os
import select
import sys
from typing import TYPE_CHECKING

from gateway.base.terminal_text import without_markup, wrapped
from gateway.setup.questions import nothing_typed

if TYPE_CHECKING:
    import pytest


def test_what_is_typed_while_a_server_is_asked_is_neither_shown_nor_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    person, terminal = os.openpty()
    with os.fdopen(terminal) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        with nothing_typed():
            os.write(person, b"sk-pasted-twice\n")
            assert select.select([stdin], [], [], 2)[0], "it was typed"
        assert not select.select([stdin, person], [], [], 0.2)[0]
        os.write(person, b"yes\n")
        assert stdin.readline() == "yes\n"
        assert os.read(person, 100) == b"yes\r\n", "what is typed afterwards is shown"
    os.close(person)


def test_lines_end_between_words_and_what_is_copied_stays_whole() -> None:
    link = "https://t.me/homebody_test_bot?start=ABCDEFGHIJKLMNOP"
    text = f"  Without a model it is a notebook: it files what you tell it.\n{link}\nshort"
    assert wrapped(text, 40) == f"  Without a model it is a notebook: it\n  files what you tell it.\n{link}\nshort"
    assert wrapped(text, 200) == text
    command = "  homebody config set agents.defaults.workspace ~/homebody"
    assert wrapped(command, 40) == command


TABLE = """\
| day | model | calls | cost |
|---|---|---:|---:|
| 2026-11-28 | a/b | 12 | $0.10 |
| 2026-11-29 | a/longer | 3 | $1.00 |

Total."""


def test_a_table_is_columns_in_a_terminal_and_two_lines_a_row_in_a_narrow_one() -> None:
    assert without_markup(TABLE, 60).splitlines() == [
        "day         model     calls   cost",
        "2026-11-28  a/b          12  $0.10",
        "2026-11-29  a/longer      3  $1.00",
        "",
        "Total.",
    ]
    assert without_markup(TABLE, 30).splitlines()[:2] == ["2026-11-28  a/b", "  calls 12, cost $0.10"]
    assert without_markup("no table", 10) == "no table"
