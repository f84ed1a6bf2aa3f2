"""``homebody config`` as a person runs it."""

import fcntl
import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from gateway.cli import main
from gateway.config import settings_file
from gateway.config.normalize import all_keys
from gateway.settings.root import Settings
from tests.patience import PATIENCE

ROOT = Path(__file__).parents[2]
START = """\
# my house
agents:
  defaults:
    model: anthropic/x   # the good one
"""


@pytest.fixture
def run(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("HOMEBODY_HOME", str(tmp_path))

    def command(*arguments: str) -> tuple[int, str, str]:
        code = main(["config", *arguments])
        shown = capsys.readouterr()
        return code, shown.out, shown.err

    return command


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "homebody.yaml"
    path.write_text(START)
    path.chmod(0o600)
    return path


def test_the_place_of_the_file_is_told(run, tmp_path):
    assert run("path") == (0, f"{tmp_path}/homebody.yaml\n", "")


def test_a_default_is_shown_and_said_to_be_one(run):
    code, out, err = run("get", "agents.defaults.compaction.reserveTokensFloor")
    assert (code, out) == (0, "20000\n")
    assert "not set; this is the default" in err


def test_what_a_killed_change_left_is_removed_by_the_next_one(run, file):
    old, fresh = file.with_name(".homebody.yaml.4711.tmp"), file.with_name(".homebody.yaml.4712.tmp")
    for left in (old, fresh):
        left.write_text("secrets")
    os.utime(old, (1, 1))
    assert run("set", "logging.level", "debug")[0] == 0
    assert not old.exists()
    assert fresh.exists(), "a process may be writing it"


def test_what_is_set_is_said_to_be_set(run, file):
    code, out, err = run("get", "agent.model")
    assert (code, out) == (0, "anthropic/x\n")
    assert f"set in {file}" in err


def test_a_program_gets_json(run, file):
    answer = json.loads(run("get", "agents.defaults.model", "--json")[1])
    assert answer == {"path": "agents.defaults.model", "value": "anthropic/x", "origin": "file", "reload": "hot"}
    assert json.loads(run("get", "--json")[1])["agents"]["defaults"]["model"] == "anthropic/x"
    assert {answer["origin"] for answer in json.loads(run("get", "logging", "--json")[1])} == {"default"}


def test_an_agents_entry_shows_what_it_takes_over(run, file):
    file.write_text(START + "  list:\n    - id: work\n      promptMode: none\n")
    lines = run("get", "agents.list[0]")[1].splitlines()
    assert "agents.list[0].model = anthropic/x  (agents.defaults)" in lines
    assert "agents.list[0].promptMode = none" in lines
    assert "agents.list[0].skipBootstrap = false  (default)" in lines


def test_setting_keeps_the_rest_and_a_dated_copy(run, file):
    code, out, _ = run("set", "agents.defaults.compaction.reserveTokensFloor", "30000")
    assert (code, "No gateway is running" in out) == (0, True)
    assert file.read_text() == START + "    compaction:\n      reserveTokensFloor: 30000\n"
    (copy,) = file.parent.glob("homebody.yaml.*.bak")
    assert copy.read_text() == START
    assert {stat.S_IMODE(path.stat().st_mode) for path in (file, copy)} == {0o600}


def test_setting_makes_the_file(run, tmp_path):
    assert run("set", "channels.telegram.allowFrom", "[12345, 678]")[0] == 0
    assert (
        tmp_path / "homebody.yaml"
    ).read_text() == 'channels:\n  telegram:\n    allowFrom:\n      - "12345"\n      - "678"\n'
    assert json.loads(run("get", "channels.telegram.allowFrom", "--json")[1])["value"] == ["12345", "678"]


@pytest.mark.parametrize(
    "text", ["a: b", "null", "007", "[x]", "'quoted'", "# no comment", "~", "yes", "ü 😀", "a\nb", "env:X"]
)
def test_text_is_taken_as_it_is_typed(run, file, text):
    assert run("set", "agents.list[0].id", "main")[0] == 0
    assert run("set", "agents.list[0].name", text)[0] == 0
    assert json.loads(run("get", "agents.list[0].name", "--json")[1])["value"] == text


def test_a_section_is_typed_as_yaml(run, file):
    assert run("set", "agents.defaults.model", "{primary: a/b, fallbacks: [c/d]}")[0] == 0
    assert run("get", "agents.defaults.model.fallbacks")[1] == '["c/d"]\n'
    assert run("set", "agents.defaults.model", "off")[0] == 0
    assert run("get", "agents.defaults.model")[1] == "off\n"


@pytest.mark.parametrize("typed", ["1e3", "1.0E+3", "1000.0", "1000"])
def test_a_whole_number_is_stored_as_one_however_it_was_typed(run, file, typed):
    assert run("set", "agents.defaults.maxConcurrent", typed)[0] == 0
    assert "maxConcurrent: 1000\n" in file.read_text() + "\n"


@pytest.mark.parametrize(
    ("key", "typed", "plain"),
    [("agents.defaults.maxConcurrent", "１２３４５", "12345"), ("budgets.day.usd", "１.５", "1.5"), ("budgets.day.tokens", "1_000", "1000"),
     ("budgets.day.tokens", "１.５", "5"), ("budgets.day.tokens", "true", "5"), ("budgets.day.tokens", "一", "5")],
)  # fmt: skip
def test_a_number_in_other_digits_is_refused_with_the_plain_ones(run, key, typed, plain):
    code, _, err = run("set", key, typed)
    assert (code, f"Write it as {plain}." in err) == (2, True), err


def test_unsetting_gives_the_default_back(run, file):
    assert run("unset", "agents.defaults.model")[0] == 0
    assert run("get", "agents.defaults.model")[1] == "null\n"
    code, _, err = run("unset", "agents.defaults.model")
    assert (code, "is not set" in err) == (1, True)


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("agents.defaults.promptMode", "ful", "Did you mean full?"),
        ("agents.defaults.compaction", "5", "a section of keys"),
        ("session.reset.atHour", "24", "at most 23"),
        ("agents.list[0].id", "Not An Id", "text that matches"),
    ],
)
def test_a_wrong_value_is_refused_and_nothing_written(run, file, key, value, told):
    code, _, err = run("set", key, value)
    assert (code, told in err, "Nothing was written." in err) == (3, True, True)
    assert file.read_text() == START
    assert [path for path in file.parent.iterdir() if path.is_file()] == [file]


