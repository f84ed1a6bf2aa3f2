"""Messages that wait: lanes, queue modes, steering, pausing."""
