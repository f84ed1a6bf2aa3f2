"""The checks of `homebody security audit`, in the order in which they are shown."""

from __future__ import annotations

from typing import Final

from gateway.doctor.finding import Check
from gateway.doctor.security.listeners import API, LISTENERS, TOKEN, WEBHOOKS
from gateway.doctor.security.people import GUESTS, PEOPLE
from gateway.doctor.security.plain_connections import TRANSPORT
from gateway.doctor.security.powers import COMMANDS, CONFINEMENT, MCP, OTHER_PACKAGES, RULES, SKILLS
from gateway.doctor.security.secret_places import FILES, INLINE, OWN_FILES
from gateway.doctor.settings_check import SETTINGS

AUDIT: Final[tuple[Check, ...]] = (
    SETTINGS,
    LISTENERS,
    TOKEN,
    API,
    WEBHOOKS,
    PEOPLE,
    GUESTS,
    CONFINEMENT,
    COMMANDS,
    RULES,
    MCP,
    SKILLS,
    OTHER_PACKAGES,
    OWN_FILES,
    FILES,
    INLINE,
    TRANSPORT,
)
