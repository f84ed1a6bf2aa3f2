"""Several gateways over one database: who works for what, and what a gateway that lost its right can no longer write."""
