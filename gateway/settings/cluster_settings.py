"""The section ``cluster``: several gateways that share a database."""

from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from agent.section import Section


def _address(text: str) -> str:
    """Check that an address is one of a host."""
    parts = urlsplit(text)
    if text and (parts.scheme not in {"http", "https"} or not parts.hostname or parts.path.strip("/") or parts.query):
        raise ValueError(f"not an address of a gateway: {text!r} (write it like http://10.0.0.5:18790)")
    return text.rstrip("/")


class ClusterSettings(Section):
    """Several gateways for the same agents: when one ends, another goes on (docs/cluster.md)."""

    enabled: bool = False
    """Experimental: share agents and chat accounts with other gateways. Needs `storage.url` and a name for each (`HOMEBODY_GATEWAY`)."""
    lease_seconds: Annotated[float, Field(ge=2, le=600)] = 20
    """How long a gateway works without hearing from the database. Another one takes over after it, at most as much later."""
    address: Annotated[str, AfterValidator(_address)] = ""
    """Where other gateways reach this one (`HOMEBODY_CLUSTER_ADDRESS` overrides it). Unset: the host's name and the port."""
