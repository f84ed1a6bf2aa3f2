"""What strangers put into their headers stays text in the headers of an answer, and a mail that was written is kept nowhere."""

from __future__ import annotations

import base64
import gc
import re
import tracemalloc
from datetime import UTC, datetime
from email import message_from_bytes
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channels.common.mail.mail_addresses import Address
from channels.common.mail.mail_headers import headers_of
from channels.email.mail_writing import OutgoingMail
from channels.email.mail_writing import written as answer
from channels.email.threads import answered
from gateway.mail.composing import Letter
from gateway.mail.composing import written as letter

if TYPE_CHECKING:
    from email.message import Message

NOW = datetime(2026, 5, 1, tzinfo=UTC)
INJECTED = "=?utf-8?q?=0D=0ABcc:_eve@evil.example=0D=0A?="
TWICE = f"=?utf-8?b?{base64.b64encode(INJECTED.encode()).decode()}?="
"""An encoded word that, decoded, is one again."""
KEYS = [
    "From",
    "To",
    "Subject",
    "Date",
    "Message-ID",
    "In-Reply-To",
    "References",
    "Auto-Submitted",
    "X-Auto-Response-Suppress",
]
KEYS += ["MIME-Version", "Content-Type"]


def written_answer_to(raw: str, name: str = "") -> bytes:
    headers = headers_of(raw.encode("utf-8", "replace"))
    file = (name, "text/plain", b"x") if name else None
    mail = OutgoingMail(
        sender="Homebody <agent@example.net>",
        to="anna@example.org",
        message_id="<1@example.net>",
        text="Yes.",
        at=NOW,
        answers=answered(headers),
        file=file,
    )
    return answer(mail)


def answer_to(raw: str, name: str = "") -> Message:
    return message_from_bytes(written_answer_to(raw, name))


@pytest.mark.parametrize(
    "subject", ["E11 =?utf-8?B?!!!broken?= ...", "Größe =?utf-8?B?!!!broken?= und", "=?utf-8?q?caf=C3?=", INJECTED, TWICE]
)
def test_an_answer_goes_out_whatever_the_subject_is(subject: str) -> None:
    made = answer_to(f"Subject: {subject}\nMessage-ID: <root@example.org>\n\n")
    assert made.keys() == KEYS
    assert str(made["Subject"]).startswith("Re: ")
    assert "\n" not in str(made["Subject"]).strip()


@pytest.mark.sec(6)
def test_ids_and_names_of_files_write_no_headers() -> None:
    made = answer_to(f"Subject: x\nMessage-ID: <root@example.org>\nReferences: <a{INJECTED}> <b@example.org>\n\n", INJECTED)
    assert made.keys() == KEYS
    assert made["References"].split() == ["<b@example.org>", "<root@example.org>"]
    file = made.get_payload()[1]
    assert file.keys() == ["Content-Type", "Content-Transfer-Encoding", "Content-Disposition", "MIME-Version"]


@pytest.mark.sec(6)
def test_neither_does_a_letter_of_the_agent() -> None:
    made = Letter(
        account="home",
        sender="ann@example.net",
        to=(Address("eve@evil.example", INJECTED),),
        cc=(),
        bcc=(),
        subject=f"Re: {INJECTED}",
        text="hi",
        message_id="<1@example.net>",
    )
    found = message_from_bytes(letter(made, NOW))
    assert found.keys() == [
        "From",
        "To",
        "Subject",
        "Date",
        "Message-ID",
        "Content-Type",
        "Content-Transfer-Encoding",
        "MIME-Version",
    ]


@given(st.text(st.sampled_from("=?utf-8QqBb_0DA3F: \tä!@<>."), max_size=60))
def test_no_subject_keeps_an_answer_from_being_sent(subject: str) -> None:
    assert set(answer_to(f"Subject: {subject}\nMessage-ID: <root@example.org>\n\n").keys()) == set(KEYS)


def test_a_mail_that_was_sent_leaves_nothing_in_memory() -> None:
    re.purge()
    tracemalloc.start()
    try:
        for number in range(150):
            written_answer_to(f"Subject: {number}\n", "a.txt")
            if number == 50:
                gc.collect()
                before = tracemalloc.get_traced_memory()[0]
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] - before < 500 * 100
    finally:
        tracemalloc.stop()


def test_no_two_parts_of_mails_have_the_same_boundary() -> None:
    mails = [answer_to("Subject: a\n", "a.txt") for _ in range(20)]
    boundaries = [part.get_boundary() for mail in mails for part in mail.walk() if part.is_multipart()]
    assert len(set(boundaries)) == len(boundaries) == 2 * len(mails)
    assert [part.get_content_type() for part in mails[0].walk()] == [
        "multipart/mixed",
        "multipart/alternative",
        "text/plain",
        "text/html",
        "text/plain",
    ]
