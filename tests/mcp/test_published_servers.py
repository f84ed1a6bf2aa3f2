"""Servers that others wrote: the reference server of everything, and that of files, over stdio and over HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import io
import re
from typing import TYPE_CHECKING, Any

import pytest
from PIL import Image as Picture

from agent.tools.protocol import ActingTool, ToolContext
from gateway.approvals.taint_rules import needs_yes
from gateway.mcp.errors import McpError
from tests.mcp.house import NOW, peer, servers
from tests.patience import PATIENCE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from agent.tools.protocol import Tool


@contextlib.asynccontextmanager
async def everything_over_http(*ports: int) -> AsyncIterator[str]:
    """Run the server over streamable HTTP on the first port that is free, and yield its address."""
    given = peer("server-everything", "streamableHttp")
    for port in ports or range(28_100, 28_140):
        process = await asyncio.create_subprocess_exec(
            given["command"],
            *given["args"],
            env={"PORT": str(port), "PATH": "/usr/bin:/bin"},
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        assert process.stderr is not None
        told = b""
        async with asyncio.timeout(PATIENCE):
            while not re.search(rb"listening on port", told) and (line := await process.stderr.readline()):
                told += line
        if b"listening" in told:
            break
        await process.wait()
    else:
        raise AssertionError(told.decode())
    try:
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.kill()
        await process.communicate()


def act(tool: Tool, arguments: dict[str, Any], *taint: str) -> tuple[str, str | None]:
    """Return why a call is asked about by itself, and because of untrusted text."""
    scene = ToolContext(now=NOW, session="s", turn="t", taint=frozenset(taint))
    assert isinstance(tool, ActingTool)
    found = tool.act_of(arguments, scene)
    assert found is not None
    assert found.kind == "call"
    return found.ask, needs_yes(found, scene)


async def test_everything_over_stdio(tmp_path: Path) -> None:
    async with servers(tmp_path, {"every": peer("server-everything")}) as house:
        await _everything(house)


async def test_everything_over_http(tmp_path: Path) -> None:
    async with everything_over_http() as url, servers(tmp_path, {"every": {"url": url, "bearerToken": "t0ken"}}) as house:
        await _everything(house)


async def _everything(house: Any) -> None:
    echoed = await house.call("mcp_every_echo", {"message": "hello"})
    assert (echoed.text, echoed.sources, echoed.is_error) == ("Echo: hello", ("mcp:every",), False)
    assert "42" in (await house.call("mcp_every_get-sum", {"a": 40, "b": 2})).text
    wrong = await house.call("mcp_every_get-sum", {"a": "many"})
    assert wrong.is_error
    picture = await house.call("mcp_every_get-tiny-image")
    assert "image/png, 4,033 bytes: kept as .homebody/output/" in picture.text  # its colour profile is broken
    structured = await house.call("mcp_every_get-structured-content", {"location": "New York"})
    assert "temperature" in structured.text
    listed = await house.call("mcp_read", {"server": "every"})
    assert "resource demo://resource/" in listed.text
    assert "prompt " in listed.text
    uri = re.search(r"resource (\S+?):? ", listed.text)
    assert uri is not None
    read = await house.call("mcp_read", {"server": "every", "uri": uri[1].rstrip(":")})
    assert not read.is_error
    prompt = await house.call("mcp_read", {"server": "every", "prompt": "simple-prompt"})
    assert prompt.text.startswith("user:\n")
    shown: list[str] = []
    slow = await house.call("mcp_every_trigger-long-running-operation", {"duration": 1, "steps": 2}, progress=shown.append)
    assert "completed" in slow.text
    assert any("2" in one for one in shown)


async def test_a_server_over_http_that_goes_and_comes_back_is_connected_to_again(tmp_path: Path) -> None:
    async with contextlib.AsyncExitStack() as stack:
        async with everything_over_http() as url:
            house = await stack.enter_async_context(servers(tmp_path, {"x": {"url": url}}))
            assert (await house.call("mcp_x_echo", {"message": "a"})).text == "Echo: a"
        assert (await house.call("mcp_x_echo", {"message": "b"})).is_error
        async with everything_over_http(int(url.rpartition(":")[2].partition("/")[0])):
            await house.servers.test("x")
            assert (await house.call("mcp_x_echo", {"message": "c"})).text == "Echo: c"


async def test_read_only_tools_of_a_trusted_server_are_not_asked_about(tmp_path: Path) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "a.txt").write_text("hello")
    given = peer("server-filesystem", str(folder))
    async with servers(tmp_path, {"files": {**given, "trustReadOnly": True}, "other": given}) as house:
        tools = house.tools()
        outcome = await house.call("mcp_files_read_text_file", {"path": str(folder / "a.txt")})
        assert outcome.text == "hello"
        drawn = io.BytesIO()
        Picture.new("RGB", (8, 4), "red").save(drawn, "PNG")
        (folder / "a.png").write_bytes(drawn.getvalue())
        picture = await house.call("mcp_files_read_media_file", {"path": str(folder / "a.png")})
        assert [(image.media_type, image.width) for image in picture.images] == [("image/png", 8)]
        reading, writing = tools["mcp_files_read_text_file"], tools["mcp_files_write_file"]
        assert (reading.effect, writing.effect) != ("effect", "pure")
        assert act(reading, {}) == ("", None)
        assert act(reading, {}, "mcp:files") == ("", None)
        assert act(reading, {}, "mcp:files", "web:example.org")[1] is not None
        assert act(writing, {})[0]
        assert act(tools["mcp_other_read_text_file"], {})[0]
        outside = await house.call("mcp_files_read_text_file", {"path": "/etc/passwd"})
        assert outside.is_error


async def test_a_server_over_http_that_redirects_elsewhere_is_not_followed(tmp_path: Path) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 307 Temporary Redirect\r\nlocation: http://127.0.0.1:9/mcp\r\ncontent-length: 0\r\n\r\n")
        await writer.drain()
        writer.close()

    listening = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    async with listening, servers(tmp_path, {"x": {"url": f"http://127.0.0.1:{port}/mcp"}}, pin=False) as house:
        with pytest.raises(McpError, match=r"not followed|127\.0\.0\.1:9"):
            await house.servers.test("x")


async def test_a_server_over_http_that_is_not_there_is_named(tmp_path: Path) -> None:
    async with servers(tmp_path, {"x": {"url": "http://127.0.0.1:9/mcp"}}, pin=False) as house:
        with pytest.raises(McpError, match=r"the MCP server x .*127\.0\.0\.1:9"):
            await house.servers.test("x")
