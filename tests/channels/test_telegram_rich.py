"""Rich messages: their words, files and mentions are read as far as the published types go, and anything else harms nobody."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from telegram import Update

from channels.telegram.bot_mentions import rich
from tests.channels.test_telegram_odd_updates import FORUM, MESSAGE, PERSON, heard
from tests.properties import examples

LISTED: dict[str, Any] = {
    "type": "list",
    "items": [
        {"label": "1.", "blocks": [{"type": "paragraph", "text": "buy milk"}]},
        {
            "label": "",
            "has_checkbox": True,
            "is_checked": True,
            "blocks": [{"type": "paragraph", "text": ["water ", "plants"]}],
        },
    ],
}
TABLE: dict[str, Any] = {
    "type": "table",
    "cells": [
        [{"text": "day", "is_header": True}, {"text": "dish"}],
        [{"text": {"type": "bold", "text": "Mon"}}, {"text": "soup"}],
    ],
    "caption": "the week",
}


def said(*blocks: Any, chat: dict[str, Any] | None = None, **more: Any) -> list[Any]:
    place = {} if chat is None else {"chat": chat}
    message = {**MESSAGE, "chat": {"id": 42, "type": "private"}, **place, "rich_message": {"blocks": list(blocks)}, **more}
    door, _ = heard([{"update_id": 1, "message": message}])
    return door.messages


@pytest.mark.parametrize(
    ("blocks", "text"),
    [
        ([{"type": "heading", "size": 1, "text": "Plan"}, {"type": "paragraph", "text": "at nine"}], "Plan\n\nat nine"),
        (
            [{"type": "paragraph", "text": ["see ", {"type": "url", "text": "here", "url": "https://example.org"}, "!"]}],
            "see here (https://example.org)!",
        ),
        (
            [{"type": "paragraph", "text": ["so ", {"type": "bold", "text": [{"type": "italic", "text": "very"}]}, " nice"]}],
            "so very nice",
        ),
        ([LISTED], "1. buy milk\n- [x] water plants"),
        ([TABLE], "the week\nday | dish\nMon | soup"),
        ([{"type": "details", "summary": "more", "blocks": [{"type": "pre", "text": "x = 1"}]}], "more\n\nx = 1"),
        ([{"type": "mathematical_expression", "expression": "a^2"}], "a^2"),
        ([{"type": "paragraph", "text": {"type": "custom_emoji", "custom_emoji_id": "5", "alternative_text": "🎉"}}], "🎉"),
        ([{"type": "map", "location": {"latitude": 1.5, "longitude": 2.5}, "zoom": 13}], "[location: 1.50000, 2.50000]"),
        ([{"type": "blockquote", "blocks": [{"type": "paragraph", "text": "so be it"}], "credit": "Ben"}], "so be it\n\nBen"),
        ([{"type": "hologram", "depth": 3}], "[hologram]"),
    ],
)
def test_a_rich_message_is_read_as_text(blocks: list[Any], text: str) -> None:
    (message,) = said(*blocks)
    assert message.text == text


def test_its_files_come_with_it() -> None:
    sizes = [{"file_id": "small", "width": 1, "height": 1}, {"file_id": "large", "width": 9, "height": 9, "file_size": 70}]
    document = {"file_id": "d", "file_name": "tax.pdf", "mime_type": "application/pdf"}
    (message,) = said(
        {"type": "photo", "photo": sizes, "caption": {"text": "our garden"}},
        {"type": "document", "document": document},
    )
    assert message.text == "[photo] our garden\n\n[document]"
    assert [(one.kind, one.handle, one.name, one.size) for one in message.attachments] == [
        ("image", "large", "", 70),
        ("document", "d", "tax.pdf", None),
    ]


@pytest.mark.parametrize(
    ("named", "mentioned"),
    [
        ({"type": "mention", "text": "@Homebody_Test_Bot", "username": "Homebody_Test_Bot"}, True),
        ({"type": "text_mention", "text": "you", "user": {"id": 1000, "is_bot": True, "first_name": "H"}}, True),
        ({"type": "mention", "text": "@ben", "username": "ben"}, False),
    ],
)
def test_a_mention_in_it_counts_in_a_group(named: dict[str, Any], mentioned: bool) -> None:
    (message,) = said({"type": "paragraph", "text": [named, " when?"]}, chat=FORUM)
    assert message.mentioned is mentioned


def test_a_command_in_it_and_one_that_is_quoted_are_read() -> None:
    answered = {**MESSAGE, "rich_message": {"blocks": [{"type": "paragraph", "text": "before"}]}}
    (message,) = said(
        {"type": "paragraph", "text": {"type": "bot_command", "text": "/status", "bot_command": "status"}},
        reply_to_message=answered,
    )
    assert (message.text, message.quoted) == ("/status", "before")


def test_one_that_is_nested_without_end_is_read_in_time_that_grows_with_it() -> None:
    block: Any = "deep"
    for _ in range(5_000):
        block = {"type": "blockquote", "blocks": [block]}
    update = Update.de_json({"update_id": 1, "message": {**MESSAGE, "rich_message": {"blocks": [block]}}}, None)
    assert update.message is not None
    found = rich(update.message)
    assert found is not None
    assert found.text == "deep"


VALUES = st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=4) | st.just({"id": 1000})
KINDS = st.sampled_from(
    [
        *("paragraph", "heading", "list", "table", "map", "photo", "document", "url", "mention", "text_mention"),
        "custom_emoji",
        "x",
        "",
    ]
)
KEYS = [
    "text",
    "blocks",
    "items",
    "cells",
    "caption",
    "credit",
    "photo",
    "document",
    "location",
    "url",
    "username",
    "user",
    "label",
    "summary",
]
PARTS = st.recursive(
    VALUES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.builds(lambda kind, more: {"type": kind, **more}, KINDS, st.dictionaries(st.sampled_from(KEYS), inner, max_size=4))
    ),
    max_leaves=20,
)


@settings(max_examples=examples(150), deadline=None)
@given(PARTS)
def test_whatever_it_holds_the_next_message_is_heard(blocks: Any) -> None:
    formed = {**MESSAGE, "from": PERSON, "rich_message": {"blocks": blocks}}
    door, _ = heard(
        [{"update_id": 1, "message": formed}, {"update_id": 2, "message": {**MESSAGE, "message_id": 6, "text": "next"}}]
    )
    assert door.messages[-1].text == "next"
