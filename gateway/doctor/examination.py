"""Makes checks side by side, each within its time limit, and mends what they found."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gateway.base.errors import as_homebody_error
from gateway.doctor.checked_installation import Installation, in_thread
from gateway.doctor.finding import Check, Finding, NotChecked, at_least

Progress = Callable[[int, int, Sequence[str]], None]
"""Told how many checks are done, of how many, and the names of those that are not."""


def _silent(_done: int, _all: int, _left: Sequence[str]) -> None:
    """Show nothing."""


async def examine(installation: Installation, checks: Sequence[Check], progress: Progress = _silent) -> list[Finding]:
    """Make the checks, and return what they found in their order. Online ones are left out where the installation is offline."""
    wanted = [check for check in checks if not (check.online and installation.offline)]
    open_names = [check.name for check in wanted]
    progress(0, len(wanted), open_names)

    async def one(check: Check) -> list[Finding]:
        found = await _made(installation, check)
        open_names.remove(check.name)
        progress(len(wanted) - len(open_names), len(wanted), open_names)
        return [replace(finding, check=check.name) for finding in found]

    listed = await asyncio.gather(*(one(check) for check in wanted))
    return [finding for found in listed for finding in found]


async def _made(installation: Installation, check: Check) -> list[Finding]:
    try:
        async with asyncio.timeout(check.seconds):
            if inspect.iscoroutinefunction(check.examine):
                return list(await check.examine(installation))
            return await in_thread(_listed, check.examine, installation)
    except NotChecked as reason:
        return [Finding(level="note", what=f"not checked: {reason}")]
    except TimeoutError:
        return [
            Finding(
                level="warning",
                what=f"not finished within {check.seconds:.0f} seconds",
                why="A disk, the network or the gateway does not answer.",
                mend=f"Look at that first, then run: homebody doctor --only {check.name}",
            )
        ]
    except Exception as error:  # noqa: BLE001 - a check that breaks must not hide what the others find
        known = as_homebody_error(error)
        said = str(known) if known is not None else f"{type(error).__name__}: {error}"
        return [Finding(level="warning", what=f"could not be checked: {said}", mend=known.hint if known is not None else "")]


def _listed(examine: Callable[[Installation], Any], installation: Installation) -> list[Finding]:
    return list(examine(installation))


@dataclass(frozen=True, slots=True)
class Mended:
    """What came of one mending: a sentence of what was done, or why it failed."""

    finding: Finding
    done: str = ""
    failed: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "id": self.finding.id,
            "check": self.finding.check,
            "what": self.finding.what,
            "done": self.done or None,
            "failed": self.failed or None,
        }


async def mend(findings: Iterable[Finding], tell: Callable[[Mended], None], wanted: Collection[str] = ()) -> list[Mended]:
    """Mend what can be mended, or of it the findings ``wanted`` (ids), one after the other; ``tell`` is called after each."""
    came: list[Mended] = []
    for finding in at_least(findings, "note"):
        if finding.fix is None or (wanted and finding.id not in wanted):
            continue
        try:
            mended = Mended(finding, done=await finding.fix())
        except Exception as error:  # noqa: BLE001 - one that fails must not stop the others; it is told
            known = as_homebody_error(error)
            mended = Mended(finding, failed=str(known if known is not None else error) or type(error).__name__)
        tell(mended)
        came.append(mended)
    return came


async def examine_and_mend(
    installation: Installation,
    checks: Sequence[Check],
    tell: Callable[[Mended], None],
    progress: Progress = _silent,
    wanted: Collection[str] = (),
) -> tuple[list[Finding], list[Mended]]:
    """Make the checks, mend (or of it the findings ``wanted``, by id), and make those checks again that had something to mend."""
    findings = await examine(installation, checks, progress)
    mended = await mend(findings, tell, wanted)
    if not mended:
        return findings, []
    again = {one.finding.check for one in mended}
    fresh = await examine(installation.afresh(), [check for check in checks if check.name in again], progress)
    order = {check.name: place for place, check in enumerate(checks)}
    kept = [one for one in findings if one.check not in again]
    return sorted([*kept, *fresh], key=lambda one: order[one.check]), mended
