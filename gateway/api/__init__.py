"""The local API over HTTP: its servers, middleware, routes and clients."""
