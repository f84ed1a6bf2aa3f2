"""The channel of the page in the browser."""
