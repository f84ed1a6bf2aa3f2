"""The gateway: the process that runs the house, and the only room that knows all the others."""
