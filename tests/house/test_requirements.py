"""The hashed requirements: whole, and of no particular index."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
PYTHONS = ["3.11", "3.12", "3.13", "3.14"]
PLATFORMS = [("linux", "Linux"), ("darwin", "Darwin")]
EXTRAS = ("calendar", "documents", "mail", "mcp")
"""The extras that `make extras` installs together; the others are among the groups."""
LOCKS = [
    "build",
    "engines",
    "engines-build",
    "extras",
    "lint",
    "live",
    "meaning",
    "page",
    "postgres",
    "runtime",
    "site",
    "tests",
]


def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def asked() -> dict[str, list[Requirement]]:
    told = project()
    groups = {name: [Requirement(line) for line in lines] for name, lines in told["dependency-groups"].items()}
    extras = [Requirement(line) for name in EXTRAS for line in told["project"]["optional-dependencies"][name]]
    return {"runtime": [Requirement(line) for line in told["project"]["dependencies"]], "extras": extras, **groups}


def entries(name: str) -> list[tuple[Requirement, list[str]]]:
    text = (ROOT / f"requirements/{name}.txt").read_text().replace("\\\n", " ")
    found = []
    for line in text.splitlines():
        if line.strip() and not line.lstrip().startswith("#"):
            requirement, *hashes = re.split(r"\s+--hash=", line.strip())
            found.append((Requirement(requirement), hashes))
    return found


def environments() -> list[dict[str, str]]:
    return [
        {"python_version": version, "python_full_version": f"{version}.0", "sys_platform": system, "platform_system": name}
        for version in PYTHONS
        for system, name in PLATFORMS
    ]


def test_every_group_that_make_installs_is_locked() -> None:
    assert sorted(asked()) == LOCKS
    assert sorted(path.stem for path in (ROOT / "requirements").glob("*.txt")) == LOCKS


@pytest.mark.parametrize("name", LOCKS)
def test_the_lock_holds_what_the_project_asks_for(name: str) -> None:
    pinned = entries(name)
    for environment in environments():
        here = {canonicalize_name(pin.name): pin for pin, _ in pinned if pin.marker is None or pin.marker.evaluate(environment)}
        for wanted in asked()[name]:
            if wanted.marker is not None and not wanted.marker.evaluate(environment | {"extra": ""}):
                continue
            pin = here.get(canonicalize_name(wanted.name))
            assert pin is not None, f"{wanted} is missing from requirements/{name}.txt for {environment}: run make lock"
            [version] = [part.version for part in pin.specifier]
            assert wanted.specifier.contains(version), f"requirements/{name}.txt holds {pin}, not {wanted}: run make lock"


def test_the_build_backend_is_locked() -> None:
    locked = {canonicalize_name(pin.name) for pin, _ in entries("build")}
    assert {canonicalize_name(Requirement(line).name) for line in project()["build-system"]["requires"]} <= locked


@pytest.mark.parametrize("name", LOCKS)
def test_every_entry_is_one_version_with_hashes(name: str) -> None:
    for pin, hashes in entries(name):
        assert [part.operator for part in pin.specifier] == ["=="], str(pin)
        assert hashes, f"{pin} has no hash"
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", text) for text in hashes), str(pin)


def test_files_that_are_installed_together_agree() -> None:
    seen: dict[tuple[str, str], str] = {}
    for name in LOCKS:
        for pin, _ in entries(name):
            key = (canonicalize_name(pin.name), str(pin.marker or ""))
            assert seen.setdefault(key, str(pin.specifier)) == str(pin.specifier), (
                f"{pin.name} differs in requirements/{name}.txt"
            )


@pytest.mark.parametrize("path", [*(f"requirements/{name}.txt" for name in LOCKS), "tests/peers/package-lock.json"])
def test_no_address_and_no_index_is_named(path: str) -> None:
    text = (ROOT / path).read_text()
    assert not re.findall(r"\w+://\S*|^\s*(?:-i|-f|--[\w-]*index[\w-]*|--find-links|--trusted-host)\b.*", text, re.MULTILINE)
    assert " @ " not in text


def test_what_comes_through_npm_is_pinned_by_hash() -> None:
    packages = json.loads((ROOT / "tests/peers/package-lock.json").read_text())["packages"]
    fetched = {name: told for name, told in packages.items() if name}
    assert fetched
    for name, told in fetched.items():
        assert told["integrity"].startswith("sha512-"), name
        assert "resolved" not in told, name
