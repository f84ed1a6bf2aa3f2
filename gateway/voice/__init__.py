"""Voice messages in, as text; answers out, as voice messages. Both by servers that speak OpenAI's audio API."""
