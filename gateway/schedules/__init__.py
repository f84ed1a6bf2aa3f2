"""When jobs are due: schedules, how they are written, and what they are in words."""
