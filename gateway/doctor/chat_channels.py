"""Checks the chat platforms: does each accept its token, is it connected, and can anybody write to the agent there?"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

from channels.platform import Policy
from channels.protocol import Channel
from gateway.base.clock import SystemClock
from gateway.doctor.checked_installation import Installation
from gateway.doctor.finding import Check, Finding, ok
from gateway.routing.access import concerns
from gateway.supervision.channel_probe import probe_channel
from gateway.supervision.platforms import platforms

_LOCAL = "terminal:default"
_SILENT = "Messages do not arrive, and replies wait."


async def _examine(installation: Installation) -> list[Finding]:
    found = list(platforms(installation.settings, SystemClock(), installation.env, installation.paths.state))
    status = await installation.status()
    if not found:
        mend = "homebody setup telegram, or another one: homebody setup"
        return [Finding(level="note", what="no chat platform is set up; the agent is reached in the terminal", mend=mend)]
    states = (status or {}).get("channels", {})
    answers = await asyncio.gather(*(_probe(channel, installation) for channel, _ in found))
    return [
        finding
        for (channel, policy), answer in zip(found, answers, strict=True)
        for finding in _of(installation, f"{channel.name}:{channel.account}", policy, states, answer)
    ]


async def _probe(channel: Channel, installation: Installation) -> dict[str, Any]:
    if installation.offline:
        await channel.close()
        return {"ok": None}
    return await probe_channel(channel)


def _of(
    installation: Installation, name: str, policy: Policy, states: dict[str, Any], answer: dict[str, Any]
) -> Iterator[Finding]:
    running = installation.gateway_serves
    state = states.get(name, {})
    trouble = str(state.get("trouble") or "")
    if answer["ok"] is False:
        yield Finding(level="error", what=str(answer["error"]), where=name, why=_SILENT, mend=str(answer.get("mend") or ""))
    elif running and not state:
        mend = "Restart the gateway."
        yield Finding(level="warning", what="is set up, but the running gateway does not have it", where=name, mend=mend)
    elif running and state["state"] not in {"connected", "starting"}:
        yield Finding(
            level="error",
            what=f"is {state['state']}{': ' if trouble else ''}{trouble}",
            where=name,
            why=_SILENT,
            mend=str(state.get("mend") or f"homebody channels restart {name}"),
        )
    else:
        heard = f", last heard {installation.local_time(state['heard'])}" if state.get("heard") else ""
        said = f"answers as {answer['name']}" if answer["ok"] else "is set up"
        yield ok(f"{name} {said}{heard}" + ("" if running else "; no gateway runs"))
    if state.get("sending"):
        yield Finding(level="warning", what=str(state["sending"]), where=name, mend="homebody outbox list")
    for one in state.get("asksToWait", ()):
        what = f"it asked to wait before more is sent to {one['conversation']}; next attempt {installation.local_time(one['until'])}"
        yield Finding(
            level="warning", what=what, where=name, why=f"Replies that wait: {one['replies']}.", mend="homebody outbox list"
        )
    for concern in concerns(name, policy):
        what = str(concern).removeprefix(f"{name}: ")
        yield Finding(level="warning", what=what, where=name, mend="Who may write: homebody route explain")
    for remark in state.get("remarks", ()):
        what = str(remark).removeprefix(f"{name}: ")
        yield Finding(level="warning", what=what, where=name, mend=f"See docs/{name.partition(':')[0]}.md.")


CHANNELS = Check(name="channels", examine=_examine, seconds=40.0)
