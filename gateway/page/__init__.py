"""The page in the browser: its files, who may open it, which calls it may make, and what it is told as it happens."""