def test_a_misspelt_key_is_refused_unless_forced(run, file):
    code, _, err = run("set", "agents.defaults.modle", "x")
    assert (code, "Did you mean agents.defaults.model?" in err) == (2, True)
    code, _, err = run("set", "agents.defaults.timeoutSeconds", "300")
    assert (code, "agents.defaults.limits.timeoutSeconds" in err, "telegram" in err) == (2, True, False), (
        "what is near goes first"
    )
    code, _, err = run("set", "--force", "agents.defaults.modle", "x")
    assert (code, "it is kept in the file and ignored" in err) == (0, True)


def test_a_broken_file_can_be_mended_key_by_key(run, file):
    file.write_text(START + "    promptMode: ful\nlogging:\n  level: loud\n")
    assert run("set", "logging.level", "debug")[0] == 0
    code, out, _ = run("validate")
    assert (code, "promptMode" in out, "logging.level" in out) == (3, True, False)


def test_a_secret_is_never_shown(run, file):
    typed = [sys.executable, "-m", "gateway", "--home", str(file.parent), "config", "set", "models.providers.openai.apiKey"]
    done = subprocess.run(typed, input="sk-very-secret\n", cwd=ROOT, capture_output=True, text=True, check=True)
    assert "sk-very-secret" not in done.stdout + done.stderr
    nothing = subprocess.run(typed, stdin=subprocess.DEVNULL, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (nothing.returncode, "no value was given" in nothing.stderr) == (2, True)
    assert "apiKey: sk-very-secret" in file.read_text()
    for arguments in (
        ["get"],
        ["get", "--json"],
        ["get", "models.providers.openai.apiKey"],
        ["get", "models"],
        ["validate", "--json"],
    ):
        code, out, err = run(*arguments)
        assert (code, "sk-very-secret" in out + err) == (0, False)
    assert run("get", "models.providers.openai.apiKey")[1] == "********\n"


def test_a_variable_of_the_gateways_own_may_be_named_from_here(run, file):
    code, _, err = run("set", "models.providers.openai.apiKey", "env:SURELY_NOT_SET_ANYWHERE")
    assert (code, "SURELY_NOT_SET_ANYWHERE is not set" in err) == (0, True)
    code, out, err = run("get", "agents.defaults.model")
    assert (code, out, "SURELY_NOT_SET_ANYWHERE is not set" in err) == (0, "anthropic/x\n", True)
    assert run("validate")[0] == 3


def test_validate_tells_everything(run, file):
    file.write_text("agents:\n  defaults:\n    promptMode: ful\n    modle: x\n")
    code, out, _ = run("validate", "--json")
    told = json.loads(out)
    assert (code, told["valid"]) == (3, False)
    assert told["errors"][0]["path"] == "agents.defaults.promptMode"
    assert told["warnings"][0]["line"] == 4


def test_an_error_is_json_where_json_was_asked_for(run, file):
    file.write_text("a: [\n")
    code, out, err = run("get", "--json")
    told = json.loads(err)
    assert (code, out, told["exitCode"]) == (3, "", 3)
    assert told["problems"][0]["file"] == str(file)


def test_the_shorthand_is_used_where_the_file_uses_it(run, file):
    file.write_text("agent:\n  model: x\n")
    assert run("set", "agents.defaults.model", "other")[0] == 0
    assert run("set", "agents.defaults.promptMode", "none")[0] == 0
    assert file.read_text() == "agent:\n  model: other\n  promptMode: none\n"
    assert run("unset", "agents.defaults.model")[0] == 0
    assert file.read_text() == "agent:\n  promptMode: none\n"


def test_a_linked_file_stays_a_link(run, file, tmp_path):
    real = tmp_path / "dotfiles.yaml"
    file.rename(real)
    file.symlink_to(real)
    assert run("set", "agents.defaults.model", "other")[0] == 0
    assert file.is_symlink()
    assert "model: other   # the good one" in real.read_text()


def test_windows_line_ends_are_kept(run, file):
    file.write_bytes(START.replace("\n", "\r\n").encode())
    assert run("set", "agents.defaults.promptMode", "none")[0] == 0
    assert file.read_bytes() == (START + "    promptMode: none\n").replace("\n", "\r\n").encode()


def test_each_line_keeps_its_own_end_and_the_file_its_byte_order_mark(run, file):
    file.write_bytes(b"\xef\xbb\xbf# my house\r\nagents:\n  defaults:\r\n    model: anthropic/x\n    userTimezone: UTC\r\n")
    assert run("set", "agents.defaults.model", "other")[0] == 0
    assert file.read_bytes() == (
        b"\xef\xbb\xbf# my house\r\nagents:\n  defaults:\r\n    model: other\n    userTimezone: UTC\r\n"
    )


def test_changes_at_the_same_time_are_all_kept(file):
    keys = [
        "agents.defaults.promptMode=none",
        "logging.level=debug",
        "session.dmScope=per-peer",
        "agents.defaults.contextTokens=9000",
    ]
    running = [
        subprocess.Popen(
            [sys.executable, "-m", "gateway", "--home", str(file.parent), "config", "set", *key.split("=")], cwd=ROOT
        )
        for key in keys
    ]
    assert [process.wait(timeout=PATIENCE) for process in running] == [0, 0, 0, 0]
    text = file.read_text()
    assert text.startswith(START.rstrip("\n"))
    assert all(part in text for part in ("promptMode: none", "level: debug", "dmScope: per-peer", "contextTokens: 9000"))


def test_a_disk_that_takes_nothing_leaves_the_file_as_it_was(file):
    limited = f"ulimit -f 0; exec {sys.executable} -m gateway --home {file.parent} config set agents.defaults.model other"
    done = subprocess.run(["bash", "-c", limited], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (6, "")
    assert done.stderr.startswith(f"homebody: {file}: could not write the settings: ")
    assert file.read_text() == START
    assert [path.name for path in file.parent.iterdir() if path.is_file()] == [file.name]


def test_an_interruption_ends_with_130(file):
    script = (
        "import signal, sys; from gateway.cli import main; signal.signal(signal.SIGALRM, signal.default_int_handler); "
        f"signal.setitimer(signal.ITIMER_REAL, 3); sys.exit(main(['--home', {str(file.parent)!r}, 'config', 'set', 'logging.level']))"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], cwd=ROOT, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as asking:
        assert asking.wait(timeout=PATIENCE) == 130
        assert asking.stderr is not None
        assert asking.stderr.read() == "\n"


def test_only_the_newest_copies_are_kept(run, file):
    for number in range(25):
        assert run("set", "agents.defaults.model", f"m{number}")[0] == 0
    assert len(list(file.parent.glob("*.bak"))) == 20


def test_the_schema_explains_every_key(run):
    schema = json.loads(run("schema")[1])
    sections = {"Settings": schema, **schema["$defs"]}
    undocumented = [
        (name, key)
        for name, section in sections.items()
        for key, field in section.get("properties", {}).items()
        if not (field.get("description") or sections[field["$ref"].rpartition("/")[2]].get("description"))
    ]
    assert not undocumented
    assert schema["$defs"]["LoggingSettings"]["properties"]["maxBytes"]["reload"] == "restart"


@pytest.mark.parametrize("apart", [10, pytest.param(1, marks=pytest.mark.long)])
def test_every_key_can_be_asked_for(run, apart):
    for path in list(all_keys(Settings))[::apart]:
        name = ".".join(str(step) for step in path)
        if (
            not name.startswith("agents.list.")
            and "accounts" not in name
            and "providers" not in name
            and "bindings" not in name
        ):
            assert run("get", name, "--json")[0] == 0, name


def test_a_change_does_not_wait_for_ever_for_another_one(run, file, monkeypatch):
    monkeypatch.setattr(settings_file, "LOCK_SECONDS", 0.1)
    file.write_text("messages:\n  ackReaction: x\n")
    descriptor = os.open(file.parent, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        code, _, told = run("set", "messages.ackReaction", "y")
    finally:
        os.close(descriptor)
    assert code != 0
    assert "nothing was written" in told
    assert "Try again" in told
    assert file.read_text() == "messages:\n  ackReaction: x\n"


def test_a_model_of_a_provider_that_does_not_exist_is_written_and_warned_of(run, file):
    code, _, err = run("set", "agents.defaults.model", "nowhere/big")
    assert code == 0
    assert "nowhere/big" in file.read_text()
    assert "warning: there is no provider 'nowhere', so nothing answers to the model 'nowhere/big'" in err
    assert "homebody config set models.providers.nowhere.baseUrl" in err
    code, out, _ = run("set", "agents.defaults.model", "{primary: anthropic/x, fallbacks: [antropic/y]}", "--json")
    [warning] = json.loads(out)["warnings"]
    assert "'antropic'" in warning["message"]
    assert "Did you mean anthropic/y?" in warning["mend"]
    run("set", "models.providers.nowhere.baseUrl", "http://127.0.0.1:9/v1")
    assert "there is no provider" not in run("set", "agents.defaults.model", "nowhere/big")[2]
    assert "there is no provider" not in run("set", "agents.defaults.model", "anthropic/anything-new")[2]


def test_a_number_that_is_none_is_told_with_its_key_and_a_value_that_fits(run, file):
    code, _, err = run("set", "gateway.port", "abc")
    assert code == 2
    assert 'gateway.port: "abc" is not allowed here; allowed: a whole number' in err
    assert "A port is a number from 1 to 65535, such as 18790." in err


def test_a_negative_number_is_told_with_what_the_key_allows_and_not_read_as_an_option(run, file):
    code, _, err = run("set", "budgets.day.usd", "-1")
    assert code != 0
    assert "budgets.day.usd" in err
    assert "No such option" not in err
