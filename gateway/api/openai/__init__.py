"""OpenAI's chat completions as this gateway speaks them: requests read, answers and errors written in their form."""
