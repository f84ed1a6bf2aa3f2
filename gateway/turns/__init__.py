"""One turn: from a claimed message to the stored answer."""
