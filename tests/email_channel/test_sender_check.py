"""Who a mail is from: what the owner's server says, however somebody tries to say it in its place."""

from __future__ import annotations

from email.message import Message
from email.parser import HeaderParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channels.email.sender_check import is_verified, results_of

SERVER = "mx.example.net"
ANNA = "anna@example.org"


def mail(*checks: str, sender: str = f"Anna <{ANNA}>") -> Message:
    made = Message()
    for check in checks:
        made["Authentication-Results"] = check
    made["From"] = sender
    return made


@pytest.mark.parametrize(
    "check",
    [
        "mx.example.net; dmarc=pass (p=NONE sp=NONE dis=NONE) header.from=example.org",
        "mx.example.net; dkim=pass header.i=@example.org header.s=s1 header.b=AbC=; spf=fail smtp.mailfrom=other.example",
        "mx.example.net 1; dkim=pass header.d=example.org",
        "MX.Example.NET;\r\n dkim=pass (2048-bit key; unprotected) header.d=example.org header.i=@example.org;\r\n dmarc=none",
        "mx.example.net; spf=pass (sender is authorized) smtp.mailfrom=anna@example.org",
        "mx.example.net; spf=pass smtp.mailfrom=example.org smtp.helo=a.example",
        'mx.example.net; auth=pass smtp.auth="anna@example.org" smtp.mailfrom=anna@example.org',
        "mx.example.net; dkim = pass header.d = example.org",
        "mx.example.net; dmarc=none header.from=example.org; spf=pass smtp.mailfrom=anna@example.org",
    ],
)
def test_a_sender_is_verified_by_what_the_server_says(check: str) -> None:
    assert is_verified(mail(check), ANNA, SERVER)


@pytest.mark.parametrize(
    "check",
    [
        "",
        "mx.example.net; none",
        "other.example; dmarc=pass header.from=example.org",
        "mx.example.net.evil.example; dmarc=pass header.from=example.org",
        "mx.example.net; dmarc=fail header.from=example.org; dkim=pass header.d=example.org",
        "mx.example.net; dmarc=pass header.from=evil.example",
        "mx.example.net; dkim=pass header.d=evil.example",
        "mx.example.net; dkim=pass header.d=sub.example.org",
        "mx.example.net; dkim=pass header.d=org",
        "mx.example.net; spf=pass smtp.mailfrom=evil.example smtp.helo=example.org",
        "mx.example.net; spf=pass smtp.mailfrom=sub.example.org",
        "mx.example.net; auth=pass smtp.auth=ben@example.org",
        'mx.example.net; spf=pass smtp.mailfrom="x; dmarc=pass header.from=example.org "@evil.example',
        "mx.example.net; spf=fail (dmarc=pass header.from=example.org) smtp.mailfrom=evil.example",
        'mx.example.net; spf=fail reason="a\\"; dmarc=pass header.from=example.org; x=\\"" smtp.mailfrom=evil.example',
        "mx.example.net; iprev=pass policy.iprev=example.org",
        "mx.example.net (; dmarc=pass header.from=example.org",
        "mx.example.net; dmarc=passed header.from=example.org",
        "mx.example.net; x-dmarc=pass header.from=example.org",
        "mx.example.net; dmarc=pass header.from=evil.example header.from=example.org",
        "mx.example.net; dmarc=pass header.from=evil.example; dkim=pass header.d=example.org",
        "mx.example.net; dmarc=none header.from=evil.example; spf=pass smtp.mailfrom=anna@example.org",
    ],
)
def test_anything_else_verifies_nobody(check: str) -> None:
    assert not is_verified(mail(*([check] if check else [])), ANNA, SERVER)


@pytest.mark.sec(6)
def test_only_the_topmost_header_counts() -> None:
    good, other = f"{SERVER}; dmarc=pass header.from=example.org", f"{SERVER}; dmarc=fail header.from=example.org"
    assert is_verified(mail(good, other), ANNA, SERVER)
    assert not is_verified(mail(other, good), ANNA, SERVER)
    assert not is_verified(mail("relay.example; none", good), ANNA, SERVER)


def test_two_senders_are_none_and_so_is_a_check_without_a_name() -> None:
    made = mail(f"{SERVER}; dmarc=pass header.from=example.org")
    assert not is_verified(made, ANNA, None)
    assert not is_verified(made, ANNA, "")
    made["From"] = "eve@evil.example"
    assert not is_verified(made, ANNA, SERVER)


@pytest.mark.sec(6)
@pytest.mark.parametrize(
    "sender",
    [
        f"Anna <{ANNA}>, Eve <eve@evil.example>",
        f"Anna <{ANNA}>,\r\n Eve <eve@example.org>",
        f"friends: {ANNA}, eve@evil.example;",
        f"friends: {ANNA};",
        f"<{ANNA}> <eve@evil.example>",
        f"{ANNA} <eve@evil.example>",
        f"eve@evil.example <{ANNA}>",
        f"{ANNA}, ",
        f"{ANNA} eve@evil.example",
        "anna(eve@evil.example)@example.org",
        f"<@evil.example:{ANNA}>",
        f'"Anna" <{ANNA}> "Eve" <eve@evil.example>',
        f"Anna (<eve@evil.example>, (nested)) <{ANNA}>",
        "Anna <anna@example.org@evil.example>",
        "Anna <anna@example.org\u200b>",
        "Anna <anna@\uff45xample.org>",
    ],
)
def test_a_from_that_could_be_read_as_two_addresses_verifies_nobody(sender: str) -> None:
    check = f"{SERVER}; dmarc=pass header.from=example.org; spf=pass smtp.mailfrom=eve@example.org"
    assert not is_verified(mail(check, sender=sender), ANNA, SERVER)


@pytest.mark.parametrize(
    "sender",
    [
        ANNA,
        f"<{ANNA}>",
        f"Anna <{ANNA.upper()}>",
        f"{ANNA} <{ANNA}>",
        f"{ANNA} (Anna, at home)",
        f'"Lee, Anna \\"(A)\\" eve@evil.example" <{ANNA}>',
        f"=?utf-8?q?Anna=2C_Lee?= (work)\r\n <{ANNA}>",
        f'Dr. "Anna" Lee <{ANNA}>',
    ],
)
def test_one_address_verifies_however_its_name_is_written(sender: str) -> None:
    assert is_verified(mail(f"{SERVER}; dmarc=pass header.from=example.org", sender=sender), ANNA, SERVER)


def test_an_international_domain_is_compared_as_servers_write_it() -> None:
    check = f"{SERVER}; dmarc=pass header.from=xn--bcher-kva.example"
    assert is_verified(mail(check, sender="Anna <anna@bücher.example>"), "anna@xn--bcher-kva.example", SERVER)


@given(st.text(max_size=200))
def test_what_stands_in_quotation_marks_or_comments_never_verifies(text: str) -> None:
    quoted = text.replace("\\", "").replace('"', "").replace("\r", "").replace("\n", "")
    check = f'{SERVER}; spf=pass smtp.mailfrom="{quoted}"@evil.example'
    assert not is_verified(mail(check), ANNA, SERVER)
    bare = quoted.replace("(", "").replace(")", "")
    assert not is_verified(mail(f"{SERVER} ({bare}); spf=none ({bare})"), ANNA, SERVER)


@given(st.text(st.characters(codec="utf-8"), max_size=300))
def test_no_header_makes_it_fail(text: str) -> None:
    results_of(text)
    is_verified(HeaderParser().parsestr(f"Authentication-Results: {text}\nFrom: {text}\n\n"), ANNA, SERVER)
