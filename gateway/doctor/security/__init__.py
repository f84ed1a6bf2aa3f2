"""The checks of `homebody security audit`: what is open to others, and what agents may do without being asked."""
