"""The peers of this folder."""

from __future__ import annotations

from tests.peers.anthropic import anthropic_peer
from tests.peers.compatible import compatible_peer

__all__ = ["anthropic_peer", "compatible_peer"]
