"""From a file to settings: what is taken, what is refused, and how it is told."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.base.errors import SettingsError, UsageError
from gateway.base.paths import Paths
from gateway.config.load import check, load
from gateway.config.secrets import MASK, masked, revealed, secrets_of
from tests.sampling import parametrize_some


def written(tmp_path: Path, text: str, name: str = "homebody.yaml") -> Paths:
    (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / name).chmod(0o600)
    return Paths(tmp_path)


def problems(tmp_path: Path, text: str, name: str = "homebody.yaml", env: dict[str, str] | None = None):
    with pytest.raises(SettingsError) as caught:
        load(written(tmp_path, text, name), env or {})
    return caught.value.problems


def test_no_file_means_every_default(tmp_path):
    loaded = load(Paths(tmp_path), {})
    assert loaded.source is None
    assert loaded.settings.agent_ids == ("main",)
    assert loaded.settings.agent("main").workspace == Path.home() / "homebody"


@pytest.mark.parametrize("text", ["", "\n\n", "# only a comment\n", "---\n", "null\n", "{}", "agents:\nlogging:\n"])
def test_an_empty_file_means_every_default(tmp_path, text):
    assert load(written(tmp_path, text), {}).settings.agent("main").settings.compaction.reserve_tokens_floor == 20_000


SNIPPET = """{
  agents: {
    defaults: {
      compaction: {
        reserveTokensFloor: 12345,
        memoryFlush: { enabled: true, softThresholdTokens: 777, /* early */ prompt: "Write it down", },
      },
      memorySearch: { provider: "openai", query: { maxResults: 9 } } // as documented
    }
  }
}
"""


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("homebody.json", SNIPPET),
        ("homebody.yaml", SNIPPET),
        ("homebody.json", SNIPPET.strip()[1:-1]),
        (
            "homebody.json",
            json.dumps({"agent": {"compaction": {"reserveTokensFloor": 12345, "memoryFlush": {"softThresholdTokens": 777}}}}),
        ),
        (
            "homebody.yaml",
            "agent:\n  compaction:\n    reserveTokensFloor: 12345\n    memoryFlush: {softThresholdTokens: 777}\n",
        ),
    ],
)
def test_a_documented_snippet_pastes_in_unchanged(tmp_path, name, text):
    settings = load(written(tmp_path, text, name), {}).settings.agent("main").settings
    assert settings.compaction.reserve_tokens_floor == 12_345
    assert settings.compaction.memory_flush.soft_threshold_tokens == 777


def test_words_of_older_yaml_stay_words(tmp_path):
    loaded = load(written(tmp_path, "agents: {defaults: {model: off}, list: [{id: no, name: 22:30}]}"), {})
    assert loaded.settings.agent("no").settings.model == "off"
    assert loaded.settings.agent("no").name == "22:30"


def test_every_error_is_told_at_once_with_its_line_and_what_is_allowed(tmp_path):
    text = """\
agents:
  defaults:
    promptMode: ful
    compaction:
      reserveTokensFloor: many
      memoryFlush: 5
  list:
    - id: Main
    - name: nobody
