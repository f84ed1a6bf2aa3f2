"""The tools a model may call."""
