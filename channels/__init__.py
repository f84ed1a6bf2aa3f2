"""Platforms in, platforms out. This room knows no other room: the gateway hands it what it needs."""
