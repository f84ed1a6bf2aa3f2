"""What the house writes down about itself: JSON lines in a file, readable lines on the terminal, no secret in either."""
