"""What goes out beside text: buttons and a file, as a row keeps them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from channels.messages import Button, OutboundFile

if TYPE_CHECKING:
    from collections.abc import Sequence


def write_payload(buttons: Sequence[Button], enclosure: OutboundFile | None) -> str | None:
    """Write as JSON; None when there is nothing."""
    if not buttons and enclosure is None:
        return None
    written: dict[str, object] = {"buttons": [[button.label, button.value] for button in buttons]}
    if enclosure is not None:
        written["enclosure"] = {"path": str(enclosure.path), "name": enclosure.name, "type": enclosure.media_type}
    return json.dumps(written, separators=(",", ":"))


def read_payload(extras: str | None) -> tuple[tuple[Button, ...], OutboundFile | None]:
    """The reverse."""
    if extras is None:
        return (), None
    written = json.loads(extras)
    buttons = tuple(Button(label=label, value=value) for label, value in written["buttons"])
    found = written.get("enclosure")
    if found is None:
        return buttons, None
    return buttons, OutboundFile(path=Path(found["path"]), name=found["name"], media_type=found["type"])
