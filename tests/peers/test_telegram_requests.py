"""The check of requests against Telegram's published types: what it lets pass, and what it names."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from tests.peers.telegram_requests import published, wrong

BUTTONS = {"inline_keyboard": [[{"text": "Yes", "callback_data": "y"}]]}


@pytest.fixture(autouse=True)
def types() -> None:
    if published() is None:
        told = "Node.js or the platforms' types are missing: run `sh tests/peers/install`"
        if os.environ.get("CI"):
            pytest.fail(told)
        pytest.skip(told)


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("getMe", {}),
        ("sendMessage", {"chat_id": "42", "text": "17", "parse_mode": "HTML", "reply_markup": json.dumps(BUTTONS)}),
        ("sendMessage", {"chat_id": 42, "text": "hi", "reply_markup": BUTTONS, "disable_notification": True}),
        ("getUpdates", {"offset": "7", "timeout": "25", "allowed_updates": '["message"]'}),
        ("sendDocument", {"chat_id": "42", "document": "attach://d0", "d0": "what is uploaded"}),
        ("setMessageReaction", {"chat_id": "1", "message_id": "2", "reaction": '[{"type": "emoji", "emoji": "\U0001f44d"}]'}),
    ],
)
def test_what_the_types_allow_passes(method: str, arguments: dict[str, Any]) -> None:
    assert wrong(method, arguments) == []


@pytest.mark.parametrize(
    ("method", "arguments", "named"),
    [
        ("sendMesage", {}, "no such method"),
        ("sendMessage", {"chat_id": "42"}, "text is missing"),
        ("sendMessage", {"chat_id": "42", "text": "a", "parse_mod": "HTML"}, "parse_mod is no parameter"),
        ("sendMessage", {"chat_id": "42", "text": "a", "parse_mode": "html"}, "parse_mode is"),
        ("sendMessage", {"chat_id": "42", "text": "a", "disable_notification": "yes"}, "disable_notification is"),
        ("sendMessage", {"chat_id": "42", "text": "a", "message_thread_id": "general"}, "message_thread_id is"),
        (
            "sendMessage",
            {"chat_id": "42", "text": "a", "reply_markup": '{"inline_keyboard": [[{"text": 7}]]}'},
            "reply_markup is",
        ),
        ("sendMessage", {"chat_id": "42", "text": "a", "reply_parameters": '{"message_id": "last"}'}, "reply_parameters is"),
        ("sendChatAction", {"chat_id": "42", "action": "dreaming"}, "action is"),
    ],
)
def test_what_they_do_not_allow_is_named(method: str, arguments: dict[str, Any], named: str) -> None:
    [found] = wrong(method, arguments)
    assert named in found
