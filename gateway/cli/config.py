"""``homebody config``: shows, validates and changes the settings."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from typing import TYPE_CHECKING, Any

import click

from gateway.base.errors import OK, SETTINGS_WRONG, HomebodyError, UsageError, with_commands_as_started
from gateway.cli.gateway_calls import outcome, taken_over
from gateway.cli.invocation import Invocation, pass_invocation, say, warn

if TYPE_CHECKING:
    from gateway.base.errors import Problem
    from gateway.config.document import Document
    from gateway.config.settings_file import Changed
    from gateway.config.syntax_tree import KeyPath

AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
_RESTART = "takes effect when the gateway restarts"
_HOT = "takes effect immediately in a running gateway"


@click.group()
def config() -> None:
    """Show, check and change the settings.

    KEY is a dotted name such as agents.defaults.model, agents.list[0].id or channels.telegram.botToken.
    """


@config.command()
@AS_JSON
@pass_invocation
def path(invocation: Invocation, as_json: bool) -> None:
    """Print the path of the settings file, whether or not it exists."""
    file = invocation.paths.config_file()
    if as_json:
        _print_json({"file": str(file), "exists": file.exists()})
    else:
        click.echo(file)


@config.command()
@click.argument("key", required=False)
@AS_JSON
@pass_invocation
def get(invocation: Invocation, key: str | None, as_json: bool) -> None:
    """Print the effective value of one setting, a section, or all settings. Secrets are never shown.

    A single value is printed on stdout; where it comes from on stderr.
    """
    from gateway.config.effective import effective_settings, effective_values, reload_mode
    from gateway.config.load import load

    path = _known(key) if key else ()
    loaded = load(invocation.paths, os.environ, only_look=True)
    warn(loaded)
    if as_json and not path:
        _print_json(effective_settings(loaded.settings))
        return
    found = list(effective_values(loaded, path))
    single = len(found) == 1 and found[0].path == path
    if as_json:
        unset = {"path": key, "value": None, "origin": "default", "reload": reload_mode(path)}
        _print_json(found[0].as_json() if single else [answer.as_json() for answer in found] or unset)
    elif single:
        answer = found[0]
        click.echo(_shown(answer.value))
        said = (
            "not set; this is the default"
            if answer.origin == "default"
            else f"set in {loaded.source if answer.origin == 'file' else answer.origin}"
        )
        click.echo(f"({said}; a change {_HOT if answer.reload == 'hot' else _RESTART})", err=True)
    elif not found:
        click.echo(f"({key} is not set)", err=True)
    else:
        from gateway.config.syntax_tree import dotted_key

        for answer in found:
            mark = "" if answer.origin == "file" else f"  ({answer.origin})"
            click.echo(f"{dotted_key(answer.path)} = {_shown(answer.value)}{mark}")


@config.command("set", context_settings={"ignore_unknown_options": True})  # a value may be a negative number
@click.argument("key")
@click.argument("value", required=False)
@click.option("--force", is_flag=True, help="Also write a key that this version does not know.")
@AS_JSON
@pass_invocation
def set_(invocation: Invocation, key: str, value: str | None, force: bool, as_json: bool) -> None:
    """Set one setting in the settings file. The rest of the file, with its comments, is not changed.

    Without VALUE, the value is read from standard input (hidden in a terminal), which keeps a secret out of the shell's
    history. Secrets may also be given as env:NAME or file:PATH. Lists and sections are written as in YAML: '[a, b]', '{a: 1}'.
    """
    from gateway.config.edit import with_value
    from gateway.config.effective import parse_value

    path = _known(key, force=force)
    text = value if value is not None else _asked(key)
    meant = parse_value(text, path)
    changed = _change(invocation, lambda document: with_value(document, _place(document, path), meant))
    _report(
        invocation, changed, f"{key} was set", as_json=as_json, about_models=bool({"model", "imageModel", "agents"} & {*path})
    )


@config.command()
@click.argument("key")
@AS_JSON
@pass_invocation
def unset(invocation: Invocation, key: str, as_json: bool) -> None:
    """Remove one setting or section from the file, so that its default applies."""
    from gateway.config.edit import without

    path = _known(key, force=True)
    changed = _change(invocation, lambda document: without(document, _place(document, path)))
    _report(invocation, changed, f"{key} was removed", as_json=as_json)


@config.command()
@AS_JSON
@pass_invocation
def validate(invocation: Invocation, as_json: bool) -> int:
    """Check the settings file and list all errors. Exit code 3 if there are any."""
    from gateway.config.document import read_text
    from gateway.config.load import check

    source = invocation.paths.config_file()
    try:
        checked = check(read_text(source), source, os.environ, invocation.paths)
    except FileNotFoundError:
        if invocation.paths.chosen_config:
            raise HomebodyError("this file does not exist", where=str(source)) from None
        _told_valid(f"There is no {source}; all defaults apply.", as_json=as_json, problems=(), warnings=())
        return OK
    from gateway.models.missing_providers import missing_providers

    warnings = (*checked.warnings, *(missing_providers(checked.settings) if checked.settings is not None else ()))
    summary = f"{source} is valid." if not checked.problems else f"{source}: {_count(checked.problems, 'error')}."
    _told_valid(summary, as_json=as_json, problems=checked.problems, warnings=warnings)
    return SETTINGS_WRONG if checked.problems else OK


@config.command()
@AS_JSON
def schema(as_json: bool) -> None:
    """Print the JSON Schema of the settings: each key's meaning, type and default, and whether a change needs a restart."""
    from gateway.config.reference import json_schema

    del as_json  # it is JSON in any case
    _print_json(json_schema())


