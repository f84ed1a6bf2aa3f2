"""A question of an agent is decided at a gateway that does not hold it: on the page, and in a chat of another bot."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from tests.cluster.judging import all_answered
from tests.cluster.playing import OWNER, PEOPLE
from tests.cluster.statement_cuts import AGENT, ASKING, SETTLE_SECONDS, Cuts, played
from tests.patience import PATIENCE

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cluster.playing import Process

pytestmark = [pytest.mark.postgres, pytest.mark.long]


async def decide_on_page(one: Process[Any], name: str) -> dict[str, Any]:
    """Open the page at a gateway as its owner does, and say yes there."""
    address = json.loads(await one.command("open", "--json"))["url"]
    port = json.loads(await one.command("status", "--json"))["httpPort"]
    base = f"http://127.0.0.1:{port}"
    async with httpx.AsyncClient(base_url=base, headers={"origin": base}, timeout=PATIENCE, trust_env=False) as browser:
        assert (await browser.post("/enter", json={"code": address.partition("#")[2]})).status_code == 200
        csrf = (await browser.get("/page/me")).json()["csrf"]
        call = {"url": "/page/call/approvals.decide", "json": {"name": name, "choice": "once"}}
        assert (await browser.post(call["url"])).status_code == 403, "not without the mark of the page"
        answer = await browser.post(**call, headers={"x-homebody-csrf": csrf})
        assert answer.status_code == 200, answer.text
        return dict(answer.json()["result"])


async def test_a_yes_at_another_gateway_has_the_holder_act_once(tmp_path: Path) -> None:
    async with played(tmp_path, gateways=2, seed=7, agents=(AGENT, ASKING)) as cuts:
        file = tmp_path / "state" / "homebody.json"
        settings = json.loads(file.read_text())
        settings["gateway"]["page"] = {"enabled": True}
        file.write_text(json.dumps(settings))
        first, second = cuts.cluster.gateways
        await cuts.first_words(first)
        await cuts.stands_by(second)
        holders = cuts.watch.holders
        assert await cuts.cluster.until(
            lambda: {holders.get(f"agent:{AGENT}"), holders.get(f"agent:{ASKING}")} == {"g0", "g1"}, SETTLE_SECONDS
        )
        holder = holders[f"agent:{ASKING}"]
        other = second if holder == "g0" else first
        before = lines_of(tmp_path, other.name)

        name = await asked(cuts)
        told = await decide_on_page(other, name)
        assert told["approval"]["state"] in {"approved", "done"}
        await answered(cuts)

        name = await asked(cuts)
        bot = cuts.cluster.bots[PEOPLE[AGENT][0]]
        await bot.say(OWNER, "/approve")
        assert await cuts.cluster.until(lambda: any(f"#{name}: " in text for _, text in bot.transcript(OWNER)), SETTLE_SECONDS)
        await bot.say(OWNER, f"/approve {name} once")
        await answered(cuts)
        assert len(cuts.cluster.deeds(ASKING)) == 2
        assert holders[f"agent:{ASKING}"] == holder
        assert f"agent:{ASKING}" not in "".join(lines_of(tmp_path, other.name)[len(before) :])
    assert cuts.found.wrong(timed=False) == {}


def lines_of(folder: Path, gateway: str) -> list[str]:
    return (folder / f"{gateway}.log").read_text().splitlines()


async def asked(cuts: Cuts) -> str:
    """Have something done that its owner is asked about; return the question's name."""
    seen = cuts.questions()
    await cuts.cluster.change(ASKING)
    assert await cuts.cluster.until(lambda: cuts.questions() - seen, SETTLE_SECONDS)
    [name] = cuts.questions() - seen
    return name


async def answered(cuts: Cuts) -> None:
    assert await cuts.cluster.until(lambda: all_answered(cuts.cluster), SETTLE_SECONDS), cuts.cluster.shown(AGENT)[-2:]
