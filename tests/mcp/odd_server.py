"""An MCP server over stdio in plain Python that misbehaves as it is told: ``odd_server.py MODE [FILE]``.

It shares nothing with the library that the client is made of. FILE holds the tools that it offers, as JSON, and is read at each listing.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

MODE = sys.argv[1]
FILE = Path(sys.argv[2]) if len(sys.argv) > 2 else None
SAMPLING = {"messages": [], "maxTokens": 10}
ASKED = {
    "sampling": ("sampling/createMessage", SAMPLING),
    "elicitation": (
        "elicitation/create",
        {"message": "your password?", "requestedSchema": {"type": "object", "properties": {}}},
    ),
    "roots": ("roots/list", {}),
}


def say(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def hear() -> dict[str, Any]:
    line = sys.stdin.readline()
    if not line:
        if MODE == "stays":
            time.sleep(1000)
        sys.exit(0)
    heard: dict[str, Any] = json.loads(line)
    return heard


def tools() -> list[dict[str, Any]]:
    if FILE is not None:
        found: list[dict[str, Any]] = json.loads(FILE.read_text())
        return found
    return [
        {"name": "say", "description": "says it", "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}}}
    ]


def hang() -> None:
    Path("called").touch()
    while True:
        heard = hear()
        if heard.get("method") == "notifications/cancelled":
            Path("cancelled").write_text(json.dumps(heard["params"]))


def die() -> None:
    sys.stderr.write("something broke\nout of luck\n")
    sys.exit(3)


def long_line() -> None:
    sys.stdout.write('{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"')
    for _ in range(400):
        sys.stdout.write("x" * 100_000)
    sys.stdout.write('"}]}}\n')


def storm() -> None:
    for _ in range(3000):
        say({"method": "notifications/message", "params": {"level": "info", "data": "x" * 100}})


INSTEAD = {
    "hangs": hang,
    "dies": die,
    "garbage": lambda: sys.stdout.write("DEBUG not a message\n" * 5000),
    "long": long_line,
    "storm": storm,
}


def text_of(arguments: dict[str, Any]) -> str:
    if MODE in ASKED:
        method, params = ASKED[MODE]
        say({"id": "mine", "method": method, "params": params})
        return json.dumps(hear())
    if MODE == "env":
        return json.dumps(dict(os.environ))
    if MODE == "big":
        return "first\n" + "middle\n" * 20_000 + "last"
    return str(arguments.get("text", "")) or "said"


def called(number: Any, arguments: dict[str, Any]) -> None:
    """Answer a call, or do what the mode says instead."""
    INSTEAD.get(MODE, lambda: None)()
    if MODE == "error":
        say({"id": number, "error": {"code": -32000, "message": "it is not\n possible"}})
    elif MODE == "broken":
        say({"id": number, "result": {"content": "no list"}})
    else:
        say({"id": number, "result": {"content": [{"type": "text", "text": text_of(arguments)}]}})


def main() -> None:
    if MODE == "stays":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        child = subprocess.Popen(["sleep", "1000"])
        Path("child").write_text(str(child.pid))
    while True:
        heard = hear()
        match heard.get("method"):
            case "initialize":
                if MODE == "silent":
                    continue
                capabilities = {"tools": {"listChanged": True}}
                info = {"name": f"odd {MODE}", "version": "1"}
                result = {
                    "protocolVersion": heard["params"]["protocolVersion"],
                    "capabilities": capabilities,
                    "serverInfo": info,
                }
                say({"id": heard["id"], "result": result})
            case "tools/list" if MODE == "endless":
                say({"id": heard["id"], "result": {"tools": tools(), "nextCursor": "more"}})
            case "tools/list":
                say({"id": heard["id"], "result": {"tools": tools()}})
            case "tools/call":
                called(heard["id"], heard["params"].get("arguments") or {})
                if MODE == "changing":
                    say({"method": "notifications/tools/list_changed"})
            case _ if "id" in heard and "method" in heard:
                say({"id": heard["id"], "error": {"code": -32601, "message": "no such method"}})


main()