def _known(key: str, *, force: bool = False) -> KeyPath:
    from gateway.config.effective import resolve_key

    path, complaint = resolve_key(key)
    if complaint and not force:
        raise UsageError(f"there is no setting {key!r}", hint=complaint)
    return path


def _place(document: Document, path: KeyPath) -> KeyPath:
    from gateway.config.effective import path_in_file
    from gateway.config.syntax_tree import plain

    return path_in_file(plain(document.root), path)


def _asked(key: str) -> str:
    if sys.stdin.isatty():
        answer: str = click.prompt(key, hide_input=True)
        return answer
    line = sys.stdin.readline()
    if not line:
        raise UsageError(f"no value was given for {key}", hint=f"Give the value after the key: homebody config set {key} VALUE")
    return line.rstrip("\r\n")


def _change(invocation: Invocation, edit: Any) -> Changed:
    from gateway.base.clock import SystemClock
    from gateway.config.settings_file import change

    return change(invocation.paths, os.environ, SystemClock().now(), edit)


def _report(invocation: Invocation, changed: Changed, sentence: str, *, as_json: bool, about_models: bool = False) -> None:
    came = taken_over(invocation)
    told = [*changed.notes, *(_without_provider(invocation) if about_models else ())]
    if as_json:
        notes = [note.as_json() for note in told]
        copy = str(changed.copy) if changed.copy else None
        _print_json({"file": str(changed.file), "copy": copy, "warnings": notes, "gateway": came})
        return
    for note in told:
        say(f"homebody: warning: {note.as_text()}", err=True)
    click.echo(f"{sentence}. {outcome(came)}")
    from gateway.config.load import load
    from gateway.doctor.state_files import missing_extras

    with contextlib.suppress(HomebodyError):  # a file that is mended key by key has errors yet
        for found in missing_extras(load(invocation.paths, os.environ, only_look=True).settings):
            say(f"homebody: warning: {found.where}: {found.what}\n  Install it: {found.mend}", err=True)


def _without_provider(invocation: Invocation) -> list[Problem]:
    from gateway.config.load import load
    from gateway.models.missing_providers import missing_providers

    with contextlib.suppress(HomebodyError):  # a file that is mended key by key has errors yet
        return missing_providers(load(invocation.paths, os.environ, only_look=True).settings)
    return []


def _told_valid(summary: str, *, as_json: bool, problems: tuple[Problem, ...], warnings: tuple[Problem, ...]) -> None:
    if as_json:
        facts = {"errors": [found.as_json() for found in problems], "warnings": [found.as_json() for found in warnings]}
        _print_json({"valid": not problems, **facts})
        return
    for problem in problems:
        say(f"error: {problem.as_text()}")
    for warning in warnings:
        say(f"warning: {warning.as_text()}")
    click.echo(summary)


def _count(found: tuple[Problem, ...], noun: str) -> str:
    return f"{len(found)} {noun}{'' if len(found) == 1 else 's'}"


def _shown(value: Any) -> str:
    from gateway.config.secrets import mask_passwords

    shown = mask_passwords(value)
    return shown if isinstance(shown, str) else json.dumps(shown, ensure_ascii=False)


def _print_json(value: Any) -> None:
    from gateway.config.secrets import mask_passwords

    click.echo(json.dumps(mask_passwords(with_commands_as_started(value)), ensure_ascii=False, indent=2))


@config.command()
def page() -> None:
    """Print the reference of all settings as Markdown."""
    from gateway.config.reference import markdown_page

    click.echo(markdown_page(), nl=False)
