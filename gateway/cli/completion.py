"""``homebody completion``: lets the shell complete commands and options."""

from __future__ import annotations

import json
import os
from pathlib import Path

import click

from gateway.base.errors import StorageFailed
from gateway.cli.invocation import tell

VARIABLE = "_HOMEBODY_COMPLETE"
"""The variable by which the shell asks; click's own naming."""


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.option("--install", is_flag=True, help="Write it to the place where the shell looks for it.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def completion(ctx: click.Context, shell: str, install: bool, as_json: bool) -> None:
    """Print the completion script for a shell, or install it with --install."""
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None, shell
    script = kind(ctx.find_root().command, {}, "homebody", VARIABLE).source().strip() + "\n"
    place = place_of(shell)
    facts = {"shell": shell, "file": str(place), "installed": install, **({} if install else {"script": script})}
    if not install:
        click.echo(f"Put it into {place}, which `homebody completion {shell} --install` does.", err=True)
        click.echo(json.dumps(facts) if as_json else script, nl=as_json)
        return
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(script, encoding="utf-8")
    except OSError as error:
        raise StorageFailed.from_os(error, "write the completion", place) from error
    tell(facts, f"Written to {place}. {_then(shell, place)}", as_json=as_json)


def place_of(shell: str) -> Path:
    """Return the file from which a shell of this user reads completions of `homebody`."""
    home = Path.home()
    if shell == "bash":
        return Path(os.environ.get("XDG_DATA_HOME") or home / ".local/share") / "bash-completion/completions/homebody"
    if shell == "zsh":
        return home / ".zfunc/_homebody"
    return Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config") / "fish/completions/homebody.fish"


def _then(shell: str, place: Path) -> str:
    if shell == "bash":
        return "It works in new terminals; it needs the package bash-completion, which most systems have."
    if shell == "zsh":
        lines = f"fpath=({place.parent} $fpath)\n    autoload -Uz compinit && compinit"
        return f"Put these lines into ~/.zshrc, unless they are there:\n\n    {lines}"
    return "It works in new terminals."
