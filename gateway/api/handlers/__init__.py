"""Handlers of the admin API."""
