"""The walls around the tests hold."""

from __future__ import annotations

import asyncio
import os
import socket

import pytest


def test_a_connection_to_the_outside_is_refused_before_it_starts() -> None:
    with socket.socket() as plug, pytest.raises(RuntimeError, match=r"tried to reach 192\.0\.2\.1:443"):
        plug.connect(("192.0.2.1", 443))


def test_a_datagram_to_the_outside_is_refused() -> None:
    with socket.socket(type=socket.SOCK_DGRAM) as plug, pytest.raises(RuntimeError, match="tried to reach"):
        plug.sendto(b"?", ("192.0.2.1", 53))


async def test_a_name_is_not_looked_up() -> None:
    with pytest.raises(RuntimeError, match=r"tried to look up 'example\.invalid'"):
        await asyncio.open_connection("example.invalid", 80)


async def test_loopback_is_open() -> None:
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    async with server:
        _, writer = await asyncio.open_connection("localhost", server.sockets[0].getsockname()[1], family=socket.AF_INET)
        writer.close()
        await writer.wait_closed()


def test_keys_and_proxies_of_the_person_are_gone() -> None:
    assert "ANTHROPIC_API_KEY" not in os.environ
    assert not [name for name in os.environ if name.lower().endswith("_proxy")]


def test_home_is_the_tests_own(tmp_path: object) -> None:
    assert os.path.expanduser("~").startswith(str(tmp_path))  # noqa: PTH111 - what a program would see
    assert os.environ["HOMEBODY_HOME"].startswith(str(tmp_path))
