"""Keys as people paste them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.base.errors import UsageError
from gateway.setup.pasted import cleaned

KEY = "sk-live-7f3a9c2e5b8d1046"


@pytest.mark.parametrize(
    "text",
    [
        KEY,
        f"  {KEY}\n",
        f'"{KEY}"',
        f"'{KEY}'",
        f"“{KEY}”",
        f" '{KEY}' ",
        f"ANTHROPIC_API_KEY={KEY}",
        f'export OPENAI_API_KEY="{KEY}"',
    ],
)
def test_what_stands_around_a_key_is_left_out(text: str) -> None:
    assert cleaned(text).secret == KEY


@pytest.mark.parametrize(
    "text",
    [
        "sk-ant-...",
        "123456:ABC...",
        "123456789:ABCdef",
        "<your token>",
        "YOUR_API_KEY",
        "your-key-here",
        "TOKEN",
        "xxxxxxxx",
        "***",
        "sk-…",
    ],
)
def test_the_example_of_a_manual_is_told_as_one(text: str) -> None:
    with pytest.raises(UsageError, match="example of a manual"):
        cleaned(text)


@pytest.mark.parametrize("text", ["", "  ", "''", '" "'])
def test_an_empty_key_is_told_as_one(text: str) -> None:
    with pytest.raises(UsageError, match="no token was given"):
        cleaned(text, "token")


@pytest.mark.parametrize("text", ["sk live 12", "sk-live\n7f3a", "sk–live–7f3a9c2e"])
def test_a_key_with_a_blank_or_another_letter_inside_is_no_key(text: str) -> None:
    with pytest.raises(UsageError, match="contains a blank"):
        cleaned(text)


@given(st.from_regex(r"[0-9]{8,10}:AA[A-Za-z0-9_-]{33}", fullmatch=True))
def test_a_token_of_telegram_comes_through(token: str) -> None:
    """Unless it looks like an example, which one in millions does."""
    if all(bad not in token.lower() for bad in ("abcdef", "xxxxxx", "your-", "your_", "-here", "_here")):
        assert cleaned(token, "token").secret == token


def test_a_key_of_ones_own_server_may_look_like_an_example() -> None:
    assert cleaned(" good-key-0123456789abcdef ", any_word=True).secret == "good-key-0123456789abcdef"
    with pytest.raises(UsageError):
        cleaned("good-key-0123456789abcdef")
