"""What the models may cost, what they did cost, and the brake between the two."""
