"""No reply, caption or preview holds a secret that the house knows, however it is cut, and the owner is told."""

from __future__ import annotations

import base64
from typing import Any
from urllib.parse import quote

import pytest

from gateway.app.dependencies import Dependencies
from gateway.config.secrets import MASK, mask_passwords, passwords_in
from gateway.logs.redaction import secrets_in
from gateway.logs.secret_filter import SecretFilter, telling_apart
from gateway.outbound.replying import replies
from tests.delivery.test_replies import Paper, arrived

KEY = "sk-live-9f8e7d6c5b4a"


class Short(Paper):
    """A channel whose messages hold eight letters."""

    def chunks(self, markdown: str) -> list[str]:
        return [markdown[at : at + 8] for at in range(0, len(markdown), 8)]


@pytest.mark.parametrize(
    "form", [KEY, quote(KEY, safe=""), base64.b64encode(KEY.encode()).decode(), f"`{KEY}`", f"https://x.y/?k={KEY}"]
)
@pytest.mark.sec(71)
async def test_a_secret_is_taken_out_before_a_reply_is_cut(form: str) -> None:
    told: list[str] = []
    held = SecretFilter([KEY], told.append)
    rows = await replies(Short(), arrived(), f"The key is {form}, keep it", secret_filter=held)  # type: ignore[arg-type]
    whole = "".join(row.text for row in rows)
    assert KEY not in whole
    assert form.strip("`") not in whole
    assert "[secret]" in whole
    assert len(told) == 1
    assert KEY not in told[0]


def test_a_preview_holds_none_and_tells_nobody_yet() -> None:
    told: list[str] = []
    assert SecretFilter([KEY], told.append).text(f"so {KEY}") == "so [secret]"
    assert told == []


def test_ordinary_words_are_no_secrets_of_a_reply() -> None:
    assert telling_apart(["summer", "password", "12345678", "abc123", KEY, "p4ssw0rd!", "longwordwithoutfigures"]) == [
        KEY, "p4ssw0rd!", "longwordwithoutfigures",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "name",
    ["SMTP_PASS", "JWT", "AWS_ACCESS_KEY_ID", "TWILIO_AUTH", "BEARER", "OAUTH_REFRESH", "DATABASE_URL", "MAIL_PW", "SESSION_COOKIE",
     "SENTRY_DSN", "OPENAI_API_KEY", "TELEGRAM_BOT_TOKEN"],
)  # fmt: skip
def test_variables_that_hold_secrets_are_known_by_their_names(name: str) -> None:
    assert KEY in list(secrets_in({name: KEY}))


@pytest.mark.parametrize(
    "name", ["PATH", "HOME", "PWD", "OLDPWD", "LANG", "XAUTHORITY", "SSH_AUTH_SOCK", "SHELL", "KEYBOARD", "COMPASS"]
)
def test_other_variables_are_not(name: str) -> None:
    assert list(secrets_in({name: "/home/ann/some/place"})) == []


def test_the_password_of_an_address_is_a_secret_whatever_the_name() -> None:
    found = set(secrets_in({"QUEUE": "amqp://ann:s%40fe-Pass1@mq.example:5672/x"}))
    assert {"s%40fe-Pass1", "s@fe-Pass1"} <= found
    shown = mask_passwords({"baseUrl": "http://ann:PW-secret1@host/v1", "list": ["x", {"a": "redis://:pw1@h"}], "n": 1})
    assert shown == {"baseUrl": f"http://ann:{MASK}@host/v1", "list": ["x", {"a": f"redis://:{MASK}@h"}], "n": 1}
    assert list(passwords_in("https://example.org/a:b@c and mail ann@example.org")) == []


def test_a_house_learns_what_its_settings_hold(tmp_path: Any) -> None:
    from gateway.base.paths import Paths
    from gateway.settings.root import Settings

    settings = Settings.model_validate(
        {"models": {"providers": {"box": {"baseUrl": "http://ann:PW-secret1@host/v1", "apiKey": KEY}}}}
    )
    foundation = Dependencies(settings=settings, paths=Paths(tmp_path), env={"TELEGRAM_BOT_TOKEN": "123456:ABC-def_ghi"})
    foundation.learn_all(settings)
    said = foundation.outgoing.text(f"{KEY} PW-secret1 123456:ABC-def_ghi and nothing else")
    assert said == "[secret] [secret] [secret] and nothing else"
