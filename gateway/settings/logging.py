"""The ``logging`` section."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

Level = Literal["debug", "info", "warn", "warning", "error", "silent"]


class LoggingSettings(BaseModel):
    """Log levels and the log file."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, frozen=True, extra="ignore")

    level: Level = Field(default="info", json_schema_extra={"reload": "hot"})
    """Minimum level of lines in the log file: debug, info, warn, error or silent."""
    file: Path | None = Field(default=None, json_schema_extra={"reload": "restart"})
    """Path of the log file. Unset: logs/homebody.jsonl in the home folder (~/.homebody)."""
    console_level: Level = Field(default="info", json_schema_extra={"reload": "hot"})
    """Minimum level of lines in the terminal."""
    console_style: Literal["pretty", "json"] = Field(default="pretty", json_schema_extra={"reload": "restart"})
    """Format of lines in the terminal: ``pretty`` for people, ``json`` for a log collector."""
    max_bytes: Annotated[int, Field(ge=10_000)] = Field(default=10_000_000, json_schema_extra={"reload": "restart"})
    """Size in bytes at which the log file is rotated."""
    keep: Annotated[int, Field(ge=1, le=100)] = Field(default=5, json_schema_extra={"reload": "restart"})
    """Number of rotated log files to keep."""
