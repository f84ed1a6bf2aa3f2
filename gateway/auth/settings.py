"""The section ``auth`` of the settings: which keys there are and in which order they are tried. The keys stand elsewhere."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

Mode = Literal["api_key", "token"]


class _Section(BaseModel):
    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, frozen=True, extra="ignore", use_attribute_docstrings=True
    )


class ProfileSettings(_Section):
    """What is known of one key besides the key."""

    provider: str = Field(min_length=1)
    """The provider that it opens, such as anthropic."""
    mode: Mode = "api_key"
    """What it is: api_key, or token for a sign-in that covers chat only (it is never used for embeddings)."""
    email: str = ""
    """Whose account it is, for people."""


class AuthSettings(_Section):
    """Keys in files of their own (`homebody models auth add`), beside those of `models.providers` and the environment."""

    profiles: dict[str, ProfileSettings] = Field(default_factory=dict)
    """What the owner notes of keys by their id, such as `anthropic:home`; the keys themselves are in auth-profiles.json."""
    order: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """By provider: the ids of the keys to use, first one first; unset: all, and sessions take turns between them."""
