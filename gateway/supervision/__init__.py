"""Keeps channels running, and watches the process, the event loop and the disk."""
