"""What the gateway counts and times while it works, and how it is read: /metrics for Prometheus, spans for OpenTelemetry."""
