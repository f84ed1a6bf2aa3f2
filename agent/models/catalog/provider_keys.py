"""The keys of a provider, in the order in which they are tried: auth profiles, then the settings, then the environment."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from agent.settings import ModelsSettings

Origin = Literal["profile", "settings", "environment", "none needed"]
NO_SECRET = "none"  # noqa: S105 -- the very word that stands for none
"""Sent where a server wants no key but the SDK insists on one."""
_QUOTES = frozenset("\"'`“”„«»‘’")
_MOST_NUMBERED = 20
"""How many numbered variables are looked for: ANTHROPIC_API_KEY_1 to ANTHROPIC_API_KEY_20."""


@dataclass(frozen=True, slots=True)
class Key:
    """One key. ``label`` says where it stands, and never what it is. ``secret`` is kept out of every text about it."""

    label: str
    origin: Origin
    secret: str = field(repr=False)

    @property
    def is_sendable(self) -> bool:
        """Whether an HTTP header can carry it: what was pasted with a line break or a typographic dash in it cannot be sent."""
        return self.secret.isascii() and self.secret.isprintable() and " " not in self.secret and not self.is_quoted

    @property
    def is_quoted(self) -> bool:
        """Whether it was pasted with the quotes that stood around it."""
        return self.secret[:1] in _QUOTES or self.secret[-1:] in _QUOTES

    @property
    def id(self) -> str:
        """What it is remembered by: a hash that leads back to nothing."""
        return hashlib.blake2b(self.secret.encode("utf-8", "surrogatepass"), digest_size=8, person=b"homebody key").hexdigest()


KeySource: TypeAlias = Callable[[str], Sequence[Key]]
"""Returns the keys that a provider's auth profiles hold, first one first."""


def no_profiles(_provider: str) -> Sequence[Key]:
    """Stand in where there are no auth profiles."""
    return ()


def keys_of(
    provider: str, settings: ModelsSettings, env: Mapping[str, str], key_source: KeySource = no_profiles
) -> tuple[Key, ...]:
    """Return the keys of a provider, each secret once."""
    found = (*key_source(provider), *_in_settings(provider, settings), *_in_environment(provider, env))
    return tuple({key.secret: key for key in reversed(found)}[secret] for secret in dict.fromkeys(key.secret for key in found))


def _in_settings(provider: str, settings: ModelsSettings) -> list[Key]:
    own = settings.providers.get(provider)
    if own is None:
        return []
    return [Key(f"models.providers.{provider}.{place}", "settings", secret) for place, secret in own.keys]


def _in_environment(provider: str, env: Mapping[str, str]) -> list[Key]:
    """``NAME``, then ``NAMES`` with several between commas, then ``NAME_1`` and so on."""
    from agent.models.catalog.known_models import PROVIDERS

    known = PROVIDERS.get(provider)
    found: list[Key] = []
    for name in known.keys if known else ():
        if single := env.get(name, "").strip():
            found.append(Key(name, "environment", single))
        listed = [part for part in re.split(r"[,;\s]+", env.get(f"{name}S", "")) if part]
        found += [Key(f"{name}S[{number}]", "environment", part) for number, part in enumerate(listed)]
        numbered = (f"{name}_{number}" for number in range(1, _MOST_NUMBERED + 1))
        found += [Key(one, "environment", text) for one in numbered if (text := env.get(one, "").strip())]
    return found
