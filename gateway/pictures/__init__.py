"""Pictures in words, for models that are not shown any."""
