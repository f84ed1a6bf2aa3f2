"""The gateway's HTTP surface.

settings    the `gateway` section
token       the bearer token, made at first start
listen      sockets
doorkeeper  what is refused before anything is looked at
door        the three addresses, and the task that serves them
wire        uvicorn, made to our measure

Only `settings` and `token` are light; `door` brings starlette and uvicorn in and is imported by the running gateway alone.
"""
