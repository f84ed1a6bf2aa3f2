"""A line-based chat over TCP, as a channel of Homebody: an example of a package that brings a channel of its own."""
