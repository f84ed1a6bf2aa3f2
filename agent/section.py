"""The base of the agent's settings sections.

Where a section is another one's default, it is made by ``model_construct``: a call would build a schema for each section alone,
in addition to the one of the root, with each start of the program.
"""

from __future__ import annotations

from typing import Any, Self

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel


class Section(BaseModel):
    """A section of the settings: camelCase keys; unknown keys are ignored (the loader warns about them)."""

    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, frozen=True, extra="ignore", defer_build=True, allow_inf_nan=False
    )

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        """Return itself, as it cannot change: each validation copies the sections that are defaults of others."""
        return self
