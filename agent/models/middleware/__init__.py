"""Wrappers around a model: failover, retry, key rotation, limits on answers."""
