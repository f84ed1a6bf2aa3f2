"""The composition root: puts all parts together, starts, reloads and stops them."""
