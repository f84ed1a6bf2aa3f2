"""A server whose application failed so early that the answer is the server's own: a status and plain text."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio

HEAD = b"HTTP/1.1 500 Internal Server Error\r\ncontent-type: text/plain; charset=utf-8\r\nconnection: close\r\n"


async def broken(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer one request as uvicorn answers where the application raised."""
    await reader.readuntil(b"\r\n\r\n")
    writer.write(HEAD + b"content-length: 21\r\n\r\nInternal Server Error")
    await writer.drain()
    writer.close()
