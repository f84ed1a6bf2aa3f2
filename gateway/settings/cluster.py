"""The section ``cluster``: several gateways that share a database."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from agent.section import Section


class ClusterSettings(Section):
    """Several gateways for the same agents: when one ends, another goes on (docs/cluster.md)."""

    enabled: bool = False
    """Experimental: share agents and chat accounts with other gateways. Needs `storage.url` and a name for each (`HOMEBODY_GATEWAY`)."""
    lease_seconds: Annotated[float, Field(ge=2, le=600)] = 20
    """How long a gateway works without hearing from the database. Another one takes over after it, at most as much later."""
    address: str = ""
    """Where other gateways reach this one, such as http://10.0.0.5:18790. Nothing is passed on to it yet."""
