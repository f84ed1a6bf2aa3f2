"""Commands, and the questions that the command line puts to a running house."""