logging: {level: loud}
session: {reset: {atHour: 24}}
"""
    found = {problem.path: problem for problem in problems(tmp_path, text)}
    assert {path: problem.line for path, problem in found.items()} == {
        "agents.defaults.promptMode": 3,
        "agents.defaults.compaction.reserveTokensFloor": 5,
        "agents.defaults.compaction.memoryFlush": 6,
        "agents.list[0].id": 8,
        "agents.list[1].id": 9,
        "logging.level": 10,
        "session.reset.atHour": 11,
    }
    assert found["agents.defaults.promptMode"].hint == "Did you mean full?"
    assert (
        found["agents.defaults.compaction.reserveTokensFloor"].message == '"many" is not allowed here; allowed: a whole number'
    )
    assert found["session.reset.atHour"].message == "24 is not allowed here; allowed: at most 23"
    assert found["agents.list[1].id"].message == "is missing"
    assert all(problem.file == str(tmp_path / "homebody.yaml") for problem in found.values())


def test_an_unknown_key_is_a_warning_with_the_nearest_key(tmp_path):
    loaded = load(
        written(tmp_path, "agents:\n  defaults:\n    modle: x\n    reserveTokensFloor: 1\nagnts: {}\nmystery: 1\n"), {}
    )
    assert [(warning.path, warning.line, warning.hint) for warning in loaded.warnings][:3] == [
        ("agents.defaults.modle", 3, "Did you mean agents.defaults.model?"),
        ("agents.defaults.reserveTokensFloor", 4, "Did you mean agents.defaults.compaction.reserveTokensFloor?"),
        ("agnts", 5, "Did you mean agents?"),
    ]
    assert "Known here: agents" in loaded.warnings[3].hint
    assert "tools" in loaded.warnings[3].hint, "all are named"


@parametrize_some(9, ("text", "name", "line", "message"),
    [
        ("a: 1\na: 2\n", "homebody.yaml", 2, "the key 'a' is there twice (first on line 1)"),
        ("{a: 1,\n 'a': 2}", "homebody.json", 2, "the key 'a' is there twice (first on line 1)"),
        ("a:\n\tb: 1\n", "homebody.yaml", 2, "a tab stands where only spaces may"),
        ("just words\n", "homebody.yaml", 1, "holds no keys"),
        ("- a\n- b\n", "homebody.yaml", 1, "holds no keys"),
        ("[1, 2]", "homebody.json", 1, "holds no keys"),
        ("a: [1, 2\n", "homebody.yaml", 2, "is not valid YAML"),
        ("{\n  a: {b: 1", "homebody.json", 2, "it ends too early"),
        ("{\n  a: 1\n  b: 2}", "homebody.json", 3, "'b' stands where a comma or '}' should be"),
        ("{a: yes}", "homebody.json", 1, "'yes' stands where a value should be"),
        ("{a: 'x\n'}", "homebody.json", 1, "a quote is opened and not closed on its line"),
        ("a: !python/object:os.system x\n", "homebody.yaml", 1, "has no meaning in the settings"),
        ("a: &x\n  b: *x\n", "homebody.yaml", 1, "refers to itself"),
        ("a: 1\n---\nb: 2\n", "homebody.yaml", 2, "expected a single document"),
        ("a: \x00\n", "homebody.yaml", 1, "holds U+0000, which YAML does not allow"),
        ("a: " + "[" * 5000, "homebody.yaml", 0, "is nested too deeply"),
        ("[" * 5000, "homebody.json", 1, "it is nested too deeply"),
        ('logging: {level: "\\ud800"}', "homebody.yaml", 1, "half of a character"),
        ("{logging: {level: '\\udc00'}}", "homebody.json", 1, "half of a character"),
    ],
)  # fmt: skip
def test_a_broken_file_is_told_in_one_clear_line(tmp_path, text, name, line, message):
    (problem, *more) = problems(tmp_path, text, name)
    assert not more
    assert message in problem.message
    assert problem.line == line
    assert "\n" not in problem.message


@pytest.mark.sec(63)
def test_an_alias_bomb_is_refused(tmp_path):
    rows = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    rows += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    (problem,) = problems(tmp_path, "\n".join(rows))
    assert "more than 50000 values" in problem.message


def test_a_file_that_is_not_text_is_told_with_its_line(tmp_path):
    (tmp_path / "homebody.yaml").write_bytes(b"a: 1\nb: \xff\xfe\n")
    with pytest.raises(SettingsError) as caught:
        load(Paths(tmp_path), {})
    assert (caught.value.problems[0].line, caught.value.problems[0].message) == (2, "is not UTF-8 text")


def test_a_folder_in_the_files_place_is_told(tmp_path):
    (tmp_path / "homebody.yaml").mkdir()
    with pytest.raises(SettingsError) as caught:
        load(Paths(tmp_path), {})
    assert caught.value.problems[0].message == "is a folder, not a file"


def test_a_pipe_in_the_files_place_does_not_hang(tmp_path):
    os.mkfifo(tmp_path / "homebody.yaml")
    with pytest.raises(SettingsError) as caught:
        load(Paths(tmp_path), {})
    assert caught.value.problems[0].message == "is not a plain file"


def test_two_settings_files_are_one_too_many(tmp_path):
    written(tmp_path, "", "homebody.json")
    assert "both homebody.yaml and homebody.json" in problems(tmp_path, "")[0].message


def test_a_named_file_must_be_there(tmp_path):
    with pytest.raises(SettingsError) as caught:
        load(Paths(tmp_path, tmp_path / "other.yaml"), {})
    assert caught.value.problems[0].message == "this file does not exist"


def test_variables_are_filled_in_and_escapes_kept(tmp_path):
    text = "agents: {list: [{id: main, name: 'a ${WHO} $${WHO} $5'}]}\nsession: {reset: {atHour: \"${HOUR}\"}}"
    settings = load(written(tmp_path, text), {"WHO": "${X}", "HOUR": "7"}).settings
    assert settings.agent("main").name == "a ${X} ${WHO} $5"
    assert settings.session.reset.at_hour == 7


def test_missing_variables_are_all_told_with_their_lines(tmp_path):
    found = problems(tmp_path, "logging:\n  level: ${A}\n  file: ${B}/x\nsession:\n  dmScope: ${C:-main}\n")
    assert [(problem.path, problem.line) for problem in found] == [
        ("logging.level", 2),
        ("logging.file", 3),
        ("session.dmScope", 5),
    ]
    assert found[0].message == "the environment variable A is not set"
    assert found[2].message == "'${C:-main}' names no variable"


def test_what_is_missing_outside_is_told_once(tmp_path):
    (problem,) = problems(tmp_path, "agents: {list: [{id: '${NONE}'}]}")
    assert problem.message == "the environment variable NONE is not set"


def test_secrets_come_from_the_environment_a_file_or_the_value_itself(tmp_path):
    (tmp_path / "key").write_text("from-file\n")
    text = (
        "models: {providers: {a: {apiKey: env:KEY}, b: {apiKeys: ['file:key', env:KEY]}, "
        "c: {apiKey: sk-in-line, headers: {X-Auth: env:KEY}}, d: {apiKey: ['file:key', sk-listed]}}}"
    )
    settings = load(written(tmp_path, text), {"KEY": "from-env"}).settings
    assert sorted(secrets_of(settings)) == [*["from-env"] * 3, *["from-file"] * 2, "sk-in-line", "sk-listed"]
    shown = json.dumps(masked(settings))
    assert not any(secret in shown + repr(settings) for secret in ("from-env", "from-file", "sk-in-line", "sk-listed"))
    assert masked(settings)["models"]["providers"]["a"]["apiKey"] == MASK


def test_what_another_packages_settings_call_a_secret_is_one(tmp_path):
    text = """channels: {plugins: {line: {settings: {host: h, password: env:PW, maxTokens: 5, deep: {apiKey: sk-in-line}}}}}
