"""Stores what was learned across restarts: windows of models, how far our token estimate is off, and cooldowns of keys.

Without it, the first turn after a restart would estimate a long conversation badly, and might compact it without need.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from msgspec.structs import asdict

from agent.messages import FailureKind
from agent.models.middleware.key_health import KeyTrouble
from gateway.base.atomic_file import write_atomically

if TYPE_CHECKING:
    from agent.models.token_estimate import Calibration

log = logging.getLogger(__name__)

FILE_NAME = "learnt.json"
"""File name in the state folder."""
WORTH_KEEPING = 0.03
"""Smaller relative changes of a factor are not written."""
_FACTORS = ("prose", "foreign", "code", "opaque", "dense")
_LEAST, _MOST = 0.2, 4.0
_LEAST_WINDOW = 1000


class ModelFactsCache:
    """A small file, written atomically. Read and write errors are logged; the facts are learned again."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._one_at_a_time = asyncio.Lock()
        self._models: dict[str, dict[str, Any]] = self._load() if path else {}

    def limits(self, model: str) -> tuple[int, int] | None:
        """Return the window and the longest answer that a provider told of a model."""
        known = self._models.get(model, {})
        return (known["window"], known["maxOutput"]) if "window" in known else None

    def calibration(self, model: str) -> Calibration:
        """Return how far our count was off for a model."""
        from agent.models.token_estimate import Calibration

        learnt = self._models.get(model, {}).get("calibration")
        return Calibration(**learnt) if learnt else Calibration.for_model(model)

    async def record(self, model: str, window: int, max_output: int) -> None:
        """Take note of what a provider told."""
        if self.limits(model) != (window, max_output):
            self._models.setdefault(model, {}).update(window=window, maxOutput=max_output)
            await self._save()

    async def calibrated(self, model: str, calibration: Calibration) -> None:
        """Take note of a calibration, if it moved enough to matter."""
        known = self.calibration(model)
        if calibration.calls and any(
            abs(getattr(calibration, name) / getattr(known, name) - 1) > WORTH_KEEPING for name in _FACTORS
        ):
            self._models.setdefault(model, {})["calibration"] = asdict(calibration)
            await self._save()

    def _load(self) -> dict[str, dict[str, Any]]:
        assert self._path is not None
        try:
            raw = json.loads(self._path.read_text("utf-8"))["models"]
            return {str(name): _sound(row) for name, row in raw.items()}
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            log.warning("%s cannot be read (%s); its facts will be learned again", self._path, type(error).__name__)
            return {}

    async def _save(self) -> None:
        if self._path is None:
            return
        async with self._one_at_a_time:
            try:
                await asyncio.to_thread(write_atomically, self._path, json.dumps({"version": 1, "models": self._models}))
            except OSError as error:
                log.warning("%s cannot be written: %s", self._path, error.strerror)


def _sound(row: dict[str, Any]) -> dict[str, Any]:
    """Keep of a row what can be true."""
    kept: dict[str, Any] = {}
    window, longest = row.get("window"), row.get("maxOutput")
    if isinstance(window, int) and isinstance(longest, int) and window >= _LEAST_WINDOW and longest > 0:
        kept |= {"window": window, "maxOutput": longest}
    factors = row.get("calibration")
    # Factors without this one were learned against other rates.
    if (
        isinstance(factors, dict)
        and "foreign" in factors
        and all(_LEAST <= float(factors.get(name, 1.0)) <= _MOST for name in _FACTORS)
    ):
        calls = factors.get("calls", 0)
        kept["calibration"] = {name: float(factors.get(name, 1.0)) for name in _FACTORS} | {
            "calls": calls if isinstance(calls, int) else 0
        }
    return kept


KEY_HEALTH_NAME = "key-health.json"
"""File name in the state folder."""


class KeyHealthFile:
    """A ``HealthStore`` in a small file, written atomically. Read and write errors are logged and ignored."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._one_at_a_time = asyncio.Lock()

    def load(self) -> dict[tuple[str, str], KeyTrouble]:
        """Return what was kept."""
        try:
            rows = json.loads(self._path.read_text("utf-8"))["keys"]
            return {(row["key"], row["model"]): _ailing(row) for row in rows if row["kind"] in get_args(FailureKind)}
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, TypeError, KeyError) as error:
            log.warning("%s cannot be read (%s); paused keys are tried again", self._path, type(error).__name__)
            return {}

    async def save(self, ailing: Mapping[tuple[str, str], KeyTrouble]) -> None:
        """Keep it."""
        rows = [
            {
                "key": key,
                "model": model,
                "kind": ill.kind,
                "times": ill.times,
                "at": ill.at.isoformat(),
                "until": ill.until.isoformat(),
            }
            for (key, model), ill in ailing.items()
        ]
        async with self._one_at_a_time:
            try:
                await asyncio.to_thread(write_atomically, self._path, json.dumps({"version": 1, "keys": rows}))
            except OSError as error:
                log.warning("%s cannot be written: %s", self._path, error.strerror)


def _ailing(row: Mapping[str, str]) -> KeyTrouble:
    at, until = datetime.fromisoformat(row["at"]), datetime.fromisoformat(row["until"])
    if at.tzinfo is None or until.tzinfo is None:
        raise ValueError("a time has no time zone")
    kind: FailureKind = row["kind"]  # type: ignore[assignment]  # looked up before
    return KeyTrouble(kind, int(row["times"]), at, until)
