"""Who may speak, and which agent answers in which session."""
