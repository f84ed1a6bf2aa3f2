"""``homebody agents`` as a person runs it: the settings file changes, its comments and the agent's files stay."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gateway.cli import main
from gateway.config import settings_file

START = """\
# my house
agents:
  defaults:
    model: anthropic/x   # the good one
"""
THREE = """\
agents:
  list:
    - id: main        # mine
    - id: work        # the firm's
      name: Wanda
      workspace: /tmp/wanda
    - {id: garden, default: true}
bindings:
  - {agentId: work, match: {channel: slack}}
  # the family
  - {agentId: main, match: {channel: telegram}}
  - {agentId: work, match: {channel: discord}}
"""


@pytest.fixture
def run(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("HOMEBODY_HOME", str(tmp_path))

    def command(*arguments: str) -> tuple[int, str, str]:
        code = main(["agents", *arguments])
        shown = capsys.readouterr()
        return code, shown.out, shown.err

    return command


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "homebody.yaml"
    path.touch(0o600)
    return path


def listed(run) -> dict[str, dict]:
    code, out, _ = run("list", "--json")
    assert code == 0
    return {row["id"]: row for row in json.loads(out)}


def test_a_house_without_settings_has_one_agent(run):
    rows = listed(run)
    assert list(rows) == ["main"]
    assert rows["main"]["default"]
    assert rows["main"]["workspace"] == str(Path.home() / "homebody")


def test_the_first_one_that_is_added_does_not_take_the_place_of_main(run, file):
    file.write_text(START)
    code, out, _ = run("add", "work", "--name", "Wanda", "--model", "openai/y", "--workspace", "~/firm")
    assert code == 0
    assert "homebody chat --agent work" in out
    text = file.read_text()
    assert "# my house" in text
    assert "# the good one" in text
    rows = listed(run)
    assert list(rows) == ["main", "work"]
    assert (rows["main"]["default"], rows["main"]["model"]) == (True, "anthropic/x")
    assert rows["work"] | {"sessions": ""} == {
        "id": "work",
        "name": "Wanda",
        "default": False,
        "workspace": str(Path.home() / "firm"),
        "model": "openai/y",
        "sessions": "",
        "bindings": 0,
    }


def test_one_whose_name_is_that_of_a_profile_gets_a_folder_of_its_own(run, tmp_path, monkeypatch):
    monkeypatch.setenv("HOMEBODY_HOME", str(tmp_path / ".homebody"))
    assert main(["--profile", "fam", "agent", "-m", "Remember that the safe is behind the picture."]) == 0
    assert (Path.home() / "homebody-fam").is_dir()
    code, out, _ = run("add", "fam")
    assert code == 0
    assert f"Its workspace is {Path.home() / 'homebody-agent-fam'}" in out
    assert f"because {Path.home() / 'homebody-fam'} belongs to another home" in out
    assert run("add", "other")[1].count("because") == 0
    assert listed(run)["other"]["workspace"] == str(Path.home() / "homebody-other")


def test_a_model_of_a_provider_that_is_not_there_is_warned_of_and_by_the_check_too(run, capsys):
    code, _, err = run("add", "work", "--model", "nope/x")
    assert code == 0
    assert "there is no provider 'nope'" in err
    assert main(["config", "validate"]) == 0
    assert "there is no provider 'nope'" in capsys.readouterr().out


def test_further_ones_go_to_the_end_of_the_list(run, file):
    file.write_text(THREE)
    assert run("add", "fourth")[0] == 0
    assert list(listed(run)) == ["main", "work", "garden", "fourth"]
    assert "# the firm's" in file.read_text()


def test_an_agent_can_be_added_where_there_is_no_file_yet(run, tmp_path):
    code, out, _ = run("add", "work", "--json")
    assert code == 0
    assert json.loads(out)["file"] == str(tmp_path / "homebody.yaml")
    assert list(listed(run)) == ["main", "work"]


@pytest.mark.parametrize(("agent", "said"), [("Work", "lower-case"), ("a/b", "lower-case"), ("main", "already")])
def test_what_cannot_be_added_is_told_with_what_mends_it(run, file, agent, said):
    file.write_text(START)
    code, _, err = run("add", agent)
    assert code == 2
    assert said in err
    assert file.read_text() == START


def test_one_that_goes_takes_its_rules_along_and_leaves_its_files(run, file, tmp_path):
    file.write_text(THREE)
    kept = tmp_path / "agents" / "work" / "sessions" / "s.jsonl"
    kept.parent.mkdir(parents=True)
    kept.write_text("said\n")
    code, out, _ = run("remove", "work", "--json")
    facts = json.loads(out)
    assert (code, facts["bindings"]) == (0, 2)
    assert facts["kept"] == ["/tmp/wanda", str(tmp_path / "agents" / "work")]  # noqa: S108  (nothing is made there)
    assert kept.read_text() == "said\n"
    rows = listed(run)
    assert list(rows) == ["main", "garden"]
    assert rows["main"]["bindings"] == 1
    text = file.read_text()
    assert "# mine" in text
    assert "# the family" in text
    assert "slack" not in text
    assert "discord" not in text


def test_who_answers_instead_of_a_removed_agent_is_told(run, file):
    file.write_text(
        "agents: {list: [{id: main}, {id: work}]}\n"
        "bindings:\n"
        "- {agentId: work, match: {channel: telegram, accountId: work}}\n"
        "- {agentId: main, match: {channel: slack}}\n"
        "- {agentId: work, match: {channel: telegram, peer: {kind: group, id: '-100'}}}\n"
    )
    code, told, _ = run("remove", "work")
    assert code == 0
    assert "The agent main answers there from now on" in told
    assert "telegram account work, telegram group -100." in told
    assert "The default agent" not in told
    assert run("add", "garden")[0] == 0
    assert "The default agent, which answers where no rule says otherwise, is garden" in run("remove", "main")[1]


def test_the_last_one_cannot_go_and_an_unknown_one_is_told(run, file):
    file.write_text("agents: {list: [{id: solo}]}\n")
    assert run("remove", "solo")[0] == 2
    code, _, err = run("remove", "nobody")
    assert code == 2
    assert "solo" in err


def test_the_default_and_the_rules_are_told_in_words(run, file):
    file.write_text(THREE)
    out = run("list")[1].splitlines()
    assert out[1].startswith("work (Wanda): /tmp/wanda, 2 routing rules")
    assert "the default" in out[2]


def test_conversations_of_a_removed_agent_are_deleted_when_they_are_to_be_forgotten(run, file, tmp_path):
    file.write_text(THREE)
    folder = tmp_path / "agents" / "work" / "sessions"
    folder.mkdir(parents=True)
    (folder / "a.jsonl").write_text("{}\n")
    (folder.parent / "untrusted.jsonl").write_text("")
    index = tmp_path / "memory"
    index.mkdir()
    for name in ("work.sqlite", "work.sqlite-wal", "main.sqlite"):
        (index / name).write_text("")
    code, _, told = run("forget", "work", "--yes")
    assert (code, "homebody agents remove work" in told) == (2, True)
    _, shown, _ = run("remove", "work")
    assert "homebody agents forget work" in shown
    code, shown, _ = run("forget", "work", "--yes", "--json")
    assert (code, json.loads(shown)["transcripts"]) == (0, 1)
    assert [path.name for path in index.iterdir()] == ["main.sqlite"]
    assert (folder.exists(), (folder.parent / "untrusted.jsonl").exists()) == (False, True)
    assert "There are no conversations" in run("forget", "work")[1]
    assert run("forget", "../work", "--yes")[0] == 2


@pytest.fixture
def meanwhile(run, monkeypatch):
    """Have other commands change the file after the next one has read it, and before it writes."""
    change = settings_file.change

    def plan(*others: tuple[str, ...]) -> None:
        def late(*given):
            monkeypatch.setattr(settings_file, "change", change)
            for other in others:
                assert run(*other)[0] == 0
            return change(*given)

        monkeypatch.setattr(settings_file, "change", late)

    return plan


def test_agents_that_are_added_at_the_same_time_are_all_kept(run, file, meanwhile):
    meanwhile(("add", "two"), ("add", "three"))
    assert run("add", "one")[0] == 0
    assert list(listed(run)) == ["main", "two", "three", "one"]
    meanwhile(("add", "four"))
    code, _, told = run("add", "four")
    assert code == 2
    assert "already is an agent" in told
    assert list(listed(run)) == ["main", "two", "three", "one", "four"]


def test_what_is_removed_is_the_agent_that_was_named_though_others_are_removed_at_the_same_time(run, file, meanwhile):
    file.write_text(THREE)
    meanwhile(("add", "last"), ("remove", "main"))
    code, out, _ = run("remove", "work", "--json")
    assert code == 0
    assert json.loads(out)["bindings"] == 2
    assert list(listed(run)) == ["garden", "last"]
    assert "slack" not in file.read_text()
    meanwhile(("remove", "last"))
    code, _, told = run("remove", "garden")
    assert code == 2
    assert "is the only agent" in told
    assert list(listed(run)) == ["garden"]


def test_the_agent_that_is_there_without_a_list_is_the_only_one(run):
    code, _, told = run("remove", "main")
    assert code == 2
    assert "'main' is the only agent" in told
