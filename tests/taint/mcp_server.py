"""An MCP server over stdio in plain Python whose words an attacker chooses: ``mcp_server.py FOLDER``.

``tools.json`` in the folder is what it offers, ``says`` what it answers. What ``post`` is given is added to ``posted``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

FOLDER = Path(sys.argv[1])


def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
    """Return the result of a request."""
    says = (FOLDER / "says").read_text() if (FOLDER / "says").exists() else "nothing"
    if method == "tools/call" and params["name"] == "post":
        with (FOLDER / "posted").open("a") as posted:
            posted.write(json.dumps(params["arguments"]) + "\n")
    content = [{"type": "text", "text": says}]
    answers: dict[str, dict[str, Any]] = {
        "initialize": {
            "protocolVersion": params.get("protocolVersion"),
            "capabilities": {"tools": {}, "resources": {}, "prompts": {}},
            "serverInfo": {"name": "x", "version": "1"},
        },
        "tools/list": {"tools": json.loads((FOLDER / "tools.json").read_text())},
        "tools/call": {"content": content, "isError": params.get("name") == "fails"},
        "resources/list": {"resources": [{"uri": "x://a", "name": says}]},
        "resources/templates/list": {"resourceTemplates": []},
        "resources/read": {"contents": [{"uri": "x://a", "text": says}]},
        "prompts/list": {"prompts": [{"name": "p", "description": "a prompt"}]},
        "prompts/get": {"messages": [{"role": "user", "content": content[0]}]},
    }
    return answers[method]


def main() -> None:
    """Answer requests until the input ends."""
    for line in sys.stdin:
        heard = json.loads(line)
        if "id" not in heard or "method" not in heard:
            continue
        try:
            told: dict[str, Any] = {"result": answer(heard["method"], heard.get("params") or {})}
        except LookupError:
            told = {"error": {"code": -32601, "message": "no such method"}}
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": heard["id"], **told}) + "\n")
        sys.stdout.flush()


main()
