"""The routes of the HTTP API, a module for each group of paths."""

from gateway.base.lean_import import leaving_out

with leaving_out(absent=("multipart", "python_multipart")):  # forms of browsers, which no route reads
    import starlette.requests  # noqa: F401
