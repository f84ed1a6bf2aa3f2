"""The conversation of the agent's own tests."""

from tests.agent.conftest import room

__all__ = ["room"]
