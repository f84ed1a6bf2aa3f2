from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from gateway.cli import main

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    (folder / "memory").mkdir(parents=True)
    (folder / "MEMORY.md").write_text("# Long-term\n\n- Alice drinks jasmine tea\n")
    (folder / "memory/2026-01-26.md").write_text("# 2026-01-26\n\nWe chose REST over GraphQL\n")
    return folder


def run(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    assert main(["memory", *arguments]) == code
    captured = capsys.readouterr()
    return captured.out if code == 0 else captured.err


def test_search_get_status_and_explain_answer_in_json(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--workspace", str(workspace), "--json")
    assert json.loads(run(capsys, "index", *options))["chunksTotal"] == 2
    found = json.loads(run(capsys, "search", "what about graphql?", *options))
    assert found["results"][0]["path"] == "memory/2026-01-26.md"
    assert set(found["results"][0]) == {"path", "startLine", "endLine", "score", "snippet", "source"}
    assert (found["provider"], found["model"]) == ("none", "bm25")
    assert json.loads(run(capsys, "get", "MEMORY.md", "--from", "3", *options))["text"] == "- Alice drinks jasmine tea"
    assert json.loads(run(capsys, "status", "--deep", *options))["changedFiles"] == []
    assert json.loads(run(capsys, "search", "tea", "--explain", "--line", "MEMORY.md:3", *options))["line"]["found"]


def test_many_questions_give_one_line_each(workspace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "q.txt").write_text("jasmine\n\nNEAR( AND\n")
    lines = run(capsys, "search", "--queries", str(tmp_path / "q.txt"), "--workspace", str(workspace)).splitlines()
    answers = [json.loads(line) for line in lines]
    assert [answer["query"] for answer in answers] == ["jasmine", "", "NEAR( AND"]
    assert answers[0]["results"][0]["path"] == "MEMORY.md"
    assert all(answer["ms"] > 0 for answer in answers)


def test_history_is_shown_and_a_wrong_number_says_what_to_do(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--workspace", str(workspace), "--json")
    versions = json.loads(run(capsys, "log", *options))["versions"]
    assert {version["path"] for version in versions} == {"MEMORY.md", "memory/2026-01-26.md"}
    (workspace / "MEMORY.md").write_text("# Long-term\n\n- Alice drinks coffee\n")
    newest = json.loads(run(capsys, "log", "MEMORY.md", *options))["versions"][0]["number"]
    assert "+- Alice drinks coffee" in json.loads(run(capsys, "diff", str(newest), *options))["diff"]
    assert json.loads(run(capsys, "undo", str(newest), *options))["rest"] == []
    assert "jasmine" in (workspace / "MEMORY.md").read_text()
    assert "The changes and their numbers: homebody memory log" in run(capsys, "undo", "99", *options, code=1)
    for command in ("log", "blame"):
        assert "the history has no note 'nopath.md'" in run(capsys, command, "nopath.md", *options, code=1)
    for command in ("log", "blame"):
        for line in run(capsys, command, "MEMORY.md", *options[:2]).splitlines():
            assert re.match(r" *\d+  \d{4}-\d\d-\d\d \d\d:\d\d  ", line), f"{command} tells the owner's time"
    (workspace / "memory/2026-01-26.md").unlink()
    assert json.loads(run(capsys, "log", "memory/2026-01-26.md", *options))["versions"], "it was there once"
    assert json.loads(run(capsys, "blame", "memory/2026-01-26.md", *options))["lines"] == []
    assert "--queries" in run(capsys, "search", code=2)
