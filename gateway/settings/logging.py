"""The ``logging`` section."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

Level = Literal["debug", "info", "warn", "warning", "error", "silent"]


class LoggingSettings(BaseModel):
    """What is logged, and where."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, frozen=True, extra="ignore")

    level: Level = Field(default="info", json_schema_extra={"reload": "hot"})
    """The least important lines that the log file takes: debug, info, warn, error or silent."""
    file: Path | None = Field(default=None, json_schema_extra={"reload": "restart"})
    """Where the log file is; logs/homebody.jsonl in the house's folder when not set."""
    console_level: Level = Field(default="info", json_schema_extra={"reload": "hot"})
    """The least important lines that the terminal shows."""
    console_style: Literal["pretty", "json"] = Field(default="pretty", json_schema_extra={"reload": "restart"})
    """How lines look on the terminal: pretty for people, json for a log collector."""
    max_bytes: Annotated[int, Field(ge=10_000)] = Field(default=10_000_000, json_schema_extra={"reload": "restart"})
    """Size at which the log file is put aside and a new one begun, in bytes."""
    keep: Annotated[int, Field(ge=1, le=100)] = Field(default=5, json_schema_extra={"reload": "restart"})
    """How many log files that were put aside are kept."""
