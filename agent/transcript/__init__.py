"""The stored history of a session, and the view of it that a model is shown."""
