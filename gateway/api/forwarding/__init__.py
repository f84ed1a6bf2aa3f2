"""What reaches a gateway of a cluster and belongs to another one: calls, webhooks, terminals and events, passed on to the holder."""
