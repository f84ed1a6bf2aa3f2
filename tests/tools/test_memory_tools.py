"""What a model is told of its memory."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from agent.tools.memory_tools import MemoryGet, MemorySearch
from memory.audience import OWNER, Audience
from memory.errors import IndexBroken, MemoryUnreadable
from memory.protocol import Excerpt, Hit
from tests.tools.house import House, RecordingMemory
from tests.tools.test_toolbox import SCENE


def hit(number: int, snippet: str = "the key is under the pot") -> Hit:
    return Hit(path=f"memory/{number}.md", start_line=1, end_line=3, score=1 / 3, snippet=snippet)


async def test_hits_come_as_json_with_path_lines_and_score(house: House) -> None:
    house.memory.hits = (hit(1),)
    house.memory.note = "keyword only"
    told = json.loads(await house.ok("memory_search", query="key", maxResults=3, minScore=0.2))
    assert told == {
        "results": [
            {
                "path": "memory/1.md",
                "startLine": 1,
                "endLine": 3,
                "score": 0.333,
                "snippet": "the key is under the pot",
                "source": "memory",
            }
        ],
        "provider": "none",
        "model": "keyword",
        "note": "keyword only",
    }
    assert house.memory.asked == [("key", OWNER, 3, 0.2)]


async def test_what_is_nearest_is_told_apart_and_within_the_cap(house: House) -> None:
    house.memory.nearest = (hit(1),)
    told = json.loads(await house.ok("memory_search", query="key"))
    assert (told["results"], [one["path"] for one in told["nearest"]]) == ([], ["memory/1.md"])
    memory = RecordingMemory(nearest=tuple(hit(number, "é\n" * 900) for number in range(3)))
    outcome = await MemorySearch(memory).run({"query": "key"}, replace(SCENE, max_chars=4000))
    assert len(outcome.text) <= 4000
    assert len(json.loads(outcome.text)["nearest"]) < 3


async def test_the_audience_of_the_session_is_asked_for(house: House) -> None:
    group = Audience("group", "kitchen")
    house.memory.excerpt = Excerpt(path="memory/groups/kitchen/a.md", text="x", start_line=1, end_line=1)
    await house.call("memory_search", query="key", audience=group)
    await house.call("memory_get", path="memory/groups/kitchen/a.md", audience=group)
    assert [asked[1] for asked in house.memory.asked] == [group, group]


async def test_trouble_is_told_and_the_tool_stays(house: House) -> None:
    house.memory.trouble = IndexBroken("the index cannot be read", hint="homebody memory index")
    text = await house.refused("memory_search", query="key")
    assert text == "the memory cannot be searched now: the index cannot be read; grep still works (homebody memory index)"
    house.memory.trouble = MemoryUnreadable("memory/a.md: no such note")
    assert await house.refused("memory_get", path="memory/a.md") == "memory/a.md: no such note"
    assert {"memory_get", "memory_search"} <= {spec.name for spec in house.box.specs}


async def test_a_path_that_leads_out_never_reaches_the_memory(house: House) -> None:
    assert "parent folders" in await house.refused("memory_get", path="memory/../../x.md")
    assert house.memory.asked == []


@pytest.mark.parametrize(("size", "count"), [(300, 30), (50_000, 2)])
async def test_many_or_long_hits_stay_valid_json_within_the_cap(size: int, count: int) -> None:
    memory = RecordingMemory(hits=tuple(hit(number, '"é\n' * (size // 3)) for number in range(count)))
    outcome = await MemorySearch(memory).run({"query": "key"}, replace(SCENE, max_chars=4000))
    told = json.loads(outcome.text)
    assert len(outcome.text) <= 4000
    assert told["results"]
    assert f"{count - len(told['results'])} more hits did not fit" in told["note"]


async def test_an_excerpt_says_how_to_go_on(house: House) -> None:
    house.memory.excerpt = Excerpt(path="memory/a.md", text="one\ntwo", start_line=5, end_line=6, cut=True)
    told = json.loads(await house.ok("memory_get", path="memory/a.md", **{"from": 5, "lines": 2}))
    assert told == {"path": "memory/a.md", "text": "one\ntwo\n[cut; go on with from 7]"}
    assert house.memory.asked == [("memory/a.md", OWNER, 5, 2)]


@given(st.lists(st.text(alphabet=st.characters(exclude_characters="\n"), max_size=300), min_size=1, max_size=40))
async def test_the_parts_of_a_long_note_make_the_whole(lines: list[str]) -> None:
    got: list[str] = []
    while len(got) < len(lines):
        rest = lines[len(got) :]
        excerpt = Excerpt(path="memory/a.md", text="\n".join(rest), start_line=len(got) + 1, end_line=len(lines))
        tool = MemoryGet(RecordingMemory(excerpt=excerpt))
        outcome = await tool.run({"path": "memory/a.md", "from": len(got) + 1}, replace(SCENE, max_chars=3000))
        assert len(outcome.text) <= 3000
        text = json.loads(outcome.text)["text"]
        if text == "\n".join(rest):
            got += rest
        else:
            shown, _, mark = text.rpartition("\n")
            got += shown.split("\n")
            assert mark == f"[cut; go on with from {len(got) + 1}]"
    assert got == lines
