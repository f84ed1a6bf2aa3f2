"""Random events of the shapes that the platforms publish as TypeScript types; ``shapes.js`` beside this file makes them."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.peers.emulate import new_node

if TYPE_CHECKING:
    from collections.abc import Mapping
    from random import Random

MODULES = Path(__file__).parents[2] / ".cache/peers/node_modules"
PACKAGES = ("typescript", "@grammyjs/types", "@slack/types", "discord-api-types")
Drawn = dict[str, list[dict[str, Any]]]


def drawn(seed: int, count: int) -> Drawn:
    """Return so many events of each platform. Skips the test where Node or the types are missing; where CI is set it fails."""
    node = new_node()
    if node is None or not all((MODULES / one).exists() for one in PACKAGES):
        told = "Node.js or the platforms' types are missing: run `sh tests/peers/install`"
        if os.environ.get("CI"):
            pytest.fail(told)
        pytest.skip(told)
    script = Path(__file__).with_suffix(".js")
    made = subprocess.run([node, str(script), str(MODULES), str(seed), str(count)], capture_output=True, text=True, check=True)
    found: Drawn = {}
    for line in made.stdout.split("\n"):
        if line:
            one = json.loads(line)
            found.setdefault(one["platform"], []).append(one["event"])
    return found


def at_home(event: Any, known: Mapping[str, Any], random: Random) -> Any:
    """Return an event in which some ids are those of people and places that the house knows, by the names of their fields."""
    if isinstance(event, list):
        return [at_home(one, known, random) for one in event]
    if not isinstance(event, dict):
        return event
    return {
        key: known[key]
        if key in known and type(value) is type(known[key]) and random.random() < 0.6
        else at_home(value, known, random)
        for key, value in event.items()
    }
