"""Checks what the owner asks for when a hook is added."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any, Final

from pydantic import ValidationError

from agent.errors import ModelNotConfigured, UnknownModel
from agent.tool_settings import ToolRules, unknown_tools
from gateway.base.errors import UsageError, unknown_agent
from gateway.ledger.hook_rows import LATEST, NOWHERE, HookKind, HookRules
from gateway.settings.root import Settings

NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}")
LONGEST_TEXT: Final = 8000
"""Characters of an instruction or a template."""
MOST_PER_MINUTE: Final = 600
MOST_BURST: Final = 200


def checked_name(name: str) -> str:
    """Return a hook's name. Raises UsageError."""
    if NAME.fullmatch(name) is None:
        hint = "Use up to 40 of a-z, 0-9, - and _, such as alarm or uptime-kuma."
        raise UsageError(f"{name[:60]!r} cannot be the name of a hook", hint=hint)
    return name


def checked_agent(agent: str | None, settings: Settings) -> str:
    """Return the agent that answers, the default one if none is given. Raises UsageError."""
    wanted = agent or settings.default_agent
    if wanted not in settings.agent_ids:
        raise unknown_agent(wanted, settings.agent_ids)
    return wanted


def checked_rules(settings: Settings, instruction: str | None, message: str | None, **given: Any) -> HookRules:
    """Return the rules for an ``instruction`` to the agent or a ``message`` that is sent. Raises UsageError."""
    if (instruction is None) == (message is None):
        hint = "--instruction says what the agent does with a call; --message is a text that is sent without a model."
        raise UsageError("a hook needs either an instruction or a message", hint=hint)
    kind: HookKind = "prompt" if message is None else "message"
    text = (instruction or message or "").strip()
    if not 0 < len(text) <= LONGEST_TEXT:
        option = "--instruction" if kind == "prompt" else "--message"
        raise UsageError(f"{option} is empty or longer than {LONGEST_TEXT} characters", hint="Say it in a few sentences.")
    rules = HookRules(kind=kind, text=text, **_chosen(given))
    _check_delivery(rules, settings)
    _check_limits(rules)
    _check_tools(rules.allow or (), rules.deny)
    if kind == "message":
        _check_message(rules)
        _check_template(rules.text)
    if rules.model is not None:
        checked_model(rules.model, settings)
    return rules


def sample_of(rules: HookRules) -> dict[str, Any]:
    """Return a body for a test call: one with the fields that a template names."""
    from gateway.hooks.template import fields_of

    sample: dict[str, Any] = {}
    for name in (fields_of(rules.text) if rules.kind == "message" else []) or ["title", "message"]:
        *path, last = name.split(".")
        place = sample
        for part in path:
            inner = place.setdefault(part, {})
            place = inner if isinstance(inner, dict) else {}
        place.setdefault(last, f"a test of {last}")
    return sample


def _chosen(given: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in given.items() if value is not None}


def _check_delivery(rules: HookRules, settings: Settings) -> None:
    from gateway.routing.chat_addresses import checked_address

    if rules.session not in {"main", "isolated"}:
        raise UsageError(f"there is no session {rules.session!r}", hint="--session is main or isolated.")
    if rules.deliver in {LATEST, NOWHERE}:
        return
    place = checked_address(rules.deliver, settings)
    if rules.session == "main" and place.kind == "group":
        hint = "Leave --session out: then each call has a session of its own that knows what the group may know."
        raise UsageError("your main conversation cannot be answered into a group", hint=hint)


def _check_limits(rules: HookRules) -> None:
    ranges = {"--per-minute": (rules.per_minute, MOST_PER_MINUTE), "--burst": (rules.burst, MOST_BURST)}
    for option, (value, most) in ranges.items():
        if not 1 <= value <= most:
            raise UsageError(f"{option} is {value}", hint=f"It is between 1 and {most}.")
    if rules.daily_usd is not None and not (math.isfinite(rules.daily_usd) and rules.daily_usd > 0):
        raise UsageError(f"--daily-usd is {rules.daily_usd}", hint="It is an amount above 0, such as 0.50.")
    if rules.daily_tokens is not None and rules.daily_tokens < 1:
        raise UsageError(f"--daily-tokens is {rules.daily_tokens}", hint="It is a number above 0, such as 50000.")


def _check_tools(allow: Sequence[str], deny: Sequence[str]) -> None:
    try:
        ToolRules(allow=tuple(allow), deny=tuple(deny))
    except ValidationError as error:
        reason = str(error.errors(include_url=False, include_input=False)[0]["msg"])
        raise UsageError(reason.removeprefix("Value error, "), hint="`homebody tools list` shows the tools.") from None


def _check_template(text: str) -> None:
    from gateway.hooks.template import stray_brace

    if stray := stray_brace(text):
        raise UsageError(
            f"--message has {stray!r}, which names no field of the body",
            hint="A field is written like {title} or {alert.labels.name}; for a brace itself write {{ or }}.",
        )


def _check_message(rules: HookRules) -> None:
    if rules.deliver == NOWHERE:
        raise UsageError("a message needs a chat", hint="Leave --deliver out, or name a chat.")
    unused = {
        "--model": rules.model,
        "--session main": rules.session == "main",
        "--tool": rules.allow,
        "--without": rules.deny,
        "--daily-usd": rules.daily_usd,
        "--daily-tokens": rules.daily_tokens,
    }
    named = [option for option, value in unused.items() if value]
    if named:
        raise UsageError(f"{named[0]} means nothing for a message, which needs no model", hint="Leave it out.")


def checked_model(model: str, settings: Settings) -> str:
    """Refuse a model that there is not, whether it has a key or not. Raises UsageError. Return a warning about it, or ""."""
    from agent.models.catalog.model_selection import find, is_left_out

    try:
        place = find(model, settings.models, {})
    except ModelNotConfigured:
        return doubt_of(model, settings)  # its key may come later, and need not be in the settings
    except UnknownModel as error:
        raise UsageError(str(error), hint=error.hint) from None
    if place is not None and is_left_out(place.name, settings.models):
        raise UsageError(f"{place.name} is not among the models of its provider", hint="All of them: homebody models list")
    return doubt_of(model if place is None else place.name, settings)


def doubt_of(model: str, settings: Settings) -> str:
    """Return a warning about a model that is not known here, or ""."""
    from agent.models.catalog.model_selection import is_doubtful

    if not is_doubtful(model, settings.models):
        return ""
    return f"{model} is in no list of models here and is tried as it is (homebody models list)."


def warnings_of(model: str | None, tools: Sequence[str], settings: Settings) -> list[str]:
    """Return warnings about a model, if one is named, and about tools that are not known here. Raises as ``checked_model``."""
    doubt, unknown = checked_model(model, settings) if model else "", unknown_tools(tools)
    about_tools = f"No tool is called {', '.join(unknown)} (homebody tools list)." if unknown else ""
    return [one for one in (doubt, about_tools) if one]
