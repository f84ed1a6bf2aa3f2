"""Work on a schedule."""
