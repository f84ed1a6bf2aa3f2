"""Access control, and routing of conversations to agents and sessions."""
