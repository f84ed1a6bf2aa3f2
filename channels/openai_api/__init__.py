"""The channel of programs that call the gateway's API as they call OpenAI's."""
