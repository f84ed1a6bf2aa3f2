"""Programs of servers that are confined: what they see, what they are given, and what the command line says of it."""

from __future__ import annotations

import json
import shutil
import sys
from typing import TYPE_CHECKING, Any

import pytest

from gateway.mcp.connection import load_sessions
from gateway.mcp.errors import McpError
from gateway.sandbox.program_files import around, needed
from tests.mcp.house import ODD, peer, servers

if TYPE_CHECKING:
    from pathlib import Path

LOOK = """
import json, os, socket, sys

def tried(what):
    try:
        return what()
    except OSError as error:
        return type(error).__name__

def look():
    found = {}
    for name in json.loads(sys.argv[1]):
        found[name] = [tried(lambda: open(name).read()), tried(lambda: open(name, "a").close() or "written")]
    open("mark", "w").close()
    network = tried(lambda: socket.create_connection(("127.0.0.1", int(sys.argv[2])), 5).close() or "reached")
    return {"files": found, "network": network, "env": dict(os.environ), "processes": len([n for n in os.listdir("/proc") if n.isdigit()])}

for line in sys.stdin:
    heard = json.loads(line)
    if "id" not in heard:
        continue
    result = {
        "initialize": lambda: {"protocolVersion": heard["params"]["protocolVersion"], "capabilities": {"tools": {}},
                               "serverInfo": {"name": "x", "version": "1"}},
        "tools/list": lambda: {"tools": [{"name": "look", "description": "looks", "inputSchema": {"type": "object"}}]},
        "tools/call": lambda: {"content": [{"type": "text", "text": json.dumps(look())}]},
    }.get(heard["method"])
    told = {"result": result()} if result else {"error": {"code": -32601, "message": "no"}}
    print(json.dumps({"jsonrpc": "2.0", "id": heard["id"], **told}), flush=True)
"""


@pytest.fixture(autouse=True)
def _bubblewrap() -> None:
    if shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")


def look_at(root: Path, *names: Path, port: int = 9, **more: Any) -> dict[str, Any]:
    """Return the settings of a server that says what it can see."""
    place = root / "server"
    place.mkdir(exist_ok=True)
    (place / "look.py").write_text(LOOK)
    return {
        "command": sys.executable,
        "args": [str(place / "look.py"), json.dumps([str(one) for one in names]), str(port)],
        "env": {"SERVICE_TOKEN": "given"},
        **more,
    }


def home_in(root: Path) -> Path:
    """Return the folder of an installation, beside what is the owner's."""
    home = root / "home"
    home.mkdir(exist_ok=True)
    return home


async def seen(root: Path, *names: Path, **more: Any) -> dict[str, Any]:
    async with servers(home_in(root), {"x": look_at(root, *names, **more)}) as house:
        outcome = await house.call("mcp_x_look")
        assert not outcome.is_error, outcome.text
        found: dict[str, Any] = json.loads(outcome.text)
        return found


async def test_a_confined_program_sees_its_own_folder_and_nothing_of_the_owner_s(tmp_path: Path) -> None:
    secret = tmp_path / "homes" / "letter.txt"
    secret.parent.mkdir()
    secret.write_text("private")
    bare = await seen(tmp_path, secret)
    assert bare["files"][str(secret)] == ["private", "written"], "unconfined it sees them: the control"
    found = await seen(tmp_path, secret, sandbox="bwrap")
    assert found["files"][str(secret)] == ["FileNotFoundError", "FileNotFoundError"]
    assert found["network"] != "reached"
    assert found["env"]["SERVICE_TOKEN"] == "given"
    assert found["env"]["HOME"] == str(tmp_path / "home" / "state" / "mcp" / "x")
    assert found["processes"] < 5
    assert (tmp_path / "home" / "state" / "mcp" / "x" / "mark").exists(), "its own folder stays"


async def test_a_confined_program_reads_and_writes_what_the_settings_give(tmp_path: Path) -> None:
    reads, writes = tmp_path / "reads" / "a.txt", tmp_path / "writes" / "b.txt"
    for one in (reads, writes):
        one.parent.mkdir()
        one.write_text("text")
    found = await seen(
        tmp_path, reads, writes, sandbox="bwrap", readPaths=[str(reads.parent)], writePaths=[str(writes.parent)], network=True
    )
    assert found["files"][str(reads)] == ["text", "OSError"]
    assert found["files"][str(writes)] == ["text", "written"]


@pytest.mark.parametrize("given", ["/", "/nowhere/at/all", "state"])
async def test_what_cannot_be_given_is_named_and_nothing_starts(tmp_path: Path, given: str) -> None:
    home = home_in(tmp_path)
    (home / "state").mkdir()
    path = str(home / given) if given == "state" else given
    async with servers(home, {"x": look_at(tmp_path, sandbox="bwrap", readPaths=[path])}, pin=False) as house:
        with pytest.raises(McpError, match=r"mcp\.servers\.x\.readPaths names"):
            await house.servers.test("x")


async def test_a_published_server_works_confined(tmp_path: Path) -> None:
    shown = tmp_path / "shown"
    shown.mkdir()
    (shown / "a.txt").write_text("hello")
    async with servers(home_in(tmp_path), {"fs": peer("server-filesystem", str(shown), sandbox="bwrap")}) as house:
        assert (await house.call("mcp_fs_read_text_file", {"path": str(shown / "a.txt")})).text.strip() == "hello"
        refused = await house.call("mcp_fs_write_file", {"path": str(shown / "b.txt"), "content": "x"})
        assert refused.is_error
        assert not (shown / "b.txt").exists()


async def test_a_confined_program_ends_with_its_connection(tmp_path: Path) -> None:
    given = {"command": sys.executable, "args": [str(ODD), "hangs"], "sandbox": "bwrap", "timeoutSec": 1}
    async with servers(home_in(tmp_path), {"x": given}) as house:
        outcome = await house.call("mcp_x_say", {"text": "a"})
        assert outcome.is_error
        connection = house.servers.get("x").connection
        assert connection.running
    assert not connection.running


def test_what_a_program_needs_is_found() -> None:
    program = needed(["python3", "/usr/bin/env", "relative"], "/usr/bin:/bin")
    assert program[0].endswith("/python3")
    assert "/usr/bin/env" in program
    assert "relative" not in program
    assert around("/opt/tool/bin/server") == ("/opt/tool", "/opt/tool/bin")
    assert around("/x/node_modules/@a/b/dist/index.js") == ("/x/node_modules",)


@pytest.mark.long
def test_loading_the_library_lets_no_full_collection_stop_the_event_loop() -> None:
    """A full collection looks through everything that was loaded, and stops every thread for up to 100 ms meanwhile."""
    import subprocess

    program = (
        "import gc, sys, gateway.app.gateway\n"
        "found = []\n"
        "gc.callbacks.append(lambda phase, facts: found.append(facts['generation']))\n"
        "import gateway.mcp.connection as c\n"
        "sys.argv[1] == 'plain' and __import__('gateway.mcp.mcp_session') or c.load_sessions()\n"
        "print(2 in found, gc.isenabled())\n"
    )
    for how, said in (("plain", "True True"), ("careful", "False True")):
        done = subprocess.run([sys.executable, "-c", program, how], capture_output=True, text=True, check=True)
        assert done.stdout.strip() == said, how
    assert load_sessions().__name__ == "gateway.mcp.mcp_session"
