"""What must never be lost or done twice: messages in, turns and their tools, messages out, and who may speak."""
