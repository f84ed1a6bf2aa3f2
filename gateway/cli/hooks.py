"""``homebody hooks``: adds, tests and changes webhooks, by which other programs call your agent."""

from __future__ import annotations

import asyncio
import shlex
import socket
from typing import TYPE_CHECKING, Any

import click

from gateway.base.errors import HomebodyError
from gateway.base.state_lock import describe
from gateway.cli.invocation import Invocation, pass_invocation, tell

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from gateway.ledger.protocol import Ledger

_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
_NAME = click.argument("name")
_ENDED = frozenset({"answered", "failed", "ignored", "sent", "dead", "held", "kept"})
_TOLD = {
    "waiting": "It waits for its turn.",
    "claimed": "The agent is answering it.",
    "answered": "The agent answered it.",
    "ignored": "It was ignored.",
    "failed": "It was given up.",
    "ready": "The text waits to be sent.",
    "sending": "The text is being sent.",
    "ambiguous": "The text may have been sent; the platform did not say.",
    "sent": "The text was sent.",
    "dead": "The text could not be sent.",
    "held": "The text is held until quiet hours end: homebody outbox held",
    "kept": "The text is kept, because the number of a day was reached: homebody outbox held",
}
_REPLIES = {
    "sent": "sent",
    "dead": "could not be sent",
    "held": "held until quiet hours end (homebody outbox held)",
    "kept": "kept, because the number of a day was reached (homebody outbox held)",
}
_POLL_SECONDS = 0.2
_SAMPLE = '{"title": "Hello"}'


_RULES = (
    click.option("--instruction", metavar="TEXT", help="What the agent does with a call, in your words."),
    click.option(
        "--message", metavar="TEXT", help="Send this text instead, without a model; {title} is a field of the JSON body."
    ),
    click.option("--agent", help="The agent that answers (default: your default agent)."),
    click.option(
        "--session", type=click.Choice(["isolated", "main"]), help="Each call for itself (isolated), or in your conversation."
    ),
    click.option("--deliver", metavar="CHAT", help="latest (your latest chat), none, or an address (homebody channels chats)."),
    click.option("--model", help="The model that answers."),
    click.option("--tool", "allow", metavar="TOOL", multiple=True, help="Only this tool or group (may be repeated)."),
    click.option("--without", "deny", metavar="TOOL", multiple=True, help="Without this tool or group (may be repeated)."),
    click.option("--daily-usd", type=float, help="What its calls may cost in a day."),
    click.option("--daily-tokens", type=int, help="How many tokens its calls may use in a day."),
    click.option("--urgent/--not-urgent", default=None, help="May be sent in quiet hours (default: not)."),
    click.option("--per-minute", type=int, help="How many calls are taken in a minute (default: 60)."),
    click.option("--burst", type=int, help="How many calls are taken at once (default: 20)."),
)


