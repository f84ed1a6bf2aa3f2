"""The runner: the process that starts commands and ends them."""
