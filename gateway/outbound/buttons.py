"""Buttons shown below command replies and failed answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from agent.messages import FailureKind
from channels.messages import Button
from gateway.routing.access import Actor

_ABOUT_MODELS: Final = frozenset({"model", "models"})
MOST: Final = 8
LONGEST_VALUE: Final = 60
"""Maximum UTF-8 bytes of a button's value that all platforms support."""

_SWITCHES: Final = {
    "verbose": (("On", "on"), ("Off", "off")),
    "think": (("Off", "off"), ("Low", "low"), ("Medium", "medium"), ("High", "high")),
}
_UNDO: Final = Button(label="↩️ Undo", value="/undo")
_ONCE: Final = Button(label="💸 Allow once", value="/budget once")


def after_command(name: str, argument: str, models: Sequence[str] = ()) -> tuple[Button, ...]:
    """Return the buttons for a command's reply. ``models`` are those named in the settings."""
    if name in {"new", "reset"}:
        return (_UNDO,)
    if argument:
        return ()
    if name in _ABOUT_MODELS:
        offered = [Button(label=model.rpartition("/")[2], value=f"/model {model}") for model in models]
        return tuple(one for one in offered if len(one.value.encode()) <= LONGEST_VALUE)[:MOST]
    return tuple(Button(label=label, value=f"/{name} {value}") for label, value in _SWITCHES.get(name, ()))


async def offered(name: str, argument: str, models: Callable[[], Awaitable[Sequence[str]]]) -> tuple[Button, ...]:
    """Return the same; ``models`` is called only if needed."""
    return after_command(name, argument, await models() if name in _ABOUT_MODELS and not argument else ())


def after_turn(failure: FailureKind | None, told: str, actor: Actor) -> tuple[Button, ...]:
    """Return the buttons for an answer: if a budget blocked it, the owner can allow one message."""
    return (_ONCE,) if failure == "billing" and "/budget once" in told and actor.owner else ()