def _settable(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that ``add`` and ``change`` share."""
    for option in reversed(_RULES):
        command = option(command)
    return command


@click.group()
def hooks() -> None:
    """Let other programs call your agent by a webhook.

    docs/webhooks.md has examples: GitHub, Home Assistant, Uptime Kuma, systemd.
    """


@hooks.command()
@_NAME
@_settable
@click.option("--signed", is_flag=True, help="The sender signs, as GitHub and Gitea do, instead of sending a token.")
@_JSON
@pass_invocation
def add(
    invocation: Invocation, /, name: str, *, as_json: bool, allow: Sequence[str], deny: Sequence[str], **given: Any
) -> None:
    """Add the webhook NAME. Its token is printed once."""
    chosen = _given(given, allow, deny)
    url = _url(invocation, name)  # whatever may fail fails before there is a token that is shown once
    facts = _call(invocation, "hooks.add", name=name, **chosen) | {"url": url}
    lines = [f"The webhook {name} was added.", *_credential(facts), *(f"! {one}" for one in facts.get("warnings", ()))]
    tell(facts, "\n".join(lines), as_json=as_json)


@hooks.command()
@_NAME
@_settable
@_JSON
@pass_invocation
def change(
    invocation: Invocation, /, name: str, *, as_json: bool, allow: Sequence[str], deny: Sequence[str], **given: Any
) -> None:
    """Change the webhook NAME. What is not given stays as it is, and so does its token."""
    facts = _call(invocation, "hooks.change", name=name, **_given(given, allow, deny))
    lines = [f"The webhook {name} was changed. See it: homebody hooks show {name}"]
    tell(facts, "\n".join([*lines, *(f"! {one}" for one in facts.get("warnings", ()))]), as_json=as_json)


def _given(options: dict[str, Any], allow: Sequence[str], deny: Sequence[str]) -> dict[str, Any]:
    """Return the options that were given."""
    chosen = {key: value for key, value in options.items() if value is not None and (key != "signed" or value)}
    return chosen | {key: [*value] for key, value in (("allow", allow), ("deny", deny)) if value}


@hooks.command(name="list")
@_JSON
@pass_invocation
def list_(invocation: Invocation, as_json: bool) -> None:
    """List all webhooks."""
    found = _call(invocation, "hooks.list")["hooks"]
    lines = [f"{one['name']:16} {_state(one):10} {_does(one)}" for one in found]
    none = "No webhooks yet. Add one: homebody hooks add alarm --instruction 'Tell me what happened.'"
    tell(found, "\n".join(lines) or none, as_json=as_json)


@hooks.command()
@_NAME
@_JSON
@pass_invocation
def show(invocation: Invocation, name: str, as_json: bool) -> None:
    """Show the webhook NAME and its latest calls."""
    facts = _call(invocation, "hooks.show", name=name)
    facts["url"] = _url(invocation, name)
    rules = {
        "Address": facts["url"],
        "State": _state(facts),
        "Problem": facts["problem"],
        "Proof": "a signature (X-Hub-Signature-256)" if facts["credential"] == "signature" else "a token",
        "Agent": facts["agent"],
        "Does": "sends a text without a model"
        if facts["kind"] == "message"
        else f"asks the agent, in the session: {facts['session']}",
        "Delivers to": facts["deliver"],
        "Model": facts["model"],
        "Tools": None if facts["allow"] is None else ", ".join(facts["allow"]),
        "Not": ", ".join(facts["deny"]),
        "In a day": ", ".join(_day(facts)),
        "Urgent": "yes, also in quiet hours" if facts["urgent"] else "",
        "Calls": f"{facts['perMinute']} a minute, {facts['burst']} at once",
        "Text": facts["text"],
    }
    lines = [f"{label + ':':13}{value}" for label, value in rules.items() if value]
    calls = [f"  {invocation.local_time(one['at'])}  {became(one)}" for one in facts["calls"]]
    tell(facts, "\n".join([name, *lines, *(["Latest calls:", *calls] if calls else ["No call yet."])]), as_json=as_json)


@hooks.command()
@_NAME
@click.option("--data", metavar="BODY", help="The body to send (default: a small JSON).")
@click.option("--wait", type=float, default=60.0, show_default=True, help="How many seconds to wait for what becomes of it.")
@_JSON
@pass_invocation
def test(invocation: Invocation, name: str, data: str | None, wait: float, as_json: bool) -> None:
    """Send a sample to the webhook NAME through its real address, and tell what becomes of it."""
    if describe(invocation.paths.lock) is None:
        raise HomebodyError("no gateway is running", hint="A test goes through a running one. Start it: homebody start")
    trial = _call(invocation, "hooks.trial", name=name, body=data)
    facts = asyncio.run(_tried(invocation, name, trial, wait))
    lines = [f"Sent to {facts['url']}: {trial['body']}", f"It was taken ({facts['status']}). {became(facts)}"]
    tell(facts, "\n".join(lines), as_json=as_json)
    if facts["state"] in {"failed", "dead"}:
        raise SystemExit(1)


@hooks.command()
@_NAME
@_JSON
@pass_invocation
def rotate(invocation: Invocation, name: str, as_json: bool) -> None:
    """Give the webhook NAME a new token. The former one stops working at once."""
    url = _url(invocation, name)
    facts = _call(invocation, "hooks.rotate", name=name) | {"url": url}
    tell(facts, "\n".join([f"The webhook {name} has a new {_word(facts)}.", *_credential(facts)]), as_json=as_json)


@hooks.command()
@_NAME
@_JSON
@pass_invocation
def pause(invocation: Invocation, name: str, as_json: bool) -> None:
    """Take no calls of the webhook NAME until it is resumed."""
    tell(
        _call(invocation, "hooks.pause", name=name),
        f"The webhook {name} is paused. Resume it: homebody hooks resume {name}",
        as_json=as_json,
    )


@hooks.command()
@_NAME
@_JSON
@pass_invocation
def resume(invocation: Invocation, name: str, as_json: bool) -> None:
    """Take the calls of the webhook NAME again."""
    tell(_call(invocation, "hooks.resume", name=name), f"The webhook {name} takes calls again.", as_json=as_json)


@hooks.command()
@_NAME
@_JSON
@pass_invocation
def remove(invocation: Invocation, name: str, as_json: bool) -> None:
    """Remove the webhook NAME. What it took before is answered nevertheless."""
    tell(_call(invocation, "hooks.remove", name=name), f"The webhook {name} was removed.", as_json=as_json)


def _call(invocation: Invocation, call: str, **arguments: Any) -> dict[str, Any]:
    from gateway.api.handlers.hook_requests import HookHandlers
    from gateway.base.clock import SystemClock
    from gateway.cli.gateway_calls import call_ledger

    def handlers(ledger: Ledger) -> Any:
        return HookHandlers(ledger.hooks, lambda: invocation.loaded.settings, SystemClock()).calls()

    return call_ledger(invocation, handlers, call, **arguments)


async def _tried(invocation: Invocation, name: str, trial: dict[str, Any], wait: float) -> dict[str, Any]:
    """Send the sample to the address on this machine, and return what became of it within ``wait`` seconds."""
    from gateway.api import api_client

    url = f"http://127.0.0.1:{_port(invocation)}/hooks/in/{name}"
    status, answer = await api_client.post(url, trial["headers"], trial["body"])
    if "id" not in answer:
        error = f"the call was refused ({status}): {answer.get('error', 'no reason was given')}"
        raise HomebodyError(error, where=url, hint=str(answer.get("mend", "")))
    loop = asyncio.get_running_loop()
    until = loop.time() + wait
    while True:
        facts = await _outcome(invocation.paths.local, name, answer["id"])
        if facts["state"] in _ENDED or loop.time() >= until:
            return facts | {"url": url, "status": status}
        await asyncio.sleep(_POLL_SECONDS)


async def _outcome(state: Path, name: str, call: str) -> dict[str, Any]:
    from gateway.cli.gateway_calls import ask

    facts: dict[str, Any] = await ask(state, "hooks.call", name=name, key=call)
    return facts


def _credential(facts: dict[str, Any]) -> list[str]:
    """Return the lines that show a new credential, and how it is used."""
    url = facts["url"]
    if "secret" in facts:
        return [
            f"Address: {url}",
            f"Secret:  {facts['secret']}",
            "The secret is shown only now. The sender signs each body with it (header X-Hub-Signature-256).",
            "On GitHub: Settings > Webhooks > Add webhook, with this address and secret, content type application/json.",
        ]
    curl = ["curl", "-H", f"Authorization: Bearer {facts['token']}", "-H", "Content-Type: application/json"]
    call = f"{shlex.join(curl)} -d {shlex.quote(_SAMPLE)} {url}"
    return [f"Token: {facts['token']}", "The token is shown only now. To call the webhook:", f"  {call}"]


def _url(invocation: Invocation, name: str) -> str:
    """Return the address for other programs: on this machine alone, or by a name that the settings know, or by this machine's name."""
    import os

    settings = invocation.loaded.settings.gateway.under(os.environ)
    host = "127.0.0.1" if settings.bind == "loopback" else socket.gethostname()
    if settings.allowed_hosts:
        known = settings.allowed_hosts[0]
        return f"http://{known if known.rpartition(']')[2].count(':') else f'{known}:{_port(invocation)}'}/hooks/in/{name}"
    return f"http://{host}:{_port(invocation)}/hooks/in/{name}"


def _port(invocation: Invocation) -> int | str:
    """Return the port of the gateway that runs, or the one of the settings; ``PORT`` where the system chooses one at the start."""
    import os

    holder = describe(invocation.paths.lock)
    if holder is not None and holder.http_port:
        return holder.http_port
    return invocation.loaded.settings.gateway.under(os.environ).port or "PORT"


def _word(facts: dict[str, Any]) -> str:
    return "secret" if "secret" in facts else "token"


def _state(facts: dict[str, Any]) -> str:
    return "broken" if facts["problem"] else str(facts["state"])


def _does(facts: dict[str, Any]) -> str:
    what = f"sends “{_short(facts['text'])}”" if facts["kind"] == "message" else f"{facts['agent']}: {_short(facts['text'])}"
    return what if not facts["problem"] else f"{what} ({facts['problem']})"


def _short(text: str, most: int = 60) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def _day(facts: dict[str, Any]) -> list[str]:
    usd, tokens = facts["dailyUsd"], facts["dailyTokens"]
    return [*([f"${usd:.2f}"] if usd is not None else []), *([f"{tokens:,} tokens"] if tokens is not None else [])]


def became(call: dict[str, Any]) -> str:
    """Tell what became of one call."""
    text = _TOLD.get(call["state"], str(call["state"]))
    if call["reason"]:
        text = f"{text} ({call['reason']})"
    replies = [_REPLIES.get(one, "waits to be sent") for one in call["replies"]]
    if call["state"] == "answered":
        text += f" Its reply: {', '.join(dict.fromkeys(replies))}." if replies else " It sent no reply."
    return text
