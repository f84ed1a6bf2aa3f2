"""Tries bubblewrap as the gateway does at its first need, and prints what it found. Needs no package beside the standard library."""

import asyncio
import json
import sys

from gateway.sandbox.probe import try_bubblewrap

found, tried = asyncio.run(try_bubblewrap([]))
facts = {"works": tried.works, "reason": tried.reason, "hint": tried.hint}
sys.stdout.write(json.dumps(facts | ({"nested": found.nested, "proc": found.proc} if found else {})))
