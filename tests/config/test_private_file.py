"""Small files of the house's own are whole or as they were, and nobody else's to read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.base.atomic_file import write_atomically
from tests.properties import examples

if TYPE_CHECKING:
    from pathlib import Path


@given(text=st.text(st.characters(exclude_categories=["Cs"])), durable=st.booleans())
@settings(max_examples=examples(20), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_is_written_is_what_is_read_to_the_letter(tmp_path: Path, text: str, durable: bool) -> None:
    write_atomically(tmp_path / "file", text, durable=durable)
    assert (tmp_path / "file").read_bytes() == text.encode()
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o600
    assert {found.name for found in tmp_path.iterdir()} == {"file"}


def test_what_cannot_be_written_leaves_the_former_file_and_nothing_else(tmp_path: Path) -> None:
    write_atomically(tmp_path / "file", "before")
    with pytest.raises(UnicodeEncodeError):
        write_atomically(tmp_path / "file", "half a \ud800")
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="directory"):
        write_atomically(tmp_path / "folder", "x")
    assert (tmp_path / "file").read_text() == "before"
    assert {found.name for found in tmp_path.iterdir()} == {"file", "folder"}
