"""The table of admin calls: what each part answers for ``POST /admin/CALL``, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gateway.app.owner_calls import command_calls, owner_calls
from gateway.app.view_calls import view_calls
from gateway.budget.usage_report import usage_facts
from gateway.ledger.spending_rows import UsageBy

if TYPE_CHECKING:
    from gateway.api.routes.admin import Call
    from gateway.app.parts import GatewayParts


def admin_calls(parts: GatewayParts) -> dict[str, Call]:
    """Return the calls that a gateway answers for what it holds itself."""

    async def usage(since: str, by: UsageBy = "model") -> dict[str, Any]:
        return await usage_facts(parts.ledger, since, by)

    return {
        **parts.status.calls(),
        **view_calls(
            parts.deps,
            parts.settings,
            parts.ledger,
            agents=parts.agents,
            audience=parts.router.audience,
            busy=parts.lanes.busy,
            price=parts.model_registry.price,
        ),
        **parts.agent_calls(),
        **command_calls(
            parts.deps,
            parts.settings,
            parts.ledger,
            agents=parts.agents,
            approvals=parts.approvals.decisions,
            rules=parts.rules.stored,
            access=parts.access,
            router=lambda: parts.router,
            policies=parts.channel_supervisor.policies,
            hand_out=parts.inbox.hand_out,
            why_waits=parts.delivery.why_waits,
        ),
        **parts.automation.calls(),
        **parts.mcp.calls(),
        **parts.backups.calls(),
        **parts.workspaces.calls(),
        **owner_calls(
            parts.deps,
            parts.settings,
            agents=parts.agents,
            jobs=parts.automation.jobs,
            spending=parts.ledger.spending,
            reload=parts.reload,
        ),
        **parts.page.calls(),
        "usage": usage,
        "ledger.outage": parts.outage.facts,
    }
