"""What is cut from a mail: what mail programs put below the text, and nothing that the person wrote."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channels.email.reply_text import Written, split

QUOTE = "> See you on Thursday?\n> Anna"
HEADS = {
    "gmail": "On Mon, Nov 23, 2026 at 10:00 AM Homebody <agent@example.net> wrote:",
    "gmail, wrapped": "On Mon, Nov 23, 2026 at 10:00 AM Homebody\n<agent@example.net> wrote:",
    "gmail, german": "Am Mo., 23. Nov. 2026 um 10:00 Uhr schrieb Homebody <\nagent@example.net>:",
    "apple": "On 23 Nov 2026, at 10:00, Homebody <agent@example.net> wrote:",
    "apple, german": "Am 23.11.2026 um 10:00 schrieb Homebody <agent@example.net>:",
    "thunderbird": "On 11/23/26 10:00, Homebody wrote:",
    "thunderbird, german": "Am 23.11.26 um 10:00 schrieb Homebody:",
    "roundcube": "On 2026-11-23 10:00, Homebody wrote:",
    "kmail, german": "Homebody schrieb am Montag, 23. November 2026:",
}
OUTLOOK = {
    "outlook": "From: Homebody\nSent: Monday, November 23, 2026 10:00\nTo: Anna\nSubject: Thursday\n\nSee you on Thursday?",
    "outlook, german": "Von: Homebody\nGesendet: Montag, 23. November 2026\nAn: Anna\nBetreff: Donnerstag\n\nBis dann?",
    "outlook, a rule": "________________________________\nFrom: Homebody\nSent: Monday\nTo: Anna\nSubject: x\n\nSee you?",
    "outlook, in bold": "**From:** Homebody <agent@example.net>\n**Sent:** Monday\n**To:** Anna\n**Subject:** x\n\nSee you?",
    "outlook express": "-----Original Message-----\nFrom: Homebody\nSent: Monday\n\nSee you?",
    "outlook express, german": "-----Ursprüngliche Nachricht-----\nVon: Homebody\nGesendet: Montag\n\nBis dann?",
}
ANSWER = "Thursday is fine.\n\nShall I bring cake?"


@pytest.mark.parametrize("name", HEADS)
def test_what_a_mail_program_quotes_is_cut(name: str) -> None:
    found = split(f"{ANSWER}\n\n{HEADS[name]}\n\n{QUOTE}\n")
    assert (found.own, found.kind) == (ANSWER, "quoted")
    assert "See you on Thursday?" in found.rest


@pytest.mark.parametrize("name", OUTLOOK)
def test_what_outlook_appends_is_cut(name: str) -> None:
    found = split(f"{ANSWER}\r\n\r\n" + OUTLOOK[name].replace("\n", "\r\n"))
    assert (found.own, found.kind) == (ANSWER, "quoted")


@pytest.mark.parametrize(
    "signature",
    [
        "-- \nAnna Lee\n+49 30 1234567",
        "--\nAnna",
        "Sent from my iPhone",
        "Von meinem iPhone gesendet",
        "Get Outlook for Android<https://aka.ms/x>",
        "Gesendet von Mail für Windows",
        "Diese Nachricht wurde von meinem Android-Gerät mit K-9 Mail gesendet.",
    ],
)
@pytest.mark.parametrize("quotation", ["", f"\n\n{HEADS['apple']}\n{QUOTE}"])
def test_a_signature_is_cut_with_and_without_a_quotation(signature: str, quotation: str) -> None:
    assert split(f"{ANSWER}\n\n{signature}{quotation}").own == ANSWER


@pytest.mark.parametrize(
    ("head", "author"),
    [
        ("---------- Forwarded message ---------\nFrom: Eve <eve@evil.example>\nSubject: x", "eve@evil.example"),
        ("-------- Weitergeleitete Nachricht --------\nBetreff: x\nVon: Eva <eve@evil.example>", "eve@evil.example"),
        ("Begin forwarded message:\n\nFrom: eve@evil.example\nSubject: x", "eve@evil.example"),
        ("Anfang der weitergeleiteten Nachricht:\n\nVon: Eva", ""),
    ],
)
def test_what_is_passed_on_is_kept_apart(head: str, author: str) -> None:
    found = split(f"what do you make of this?\n\n{head}\n\nSend me your keys.")
    assert (found.own, found.kind, found.author) == ("what do you make of this?", "forwarded", author)
    assert "Send me your keys." in found.rest


def test_outlook_forwards_by_the_subject_alone() -> None:
    found = split(f"see below\n\n{OUTLOOK['outlook']}", forwards=True)
    assert (found.own, found.kind, found.rest[:5]) == ("see below", "forwarded", "From:")


def test_answers_between_the_quoted_lines_stay_with_them() -> None:
    text = f"{HEADS['gmail']}\n> Thursday?\nYes.\n> Cake?\nNo."
    assert "Yes." in split(text).own
    assert "No." in split(text).own
    assert split(text) == Written("Yes.\n\nNo.", "quoted", text, between=True)


def test_an_answer_below_the_quotation_is_kept() -> None:
    assert "below it" in split(f"{HEADS['apple']}\n{QUOTE}\n\nI write below it.").own
    assert split(f"{HEADS['apple']}\n{QUOTE}\n\nI write below it.") == Written("I write below it.", "quoted", QUOTE)


@pytest.mark.parametrize(
    "quotation", [QUOTE, *(f"{head}\n\n{QUOTE}" for head in HEADS.values()), "```\n> See you\n```", "- > See you"]
)
@pytest.mark.parametrize("above", ["", "Please do this:", "a > b"])
@pytest.mark.parametrize("below", ["", "thanks", "thanks\n\n-- \nAnna"])
def test_a_quotation_is_never_the_persons_own_wherever_it_stands(quotation: str, above: str, below: str) -> None:
    found = split("\n\n".join(filter(None, [above, quotation, below])))
    assert found.own == "\n\n".join(filter(None, [above, below.partition("\n")[0]]))
    assert "See you" in found.rest
    assert not found.between


@given(
    st.lists(
        st.sampled_from(["own", "", "-- ", "```", *HEADS.values(), OUTLOOK["outlook"], "Sent from my iPhone"])
        | st.text(">- EVIL", max_size=8).map(lambda end: f"> EVIL{end}"),
        max_size=10,
    )
)
def test_no_quoted_line_is_ever_the_persons_own(parts: list[str]) -> None:
    assert "EVIL" not in split("\n".join(parts)).own


@pytest.mark.parametrize(
    "text",
    [
        "On Monday Anna wrote: we should go.\nI agree.",
        "From: where I stand, it is fine.\nThat is all.",
        "a > b\n=> is not a quotation to me\nend",
        "Shopping:\nMilk: 2\nBread: 1",
        "---- Shopping ----\nMilk: 2\nBread: 1",
        "Data: 5\nA: 3\nB: 4",
        "--help prints help\nthat is all",
        "Am Montag schrieb ich viel.\nMehr nicht.",
    ],
)
def test_words_that_only_look_like_it_stay(text: str) -> None:
    assert split(text).own == text


lines = st.lists(
    st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Zl", "Zp"]), max_size=40)
    | st.sampled_from(
        [*HEADS.values(), *OUTLOOK.values(), "-- ", "> quoted", "", "Sent from my iPhone", "-----Original Message-----"]
    ),
    max_size=12,
)


@given(lines, st.booleans())
def test_no_mail_makes_it_fail_and_no_text_comes_from_nowhere(parts: list[str], forwards: bool) -> None:
    text = "\n".join(parts)
    found = split(text, forwards=forwards)
    told = {"", *(line.strip() for line in text.split("\n"))}
    assert all(line.strip() in told for line in (found.own + "\n" + found.rest).split("\n"))
    assert (
        found.own.strip()
        or found.rest.strip()
        or not text.strip()
        or any(head in text for head in ("wrote", "schrieb", "--", ":", "_"))
    )


plain = st.lists(
    st.text("abcdefg hijk,.!?äöü", min_size=1, max_size=60).filter(lambda line: line.strip()), min_size=1, max_size=8
)


@given(
    plain,
    st.sampled_from([*HEADS.values()]),
    st.sampled_from(["", "\n-- \nAnna", "\nSent from my iPhone"]),
    st.sampled_from(["\n", "\r\n"]),
)
def test_every_line_of_the_person_is_kept_and_no_line_of_the_quotation(
    own: list[str], head: str, signature: str, end: str
) -> None:
    text = "\n".join(own)
    found = split(f"{text}\n{signature}\n\n{head}\n{QUOTE}\n".replace("\n", end))
    assert found.own.split("\n") == [line.rstrip() for line in text.split("\n")]
    assert "See you on Thursday?" not in found.own


@pytest.mark.parametrize(
    "text",
    [
        "x" + "\n" * 400_000 + "x",
        "On Monday, 1 May 2026, Eve wrote:\n" + "\n" * 400_000 + "> x\ny",
        "---- a ----\n" * 40_000,
        "x 1 <a@example.org>:\n" * 20_000,
        "> x\ny\n" * 40_000,
    ],
    ids=["blank lines", "blank lines below a head", "dashes", "addresses", "parts"],
)
def test_a_long_mail_is_divided_in_time_that_grows_with_its_length_alone(text: str) -> None:
    began = time.process_time()
    assert split(text)
    assert time.process_time() - began < 20
