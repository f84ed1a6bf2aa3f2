"""Webhooks in: requests from outside that become messages for an agent."""
