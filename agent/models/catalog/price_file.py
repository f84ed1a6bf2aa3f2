"""Reads a price file that is newer than the built-in list: in our own short form, or LiteLLM's public list.

    asOf: 2026-12-01
    models:
      anthropic/claude-sonnet-5-5: {input: 2, output: 10, cacheRead: 0.1, cacheWrite: 2.5, cacheWrite1h: 4}

Figures are USD per 1M tokens, names are ``provider/model`` or the bare id. LiteLLM's file
(``model_prices_and_context_window.json``) has USD per token, and no date: the file's modification date is used.
"""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from agent.errors import InvalidPriceFile
from agent.models.catalog.prices import MILLION, Price, PriceList

_LONGEST = 32_000_000
"""Bytes; LiteLLM's list has about 2.5 million."""
_OURS = {
    "input": "input",
    "output": "output",
    "cache_read": "cacheRead",
    "cache_write": "cacheWrite",
    "cache_write_1h": "cacheWrite1h",
}
_LITELLM = {
    "input": "input_cost_per_token",
    "output": "output_cost_per_token",
    "cache_read": "cache_read_input_token_cost",
    "cache_write": "cache_creation_input_token_cost",
    "cache_write_1h": "cache_creation_input_token_cost_above_1hr",
}


def read_prices(path: Path) -> PriceList:
    """Return the built-in list with the file's prices before it.

    Raises:
        InvalidPriceFile: the file cannot be read, or holds no price at all.
    """
    try:
        if path.stat().st_size > _LONGEST:
            raise InvalidPriceFile(f"{path} is larger than {_LONGEST:,} bytes.", hint=_HINT)
        text, changed = path.read_text(encoding="utf-8"), datetime.fromtimestamp(path.stat().st_mtime, UTC)
        told = _parsed(text)
    except OSError as error:
        raise InvalidPriceFile(f"{path} cannot be read: {error.strerror or error}.", hint=_HINT) from error
    except (ValueError, RecursionError) as error:
        raise InvalidPriceFile(f"{path} is neither JSON nor YAML: {' '.join(str(error).split())[:200]}", hint=_HINT) from error
    listed = told.get("models") if isinstance(told.get("models"), dict) else None
    as_of = str(told.get("asOf") or f"{changed:%Y-%m-%d}")
    found = _read(told, _LITELLM, MILLION, as_of) if listed is None else _read(listed, _OURS, 1.0, as_of)
    if not found:
        raise InvalidPriceFile(f"{path} holds no price.", hint=_HINT)
    return PriceList(found, as_of)


_HINT = "Its form is in docs/cost.md; without it: homebody config unset models.pricesFile"


def _parsed(text: str) -> dict[str, Any]:
    """Read JSON, or YAML where it is none."""
    try:
        told = json.loads(text)
    except ValueError:
        import yaml

        try:
            told = yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise ValueError(str(error)) from error
    if not isinstance(told, dict):
        raise ValueError("a mapping is expected")  # noqa: TRY004  (told like every other wrong form)
    return told


def _read(listed: dict[Any, Any], names: dict[str, str], times: float, as_of: str) -> dict[str, Price]:
    found = {}
    for model, row in listed.items():
        if not isinstance(row, dict):
            continue
        figures = {ours: _figure(row.get(theirs), times) for ours, theirs in names.items()}
        sent, said = figures["input"], figures["output"]
        if sent is not None and (said is not None or times == 1.0):
            found[str(model)] = Price(
                input=sent,
                output=said or 0.0,
                cache_read=figures["cache_read"],
                cache_write=figures["cache_write"],
                cache_write_1h=figures["cache_write_1h"],
                as_of=as_of,
            )
    return found


def _figure(value: Any, times: float) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        return None
    return round(value * times, 9)
