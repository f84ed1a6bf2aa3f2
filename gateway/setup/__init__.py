"""`homebody setup`: finds what is there, asks, tests, shows what it will write, and writes it at the end."""
