"""What a session's model is shown, and how it is kept inside the context window."""
