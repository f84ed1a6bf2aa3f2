"""Which models an agent uses: the registry, provider keys, and what was learnt about models."""
