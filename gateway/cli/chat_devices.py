"""``homebody matrix``: the device as which the agent is signed in on a platform with end-to-end encryption."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

import click

from gateway.base.errors import HomebodyError
from gateway.cli.invocation import Invocation, pass_invocation, say, tell

if TYPE_CHECKING:
    from channels.platform import DeviceTools

_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
_SECONDS = 600.0
_OVER = frozenset({"done", "cancelled"})
_HOW = (
    "In Element: open your private chat with {user}, click its name, then Verify (or, signed in as {user}: Settings, Sessions, this\n"
    "device, Verify). Choose to compare emoji. Waiting; Ctrl-C ends it ..."
)
_ACCOUNT = click.option("--account", default="default", show_default=True, help="An account under channels.matrix.accounts.")


@click.group()
def matrix() -> None:
    """Show and verify the agent's device on Matrix, and sign in again (docs/matrix.md)."""


@matrix.command()
@_ACCOUNT
@_JSON
@pass_invocation
def status(invocation: Invocation, *, account: str, as_json: bool) -> None:
    """Show the device and its fingerprint, and the last verification."""
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


@matrix.command()
@_ACCOUNT
@click.option(
    "--recovery-key", is_flag=True, help="Confirm the device by the account's identity: asks for the account's recovery key."
)
@click.option("--new-recovery-key", is_flag=True, help="Give the account an identity first, and print its recovery key.")
@_JSON
@pass_invocation
def verify(invocation: Invocation, *, account: str, recovery_key: bool, new_recovery_key: bool, as_json: bool) -> None:
    """Compare emoji with another device, which begins. The gateway must be running. With --json: show the verification that runs.

    With a recovery key of the account, apps show the device as one that its owner confirmed; no other device is needed then. The key is
    asked for without showing it, or read from a line of standard input; it is not kept.
    """
    tools = _tools(invocation, account)
    facts = tools.facts()
    if recovery_key or new_recovery_key:
        if recovery_key and new_recovery_key:
            raise click.UsageError("give --recovery-key or --new-recovery-key, not both.")
        if recovery_key:
            tools.confirm(_secret(f"Recovery key (or security phrase) of {facts['user']}"))
        else:
            tools.make_identity(lambda: _secret(f"Password of {facts['user']}"), _show)
        done = f"Confirmed: the identity of {facts['user']} signed the device {facts['device']}."
        tell({**tools.facts()}, done, as_json=as_json)
        return
    if as_json:
        tell(tools.verification(), "", as_json=True)
        return
    say(_HOW.format(user=facts["user"]))
    seen = tools.verification().get("id") if tools.verification().get("state") in _OVER else None
    asked = ""
    deadline = time.monotonic() + _SECONDS
    while time.monotonic() < deadline:
        now = tools.verification()
        state = now.get("state") if now.get("id") != seen else None
        if state == "compare" and asked != now["id"]:
            asked = now["id"]
            say(
                f"{now['user']}, device {now['device']}:\n\n"
                + "\n".join(f"    {one}  {name}" for one, name in now["emoji"])
                + "\n"
            )
            tools.answer(asked, same=click.confirm("Does the other device show the same, in the same order?"))
        elif state == "done":
            say(f"Verified: {now['user']}, device {now['device']}.")
            return
        elif state == "cancelled":
            hint = "Begin again on the other device, then: homebody matrix verify"
            raise HomebodyError(f"the verification was cancelled: {now.get('reason')}", hint=hint)
        time.sleep(0.3)
    raise HomebodyError("no other device asked for a verification", hint="homebody status says whether the gateway runs")


def _show(key: str) -> None:
    """Print a recovery key on standard error, so that nothing that reads the output keeps it."""
    click.echo(f"Recovery key of the account, shown this once: keep it where you keep passwords.\n\n    {key}\n", err=True)


def _secret(label: str) -> str:
    if sys.stdin.isatty():
        return str(click.prompt(label, hide_input=True, err=True))
    line = sys.stdin.readline().rstrip("\r\n")
    if not line:
        raise HomebodyError(f"nothing was given: {label}", hint="write it as a line into standard input, or use a terminal")
    return line


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
    else:
        lines.append("fingerprint  none yet: it has keys once the gateway ran with encryption on")
    if facts["fingerprint"] and not facts["crossSigned"]:
        lines.append("identity     not confirmed: homebody matrix verify --recovery-key (or --new-recovery-key)")
    elif facts["crossSigned"]:
        lines.append("identity     confirmed by the account's recovery key")
    if last := facts["lastVerification"]:
        lines.append(f"verification {last['state']}: {last['user']}, device {last['device']}, at {last['at']}")
    return "\n".join(lines)
