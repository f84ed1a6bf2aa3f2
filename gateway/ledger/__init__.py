"""The ledger: durable rows of received messages, turns and tool calls, messages to send, pairing and spending."""
