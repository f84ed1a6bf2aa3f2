"""The section ``auth``: names and order of saved keys, and cooldowns. The keys themselves are in other files."""

from typing import Literal

from pydantic import Field

from agent.models.middleware.cooldown import Cooldowns
from agent.section import Section

Mode = Literal["api_key", "token"]


class ProfileSettings(Section):
    """Facts about one saved key."""

    provider: str = Field(min_length=1)
    """The provider of the key, such as anthropic."""
    mode: Mode = "api_key"
    """``api_key``, or ``token`` for a sign-in that allows chat only (never used for embeddings)."""
    email: str = ""
    """The account's e-mail address; only informative."""


class CooldownSettings(Section):
    """How long a rejected key is not used."""

    first_minutes: float = Field(default=1.0, gt=0)
    """Minutes after the first "too many requests" response; each further one multiplies the time by five."""
    longest_minutes: float = Field(default=60.0, gt=0)
    """Maximum of that time, in minutes."""
    billing_backoff_hours: float = Field(default=5.0, gt=0)
    """Hours after the first rejection because of billing or an invalid key; each further one doubles the time."""
    billing_max_hours: float = Field(default=24.0, gt=0)
    """Maximum of that time, in hours."""

    @property
    def rests(self) -> Cooldowns:
        """The cooldown times in seconds."""
        return Cooldowns(
            first=self.first_minutes * 60,
            longest=self.longest_minutes * 60,
            lasting_first=self.billing_backoff_hours * 3600,
            lasting_longest=self.billing_max_hours * 3600,
        )


class AuthSettings(Section):
    """Keys saved by `homebody models auth add`, used in addition to those in `models.providers` and the environment."""

    profiles: dict[str, ProfileSettings] = Field(default_factory=dict)
    """Facts about keys by id, such as `anthropic:home`; the keys themselves are in auth-profiles.json."""
    order: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """Ids of the keys to use, by provider, in this order. Unset: all keys, distributed over the sessions."""
    cooldowns: CooldownSettings = CooldownSettings.model_construct()
    """How long a rejected key is not used."""
