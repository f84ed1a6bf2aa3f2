"""Guarded access to the network: public addresses only, within limits."""
