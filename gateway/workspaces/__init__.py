"""Workspaces that are kept in a git repository, too, so that another gateway can take the agent over."""
