"""Embedding engines: one module for each provider or runtime."""
