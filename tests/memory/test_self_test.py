from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.cli import main
from memory.protocol import Hit
from memory.search.self_test import judge, make_questions

if TYPE_CHECKING:
    from pathlib import Path

NOTES = (
    "".join(
        f"- The {place} boiler of house {number} was serviced by Vaillant near the {place} bridge\n"
        for number, place in enumerate(["northern", "southern", "eastern", "western", "upper", "lower"], 11)
    )
    + "- We met Rosalind in the garden of the museum\n- Later Rosalind painted a picture of the harbour in May 2023\n"
)


def hit(snippet: str) -> Hit:
    return Hit(path="a.md", start_line=1, end_line=1, score=1.0, snippet=snippet)


def test_questions_ask_for_the_commoner_words_of_lines_for_times_and_for_names() -> None:
    made = make_questions([NOTES])
    assert make_questions([NOTES]) == made
    assert {one.kind for one in made} == {"words", "when", "name"}
    [name] = [one for one in made if one.kind == "name"]
    assert (name.text, len(name.lines)) == ("What about Rosalind?", 2)
    assert all("2023" not in one.text for one in made if one.kind == "when")


@given(st.lists(st.text(max_size=80), max_size=20))
def test_every_question_is_of_lines_that_the_notes_have(texts: list[str]) -> None:
    lines = {line.strip() for text in texts for line in text.split("\n")}
    assert all(set(one.lines) <= lines for one in make_questions(texts))


def test_a_result_counts_for_the_lines_that_no_earlier_one_held() -> None:
    assert judge(["a line", "b line"], [hit("x"), hit("- a line"), hit("a line again")]) == (
        1.0,
        0.0,
        pytest.approx(0.387, abs=0.001),
    )
    assert judge(["a line"], [hit("a line")]) == (1.0, 1.0, 1.0)
    assert judge(["a line"], [hit("x")] * 6 + [hit("a line")]) == (0.0, 0.0, 0.0)


def test_a_second_run_asks_the_same_questions_and_is_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    home, workspace = tmp_path / "home", tmp_path / "ws"
    (workspace / "memory/groups/g").mkdir(parents=True)
    (workspace / "MEMORY.md").write_text(NOTES)
    (workspace / "memory/groups/g/a.md").write_text("- A group talked about sailing boats and old wooden harbours\n")
    home.mkdir()
    (home / "homebody.yaml").write_text(json.dumps({"agents": {"defaults": {"workspace": str(workspace)}}}))
    monkeypatch.setenv("HOMEBODY_HOME", str(home))
    assert main(["memory", "bench", "--json"]) == 0
    first = json.loads(capsys.readouterr().out)
    assert (first["before"], first["model"], first["gone"]) == (None, "bm25", 0)
    assert first["figures"]["all"]["any"] > 0.5
    (workspace / "MEMORY.md").write_text("\n" + NOTES.replace("- We met Rosalind in the garden of the museum\n", ""))
    assert main(["memory", "bench"]) == 0
    told = capsys.readouterr().out
    assert "(+0.000)" in told
    assert "left out" in told
    assert re.search(r"over the \d+ questions of both runs; \d that the last one asked went since", told)
    stored = json.loads((home / "agents/main/bench.json").read_text())
    assert len(stored["runs"]) == 2
    assert "sailing" not in json.dumps(stored)


def test_the_change_is_that_of_the_questions_which_both_runs_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    home, workspace = tmp_path / "home", tmp_path / "ws"
    workspace.mkdir()
    (workspace / "MEMORY.md").write_text(NOTES)
    home.mkdir()
    (home / "homebody.yaml").write_text(json.dumps({"agents": {"defaults": {"workspace": str(workspace)}}}))
    monkeypatch.setenv("HOMEBODY_HOME", str(home))
    assert main(["memory", "bench", "--json"]) == 0
    first = json.loads(capsys.readouterr().out)
    file = home / "agents/main/bench.json"
    stored = json.loads(file.read_text())
    goes = "- We met Rosalind in the garden of the museum"
    answers = stored["runs"][0]["answers"]
    for place, question in enumerate(stored["questions"]):  # as if those that go had been answered, and the others not
        answers[str(place)] = [1.0, 1.0, 1.0] if goes in question["lines"] else [0.0, 0.0, 0.0]
    file.write_text(json.dumps(stored))
    (workspace / "MEMORY.md").write_text(NOTES.replace(f"{goes}\n", ""))
    assert main(["memory", "bench", "--json"]) == 0
    second = json.loads(capsys.readouterr().out)
    before = second["before"]
    went = sum(goes in question["lines"] for question in stored["questions"])
    assert went >= 1
    assert (second["gone"], before["went"]) == (went, went)
    assert before["compared"] == second["figures"]["all"]["questions"] == first["figures"]["all"]["questions"] - went
    assert (before["figures"]["all"]["any"], before["now"]) == (0.0, second["figures"])
    stored["runs"][0].pop("answers")  # of an earlier version
    file.write_text(json.dumps(stored))
    assert main(["memory", "bench"]) == 0
    assert "no change to tell" in capsys.readouterr().out
    (workspace / "MEMORY.md").write_text(NOTES)
    file.write_text(json.dumps(stored))
    assert main(["memory", "bench", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["before"]["compared"] == first["figures"]["all"]["questions"]
