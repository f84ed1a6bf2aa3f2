"""Setup's question about a chat platform: how to get a bot, its token, and whether the platform accepts it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from channels.built_in import BUILT_IN
from channels.errors import ChannelError
from channels.platform import Platform, SetupGuide
from channels.protocol import Channel
from gateway.base.clock import SystemClock
from gateway.base.errors import HomebodyError, SettingsError, UsageError
from gateway.setup.pasted import Pasted, cleaned
from gateway.setup.questions import nothing_typed
from gateway.setup.setup_screen import Screen
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
    known, again = guided(), ""
    while True:
        name = again or only or screen.questions.choose("Where do you want to talk to it?", _options(screen), _default(screen))
        if name == NONE:
            return None
        try:
            chosen = _set_up(screen, *known[name], again=bool(again))
        except HomebodyError as error:
            if not screen.interactive:
                raise
            screen.complain(error)
            again = name
            continue
        if chosen or only:
            return chosen
        again = ""


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


def _set_up(screen: Screen, platform: Platform, guide: SetupGuide, *, again: bool) -> ChosenChannel | None:
    """Take a token and try it. ``again``: one was refused, so a person types the next, or nothing to go back, which is None."""
    if platform.name in screen.found.configured and not again and not (screen.alone and _wants_another(screen, guide)):
        return ChosenChannel(platform, guide, _signed_in(screen, platform))
    section, draft, variables = f"channels.{platform.name}", screen.draft, _variables(platform, guide)
    given = None if again else _from_environment(screen, variables)
    if not screen.interactive:
        _check_complete(screen, platform, guide, variables)
    if given is None and not again:
        screen.tell("\n".join(f"  {number}. {step}" for number, step in enumerate(guide.steps, 1)))
    places: list[str] = []
    try:
        if guide.questions:
            _ask_plain(screen, platform, guide)
        for key, words in guide.secrets:
            text = given[key] if given else screen.questions.secret(f"{words} (it is not shown; empty goes back):")
            if not text.strip():
                draft.drop(*places, *(f"{section}.{key}" for key, _ in guide.questions))
                return None
            pasted = _as_typed(text) if key == "password" else cleaned(text, "token")
            if pasted.remark:
                screen.tell(f"  {pasted.remark}")
            places.append(f"{section}.{key}")
            try:
                draft.put(places[-1], pasted.secret, secret=True)
            except SettingsError as error:
                raise _of_wrong_form(error, variables[key] if given else "") from error
        chosen = ChosenChannel(platform, guide, _signed_in(screen, platform, variables if given else {}))
        _ask_afterwards(screen, platform, section)
        _instruct(screen, platform)
    except HomebodyError:
        draft.drop(*places)
        raise
    return chosen


def _of_wrong_form(error: SettingsError, variable: str) -> HomebodyError:
    """Return the error of a secret that cannot be one, by where it stands: nothing of it is in the settings yet."""
    what = error.problems[0].message if error.problems else error.message
    return HomebodyError(what, where=variable, hint=f"Set {variable} anew." if variable else "Paste it again below.")


def _ask_afterwards(screen: Screen, platform: Platform, section: str) -> None:
    """Ask for what the platform itself knows."""
    for key, (words, proposed) in asyncio.run(_proposals(screen, platform)).items():
        if said := screen.questions.text(f"{words}:", proposed).strip():
            screen.draft.put(f"{section}.{key}", said)


def _instruct(screen: Screen, platform: Platform) -> None:
    """Print what has to be entered at the platform."""
    channel = _channel(screen, platform)
    instructions = getattr(channel, "instructions", None)
    for line in () if instructions is None else instructions():
        screen.tell(f"  {line}")
    asyncio.run(channel.close())


def _said(screen: Screen, key: str) -> str:
    """Return what the settings say of a dotted key, "" if nothing."""
    value: Any = screen.draft.settings
    for name in re.sub(r"[A-Z]", lambda found: f"_{found[0].lower()}", key).split("."):
        value = getattr(value, name, None)
    return "" if value is None else str(value)


def _as_typed(text: str) -> Pasted:
    """Return a password as it is: it may hold anything but line breaks. Raises UsageError for an empty one."""
    if not text.strip():
        raise UsageError("no password was given", hint="Type the password; it is not shown.")
    return Pasted(text.strip("\r\n"))


def _ask_plain(screen: Screen, platform: Platform, guide: SetupGuide) -> None:
    """Ask for what is no secret; what the settings hold is the default. An answer that cannot be is asked for again."""
    for key, words in guide.questions:
        place = f"channels.{platform.name}.{key}"
        given, kept = screen.draft.env.get(guide.env.get(key, ""), "").strip(), _said(screen, place)
        if not screen.interactive:
            screen.draft.put(place, given or kept)
            continue
        while True:
            answer = screen.questions.text(f"{words}:", kept or given).strip()
            try:
                screen.draft.put(place, answer)
                break
            except HomebodyError as error:
                screen.complain(error)


def _wants_another(screen: Screen, guide: SetupGuide) -> bool:
    what = "password" if guide.secrets[0][0] == "password" else "token"
    return screen.questions.confirm(f"{guide.title} has a {what} already. Enter another one?", default=False)


def _variables(platform: Platform, guide: SetupGuide) -> dict[str, str]:
    """Return the environment variable that may hold each secret of the guide."""
    known = {_camel(field): name for field, name in platform.env.items()} | dict(guide.env)
    return {key: known.get(key, "") for key, _ in guide.secrets}


def _from_environment(screen: Screen, variables: dict[str, str]) -> dict[str, str] | None:
    """Return the secrets of the guide, if the environment holds all. They are saved, since a service has no such variables."""
    found = {key: screen.draft.env.get(name, "").strip() for key, name in variables.items()}
    if not all(found.values()):
        return None
    screen.tell(f"  Using what {', '.join(variables.values())} holds.")
    return found


def _check_complete(screen: Screen, platform: Platform, guide: SetupGuide, secrets: dict[str, str]) -> None:
    """Raise UsageError for what is not in the environment, nor, if it is no secret, in the settings: nobody can be asked for it."""
    section = f"channels.{platform.name}"
    plain = {key: guide.env.get(key, "") for key, _ in guide.questions if not _said(screen, f"{section}.{key}")}
    lacking = {key: name for key, name in {**plain, **secrets}.items() if not screen.draft.env.get(name, "").strip()}
    if not lacking:
        return
    *most, last = (f"{section}.{key}" for key in lacking)
    named = f"{', '.join(most)} and {last} are" if most else f"{last} is"
    what = "a token is" if lacking.keys() == secrets.keys() else named
    hint = f"Set {' and '.join(filter(None, lacking.values()))}, then: homebody setup {platform.name} --yes"
    if len(lacking) <= _IN_A_LINE:
        by_hand = (f"homebody config set {section}.{key} {'< FILE' if key in secrets else 'VALUE'}" for key in lacking)
        hint += f"   (or: {', '.join(by_hand)})"
    raise UsageError(f"{guide.title}: {what} missing, and --yes asks for nothing", hint=hint)


_IN_A_LINE = 2


def _camel(field: str) -> str:
    first, *rest = field.split("_")
    return first + "".join(part.title() for part in rest)


def _signed_in(screen: Screen, platform: Platform, variables: dict[str, str] | None = None) -> str:
    """Return the name under which the bot signs in. Raises HomebodyError.

    ``variables`` held the token that is tried, by key; none of them if it was typed, None if the settings hold it.
    """
    screen.tell(f"  Asking {platform.name} ...")
    with nothing_typed():
        facts = asyncio.run(_probe(screen, platform))
    if facts["ok"] is False:
        raise _refused(screen, platform, str(facts["error"]), str(facts.get("mend", "")), variables)
    name, _, hint = str(facts.get("name", "")).partition(" (")
    screen.tell(f"✓ The bot is {name}." if name else "✓ The token was taken.")
    if hint:
        screen.tell(f"  {_sentence(hint.removesuffix(')'))}")
    return name


def _refused(screen: Screen, platform: Platform, what: str, mend: str, variables: dict[str, str] | None) -> HomebodyError:
    """Return the error of a platform. Where it refuses the token, it is named by its true place: the settings do not hold it yet."""
    command = f"homebody config set channels.{platform.name}."
    before, found, after = mend.partition(command)
    if found and screen.interactive:
        mend = f"{mend.partition(', then: ' + command)[0]}, and paste it below."
    elif found and variables:
        known = {**(platform.guide.env if platform.guide else {}), **variables}
        name = known.get(after.split()[0], "") or " and ".join(variables.values())
        mend = f"{before}set {name} anew, and: homebody setup {platform.name} --yes"
    for key, name in (variables or {}).items():
        what = what.replace(f"channels.{platform.name}.{key}", name)
    if variables is not None:
        names = " and ".join(variables.values()) or "this answer"
        what = what.replace(f"the token in channels.{platform.name} ", f"the token in {names} ")
    return HomebodyError(_sentence(what), hint=_sentence(mend))


async def _proposals(screen: Screen, platform: Platform) -> Mapping[str, tuple[str, str]]:
    """Return settings that the platform itself knows."""
    channel = _channel(screen, platform)
    propose = getattr(channel, "proposals", None)
    if propose is None:
        return {}
    try:
        found: Mapping[str, tuple[str, str]] = await propose()
    except ChannelError as error:
        raise HomebodyError(str(error), hint=error.hint) from error
    finally:
        await channel.close()
    return found


async def _probe(screen: Screen, platform: Platform) -> dict[str, Any]:
    return await probe_channel(_channel(screen, platform))


def _channel(screen: Screen, platform: Platform) -> Channel:
    for channel, _ in platforms(screen.draft.settings, SystemClock(), screen.draft.env, screen.draft.paths.state):
        if (channel.name, channel.account) == (platform.name, ACCOUNT):
            return channel
    hint = f"homebody config get channels.{platform.name}"
    raise HomebodyError(f"{platform.name} is switched off in the settings, or has no account {ACCOUNT}", hint=hint)


def _sentence(text: str) -> str:
    return text if text.startswith(("http://", "https://")) else text[:1].upper() + text[1:]
