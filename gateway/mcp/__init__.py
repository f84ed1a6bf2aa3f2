"""Servers of the Model Context Protocol: connections to them, what they offer, and the tools that agents get of it."""
