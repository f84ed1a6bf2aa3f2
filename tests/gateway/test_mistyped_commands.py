"""A mistyped command is named as one, and not sent to a model."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gateway.commands.table import COMMANDS, parse

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.gateway.conftest import Street


@pytest.mark.parametrize(
    ("typed", "meant"), [("/hlep", "help"), ("/nwe", "new"), ("/stauts", "status"), ("/modle x/y", "model")]
)
async def test_a_mistyped_command_is_answered_with_the_one_that_is_meant(
    street: Callable[..., Street], typed: str, meant: str
) -> None:
    s = street()
    async with s.house() as (_, talk):
        reply = (await talk.ask(typed))["reply"]
    assert f"Did you mean /{meant}?" in reply
    assert s.model.requests == []


@pytest.mark.parametrize("text", ["/etc/hosts is gone", "/opt", "/start", "/path", "/usr", "/42", "/", "//", "hello /help"])
def test_what_is_no_command_is_a_message(text: str) -> None:
    assert parse(text) is None


def test_every_command_is_found_by_its_own_name() -> None:
    assert all(parse(f"/{name}") == (command, "") for name, command in COMMANDS.items())
