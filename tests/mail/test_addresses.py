"""Addresses: as they are shown, and as they are sent to."""

from __future__ import annotations

from email.utils import getaddresses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.errors import MailRefused
from channels.common.mail.mail_addresses import addresses_of, header_of
from gateway.mail.recipients import recipients


def test_the_address_comes_first_and_a_name_that_is_another_address_is_told() -> None:
    (found,) = addresses_of('"service@bank.example" <eve@evil.example>')
    assert found.shown.startswith("eve@evil.example")
    assert "service@bank.example" in found.warning


def test_an_encoded_name_with_another_address_is_told_too() -> None:
    (found,) = addresses_of("=?utf-8?q?service=40bank=2Eexample?= <eve@evil.example>")
    assert "service@bank.example" in found.warning


def test_international_domains_are_shown_in_both_forms_and_mixed_ones_told() -> None:
    (fine,) = addresses_of("<a@bücher.example>")
    assert fine.address == "a@xn--bcher-kva.example"
    assert "bücher" in fine.shown
    assert not fine.warning
    (odd,) = addresses_of("<a@p\u0430ypal.example>")  # a Cyrillic letter
    assert odd.address.startswith("a@xn--")
    assert "mixes alphabets" in odd.warning


def test_recipients_are_read_from_a_list() -> None:
    found = recipients('Anna <anna@example.org>, "Lee, Bob" <bob@example.org>; c@example.org', "to")
    assert [one.address for one in found] == ["anna@example.org", "bob@example.org", "c@example.org"]
    assert [address for _, address in getaddresses([header_of(found)])] == [one.address for one in found]


@given(st.text(max_size=60))
def test_what_is_sent_to_is_what_other_programs_read_in_the_header(text: str) -> None:
    try:
        found = recipients(text, "to")
    except MailRefused:
        return
    assert [address for _, address in getaddresses([header_of(found)])] == [one.address for one in found] or not found
    assert all("\n" not in one.address and one.address.count("@") == 1 for one in found)


@pytest.mark.parametrize(
    "text", ["a@b@c.example", "a@", "anna@example.org <eve@evil.example> x", "(c)a@b.example", "a b@c.example"]
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(MailRefused):
        recipients(text, "to")


@given(st.text(max_size=200))
def test_no_header_makes_reading_fail(text: str) -> None:
    for one in addresses_of(text):
        assert "\n" not in one.shown
        assert one.shown
        assert one.warning is not None
