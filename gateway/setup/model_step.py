"""Setup's question about the language model: what was found, a key, a server, or none; each is tried by a real call."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import urlsplit

from agent.errors import AgentError
from agent.models.catalog.discovery import served
from agent.models.catalog.known_models import PROVIDERS
from gateway.base.errors import HomebodyError, NoModel, SettingsError, UsageError
from gateway.models import model_probe
from gateway.setup.found import FoundModel
from gateway.setup.pasted import cleaned
from gateway.setup.questions import nothing_typed
from gateway.setup.setup_screen import Screen

TRIAL_SECONDS = 90.0
"""A local model may have to be loaded first."""
_REASON_SECONDS = 10.0
WITH_KEY = ("anthropic", "openai", "google", "openrouter")
OTHER_SERVER = "server"
NONE = "none"
_KEY = "key:"
_SERVER_NAME = "box"
_MODEL_KEY = "agents.defaults.model"


def ask_for_model(screen: Screen) -> None:
    """Let the person choose a model until one answers, or they go on without."""
    if not screen.interactive and screen.found.models:
        _use_first_that_answers(screen)
        return
    choice = _default(screen)
    while True:
        choice = screen.questions.choose("Which language model should your agent use?", _options(screen), choice)
        if choice == NONE:
            screen.tell("  Without a model it is a notebook: it files what you tell it, and finds it again.")
            return
        try:
            found = next((one for one in screen.found.models if one.name == choice), None)
            if found is not None:
                use_found(screen, found)
            elif choice == OTHER_SERVER:
                _use_server(screen)
            else:
                _use_key(screen, choice.removeprefix(_KEY))
        except HomebodyError as error:
            if not screen.interactive:
                raise
            screen.complain(error)
            continue
        return


def _use_first_that_answers(screen: Screen) -> None:
    """Use the first model that was found and answers. Raises NoModel where none does."""
    for found in screen.found.models:
        try:
            use_found(screen, found)
        except HomebodyError as error:
            if len(screen.found.models) == 1:
                raise
            screen.complain(error)
        else:
            return
    raise NoModel(f"none of the {len(screen.found.models)} models that were found answers", hint="homebody setup model")


def use_found(screen: Screen, found: FoundModel) -> None:
    """Use a model that was found, after a trial. What the environment says of it is saved, so that a service has it too."""
    address = f"models.providers.{found.provider}.baseUrl"
    if found.variable:
        screen.draft.put_key(found.provider, screen.draft.env[found.variable].strip())
    if found.address:
        screen.draft.put(address, found.address)
    try:
        _try_and_keep(screen, found.name)
    except HomebodyError as error:
        screen.draft.drop_key(found.provider)
        screen.draft.drop(address)
        if found.variable and error.where.startswith("profile "):
            error.where, error.hint = found.variable, f"Set {found.variable} anew, then: homebody setup"
        raise


def _options(screen: Screen) -> list[tuple[str, str]]:
    found = [(one.name, one.label) for one in screen.found.models]
    keys = [(f"{_KEY}{name}", f"{PROVIDERS[name].label}: I have a key") for name in WITH_KEY]
    return [
        *found,
        *keys,
        (OTHER_SERVER, "Another server (with OpenAI's API)"),
        (NONE, "None for now: a notebook, without a model"),
    ]


def _default(screen: Screen) -> str:
    return screen.found.models[0].name if screen.found.models else NONE if not screen.interactive else f"{_KEY}{WITH_KEY[0]}"


def _use_key(screen: Screen, provider: str) -> None:
    known = PROVIDERS[provider]
    pasted = cleaned(screen.questions.secret(f"Key of {known.label} (it is not shown):"))
    if pasted.remark:
        screen.tell(f"  {pasted.remark}")
    screen.draft.put_key(provider, pasted.secret)
    try:
        _try_and_keep(screen, f"{provider}/{known.default_model}")
    except HomebodyError as error:
        screen.draft.drop_key(provider)
        if error.where.startswith("profile "):  # it is not saved: a name of it says nothing yet
            error.where, error.hint = "", "Choose it again below and paste another key, or choose another model."
        raise


def _use_server(screen: Screen) -> None:
    offered = screen.typed.get(OTHER_SERVER, "http://127.0.0.1:8080/v1")
    address = _address(screen.questions.text("Address of the server:", offered))
    screen.typed[OTHER_SERVER] = address
    key = screen.questions.secret("Its key (leave empty if it needs none):").strip()
    places = [f"models.providers.{_SERVER_NAME}.baseUrl", f"models.providers.{_SERVER_NAME}.apiKey"]
    try:
        screen.draft.put(places[0], address)
        if key:
            screen.draft.put(places[1], cleaned(key, any_word=True).secret, secret=True)
        settings = screen.draft.settings.models
        names = asyncio.run(served(settings, screen.draft.env, only=_SERVER_NAME)).get(_SERVER_NAME, ())
        if not names:
            raise asyncio.run(_why_no_model(screen, address))
        model = screen.questions.choose("Which of its models?", [(name, name) for name in names], names[0])
        _try_and_keep(screen, f"{_SERVER_NAME}/{model}", pin=True)
    except HomebodyError:
        screen.draft.drop(*places)
        raise


def _address(typed: str) -> str:
    """Return the address of a server as it was typed. Raises UsageError if it is none."""
    address = typed.strip().rstrip("/")
    address = address if "://" in address else f"http://{address}"
    try:
        parts = urlsplit(address)
        fine = parts.scheme in {"http", "https"} and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:  # a port that is no number
        fine = False
    if not fine or address.count("://") != 1 or any(letter.isspace() for letter in address):
        raise UsageError(f"{typed!r} is not the address of a server", hint="Write it like http://192.168.1.20:8080/v1")
    return address


async def _why_no_model(screen: Screen, address: str) -> HomebodyError:
    """Return why a server names no model: a call tells whether it refuses the key, which its list does not."""
    draft = screen.draft
    try:
        place = await model_probe.placed(draft.settings, f"{_SERVER_NAME}/model", draft.settings.default_agent, draft.profiles)
        key = place.keys[0] if place else None
        async with asyncio.timeout(_REASON_SECONDS):
            failure = (await model_probe.ask(place, key))[1] if place and key else None
    except TimeoutError:
        what = f"nothing answered there within {_REASON_SECONDS:.0f} seconds"
        return HomebodyError(what, where=address, hint="Start the server, or correct the address: host, port and network.")
    except AgentError:
        key = failure = None
    if failure and failure.kind == "network":
        hint = "Start the server, or correct the address: host and port."
        return HomebodyError(failure.message.rstrip("."), where=address, hint=hint)
    if failure and failure.kind == "auth":
        given = bool(key and key.origin != "none needed")
        what = "the server does not accept the key" if given else "the server wants a key, and none was given"
        return HomebodyError(
            what, where=address, hint="Choose the server again below, and paste the key from where it is set up."
        )
    hint = "Check the address (most end in /v1), and that the server runs with a model."
    return HomebodyError("the server names no model", where=address, hint=hint)


def _try_and_keep(screen: Screen, name: str, *, pin: bool = False) -> None:
    """Ask the model, and name it in the settings unless it would be chosen without."""
    screen.tell(f"  Asking {name} ...")
    with nothing_typed():
        facts = asyncio.run(_tried(screen, name))
    screen.tell(f"✓ {facts['model']} answered in {facts['ms'] / 1000:.1f} s.")
    if facts["window"] < _SMALLEST_WINDOW:
        screen.tell(f"  Its context window of {facts['window']:,} tokens is small; at least {_SMALLEST_WINDOW:,} are needed.")
    before = model_probe.wanted_model(screen.draft.settings, screen.draft.settings.default_agent)
    chosen = asyncio.run(_automatic(screen)) if before is None else before
    if pin or chosen != name:
        screen.draft.put(_MODEL_KEY, name)


_SMALLEST_WINDOW = 8192


async def _tried(screen: Screen, name: str) -> dict[str, Any]:
    draft = screen.draft
    try:
        async with asyncio.timeout(TRIAL_SECONDS):
            return await model_probe.probed(draft.settings, name, None, draft.profiles)
    except TimeoutError as error:
        hint = "Try again, since a local model may have to be loaded first, or choose another."
        raise HomebodyError(f"{name} did not answer within {TRIAL_SECONDS:.0f} seconds", hint=hint) from error


async def _automatic(screen: Screen) -> str | None:
    """Return the model that would be used if the settings named none."""
    draft = screen.draft
    try:
        place = await model_probe.placed(draft.settings, None, draft.settings.default_agent, draft.profiles)
    except (AgentError, SettingsError):
        return None
    return place.name if place else None
