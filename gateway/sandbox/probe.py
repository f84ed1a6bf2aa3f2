"""Finds out how commands can be confined on this machine, by confining one and trying what it can reach.

A program that is installed says little: namespaces may be forbidden by the kernel's settings, by AppArmor, by the container or by
the systemd unit that the gateway runs in. So the whole recipe runs with the canaries inside, and what fails is said with its mend.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence

from msgspec.structs import replace

from gateway.sandbox import landlock, restrict
from gateway.sandbox.bubblewrap import Bubblewrap
from gateway.sandbox.check import Confine, Findings, check, interpreter
from gateway.sandbox.landlock import Landlock
from gateway.sandbox.places import Places
from gateway.sandbox.protocol import Confined, Limits, Request, Tried

_INSTALL = {"debian": "apt install bubblewrap", "fedora": "dnf install bubblewrap", "arch": "pacman -S bubblewrap",
            "suse": "zypper install bubblewrap", "alpine": "apk add bubblewrap"}  # fmt: skip
DOCS = "docs/confinement.md"


async def try_bubblewrap(closed: Sequence[str]) -> tuple[Bubblewrap | None, Tried]:
    """Try the recipe, first whole, then without what some surroundings prevent. ``closed`` are folders that must not be seen."""
    program = shutil.which("bwrap")
    if not sys.platform.startswith("linux"):
        return None, Tried(works=False, reason="bubblewrap needs Linux")
    if program is None:
        return None, Tried(works=False, reason="bubblewrap is not installed", hint=_install())
    first: Findings | None = None
    short = False
    for found in await asyncio.to_thread(_variants, program):
        findings = await check(_bubblewrapped(found), closed=closed)
        if findings.holds:
            reason, hint = _lacking(found, first)
            return found, Tried(works=True, reason=reason, hint=hint)
        first, short = first or findings, short or findings.short
    assert first is not None
    if short:
        return None, Tried(works=False, reason=f"bubblewrap could not be tried: {_findings_text(first)}", lasting=False)
    return None, Tried(
        works=False, reason=f"bubblewrap does not work here: {_findings_text(first)}", hint=why_forbidden(first.error)
    )


async def try_landlock(tmp: str, closed: Sequence[str]) -> tuple[Landlock | None, Tried]:
    """Try the rules. ``tmp`` is a private folder for the command's temporary files."""
    if not sys.platform.startswith("linux"):
        return None, Tried(works=False, reason="Landlock needs Linux")
    version = restrict.landlock_version()
    if version < landlock.OLDEST:
        reason = (
            f"the kernel's Landlock is version {version}, not {landlock.OLDEST}" if version else "the kernel has no Landlock"
        )
        return None, Tried(works=False, reason=reason, hint="Linux 6.2 or newer has it, unless it is switched off (lsm=).")
    found = Landlock(version=version)

    async def confine(request: Request) -> Confined:
        return found.confine(request, Places(readable=interpreter()[1]), Limits(), tmp=tmp, processes=100_000)

    findings = await check(confine, closed=closed)
    if findings.holds:
        return found, Tried(works=True)
    what = "could not be tried" if findings.short else "does not work here"
    return None, Tried(works=False, reason=f"Landlock {what}: {_findings_text(findings)}", lasting=not findings.short)


def _variants(program: str) -> list[Bubblewrap]:
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=False, timeout=30, env={})  # noqa: S603
    version = tuple(map(int, re.findall(r"\d+", said.stdout)[:3]))
    whole = Bubblewrap(program=program, version=version, nested=version >= (0, 8), landlock=restrict.landlock_version())
    if os.stat(program).st_mode & 0o4000:  # it would lose its rights once privileges may not be gained
        whole = replace(whole, landlock=0)
    return list(dict.fromkeys((whole, replace(whole, nested=False), replace(whole, nested=False, proc=False))))


def _bubblewrapped(found: Bubblewrap) -> Confine:
    async def confine(request: Request) -> Confined:
        return found.confine(request, Places(readable=interpreter()[1]), Limits())

    return confine


def _lacking(found: Bubblewrap, first: Findings | None) -> tuple[str, str]:
    if found.proc or first is None:
        return "", ""
    hint = f"Containers hide parts of /proc, as do ProtectKernelTunables=, ProtectKernelLogs= and ProcSubset= of systemd. See {DOCS}."
    return f"commands have no /proc, as it cannot be mounted here ({_findings_text(first)})", hint


def _findings_text(findings: Findings) -> str:
    if findings.error:
        return findings.error.removeprefix("bwrap: ")
    return "a command could reach " + "; ".join(
        f"{name.replace('_', ' ')} ({seen})" for name, seen in findings.seen.items() if seen
    )


_FORBIDDEN = (
    (
        "kernel/unprivileged_userns_clone",
        "0",
        "The kernel forbids namespaces to users: sudo sysctl -w kernel.unprivileged_userns_clone=1",
    ),
    ("user/max_user_namespaces", "0", "The kernel allows no user namespaces: sudo sysctl -w user.max_user_namespaces=15000"),
    (
        "kernel/apparmor_restrict_unprivileged_userns",
        "1",
        (
            "AppArmor forbids namespaces to programs without a profile (Ubuntu 24.04): sudo apt install apparmor-profiles && "
            "sudo ln -s /usr/share/apparmor/extra-profiles/bwrap-userns-restrict /etc/apparmor.d/ && sudo systemctl reload apparmor"
        ),
    ),
)
"""Settings of the kernel that forbid namespaces, the value that does, and the command that allows them."""


def why_forbidden(error: str, root: str = "/") -> str:
    """Say what forbids namespaces on this machine and what allows them; ``root`` is where /proc and /run are looked for."""
    if not re.search(r"namespace|uid map|Permission denied|not permitted|max_user_namespaces", error):
        return f"See {DOCS}."
    for name, value, hint in _FORBIDDEN:
        if _setting(root, name) == value:
            return hint
    if any(os.path.exists(os.path.join(root, mark)) for mark in (".dockerenv", "run/.containerenv")):
        return f"The container forbids namespaces: allow them with security_opt as in docker/compose.yaml. See {DOCS}."
    if os.environ.get("INVOCATION_ID"):
        return (
            f"Leave RestrictNamespaces= and PrivateUsers= out of the systemd unit, and @mount in SystemCallFilter=. See {DOCS}."
        )
    return f"Something forbids namespaces to this user. See {DOCS}."


def _setting(root: str, name: str) -> str:
    try:
        with open(os.path.join(root, "proc/sys", name), encoding="ascii") as file:
            return file.read().strip()
    except (OSError, ValueError):
        return ""


def _install() -> str:
    try:
        with open("/etc/os-release", encoding="utf-8") as file:
            kind = re.findall(r'^(?:ID|ID_LIKE)="?([^"\n]*)', file.read(), re.MULTILINE)
    except OSError:
        kind = []
    known = " ".join(kind).split()
    how = next((how for name, how in _INSTALL.items() if name in known), _INSTALL["debian"])
    return f"Install it: sudo {how}"
