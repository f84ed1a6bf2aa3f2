"""One adapter for each provider API."""
