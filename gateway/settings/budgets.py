"""The section ``budgets`` of the settings."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel


class PurseSettings(BaseModel):
    """How much may be used in a day."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, frozen=True, extra="ignore")

    tokens: int | None = Field(default=None, ge=0)
    """Tokens a day, those read from a cache included; unset: any number."""
    usd: float | None = Field(default=None, ge=0)
    """Dollars a day; unset: any sum. A model without a known price counts with a high estimate: see `homebody usage`."""


class DayPurse(PurseSettings):
    """What the whole house may use in a day."""

    tokens: int | None = Field(default=25_000_000, ge=0)
    """Tokens a day, those read from a cache included; null: any number."""
    usd: float | None = Field(default=5.0, ge=0)
    """Dollars a day; null: any sum. A model without a known price counts with a high estimate: see `homebody usage`."""


class BackgroundPurse(PurseSettings):
    """What may be used in a day by work that nobody waits for."""

    tokens: int | None = Field(default=10_000_000, ge=0)
    """Tokens a day, those read from a cache included; null: any number."""
    usd: float | None = Field(default=1.0, ge=0)
    """Dollars a day; null: any sum. A model without a known price counts with a high estimate: see `homebody usage`."""


class BudgetSettings(BaseModel):
    """Brakes on what the models cost. A day is the agent's owner's, midnight to midnight."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, frozen=True, extra="ignore")

    enabled: bool = True
    """Hold calls back that could go beyond a purse."""
    day: DayPurse = DayPurse()
    """What the whole house may use in a day."""
    agent: PurseSettings = PurseSettings()
    """What each agent may use in a day."""
    session: PurseSettings = PurseSettings()
    """What each session may use in a day."""
    background: BackgroundPurse = BackgroundPurse()
    """What flushes, summaries, embeddings and other work that nobody waits for may use in a day."""
    warn_at: float = Field(default=0.8, gt=0, le=1)
    """The share of a purse from which on the owner is told, once a day."""
