"""One message for several agents: a row for each, taken in together, so that each answers it once in its own session."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gateway.ledger.rows import Arrival
    from gateway.routing.router import Route


def fanned(arrival: Arrival, routes: Sequence[Route]) -> list[Arrival]:
    """Return a message with its copies for ``routes``.

    A copy is known by the name of its agent behind the names of the message, so that a message that is delivered again finds all
    of its rows. What only one row may take along (notes of emoji and edits) goes with the first.
    """
    if not routes or arrival.aside is not None:
        return [arrival]
    payload = json.loads(arrival.payload)
    copies = [
        replace(
            arrival,
            key=f"{arrival.key}@{route.agent}",
            alias=f"{arrival.alias}@{route.agent}",
            session=route.session,
            payload=json.dumps({**payload, "route": asdict(route)}, separators=(",", ":")),
            takes=(),
        )
        for route in routes
    ]
    return [arrival, *copies]
