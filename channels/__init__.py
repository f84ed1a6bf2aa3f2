"""Chat platforms. Imports nothing else of Homebody: the gateway passes in what a channel needs."""
