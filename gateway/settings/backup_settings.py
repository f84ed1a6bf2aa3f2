"""The section ``backup``: when copies of everything are made, where they go, and how long they are kept."""

import re
from typing import Annotated, Final

from pydantic import AfterValidator, Field

from agent.section import Section

DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_SCHEDULE: Final = re.compile(rf"(?:(daily|{'|'.join(DAYS)}) )?([01]?\d|2[0-3]):([0-5]\d)")


def schedule_parts(text: str) -> tuple[int | None, int, int] | None:
    """Return the weekday (None for every day; Monday is 0), the hour and the minute of a schedule; None for one that is off."""
    words = " ".join(text.casefold().split())
    if words in {"", "off"}:
        return None
    found = _SCHEDULE.fullmatch(words)
    if found is None:
        raise ValueError(f'{text!r} is no time for backups: write "03:30" for every day, "sun 03:30" for once a week, or "off"')
    day, hour, minute = found.groups()
    return (None if day in {None, "daily"} else DAYS.index(day)), int(hour), int(minute)


def _readable(text: str) -> str:
    schedule_parts(text)
    return text


def _recipient(text: str) -> str:
    if not text.startswith(("age1", "ssh-")):
        raise ValueError(
            f"{text!r} is no recipient of age: it begins with age1 (age-keygen -y FILE shows it), or is an SSH public key"
        )
    return text


class KeepSettings(Section):
    """How many copies are kept. The newest copy is always kept."""

    daily: Annotated[int, Field(ge=0, le=3660)] = 7
    """Number of latest days of which the last copy is kept."""
    weekly: Annotated[int, Field(ge=0, le=520)] = 4
    """Number of latest weeks of which the last copy is kept."""
    monthly: Annotated[int, Field(ge=0, le=1200)] = 12
    """Number of latest months of which the last copy is kept."""


class BackupSettings(Section):
    """Copies of everything in one file (docs/backup.md)."""

    schedule: Annotated[str, AfterValidator(_readable)] = "off"
    """When the gateway makes one, in the owner's time zone: `03:30` for every day, `sun 03:30` for once a week, or `off`."""
    folder: str = ""
    """Folder for the copies, best on another disk. Unset: `backups` in the home folder (~/.homebody)."""
    keep: KeepSettings = KeepSettings.model_construct()
    """How many copies are kept."""
    command: str = ""
    """Shell command that takes a new copy away, such as `rclone copy "$BACKUP" nas:homebody`; `$BACKUP` is the file."""
    recipients: tuple[Annotated[str, AfterValidator(_recipient)], ...] = ()
    """Public keys (age or SSH) that can open the copies. Unset: a key made at the first backup."""
