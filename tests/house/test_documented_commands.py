"""`make typed` types what a person would type, and sees what fails."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.documented_commands import Person, plan, type_in, whole

if TYPE_CHECKING:
    from pathlib import Path


def test_a_command_of_the_text_is_typed_if_it_names_all_that_it_needs() -> None:
    assert whole("homebody doctor --only port")
    assert not whole("homebody cron")
    assert not whole("homebody cron log")
    assert not whole("homebody config get KEY")
    assert not whole("homebody agents add\\|list")


def test_blocks_come_first_and_the_text_adds_what_no_page_had(tmp_path: Path) -> None:
    page, other = tmp_path / "page.md", tmp_path / "other.md"
    page.write_text("`homebody models list`, `homebody todo list`\n\n    homebody todo list   # all\n    $ homebody status\n")
    other.write_text("`homebody models list`, `homebody pairing list`\n")
    assert plan([page, other]) == {
        page: ["homebody todo list   # all", "homebody status", "homebody models list"],
        other: ["homebody pairing list"],
    }


def test_a_command_that_fails_is_seen_with_what_it_said(tmp_path: Path) -> None:
    person = Person(tmp_path)
    assert type_in(person, "homebody config set gateway.port 18791   # another port") == ""
    assert type_in(person, "homebody config get gateway.port | grep -q 18791") == ""
    assert "ended with 2: homebody: there is no setting 'gateway.nothing'" in type_in(
        person, "homebody config set gateway.nothing 1"
    )
