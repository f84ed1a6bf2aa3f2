"""What is an agent's own: its model, its tools, its limits, and what it may cost in a day."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agent.messages import AssistantMessage, Text, ToolCall, Usage
from agent.models.scripted import ScriptedModel

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.queueing.conftest import Town

    Make = Callable[..., Town]

LEAD = [{"agentId": "work", "match": {"channel": "office"}}]


def entries(root: Path, **work: Any) -> dict[str, Any]:
    return {"list": [{"id": "main", "workspace": str(root / "main")}, {"id": "work", "workspace": str(root / "work"), **work}]}


async def test_each_agent_has_its_own_model_tools_and_limits(town: Make, tmp_path: Path) -> None:
    own = {"model": "second/model", "tools": {"allow": ["read", "list"]}, "limits": {"maxToolCalls": 2}}
    t = town(agents=entries(tmp_path, **own), bindings=LEAD)
    home, office = t.wire("home"), t.wire("office")
    second = ScriptedModel(name="second/model")
    second.then(*[ToolCall(id=f"c{n}", name="list", arguments={"path": f"d{n}"}) for n in range(8)])
    async with t.house(home, office) as house:
        house.model_registry.put("second/model", second)
        await home.say("hello")
        await office.say("look around")
        await home.until(lambda: home.sent)
        await office.until(lambda: office.sent)
    assert home.said() == ["re: hello"]
    assert "maxToolCalls" in office.said()[0]
    assert [tool.name for tool in second.requests[0].tools] == ["list", "read"]
    assert len(t.model.requests[0].tools) > 3
    assert len(second.requests) <= 2 + 3


async def test_what_one_agent_used_up_is_not_missing_to_the_other(town: Make, tmp_path: Path) -> None:
    t = town(agents=entries(tmp_path), bindings=LEAD, budgets={"agent": {"tokens": 20_000}, "day": {"usd": None}})

    def dear(_request: Any) -> Any:
        return AssistantMessage(
            content=(Text(text="yes"),), model="scripted/model", stop="end", usage=Usage(input=30_000, output=10)
        )

    home, office = t.wire("home"), t.wire("office")
    async with t.house(home, office) as house:
        t.answer = dear
        await office.say("one")
        await office.until(lambda: "yes" in office.said())
        asked = len(t.model.requests)
        await office.say("two")
        await house.lanes.quiet()
        await office.until(lambda: any("agent" in text and "yes" not in text for text in office.said()))
        assert len(t.model.requests) == asked, "the brake held it back"
        await home.say("three")
        await home.until(lambda: "yes" in home.said())
