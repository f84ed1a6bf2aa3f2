"""Checks the cluster that a gateway is part of: have all the same settings, is each reached, is everything held by somebody?"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, Final

from gateway.cluster.home_proof import NAME_ONE
from gateway.doctor.checked_installation import Installation
from gateway.doctor.finding import Check, Finding, ok

_SHOWN: Final = 5


async def _examine(installation: Installation) -> list[Finding]:
    if not installation.settings.cluster.enabled:
        return [ok("one gateway, and no cluster")]
    if installation.settings.storage.url is None:
        mend = "homebody config set storage.url (docs/cluster.md)"
        return [Finding(level="error", what="a cluster needs a database, and none is set", where="cluster.enabled", mend=mend)]
    from gateway.cluster.overview import overview
    from gateway.ledger.open_ledger import need_driver

    need_driver()
    facts = await asyncio.to_thread(overview, installation.settings.storage)
    reached = await installation.ask("cluster.reach") if installation.gateway_serves else {"gateways": []}
    return list(findings_of(facts, reached["gateways"]))


def findings_of(facts: dict[str, Any], reached: list[dict[str, Any]]) -> Iterator[Finding]:
    """Yield what is to be said of a cluster. ``reached``: for each other gateway, whether the one of this machine reaches it."""
    wrong = False
    if facts["settingsDiffer"]:
        wrong, keys = True, facts["differing"]
        more = f" and {len(keys) - _SHOWN} more" if len(keys) > _SHOWN else ""
        where = f": {', '.join(keys[:_SHOWN])}{more}" if keys else ""
        why = "What an agent may do, and where it answers, depends on which gateway holds it."
        mend = "Give all gateways the same file: homebody config path"
        yield Finding(level="warning", what=f"the settings of the gateways differ{where}", why=why, mend=mend)
    for name in facts["sameName"]:
        wrong = True
        why = "They cannot be told apart. If it was just killed and started again, this ends with the lease of its former process."
        yield Finding(
            level="warning", what=f"more than one gateway is called {name}", where="HOMEBODY_GATEWAY", why=why, mend=NAME_ONE
        )
    for gateway in facts["gateways"]:
        if gateway["trouble"] and gateway["state"] != "away":
            wrong, rests = True, gateway["state"] == "resting"
            what = f"the gateway {gateway['gateway']} {'rests' if rests else 'is paused'}: {gateway['trouble']}"
            why = (
                "Others work for its agents meanwhile."
                if rests
                else "It stores messages and does not answer: no other gateway can."
            )
            mend = f"On its machine: HOMEBODY_GATEWAY={gateway['gateway']} homebody doctor"
            yield Finding(level="warning" if rests else "error", what=what, why=why, mend=mend)
    for one in reached:
        if one["why"]:
            wrong = True
            why = "What it holds cannot be asked for here; webhooks, the page and commands are answered with 503."
            mend = f"Where {one['gateway']} starts: export HOMEBODY_CLUSTER_ADDRESS=http://HOST:PORT (docs/cluster.md)"
            yield Finding(level="error", what=f"{one['why']}", where=one["address"] or one["gateway"], why=why, mend=mend)
    if free := [token["token"] for token in facts["held"] if token["gateway"] is None]:
        wrong = True
        why = "It is taken at the latest after two leases; if it stays so, no gateway can open it."
        yield Finding(level="warning", what=f"no gateway works for {', '.join(free[:_SHOWN])}", why=why, mend="homebody logs")
    if not wrong:
        working = ", ".join(one["gateway"] for one in facts["gateways"] if one["state"] == "working")
        yield ok(f"{working or 'no gateway works'}; all have the same settings and reach each other")


CLUSTER: Final = Check(name="cluster", examine=_examine)
