"""The tools that an agent is given."""
