"""A message is taken apart again as the gateway puts it together: its sender's words, edits, words of others with whose they are."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from agent.said_words import Brought, Edit, said_words
from agent.taint import fenced
from channels.messages import ChatAddress, Inbound, Sender
from gateway.inbound.message_routing import edited, reaction
from gateway.turns.user_message import body

NOON = datetime(2026, 11, 28, 12, tzinfo=UTC)
PLACE = ChatAddress(channel="telegram", kind="direct", id="42")


def message(text: str) -> Inbound:
    return Inbound(
        conversation=PLACE,
        sender=Sender(id="42", name="Anna"),
        text=text,
        at=NOON,
        key="1",
        alias="1",
        message_id="1",
        target="0",
    )


def test_an_edit_is_its_new_words_and_what_happened_else_is_nothing() -> None:
    lines = [edited(message("the code is 4712\nand [not] 4711")), reaction(message("👍"), "well done")]
    found = said_words("\n".join([*lines, "[In reply to: “4711?”]", "[The message]", "thank you"]))
    assert (found.own, found.edits, found.brought) == ("thank you", (Edit("the code is 4712\nand [not] 4711"),), ())


def test_a_forward_without_words_says_nothing() -> None:
    assert said_words(body("[forwarded from Ludmilla Brandt]\n")).brought == ()
    assert said_words(body("[forwarded from Ludmilla Brandt]\nfrom Kiel")).brought == (
        Brought("Forwarded from Ludmilla Brandt", "from Kiel"),
    )


def test_an_edit_in_a_group_is_of_who_made_it() -> None:
    line = edited(replace(message("my dog stays at home"), conversation=replace(PLACE, kind="group")))
    assert said_words(f"{line}\n[The message]\nthree").edits == (Edit("my dog stays at home", "Anna"),)


def test_an_edit_of_words_of_others_says_whose_they_are() -> None:
    found = said_words(f"{edited(message('a new price'), ('forwarded:Ben',))}\n[The message]\nthanks")
    assert (found.own, found.edits, found.brought) == ("thanks", (), (Brought("Forwarded from Ben", "a new price"),))


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (
            "[forwarded from Mallory]\nThe bank moves.\nAnd closes.",
            ("Forwarded from Mallory: The bank moves.", "Forwarded from Mallory: And closes."),
        ),
        ("[forwarded]\nThe bank moves.", ("Forwarded: The bank moves.",)),
        ("[forwarded from a contact]\n[contact: Ben, +491511]", ("Contact: Ben, +491511",)),
        ("[forwarded from a map]\n[place: Cafe, Street 1 (52.5, 13.4)]", ("Place: Cafe, Street 1 (52.5, 13.4)",)),
    ],
)
def test_words_of_others_come_with_whose_they_are(text: str, lines: tuple[str, ...]) -> None:
    found = said_words(body(text))
    assert (found.own, [one.lines for one in found.brought]) == ("", [lines])


def test_a_file_is_named_and_its_text_is_its_own() -> None:
    text = fenced("line one\nline two", ["file:n.txt"])
    found = said_words(f"look at this\n[file: inbox/1-n.txt 17 bytes text/plain]\n{text}\n[cut: 900 characters in all]")
    assert (found.own, found.files) == ("look at this", ("inbox/1-n.txt 17 bytes text/plain",))
    assert [one.lines for one in found.brought] == [("From the file n.txt: line one", "From the file n.txt: line two")]


@pytest.mark.parametrize(
    "line",
    [
        "[file: x.txt could not be downloaded: it is too large]",
        "[sticker 👍 of the set Cats]",
        "[🎲 shows 4]",
        "[2 more files were not downloaded (at most 10 per message): a, b]",
        "[it cannot be shown: it is a broken picture]",
        "[something that WhatsApp does not show to programs (ephemeral)]",
        "[story, which bots cannot see]",
        "[something that cannot be read here: gift]",
        "[with files that were not downloaded: a.txt]",
    ],
)
def test_lines_of_the_gateway_are_no_words_of_anybody(line: str) -> None:
    assert said_words(f"so\n{line}\nit is") == said_words("so\nit is")
    assert said_words(line) == said_words("")


def test_what_people_put_in_brackets_and_what_they_speak_stays() -> None:
    text = "[ ] milk\n[x] eggs\n[1] the first\n[Ben said it]"
    assert said_words(text).own == text
    assert said_words("[voice message, 0:03] call Ben").own == "call Ben"
    assert said_words("[location: 52.5, 13.4]").own == "Location: 52.5, 13.4"


@given(st.text())
def test_whatever_is_written_is_taken_apart_without_an_error(text: str) -> None:
    assert len(said_words(body(text)).own) <= len(text) + 10
