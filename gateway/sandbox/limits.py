"""Limits on what the processes of a command use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.sandbox.protocol import Limits

if TYPE_CHECKING:
    from agent.tool_settings import ExecLimits


def rlimits(limits: Limits, *, processes: int | None = None) -> tuple[tuple[str, int], ...]:
    """Return the limits that every process inherits, by the names that ``setrlimit`` has for them.

    Memory is limited by what a process may write to: programs such as Node and Go reserve far more addresses than they use.
    ``processes`` counts all processes of the user, so it is given only where a command has no user namespace of its own.
    """
    kept = (
        ("CORE", 0),
        ("DATA", limits.memory_bytes),
        ("FSIZE", limits.file_bytes),
        ("CPU", limits.cpu_seconds),
        ("NOFILE", limits.open_files),
    )
    return kept if processes is None else (*kept, ("NPROC", processes))


def limits_of(said: ExecLimits) -> Limits:
    """Return the limits as the settings say them."""
    return Limits(
        memory_bytes=said.memory_mb << 20,
        processes=said.processes,
        file_bytes=said.file_mb << 20,
        cpu_seconds=said.cpu_sec,
        tmp_bytes=said.tmp_mb << 20,
    )
