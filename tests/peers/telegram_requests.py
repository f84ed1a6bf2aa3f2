"""Whether a request is one that Telegram's published types allow (`@grammyjs/types`); ``telegram_requests.js`` beside this file reads them.

The product speaks through one client library, whose idea of the Bot API these types do not share.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from functools import cache
from pathlib import Path
from typing import Any, Final

from aiohttp import web

from tests.peers.emulate import new_node
from tests.peers.shapes import MODULES

_TYPES: Final = MODULES / "@grammyjs/types/package.json"
_KEPT: Final = MODULES.parent / "telegram_requests.json"
_KINDS: Final[dict[str, Any]] = {"any": object, "string": str, "file": str, "number": int | float, "boolean": bool}
Spec = dict[str, Any]


@cache
def published() -> Spec | None:
    """Return what the types say of all methods; None where Node.js or the types are missing. Slow the first time: use a thread."""
    node = new_node()
    if node is None or not _TYPES.exists() or not (MODULES / "typescript").exists():
        return None
    script = Path(__file__).with_suffix(".js")
    if not _KEPT.exists() or _KEPT.stat().st_mtime < max(_TYPES.stat().st_mtime, script.stat().st_mtime):
        made = subprocess.run([node, str(script), str(MODULES)], capture_output=True, text=True, check=True).stdout
        fresh = _KEPT.with_suffix(f".{os.getpid()}")
        fresh.write_text(made)
        fresh.replace(_KEPT)
    found: Spec = json.loads(_KEPT.read_text())
    return found


def wrong(method: str, arguments: dict[str, Any]) -> list[str]:
    """Return what a request has that the types do not allow; nothing where they are missing."""
    spec = published()
    if spec is None:
        return []
    parameters = spec["methods"].get(method)
    if parameters is None:
        return [f"{method}: no such method"]
    attached = {
        part for value in arguments.values() if isinstance(value, str) for part in re.findall(r"attach://([\w.-]+)", value)
    }
    found = [f"{method}: {name} is missing" for name, (needed, _) in parameters.items() if needed and name not in arguments]
    for name, value in arguments.items():
        if name not in parameters:
            if name not in attached:
                found.append(f"{method}: {name} is no parameter")
        elif not _fits_as_sent(spec, parameters[name][1], value):
            found.append(f"{method}: {name} is {value!r:.200}")
    return found


def _fits_as_sent(spec: Spec, shape: Any, value: Any) -> bool:
    """Tell whether a parameter fits, which a form holds as text: numbers, truth and objects are written as JSON."""
    if isinstance(value, web.FileField):
        return "file" in _members(spec, shape)
    if not isinstance(value, str):
        return _fits(spec, shape, value)
    if any(one in ("string", "file", "any", {"is": value}) for one in _members(spec, shape)):
        return True
    try:
        read = json.loads(value)
    except ValueError:
        return False
    return _fits(spec, shape, read)


def _members(spec: Spec, shape: Any) -> list[Any]:
    """Return the shapes of which a value may have one."""
    if isinstance(shape, dict) and "named" in shape:
        return _members(spec, spec["named"][shape["named"]])
    if isinstance(shape, dict) and "one" in shape:
        return [one for member in shape["one"] for one in _members(spec, member)]
    return [shape]


def _fits(spec: Spec, shape: Any, value: Any) -> bool:
    match shape:
        case str():
            return isinstance(value, _KINDS[shape]) and (shape != "number" or not isinstance(value, bool))
        case {"is": wanted}:
            return type(value) is type(wanted) and bool(value == wanted)
        case {"list": of}:
            return isinstance(value, list) and all(_fits(spec, of, one) for one in value)
        case {"object": fields}:
            return isinstance(value, dict) and _fields_fit(spec, fields, value)
    return any(_fits(spec, one, value) for one in _members(spec, shape))


def _fields_fit(spec: Spec, fields: dict[str, Any], value: dict[str, Any]) -> bool:
    here = value.keys() <= fields.keys() and all(not needed or name in value for name, (needed, _) in fields.items())
    return here and all(_fits(spec, fields[name][1], one) for name, one in value.items())