plugins: {memory: {other: {token: t-in-line}}}"""
    settings = load(written(tmp_path, text), {"PW": "from-env"}).settings
    assert sorted(secrets_of(settings)) == ["from-env", "sk-in-line", "t-in-line"]
    shown = masked(settings.channels.plugins["line"])["settings"]
    assert shown == {"host": "h", "password": MASK, "maxTokens": 5, "deep": {"apiKey": MASK}}
    handed = revealed(settings.channels.plugins["line"].settings)
    assert handed == {"host": "h", "password": "from-env", "maxTokens": 5, "deep": {"apiKey": "sk-in-line"}}
    (missing,) = problems(tmp_path, text)
    assert "PW is not set" in missing.as_text()


def test_a_secret_that_is_not_there_is_told_where_it_is_asked_for(tmp_path):
    (tmp_path / "empty").write_text(" \n")
    text = "models:\n  providers:\n    a: {apiKey: env:NONE}\n    b: {apiKey: file:none}\n    c: {apiKey: file:empty}\n"
    found = problems(tmp_path, text)
    assert [problem.line for problem in found] == [3, 4, 5]
    assert ["not set" in found[0].message, "there is no file" in found[1].message, "is empty" in found[2].message] == [True] * 3


@pytest.mark.sec(14)
def test_the_gateways_token_is_no_other_secret(tmp_path):
    token = "0123456789abcdef0123456789abcdef"
    telegram = (
        "telegram: {botToken: '123456:ABC', webhookUrl: 'https://example.org/hooks/telegram/default', webhookSecret: SECRET}"
    )
    text = f"gateway: {{auth: {{token: {token!r}}}}}\nchannels: {{{telegram}}}\n"
    (problem,) = problems(tmp_path, text.replace("SECRET", repr(token)))
    assert "used elsewhere" in problem.message
    assert problem.path == "gateway.auth.token"
    assert token not in problem.as_text()
    assert load(written(tmp_path, text.replace("SECRET", f"'{token[::-1]}'")), {}).settings.gateway.auth.token is not None


def test_an_error_never_shows_a_secret(tmp_path):
    found = problems(tmp_path, "models: {providers: {a: {apiKey: [hunter2], headers: {x: {y: hunter2}}}}}")
    assert found
    assert not any("hunter2" in problem.as_text() for problem in found)


def test_a_section_says_what_is_wrong_with_a_secret_without_showing_it(tmp_path):
    (problem,) = problems(tmp_path, "channels: {telegram: {botToken: '123456:ABC...'}}")
    assert "this value (not shown) is not a bot token: @BotFather gives one" in problem.as_text()
    assert "ABC" not in problem.as_text()


def test_a_variables_value_is_not_shown_when_it_does_not_fit(tmp_path):
    (problem,) = problems(tmp_path, "session: {reset: {atHour: '${TOKEN}'}}", env={"TOKEN": "hunter2"})
    assert "hunter2" not in problem.as_text()
    assert "${TOKEN}" in problem.message


def test_a_rule_for_an_agent_that_is_not_there_is_warned_of(tmp_path):
    text = "bindings:\n  - {agentId: main, match: {channel: slack}}\n  - {agentId: wrok, match: {channel: telegram}}\n"
    (warning,) = load(written(tmp_path, text), {}).warnings
    assert warning.line == 3
    assert "no agent 'wrok'" in warning.as_text()
    assert "Known agents: main." in warning.as_text()


def test_heartbeats_to_an_account_that_is_not_there_are_warned_of(tmp_path):
    text = (
        "channels: {plugins: {line: {}}}\n"
        "agents:\n  defaults: {heartbeat: {target: 'telegram:default:direct:42'}}\n"
        "  list:\n    - {id: main, heartbeat: {target: 'line:default:direct:42'}}\n    - {id: cook}\n"
        "    - {id: nurse, heartbeat: {target: 'terminal:default:direct:local'}}\n"
        "    - {id: clerk, heartbeat: {target: 'line:work:direct:42'}}\n"
    )
    first, second = load(written(tmp_path, text), {}).warnings
    assert (first.line, second.line) == (3, 8)
    assert "there is no account telegram:default" in first.as_text()
    assert "homebody config set agents.defaults.heartbeat.target last" in first.as_text()
    assert "there is no account line:work" in second.as_text()
    assert "homebody config set agents.list.3.heartbeat.target last" in second.as_text()


def test_a_secret_that_others_can_read_is_warned_of(tmp_path):
    paths = written(tmp_path, "models: {providers: {a: {apiKey: inline}}}")
    (tmp_path / "homebody.yaml").chmod(0o644)
    assert "can be read by other users" in load(paths, {}).warnings[0].message


def test_agent_is_short_for_agents_defaults(tmp_path):
    settings = load(written(tmp_path, "agent: {contextTokens: 9000}\nagents: {defaults: {promptMode: none}}"), {}).settings
    assert settings.agent("main").settings.context_tokens == 9000
    assert settings.agent("main").settings.prompt_mode == "none"


def test_the_shorthand_may_repeat_but_not_contradict(tmp_path):
    same = "agent:\n  promptMode: none\nagents:\n  defaults:\n    promptMode: none\n"
    assert load(written(tmp_path, same), {}).settings.agent("main").settings.prompt_mode == "none"
    (problem,) = problems(tmp_path, same.replace("none", "full", 1))
    assert (problem.path, problem.line) == ("agent.promptMode", 2)
    assert problem.message == "differs from agents.defaults.promptMode (line 5)"


def test_an_agents_entry_lies_over_the_defaults(tmp_path):
    text = """\
