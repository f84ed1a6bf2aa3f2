"""What setup shows: lines that end between words, and nothing of what is typed while it asks a server."""

from __future__ import annotations

import os
import select
import sys
from typing import TYPE_CHECKING

from gateway.setup.questions import nothing_typed
from gateway.setup.setup_screen import wrapped

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
