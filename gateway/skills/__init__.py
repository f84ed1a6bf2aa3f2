"""Skills: which there are, which the owner trusts, what they need, and what their commands get."""
