"""``homebody usage``: shows model usage and cost."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from gateway.cli.invocation import Invocation, pass_invocation, tell

if TYPE_CHECKING:
    from gateway.ledger.protocol import Ledger


@click.command()
@click.option("--days", type=click.IntRange(1, 400), default=7, show_default=True, help="Number of days, including today.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@pass_invocation
def usage(invocation: Invocation, days: int, as_json: bool) -> None:
    """Show tokens and cost by day, agent and model, with the share read from the provider's prompt cache."""
    from gateway.agents.memory_stores import owner_zone
    from gateway.budget.report import facts, first_day, told
    from gateway.cli.ledger_call import call_ledger

    settings = invocation.loaded.settings
    since = first_day(datetime.now(UTC), owner_zone(settings.agent(settings.default_agent)), days)

    def desk(ledger: Ledger) -> Any:
        async def look(since: str) -> dict[str, Any]:
            return facts(await ledger.spending.usage(since))

        return {"usage": look}

    found = call_ledger(invocation, desk, "usage", since=since)
    tell(found, told(found), as_json=as_json)
