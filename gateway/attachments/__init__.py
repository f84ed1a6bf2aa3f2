"""Files that people send, and files that agents send: fetched, judged, kept for a while, and handed on."""
