"""Hears what other gateways store for this one, by NOTIFY."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from gateway.base.errors import StorageFailed

if TYPE_CHECKING:
    from gateway.cluster.postgres_leases import Connection

log = logging.getLogger(__name__)

PAUSE: Final = 1.0
"""Seconds before a lost connection is made again."""


async def listen(
    connect: Callable[[], Awaitable[Connection]], channel: str, heard: Callable[[str], None], began: Callable[[], None]
) -> None:
    """Call ``heard`` with each notice until cancelled, and ``began`` whenever notices may have been missed before."""
    import psycopg
    from psycopg import sql

    while True:
        try:
            connection = await connect()
            try:
                await connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
                began()
                async for notice in connection.notifies():
                    heard(notice.payload)
            finally:
                await connection.close()
        except (psycopg.Error, OSError, StorageFailed) as error:
            log.warning("what other gateways store is not heard at the moment: %s", error)
        await asyncio.sleep(PAUSE)
