"""What is said behind a command: a word that means nothing there is told, and never taken for another."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from gateway.budget.usage_report import facts, usage_table
from gateway.commands.table import COMMANDS, OTHER_NAMES, parse
from gateway.ledger.spending_rows import UsageRow

if TYPE_CHECKING:
    from tests.gateway.conftest import Street

Make = Callable[..., "Street"]


async def test_a_word_that_means_nothing_to_a_command_changes_nothing(street: Make) -> None:
    s = street()
    async with s.house() as (_, talk):
        assert (await talk.ask("/verbose maybe"))["reply"] == "Send /verbose on or /verbose off."
        assert "Notices such as compactions are now shown" in (await talk.ask("/verbose ON"))["reply"]
        assert "/usage with a number of days" in (await talk.ask("/usage weekly"))["reply"]
        assert "/usage with a number of days" in (await talk.ask("/usage 0"))["reply"]
        assert (await talk.ask("/usage full"))["reply"] == (await talk.ask("/usage"))["reply"]
        assert "No model answers" in (await talk.ask("/new scripted/model and good morning"))["reply"]


def test_other_names_lead_to_commands() -> None:
    for name, meant in OTHER_NAMES.items():
        assert parse(f"/{name}") == (COMMANDS[meant], "")


def test_what_costs_an_unknown_amount_is_not_told_as_free() -> None:
    def row(cost: float, unpriced: int) -> UsageRow:
        return UsageRow(
            day="2026-11-22",
            agent="main",
            name="nas/m",
            calls=3,
            input=9,
            output=1,
            cache_read=0,
            cache_write=0,
            cost=cost,
            unpriced=unpriced,
            open=0,
        )

    assert "| ? |" in usage_table(facts([row(0.0, 2)]))
    assert "| ≥ $0.10 |" in usage_table(facts([row(0.1, 2)]))
    assert "| $0.10 |" in usage_table(facts([row(0.1, 0)]))


async def test_status_tells_of_a_model_that_calls_no_tools(street: Make) -> None:
    s = street()
    s.model.then("Noted!", "I will.")
    async with s.house() as (_, talk):
        await talk.ask("Remember that Vera lives in Graz.")
        assert "has called no tool" not in (await talk.ask("/status"))["reply"]
        await talk.ask("Remind me to call her at nine.")
        assert "has called no tool here, although 2 messages needed" in (await talk.ask("/status"))["reply"]
