"""Text to vectors, behind one protocol."""
