"""The rules in force, as JSON values: those of the settings, those that the owner made with "always", and the built-in ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from gateway.approvals.read_only import LOOKING, VERSIONS
from gateway.approvals.rules import Rules
from gateway.approvals.stored_rules import StoredRule, StoredRules
from gateway.base.errors import UsageError
from gateway.settings.root import Settings

BUILT_IN: Final = "builtin:"
"""What stands before the name of a built-in rule, where its id is meant."""

_SPECIAL: Final = {
    VERSIONS: "asking a program for its --version",
    "git": "git status, log, diff, show and others that only look, where the repository's settings run nothing",
    "find": "find without options that run, write or delete",
}
"""Built-in rules that say more than that options only look."""


def rules_in_force(settings: Settings, stored: StoredRules, agent: str | None = None) -> dict[str, Any]:
    """Return all rules, for one agent or the default agent. Blocking. Raises UsageError for an unknown agent."""
    wanted = agent or settings.default_agent
    rules = Rules(lambda: settings, stored)
    run = settings.agent(wanted).exec
    return {
        "agent": wanted,
        "exec": {"security": run.security, "ask": run.ask},
        "settings": [
            rule.model_dump(mode="json", by_alias=True, exclude_none=True) | {"origin": sorted(rule.origins())}
            for rule in settings.approvals.rules
        ],
        "stored": [_rule_json(rule) for rule in stored.all() if agent is None or rule.agent == agent],
        "builtIn": [
            {"id": f"{BUILT_IN}{name}", "on": on, "commands": meaning(name), "ofOptions": name not in _SPECIAL}
            for name, on in rules.builtin(wanted).items()
        ],
        "unknown": sorted(set(run.safe_bins or ()) - LOOKING),
        "problem": stored.problem(),
    }


def forget(stored: StoredRules, identity: str) -> dict[str, Any]:
    """Remove a stored rule, or switch a built-in one off. Blocking.

    Raises:
        UsageError: there is no such rule.
        StorageFailed: it could not be written.
    """
    name = identity.removeprefix(BUILT_IN)
    if identity.startswith(BUILT_IN):
        _known(name)
        stored.switch(name, on=False)
        return {"forgotten": {"id": identity, "builtIn": True}}
    removed = stored.remove(identity)
    if removed is None:
        raise UsageError(f"there is no rule {identity!r}", hint="`homebody approvals rules` lists them with their ids.")
    return {"forgotten": _rule_json(removed)}


def restore(stored: StoredRules, identity: str) -> dict[str, Any]:
    """Switch a built-in rule on again. Blocking. Raises like ``forget``."""
    name = identity.removeprefix(BUILT_IN)
    _known(name)
    stored.switch(name, on=True)
    return {"restored": {"id": f"{BUILT_IN}{name}", "builtIn": True}}


def rule_calls(settings: Callable[[], Settings], stored: StoredRules) -> dict[str, Callable[..., dict[str, Any]]]:
    """Return the calls of the admin API that need no ledger, by name. Blocking."""

    def listed(agent: str | None = None) -> dict[str, Any]:
        return rules_in_force(settings(), stored, agent)

    def forgotten(rule: str) -> dict[str, Any]:
        return forget(stored, rule)

    def restored(rule: str) -> dict[str, Any]:
        return restore(stored, rule)

    return {"approvals.rules": listed, "approvals.forget": forgotten, "approvals.restore": restored}


def meaning(name: str) -> str:
    """Say which commands a built-in rule is about."""
    return _SPECIAL.get(name, f"{name} with options that only look")


def _known(name: str) -> None:
    if name not in LOOKING:
        raise UsageError(f"there is no built-in rule {name!r}", hint="`homebody approvals rules` lists them.")


def _rule_json(rule: StoredRule) -> dict[str, Any]:
    return {"id": rule.id, **rule.model_dump(mode="json", by_alias=True)}
