"""What comes in: taken durably, once, from whom may speak, and put as the agent hears it."""
