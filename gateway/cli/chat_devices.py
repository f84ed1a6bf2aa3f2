"""``homebody matrix``: the device as which the agent is signed in on a platform with end-to-end encryption."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from gateway.cli.invocation import Invocation, pass_invocation, tell

if TYPE_CHECKING:
    from channels.platform import DeviceTools

_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
_ACCOUNT = click.option("--account", default="default", show_default=True, help="An account under channels.matrix.accounts.")


@click.group()
def matrix() -> None:
    """Show and verify the agent's device on Matrix, and sign in again (docs/matrix.md)."""


@matrix.command()
@_ACCOUNT
@_JSON
@pass_invocation
def status(invocation: Invocation, *, account: str, as_json: bool) -> None:
    """Show the device, its fingerprint, and whether it is verified."""
    facts = _tools(invocation, account).facts()
    tell(facts, _as_text(facts), as_json=as_json)


@matrix.command("sign-in")
@_ACCOUNT
@_JSON
@pass_invocation
def sign_in(invocation: Invocation, *, account: str, as_json: bool) -> None:
    """Sign in as a new device at the next start. Messages encrypted for the former device alone stay closed."""
    facts = _tools(invocation, account).forget()
    then = "It signs in again with the password of the settings after: homebody channels restart matrix"
    tell(facts, f"The device {facts['device']} is given up. {then}", as_json=as_json)


def _tools(invocation: Invocation, account: str) -> DeviceTools:
    from channels.built_in import BUILT_IN
    from gateway.supervision.platforms import state_of

    make = next(one.device for one in BUILT_IN if one.name == "matrix")
    assert make is not None
    return make(state_of(invocation.paths.state, "matrix", account))


def _as_text(facts: dict[str, Any]) -> str:
    state = "signed in" if facts["signedIn"] else "will sign in at the next start"
    lines = [f"{facts['user']} on {facts['server']}: {state}", f"device       {facts['device']}"]
    if facts["former"]:
        lines.append(f"before       {facts['former']}")
    if facts["fingerprint"]:
        lines.append(f"fingerprint  {facts['fingerprint']}")
        lines.append(
            f"verified     {'yes, by the keys of its account' if facts['crossSigned'] else 'not by the keys of its account'}"
        )
    else:
        lines.append("fingerprint  none yet: it has keys once the gateway ran with encryption on")
    return "\n".join(lines)
