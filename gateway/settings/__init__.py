"""The settings as pydantic models, one module per section; ``root`` composes them. Imports no part of the gateway but ``base``."""
