"""Setup's question about a chat platform: how to get a bot, its token, and whether the platform accepts it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from channels.built_in import BUILT_IN
from channels.platform import Platform, SetupGuide
from gateway.base.clock import SystemClock
from gateway.base.errors import HomebodyError
from gateway.setup.pasted import cleaned
from gateway.setup.screen import Screen
from gateway.supervision.channel_probe import probe_channel
from gateway.supervision.platforms import platforms

NONE = "none"
ACCOUNT = "default"


@dataclass(frozen=True, slots=True)
class ChosenChannel:
    """A platform whose bot signed in, under this name."""

    platform: Platform
    guide: SetupGuide
    bot: str


def guided() -> dict[str, tuple[Platform, SetupGuide]]:
    """Return the platforms that setup knows, by name."""
    return {platform.name: (platform, platform.guide) for platform in BUILT_IN if platform.guide is not None}


def ask_for_channel(screen: Screen, only: str | None = None) -> ChosenChannel | None:
    """Let the person choose a platform and enter its tokens until it accepts them, or they go on without."""
    known = guided()
    while True:
        name = only or screen.questions.choose("Where do you want to talk to it?", _options(screen), _default(screen))
        if name == NONE:
            return None
        try:
            return _set_up(screen, *known[name])
        except HomebodyError as error:
            screen.complain(error)
            if not screen.interactive:
                raise
            if only and not screen.questions.confirm("Try again?"):
                return None


def _options(screen: Screen) -> list[tuple[str, str]]:
    options = []
    for name, (_, guide) in guided().items():
        token = screen.found.tokens.get(name)
        more = " (set up already)" if name in screen.found.configured else f" (token in {token[0]})" if token else ""
        options.append((name, f"{guide.title}{more}"))
    return [*options, (NONE, "Only in the terminal, for now")]


def _default(screen: Screen) -> str:
    known = [*screen.found.configured, *screen.found.tokens]
    return known[0] if known else NONE if not screen.interactive else next(iter(guided()))


def _set_up(screen: Screen, platform: Platform, guide: SetupGuide) -> ChosenChannel:
    section, draft = f"channels.{platform.name}", screen.draft
    if platform.name in screen.found.configured and not (screen.alone and _wants_another(screen, guide)):
        return ChosenChannel(platform, guide, _signed_in(screen, platform))
    given = _from_environment(screen, platform, guide)
    if given is None:
        screen.tell("\n".join(f"  {number}. {step}" for number, step in enumerate(guide.steps, 1)))
    places = []
    try:
        for key, words in guide.secrets:
            text = given[key] if given else screen.questions.secret(f"{words} (it is not shown):")
            pasted = cleaned(text, "token")
            if pasted.remark:
                screen.tell(f"  {pasted.remark}")
            places.append(f"{section}.{key}")
            draft.put(places[-1], pasted.secret, secret=True)
        return ChosenChannel(platform, guide, _signed_in(screen, platform))
    except HomebodyError:
        draft.drop(*places)
        raise


def _wants_another(screen: Screen, guide: SetupGuide) -> bool:
    return screen.questions.confirm(f"{guide.title} has a token already. Enter another one?", default=False)


def _from_environment(screen: Screen, platform: Platform, guide: SetupGuide) -> dict[str, str] | None:
    """Return the secrets of the guide, if the environment holds all. They are saved, since a service has no such variables."""
    variables = {_camel(field): name for field, name in platform.env.items()}
    found = {key: screen.draft.env.get(variables.get(key, ""), "").strip() for key, _ in guide.secrets}
    if not all(found.values()):
        return None
    screen.tell(f"  Using what {', '.join(variables[key] for key in found)} holds.")
    return found


def _camel(field: str) -> str:
    first, *rest = field.split("_")
    return first + "".join(part.title() for part in rest)


def _signed_in(screen: Screen, platform: Platform) -> str:
    """Return the name under which the bot signs in. Raises HomebodyError."""
    screen.tell(f"  Asking {platform.name} ...")
    facts = asyncio.run(_probe(screen, platform))
    if facts["ok"] is False:
        raise HomebodyError(_sentence(facts["error"]), hint=_sentence(facts.get("mend", "")))
    name, _, hint = str(facts.get("name", "")).partition(" (")
    screen.tell(f"✓ The bot is {name}." if name else "✓ The token was taken.")
    if hint:
        screen.tell(f"  {_sentence(hint.removesuffix(')'))}")
    return name


async def _probe(screen: Screen, platform: Platform) -> dict[str, Any]:
    found = platforms(screen.draft.settings, SystemClock(), screen.draft.env)
    for channel, _ in found:
        if (channel.name, channel.account) == (platform.name, ACCOUNT):
            return await probe_channel(channel)
    hint = f"homebody config get channels.{platform.name}"
    raise HomebodyError(f"{platform.name} is switched off in the settings, or has no account {ACCOUNT}", hint=hint)


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]
