"""Pins: what the owner approved of each server, in the state folder. What models are told of a server comes from here alone.

``state/mcp/<server>.json`` holds the approved offer, the one that the server made last where that differs, and which server it was.
"""

from __future__ import annotations

import hashlib
import json
import logging
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from gateway.base.atomic_file import write_atomically
from gateway.base.errors import StorageFailed
from gateway.mcp.offer import Difference, Offer, difference
from gateway.settings.mcp_settings import McpServer

FOLDER: Final = "mcp"
_VERSION: Final = 1

log = logging.getLogger(__name__)


class Pin(Struct, frozen=True, kw_only=True):
    """What was approved of a server. ``waiting`` is its newest offer, where that differs; ``legacy`` whether it speaks an old protocol."""

    identity: str
    approved: Offer
    at: str
    waiting: Offer | None = None
    legacy: bool = False

    @property
    def difference(self) -> Difference:
        """What the server offers otherwise than it was approved."""
        return Difference() if self.waiting is None else difference(self.approved, self.waiting)

    @property
    def changed(self) -> frozenset[str]:
        """The tools that must not be used until the owner approves what they say now."""
        return frozenset(self.difference.changed)


def identity_of(server: McpServer) -> str:
    """Return a digest of which server it is: the program with its arguments, or the address. Another one needs a new pin."""
    text = json.dumps([server.command, list(server.args), server.cwd, server.url], ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


class PinStore:
    """The pins of all servers. Methods read and write small files."""

    def __init__(self, state: Path) -> None:
        self._folder = state / FOLDER

    def get(self, name: str, server: McpServer) -> Pin | None:
        """Return the pin of a server; None where there is none, it is of another server, or it cannot be read, which is logged."""
        path = self._folder / f"{name}.json"
        try:
            pin = _read(json.loads(path.read_text(encoding="utf-8")))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            log.warning("the pin of the MCP server %s cannot be read and counts as none: %s: %s", name, path, error)
            return None
        return pin if pin.identity == identity_of(server) else None

    def approve(self, name: str, server: McpServer, offer: Offer, now: datetime, *, legacy: bool = False) -> Pin:
        """Pin what a server offers. Raises StorageFailed."""
        return self._write(
            name, Pin(identity=identity_of(server), approved=offer, at=now.isoformat(timespec="seconds"), legacy=legacy)
        )

    def record_offer(self, name: str, pin: Pin, offer: Offer) -> Pin:
        """Record what a server offers now, where it differs from what is known. Raises StorageFailed."""
        waiting = offer if difference(pin.approved, offer) else None
        return pin if pin.waiting == waiting else self._write(name, replace(pin, waiting=waiting))

    def forget(self, name: str) -> bool:
        """Delete a pin, and say whether there was one. Raises StorageFailed."""
        path = self._folder / f"{name}.json"
        try:
            path.unlink()
        except FileNotFoundError:
            return False
        except OSError as error:
            raise StorageFailed.from_os(error, "write the pin", path) from error
        return True

    def _write(self, name: str, pin: Pin) -> Pin:
        written = {
            "version": _VERSION,
            "identity": pin.identity,
            "at": pin.at,
            "legacy": pin.legacy,
            "approved": pin.approved.to_json(),
            "waiting": None if pin.waiting is None else pin.waiting.to_json(),
        }
        path = self._folder / f"{name}.json"
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_atomically(path, json.dumps(written, ensure_ascii=False, indent=1) + "\n", durable=True)
        except OSError as error:
            raise StorageFailed.from_os(error, "write the pin", path) from error
        return pin


def _read(raw: dict[str, Any]) -> Pin:
    if raw["version"] != _VERSION:
        raise ValueError(f"version {raw['version']} is not known")
    return Pin(
        identity=str(raw["identity"]),
        approved=Offer.from_json(raw["approved"]),
        at=str(raw["at"]),
        waiting=None if raw["waiting"] is None else Offer.from_json(raw["waiting"]),
        legacy=bool(raw["legacy"]),
    )
