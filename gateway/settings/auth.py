"""The section ``auth`` of the settings: which keys there are and in which order they are tried. The keys stand elsewhere."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from agent.models.middleware.cooldown import Cooldowns

Mode = Literal["api_key", "token"]


class _Section(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, frozen=True, extra="ignore")


class ProfileSettings(_Section):
    """What is known of one key besides the key."""

    provider: str = Field(min_length=1)
    """The provider that it opens, such as anthropic."""
    mode: Mode = "api_key"
    """What it is: api_key, or token for a sign-in that covers chat only (it is never used for embeddings)."""
    email: str = ""
    """Whose account it is, for people."""


class CooldownSettings(_Section):
    """How long a key rests after it was turned down."""

    first_minutes: float = Field(default=1.0, gt=0)
    """Minutes after a first refusal for having had too many requests; each further one makes it five times as long."""
    longest_minutes: float = Field(default=60.0, gt=0)
    """Minutes that such a rest takes at most."""
    billing_backoff_hours: float = Field(default=5.0, gt=0)
    """Hours after a first refusal for want of money, or of a key that is not accepted; each further one doubles it."""
    billing_max_hours: float = Field(default=24.0, gt=0)
    """Hours that such a rest takes at most."""

    @property
    def rests(self) -> Cooldowns:
        """The same, for whoever lays keys to rest."""
        return Cooldowns(
            first=self.first_minutes * 60,
            longest=self.longest_minutes * 60,
            lasting_first=self.billing_backoff_hours * 3600,
            lasting_longest=self.billing_max_hours * 3600,
        )


class AuthSettings(_Section):
    """Keys in files of their own (`homebody models auth add`), beside those of `models.providers` and the environment."""

    profiles: dict[str, ProfileSettings] = Field(default_factory=dict)
    """What the owner notes of keys by their id, such as `anthropic:home`; the keys themselves are in auth-profiles.json."""
    order: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """By provider: the ids of the keys to use, first one first; unset: all, and sessions take turns between them."""
    cooldowns: CooldownSettings = CooldownSettings()
    """How long a key rests after it was turned down."""
