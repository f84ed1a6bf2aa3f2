"""The servers that setup asks."""

from tests.peers.compatible import compatible_peer  # noqa: F401 -- a fixture
