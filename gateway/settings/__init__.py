"""The settings as pydantic models, one module for each section; ``root`` composes them. Imports nothing of the gateway but ``base``."""
