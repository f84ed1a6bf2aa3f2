"""``homebody open`` and ``homebody browsers``: let a browser in to the page, and show and revoke those that were."""

from __future__ import annotations

import asyncio
import os
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from gateway.base.errors import HomebodyError, UsageError
from gateway.base.state_lock import describe
from gateway.cli import gateway_calls
from gateway.cli.invocation import Invocation, pass_invocation, say, tell

if TYPE_CHECKING:
    from gateway.settings.http_settings import GatewaySettings

_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
_PAGE = "docs/page.md says how to reach it from another device."


@click.command(name="open")
@click.option("--viewer", is_flag=True, help="The browser may look, and change nothing.")
@click.option("--address", metavar="URL", help="Where the other device reaches the gateway, such as https://home.example.")
@click.option("--no-browser", is_flag=True, help="Print the address, and open nothing here.")
@_JSON
@pass_invocation
def open_page(invocation: Invocation, *, viewer: bool, address: str | None, no_browser: bool, as_json: bool) -> None:
    """Open the page in the browser. The printed address lets one browser in, within 5 minutes, for 30 days.

    For another device: `homebody open --address https://NAME`, and scan the code.
    """
    holder = describe(invocation.paths.lock)
    if holder is None or not holder.socket or not holder.http_port:
        raise HomebodyError("no gateway is running, and it serves the page", hint="Start it with: homebody start")
    made = asyncio.run(gateway_calls.ask(invocation.paths.local, "page.open", viewer=viewer))
    if not made["enabled"]:
        raise HomebodyError(
            "the page is switched off", where="gateway.page", hint="homebody config set gateway.page.enabled true"
        )
    settings = invocation.loaded.settings.gateway.under(os.environ)
    here = f"http://127.0.0.1:{holder.http_port}"
    base = _base(address, settings) or here
    link = f"{base}/enter#{made['code']}"
    opened = not (as_json or no_browser or base != here) and _opened(link)
    minutes = max(1, round((datetime.fromisoformat(made["expires"]) - datetime.now(UTC)).total_seconds() / 60))
    lines = [
        f"{'Opened in your browser' if opened else 'Open this in a browser'} (once, within {minutes} minutes; {_as_whom(viewer)}):",
        "",
        f"    {link}",
        "",
    ]
    if base != here and not as_json and sys.stdout.isatty():
        from gateway.setup.owner_pairing import qr_code

        say("\n".join(lines))
        click.echo(qr_code(link, colours="NO_COLOR" not in os.environ))
        return
    lines.append(f"For your phone: homebody open --address https://NAME ({_PAGE})" if base == here else "")
    tell(
        {"url": link, "expires": made["expires"], "role": "viewer" if viewer else "owner"},
        "\n".join(lines).rstrip(),
        as_json=as_json,
    )


@click.group()
def browsers() -> None:
    """Show and revoke browsers that may open the page."""


@browsers.command(name="list")
@_JSON
@pass_invocation
def list_browsers(invocation: Invocation, as_json: bool) -> None:
    """Show the browsers that were let in."""
    found: list[dict[str, Any]] = _ask(invocation, "page.browsers")
    lines = [
        f"{one['id']}  {one['role']:6}  {one['name']}  last used {invocation.local_time(one['seen'])}"
        f"  until {invocation.local_time(one['expires'])[:10]}"
        for one in found
    ]
    tell({"browsers": found}, "\n".join(lines) or "No browser was let in. Let one in: homebody open", as_json=as_json)


@browsers.command()
@click.argument("browser", metavar="ID|all")
@_JSON
@pass_invocation
def revoke(invocation: Invocation, browser: str, as_json: bool) -> None:
    """Let the browser ID (see `homebody browsers list`) in no more, at once; `all`: none of them."""
    gone: list[dict[str, Any]] = _ask(invocation, "page.revoke", browser=browser)
    text = "\n".join(f"{one['id']}  {one['name']}  is let in no more." for one in gone)
    tell({"revoked": gone}, text or "No browser had been let in.", as_json=as_json)


def _ask(invocation: Invocation, call: str, **arguments: Any) -> Any:
    """Ask the gateway that runs, which ends what is open; without one, the file is enough."""
    from gateway.base.clock import SystemClock
    from gateway.page.browsers import Browsers

    holder = describe(invocation.paths.lock)
    if holder is not None and holder.socket:
        return asyncio.run(gateway_calls.ask(invocation.paths.local, call, **arguments))
    known = Browsers(invocation.paths.state, SystemClock().now)
    return [one.facts for one in (known.all() if call == "page.browsers" else known.revoke(arguments["browser"]))]


def _base(address: str | None, settings: GatewaySettings) -> str:
    """Return an address that was given, without what follows the host. Raises UsageError for one that the gateway refuses."""
    from urllib.parse import urlsplit

    if address is None:
        return ""
    parts = urlsplit(address if "://" in address else f"https://{address}")
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise UsageError(f"{address!r} is no address", hint="Write it like https://home.example.")
    known = {
        "127.0.0.1",
        "localhost",
        "::1",
        *(one.rpartition(":")[0] or one for one in settings.allowed_hosts),
        *settings.allowed_hosts,
    }
    if parts.hostname not in known and parts.netloc.lower() not in known:
        hint = f"homebody config set gateway.allowedHosts '[\"{parts.netloc.lower()}\"]', and restart the gateway. {_PAGE}"
        raise UsageError(f"the gateway does not answer to the name {parts.netloc}", where="gateway.allowedHosts", hint=hint)
    return f"{parts.scheme}://{parts.netloc}"


def _as_whom(viewer: bool) -> str:
    return "it may look, and change nothing" if viewer else "whoever opens it is you"


def _opened(link: str) -> bool:
    """Open a link in this machine's browser, where there is a screen; return whether that was tried."""
    import webbrowser

    if sys.platform == "linux" and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        return False
    try:
        return webbrowser.open(link)
    except webbrowser.Error:
        return False
