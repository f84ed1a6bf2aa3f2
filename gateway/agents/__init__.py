"""Running agents: their sessions and memories."""
