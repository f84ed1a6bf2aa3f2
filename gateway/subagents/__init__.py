"""Sub-agents: sessions that another session started, and what it may do with them."""
