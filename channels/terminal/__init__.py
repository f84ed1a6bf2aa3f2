"""The terminal channel. Clients connect to it in the same process or over a unix socket."""
