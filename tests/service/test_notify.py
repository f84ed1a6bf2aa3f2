"""What the gateway tells systemd."""

from __future__ import annotations

import asyncio
import os
import socket
from typing import TYPE_CHECKING

import pytest

from gateway.supervision.service_notify import ServiceNotifier

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def heard(tmp_path: Path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(tmp_path / "notify"))
        listening.settimeout(5)
        yield listening


async def test_it_says_that_it_is_ready_alive_and_stopping(heard: socket.socket) -> None:
    env = {"NOTIFY_SOCKET": heard.getsockname(), "WATCHDOG_USEC": "300000", "WATCHDOG_PID": str(os.getpid())}
    notifier = ServiceNotifier(env)
    notifier.ready("Serving telegram\nREADY=0")
    assert heard.recv(999) == b"READY=1\nSTATUS=Serving telegram READY=0"
    beating = asyncio.create_task(notifier.beat())
    for _ in range(3):
        assert await asyncio.to_thread(heard.recv, 999) == b"WATCHDOG=1"
    beating.cancel()
    notifier.stopping(60)
    assert b"STOPPING=1" in heard.recv(999)


async def test_nothing_is_sent_where_nobody_asks_or_listens(tmp_path: Path) -> None:
    for env in ({}, {"NOTIFY_SOCKET": str(tmp_path / "gone")}, {"NOTIFY_SOCKET": "vsock:2:1"}):
        ServiceNotifier(env).ready("x")
    await ServiceNotifier({}).beat()


def test_a_watchdog_of_another_process_is_not_fed() -> None:
    for env in ({"WATCHDOG_PID": "1", "WATCHDOG_USEC": "9"}, {"WATCHDOG_USEC": "0"}, {"WATCHDOG_USEC": "x"}, {}):
        assert ServiceNotifier({"NOTIFY_SOCKET": "/n", **env}).interval is None


async def test_the_abstract_socket_of_newer_managers_is_understood() -> None:
    name = f"\0homebody-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(name)
        listening.settimeout(5)
        ServiceNotifier({"NOTIFY_SOCKET": "@" + name[1:]}).ready("x")
        assert listening.recv(99).startswith(b"READY=1")
