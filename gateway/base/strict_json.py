"""JSON as every reader takes it: without ``Infinity`` and ``NaN``, which Python writes and browsers and other programs refuse."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any


def written(value: Any) -> str:
    """Return a value as JSON; a number that JSON lacks is null."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except ValueError:
        return json.dumps(_without_unwritable(value), ensure_ascii=False, allow_nan=False)


def _without_unwritable(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _without_unwritable(one) for key, one in value.items()}
    return [_without_unwritable(one) for one in value] if isinstance(value, list | tuple) else value
