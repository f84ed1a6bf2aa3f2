"""Sessions: which conversation belongs to which transcript, and when it starts afresh."""
