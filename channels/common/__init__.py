"""Helpers that several channels share. They know the messages, errors and interfaces of `channels`, and no platform."""
