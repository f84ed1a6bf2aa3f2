"""Setup's smaller questions: the workspace, how the gateway is kept running, and its port."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

from gateway.base.errors import HomebodyError, UsageError
from gateway.config.workspace_location import free_folder, location_error
from gateway.setup.setup_screen import Screen

Running = Literal["service", "background", "none"]
_WORKSPACE = "agents.defaults.workspace"


def ask_for_workspace(screen: Screen) -> None:
    """Ask for the folder of the notes, until it is one that can be used."""
    settings = screen.draft.settings
    present = settings.agent(settings.default_agent).workspace
    while True:
        text = screen.questions.text(
            "Folder of your agent's notes (Markdown, yours to read and edit):", _short(present)
        ).strip()
        chosen = Path(text).expanduser().absolute()
        try:
            if chosen != present:
                _check_place(screen, chosen)
                _check_writable(chosen)
                screen.draft.put(_WORKSPACE, _short(chosen))
        except HomebodyError as error:
            screen.complain(error)
            if not screen.interactive:
                raise
            continue
        return


def ask_for_running(screen: Screen) -> Running:
    """Ask how the gateway is kept running; what this machine cannot do is not offered."""
    options: list[tuple[str, str]] = []
    if screen.found.service:
        options.append(("service", f"As a service, as now ({screen.found.service})"))
    elif screen.found.service_manager and os.geteuid() != 0:
        options.append(("service", "As a service: it starts with the machine and after a crash"))
    elif screen.found.service_manager:
        screen.tell("  Root's gateway is no service; for one with a user of its own: homebody service install --system")
    options += [
        ("background", "In the background, until shutdown"),
        ("none", "I start it myself (homebody start)"),
    ]
    chosen = screen.questions.choose("How should it be kept running?", options, options[0][0])
    return "service" if chosen == "service" else "background" if chosen == "background" else "none"


def settle_port(screen: Screen) -> None:
    """Choose another port where the gateway's is taken by another program."""
    free = screen.found.free_port
    if free is None:
        return
    port = screen.draft.settings.gateway.port
    if not free:
        hint = "Choose one: homebody config set gateway.port NUMBER"
        raise HomebodyError(f"port {port} and the ports after it are taken", where="gateway.port", hint=hint)
    screen.tell(f"  Port {port} is taken by another program.")
    if screen.questions.confirm(f"Use port {free} for the gateway?"):
        screen.draft.put("gateway.port", free)


def _check_place(screen: Screen, folder: Path) -> None:
    """Raise UsageError for a folder that holds the home folder, state or keys, or belongs to the system."""
    draft, agent = screen.draft, screen.draft.settings.default_agent
    reason = location_error(folder, draft.paths.home, draft.file)
    if reason is not None:
        free = free_folder(agent, draft.paths.home, draft.file)
        hint = f"Choose a folder for the notes alone, such as {free}."
        raise UsageError(f"your agent's notes cannot be in {folder}: it {reason}", hint=hint)


def _check_writable(folder: Path) -> None:
    there = next(place for place in (folder, *folder.parents) if place.exists())
    if not there.is_dir():
        raise UsageError("a file of that name exists", where=str(there), hint="Choose another folder.")
    if not os.access(there, os.W_OK | os.X_OK):
        raise UsageError(
            "this folder cannot be written", where=str(there), hint="Choose one in your home folder, such as ~/homebody."
        )


def _short(path: Path) -> str:
    """Write a path in the home folder with ~."""
    home = Path.home()
    return f"~/{path.relative_to(home)}" if path.is_relative_to(home) and path != home else str(path)
