"""Which buttons go under what a command said, or under an answer that did not come about."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from channels.messages import Button

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from agent.messages import FailureKind
    from gateway.routing.access import Actor

_ABOUT_MODELS: Final = frozenset({"model", "models"})
MOST: Final = 8
LONGEST_VALUE: Final = 60
"""In bytes of UTF-8: what every platform can carry."""

_SWITCHES: Final = {
    "verbose": (("On", "on"), ("Off", "off")),
    "think": (("Off", "off"), ("Low", "low"), ("Medium", "medium"), ("High", "high")),
}
_UNDO: Final = Button(label="↩️ Undo", value="/undo")
_ONCE: Final = Button(label="💸 Once more", value="/budget once")


def after_command(name: str, argument: str, models: Sequence[str] = ()) -> tuple[Button, ...]:
    """Return what may be pressed under what a command said. ``models`` are those that the settings name."""
    if name in {"new", "reset"}:
        return (_UNDO,)
    if argument:
        return ()
    if name in _ABOUT_MODELS:
        offered = [Button(label=model.rpartition("/")[2], value=f"/model {model}") for model in models]
        return tuple(one for one in offered if len(one.value.encode()) <= LONGEST_VALUE)[:MOST]
    return tuple(Button(label=label, value=f"/{name} {value}") for label, value in _SWITCHES.get(name, ()))


async def offered(name: str, argument: str, models: Callable[[], Awaitable[Sequence[str]]]) -> tuple[Button, ...]:
    """Return the same; ``models`` is asked only where it matters."""
    return after_command(name, argument, await models() if name in _ABOUT_MODELS and not argument else ())


def after_turn(failure: FailureKind | None, told: str, actor: Actor) -> tuple[Button, ...]:
    """Return what may be pressed under an answer: where the brake held it back, its owner may let one through."""
    return (_ONCE,) if failure == "billing" and "/budget once" in told and actor.owner else ()