agents:
  defaults:
    compaction: {reserveTokensFloor: 1, memoryFlush: {enabled: false, softThresholdTokens: 9}}
    memorySearch: {provider: none, query: {maxResults: 3}}
  list:
    - {id: home, workspace: /srv/home}
    - {id: work, default: true, name: Work, compaction: {memoryFlush: {softThresholdTokens: 2}}, memorySearch: {query: {maxResults: 8}}}
"""
    settings = load(written(tmp_path, text), {}).settings
    home, work = settings.agent("home"), settings.agent("work")
    assert settings.default_agent == "work"
    assert (home.workspace, work.workspace) == (Path("/srv/home"), Path.home() / "homebody-work")
    assert (home.name, work.name) == ("home", "Work")
    assert work.settings.compaction.reserve_tokens_floor == 1
    assert work.settings.compaction.memory_flush.enabled is False
    assert work.settings.compaction.memory_flush.soft_threshold_tokens == 2
    assert (home.memory.query.max_results, work.memory.query.max_results, work.memory.provider) == (3, 8, "none")
    with pytest.raises(UsageError, match="no agent 'nobody'"):
        settings.agent("nobody")


def test_agents_must_differ_and_only_one_be_the_default(tmp_path):
    text = "agents:\n  list:\n    - {id: a, default: true}\n    - {id: a}\n    - {id: b, default: true}\n"
    assert [(p.path, p.line) for p in problems(tmp_path, text)] == [("agents.list[1].id", 4), ("agents.list[2].default", 5)]


def test_two_agents_in_one_workspace_are_warned_of(tmp_path):
    loaded = load(written(tmp_path, "agents: {list: [{id: a, workspace: ~/x}, {id: b, workspace: ~/x}]}"), {})
    assert "share the workspace" in loaded.warnings[0].message


KEYS = st.sampled_from(
    ["agents", "agent", "defaults", "list", "models", "providers", "apiKey", "compaction", "memorySearch", "logging", "id", "x"]
)
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["${A}", "env:A", "file:/", "$${"])
)
TREES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=5), max_leaves=25
)


@given(TREES, st.sampled_from(["homebody.yaml", "homebody.json"]))
def test_no_tree_brings_the_loader_down(tree, name):
    checked = check(json.dumps(tree, ensure_ascii=False), Path("/nowhere") / name, {})
    assert checked.settings is not None or checked.problems
    json.dumps([problem.as_json() for problem in (*checked.problems, *checked.warnings)])


@given(
    st.text(alphabet="{}[]:,-#&*!|>'\"%@`~ \n\tab1.\\/u$é\ud800\x00", max_size=60),
    st.sampled_from(["homebody.yaml", "homebody.json"]),
)
def test_no_garbage_brings_the_loader_down(text, name):
    checked = check(text, Path("/nowhere") / name, {})
    assert checked.settings is not None or checked.problems


@pytest.mark.parametrize(("name", "text"), [("homebody.json", "{logging: {level: 'debug'}}"), ("homebody.yaml", "\n")])
def test_what_needs_no_yaml_parser_imports_none(tmp_path, name, text):
    paths = written(tmp_path, text, name)
    script = (
        "import pathlib, sys; from gateway.base.paths import Paths; from gateway.config.settings_file import load_or_last_known_good;"
        f"import gateway.config.effective; load_or_last_known_good(Paths(pathlib.Path({str(paths.home)!r})), {{}});"
        "sys.exit('yaml' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_sections_that_nobody_wrote_are_not_copied(tmp_path: Path) -> None:
    first, second = (check("{agents: {defaults: {name: 'Anna'}}}", tmp_path / "homebody.yaml", {}).settings for _ in range(2))
    assert first is not None
    assert second is not None
    for section in ("logging", "channels", "tools", "budgets"):
        assert getattr(first, section) is getattr(second, section)
    assert first.agents.defaults.memory_search is second.agents.defaults.memory_search
