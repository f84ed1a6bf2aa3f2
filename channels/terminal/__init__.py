"""The terminal: a channel like any other. Clients attach to it in the same process or over a unix socket."""
