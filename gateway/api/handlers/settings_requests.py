"""The settings as a form: read with the hash of the file, shown as a difference first, and written as ``homebody config set`` does."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from gateway.base.clock import SystemClock
from gateway.base.errors import HomebodyError, Problem, SettingsError, UsageError
from gateway.base.paths import Paths
from gateway.config.document import Document, read_text
from gateway.config.load import check
from gateway.config.settings_draft import Change, Draft, canonical_key, draft, edited, shown_diff, text_hash
from gateway.config.settings_file import change
from gateway.config.settings_form import groups, sections

MOST_CHANGES: Final = 200
_LONGEST: Final = 100_000


class _ChangedMeanwhile(HomebodyError):
    """Raised within the change of a file that is not the one that was read."""


class SettingsHandlers:
    """Shows and changes the settings file. ``reload`` makes the gateway take over what it can. All answers are JSON values.

    ``facts`` are the keys that wait for a restart and what is wrong with the file, as the gateway sees them.
    """

    def __init__(
        self,
        paths: Paths,
        env: Mapping[str, str],
        clock: SystemClock,
        *,
        reload: Callable[[], Awaitable[dict[str, Any]]],
        facts: Callable[[], dict[str, Any]],
    ) -> None:
        self._paths = paths
        self._env = env
        self._clock = clock
        self._reload = reload
        self._facts = facts

    def calls(self) -> dict[str, Callable[..., Awaitable[dict[str, Any]]]]:
        """The calls by name, for ``POST /admin/CALL``."""
        return {"settings.form": self.form, "settings.preview": self.preview, "settings.write": self.write}

    async def form(self, section: str | None = None) -> dict[str, Any]:
        """Return the sections, and the keys of one of them with what the file says. Raises SettingsError: it cannot be read as text."""
        return await asyncio.to_thread(self._form, section)

    async def preview(self, changes: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Return what changes would make of the file: the difference without secrets, or the errors by key. Writes nothing."""
        wanted = _checked(changes)
        source, text = await asyncio.to_thread(self._text)
        try:
            found = await asyncio.to_thread(draft, text, source, wanted, self._env, self._paths)
            return {"hash": text_hash(text), **await asyncio.to_thread(_drafted, found, text, str(source))}
        except SettingsError as error:
            return {"hash": text_hash(text), **_refused(error)}

    async def write(self, changes: Sequence[Mapping[str, Any]], expected: str) -> dict[str, Any]:
        """Write changes into a file whose hash is ``expected``, and let the gateway take them over.

        Returns ``written`` false with the errors by key, or with ``changed`` true where the file is not as it was read.

        Raises:
            UsageError: these are no changes.
            StorageFailed: the file cannot be written.
        """
        wanted = _checked(changes)

        def edit(document: Document) -> str:
            if text_hash(document.text) != expected:
                raise _ChangedMeanwhile("the settings file was changed meanwhile", where=document.file)
            return edited(document, wanted)

        try:
            changed = await asyncio.to_thread(change, self._paths, self._env, self._clock.now(), edit)
        except _ChangedMeanwhile as error:
            _, text = await asyncio.to_thread(self._text)
            return {"written": False, "changed": True, "message": error.message, "hash": text_hash(text), "problems": []}
        except SettingsError as error:
            return {"written": False, "changed": False, **_refused(error)}
        came = await self._reload()
        return {
            "written": True,
            "file": str(changed.file),
            "copy": str(changed.copy) if changed.copy else None,
            "warnings": [_problem(note) for note in changed.notes],
            "gateway": came,
        }

    def _text(self) -> tuple[Any, str]:
        source = self._paths.config_file()
        try:
            return source, read_text(source).replace("\r\n", "\n")
        except FileNotFoundError:
            return source, ""

    def _form(self, section: str | None) -> dict[str, Any]:
        source, text = self._text()
        checked = check(text, source, self._env, self._paths)
        known = sections()
        name = section or known[0]["name"]
        if name not in [one["name"] for one in known]:
            raise UsageError(f"there is no section {name[:100]!r} of the settings", hint="homebody config page")
        return {
            "file": str(source),
            "hash": text_hash(text),
            "sections": [
                one | {"set": one["name"] in checked.given, "problems": _count(checked.problems, one["name"])} for one in known
            ],
            "section": name,
            "groups": groups(name, checked.given),
            "problems": [_problem(one) for one in checked.problems],
            "warnings": [_problem(one) for one in checked.warnings],
            **self._facts(),
        }


def _checked(changes: Sequence[Mapping[str, Any]]) -> list[Change]:
    """Return changes as they came from a browser. Raises UsageError."""
    found: dict[str, Change] = {}
    for one in changes if isinstance(changes, list) else []:
        key, value = (one.get("key"), one.get("value")) if isinstance(one, dict) else (None, None)
        if not isinstance(key, str) or not key or not (value is None or isinstance(value, str)):
            raise UsageError("a change has a key, and a text or nothing as its value", hint="Load the page again.")
        if len(key) + len(value or "") > _LONGEST:
            raise UsageError(f"{key[:100]} is too long", hint="Write it into the file by hand.")
        found[key] = Change(key, value)
    if not found or len(found) > MOST_CHANGES:
        raise UsageError(f"1 to {MOST_CHANGES} changes are possible at once", hint="Change a setting first.")
    return list(found.values())


def _drafted(found: Draft, text: str, file: str) -> dict[str, Any]:
    return {
        "diff": [] if found.problems else shown_diff(text, found.text, file),
        "problems": [_problem(one) for one in found.problems],
        "warnings": [_problem(one) for one in found.warnings],
        "hot": list(found.hot),
        "restart": list(found.restart),
    }


def _refused(error: SettingsError) -> dict[str, Any]:
    problems = [_problem(one) for one in error.problems]
    return {"diff": [], "problems": problems, "warnings": [], "hot": [], "restart": [], "message": str(error)}


def _problem(found: Problem) -> dict[str, Any]:
    """Return an error with the key by which the form knows it."""
    return {**found.as_json(), "key": canonical_key(found)}


def _count(problems: Sequence[Problem], section: str) -> int:
    keys = [canonical_key(one) for one in problems]
    return sum(1 for key in keys if key == section or key.startswith((f"{section}.", f"{section}[")))
