"""Lines that a mail program wrapped are joined as it says (RFC 3676), and base64 that is broken is noticed."""

from __future__ import annotations

import base64
from textwrap import wrap
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from channels.common.mail.flowed_text import joined_lines
from channels.common.mail.imap_connection import ImapConnection
from channels.common.mail.stored_mail import attachment, read_mail
from channels.common.mail.transfer_encoding import Decoder
from tests.properties import examples

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gateway.settings.mail_settings import MailAccount
    from tests.mail.conftest import Deliver


@pytest.fixture
def connection(account: MailAccount) -> Iterator[ImapConnection]:
    made = ImapConnection(account)
    made.begin()
    yield made
    made.close()


WRITTEN = """\
> Will you come on Thursday, or is \r
> Friday better for you?\r
>> I asked that a week ago, and \r
> nobody answered.\r
I come on Thursday, with the \r
cake and the plates.\r
\r
 > this is no quotation\r
 From here on it is short.\r
-- \r
Anna \r
"""
JOINED = """\
> Will you come on Thursday, or is Friday better for you?
>> I asked that a week ago, and 
> nobody answered.
I come on Thursday, with the cake and the plates.

 > this is no quotation
From here on it is short.
-- 
Anna 
"""  # noqa: W291 - spaces at the end of a line are what this is about


def test_paragraphs_are_joined_within_one_depth_of_quotation_and_signatures_stay() -> None:
    assert joined_lines(WRITTEN.encode(), without_space=False).decode() == JOINED


def test_languages_without_spaces_are_joined_without_them() -> None:
    text = "本日はお集まり \r\nいただき、ありがとう。\r\n"
    assert joined_lines(text.encode(), without_space=True).decode() == "本日はお集まりいただき、ありがとう。\n"


PARAGRAPHS = st.lists(
    st.tuples(
        st.integers(0, 3),
        st.text("ab >-é", min_size=1, max_size=200)
        .map(lambda text: " ".join(text.split()))
        .filter(lambda text: text not in {"", "--"}),
    ),
    min_size=1,
    max_size=6,
)


@settings(max_examples=examples(200))
@given(PARAGRAPHS)
def test_what_a_program_wraps_comes_back_as_it_was_written(paragraphs: list[tuple[int, str]]) -> None:
    lines, expected = [], []
    for depth, text in paragraphs:
        pieces = wrap(text, 20, break_on_hyphens=False) or [text]
        mark = ">" * depth
        for number, piece in enumerate(pieces):
            stuffed = f" {piece}" if depth or piece.startswith((" ", ">", "From ")) else piece
            lines.append(mark + stuffed + (" " if number < len(pieces) - 1 else ""))
        expected.append(f"{mark} {' '.join(pieces)}" if depth or pieces[0].startswith(">") else " ".join(pieces))
    if any(piece == "--" for _, text in paragraphs for piece in wrap(text, 20, break_on_hyphens=False)):
        return  # such a line looks like that of a signature
    assert joined_lines("\r\n".join(lines).encode(), without_space=False).decode() == "\n".join(expected)


@pytest.mark.parametrize(
    ("written", "damaged"),
    [
        (base64.encodebytes(b"x" * 300), False),
        (base64.b64encode(b"x" * 4).rstrip(b"="), False),
        (base64.b64encode(b"x" * 30)[:-3], True),
        (base64.b64encode(b"x" * 30)[:20] + b"*!" + base64.b64encode(b"x" * 30)[20:], True),
        (base64.b64encode(b"x" * 4) + base64.b64encode(b"y" * 4), True),
        (b"", False),
    ],
)
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_broken_base64_is_noticed_in_pieces_of_any_size(written: bytes, size: int, *, damaged: bool) -> None:
    decoder = Decoder("base64")
    for at in range(0, len(written), size):
        decoder.add(written[at : at + size])
    decoder.end()
    assert decoder.damaged == damaged


def test_a_mail_on_a_server_is_read_in_whole_paragraphs(connection: ImapConnection, deliver: Deliver) -> None:
    head = "From: Anna <a@example.org>\r\nSubject: flowed\r\nMIME-Version: 1.0\r\n"
    deliver((head + "Content-Type: text/plain; charset=utf-8; Format=Flowed\r\n\r\n" + WRITTEN).encode())
    found = read_mail(connection, connection.select("INBOX").next_uid - 1, ())
    assert found.texts[0].data.decode().startswith(JOINED.rstrip())


def test_an_attachment_with_broken_base64_is_known_to_be_damaged(connection: ImapConnection, deliver: Deliver) -> None:
    head = (
        "From: Anna <a@example.org>\r\nSubject: file\r\nMIME-Version: 1.0\r\nContent-Type: application/pdf\r\n"
        'Content-Disposition: attachment; filename="a.pdf"\r\nContent-Transfer-Encoding: base64\r\n\r\n'
    )
    whole = base64.b64encode(b"%PDF-1.7 and so on").decode()
    for body in (whole, whole[:9] + "!!" + whole[10:]):
        deliver((head + body + "\r\n").encode())
    first = connection.select("INBOX").next_uid - 2
    for uid, damaged in ((first, False), (first + 1, True)):
        (part,) = read_mail(connection, uid, ()).attachments
        assert attachment(connection, uid, part, 1000)[1] == damaged
