"""The command line's frame: help, exit codes, and how errors are told."""

import errno
import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from gateway.base.errors import (
    AlreadyRunning,
    HomebodyError,
    NoModel,
    SettingsError,
    StorageFailed,
    UsageError,
    as_homebody_error,
    error_text,
)
from gateway.cli import main
from gateway.cli.click_commands import COMMANDS
from memory.errors import MemoryTrouble
from tests import programs
from tests.patience import PATIENCE

ROOT = Path(__file__).parents[2]
HEAVY = (
    "pydantic",
    "structlog",
    "rich",
    "prompt_toolkit",
    "numpy",
    "apsw",
    "yaml",
    "asyncio",
    "telegram",
    "anthropic",
    "openai",
)


def homebody(*arguments: str, env: dict[str, str] | None = None, **options) -> subprocess.CompletedProcess[str]:
    return programs.run(
        [sys.executable, "-m", "gateway", *arguments],
        cwd=ROOT, text=True, check=False, env={**os.environ, **(env or {})}, timeout=PATIENCE, **{"capture_output": True, **options},
    )  # fmt: skip


def test_help_names_every_command_and_imports_nothing_heavy():
    script = (
        "import sys, gateway.cli as c; code = c.main(['--help']); "
        f"print(code, sorted(set(sys.modules) & set({HEAVY!r})), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stderr == "0 []\n"
    listed = {line.split()[0] for line in done.stdout.partition("Commands:")[2].splitlines() if line.strip()}
    assert {"config", "agent", "gateway"} <= listed <= set(COMMANDS)


def test_help_takes_little_of_the_processor():
    """The bar is 150 ms; the best of three, since a busy machine only ever adds. It is a new Python each time."""
    spent = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-m", "gateway", "--help"], cwd=ROOT, stdout=subprocess.DEVNULL, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert min(spent) < 0.150


def test_an_unknown_command_names_the_nearest(capsys):
    assert main(["confg"]) == 2
    assert capsys.readouterr().err == "homebody: there is no command 'confg'\n  Did you mean `homebody config`?\n"


def test_wrong_usage_is_told_in_the_same_form(capsys):
    assert main(["config", "get", "--nothing"]) == 2
    assert capsys.readouterr().err.endswith("Try: homebody config get --help\n")
    assert main(["config", "get", "--nothing", "--json"]) == 2
    assert json.loads(capsys.readouterr().err)["exitCode"] == 2


def test_the_version_is_told(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("homebody ")


def test_a_reader_that_goes_away_is_no_news(tmp_path):
    reading, writing = os.pipe()
    os.close(reading)
    done = homebody("config", "schema", stdout=writing, stderr=subprocess.PIPE, capture_output=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (1, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full (Linux)")
def test_output_to_a_full_disk_is_told():
    with Path("/dev/full").open("w") as full:
        done = homebody("config", "schema", stdout=full, stderr=subprocess.PIPE, capture_output=False)
    assert done.returncode == 6
    assert "No space left on device" in done.stderr
    assert "Traceback" not in done.stderr


def test_settings_that_cannot_be_used_end_with_3(tmp_path):
    (tmp_path / "homebody.yaml").write_text("logging: {level: loud}\n")
    done = homebody("config", "get", env={"HOMEBODY_HOME": str(tmp_path)})
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith(f"homebody: {tmp_path}/homebody.yaml:1: logging.level: ")


def test_every_kind_of_error_has_its_exit_code():
    kinds = (HomebodyError, UsageError, SettingsError, NoModel, AlreadyRunning, StorageFailed)
    assert [kind.exit_code for kind in kinds] == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize(
    ("error", "code", "hint"),
    [
        (MemoryTrouble("no such note", hint="List them."), 1, "List them."),
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/x"), 6, "Free some space"),
        (PermissionError(errno.EACCES, os.strerror(errno.EACCES), "/x"), 6, "Give your user access"),
    ],
)
def test_errors_of_other_rooms_are_told_in_the_same_form(error, code, hint):
    known = as_homebody_error(error)
    assert known is not None
    assert known.exit_code == code
    assert known.hint.startswith(hint)


def test_a_defect_is_not_taken_for_an_error():
    assert as_homebody_error(KeyError("x")) is None
    ended = ExceptionGroup("", [ExceptionGroup("", [OSError(errno.EROFS, "Read-only file system", "/home/x")])])
    assert isinstance(as_homebody_error(ended), StorageFailed)
    assert as_homebody_error(ExceptionGroup("", [OSError(errno.EROFS, "x"), KeyError("x")])) is None


def test_an_error_is_one_line_and_its_mend_another():
    error = StorageFailed("could not\nwrite", where="/x", hint="Free some space.")
    assert error_text(error, as_json=False) == "homebody: /x: could not write\n  Free some space."
    assert json.loads(error_text(error, as_json=True)) == {
        "error": "could not\nwrite", "where": "/x", "mend": "Free some space.", "exitCode": 6,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("settings", "told"),
    [("gateway: {port: [", "was opened and never closed"), ("models: {providers: {x: {apiKey: env:NOPE}}}", "NOPE")],
)
def test_status_says_what_keeps_the_gateway_from_starting(tmp_path, settings, told):
    file = tmp_path / "homebody.yaml"
    file.write_text(settings)
    file.chmod(0o600)
    done = homebody("status", env={"HOMEBODY_HOME": str(tmp_path)})
    assert done.returncode == 1
    assert "Its settings have errors, with which it does not start" in done.stdout
    assert told in done.stdout
    facts = json.loads(homebody("status", "--json", env={"HOMEBODY_HOME": str(tmp_path)}).stdout)
    assert told in facts["settings"]["complaint"]


def test_status_says_that_the_named_settings_file_is_not_there(tmp_path):
    done = homebody("--config", str(tmp_path / "nope.yaml"), "status", env={"HOMEBODY_HOME": str(tmp_path)})
    assert "nope.yaml" in done.stdout


@pytest.mark.parametrize("command", [("config", "path"), ("config", "schema"), ("sessions", "export")])
def test_every_command_that_prints_data_takes_json(tmp_path, command):
    env = {"HOMEBODY_HOME": str(tmp_path / "home"), "HOME": str(tmp_path)}
    assert homebody("agent", "-m", "Remember that the door is green.", env=env).returncode == 0
    done = homebody(*command, "--json", env=env)
    assert done.returncode == 0, done.stderr
    assert isinstance(json.loads(done.stdout), dict)
