"""``homebody cron`` without a running gateway, and the examples of its page."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from gateway.api.handlers.job_requests import JobHandlers
from gateway.base.clock import SystemClock
from gateway.base.errors import HomebodyError
from gateway.cli.click_commands import homebody
from gateway.ledger.job_rows import NewJob
from gateway.settings.root import Settings
from tests.jobs.bench import Bench

if TYPE_CHECKING:
    from collections.abc import Callable

    Run = Callable[..., str]

DOCS = Path(__file__).resolve().parents[2] / "docs" / "jobs.md"
README = DOCS.parents[1] / "README.md"


@pytest.fixture
def run(tmp_path: Path) -> Run:
    (tmp_path / "homebody.yaml").write_text("agents: {defaults: {userTimezone: Europe/Berlin}}\n")

    def command(*arguments: str) -> str:
        result = CliRunner().invoke(homebody, ["--home", str(tmp_path), "cron", *arguments], catch_exceptions=False)
        assert result.exit_code == 0, result.output
        return result.stdout

    return command


@pytest.mark.parametrize("option", [("--model", "openai/gpt-5"), ("--usd", "0.2"), ("--tokens", "100")])
def test_what_means_nothing_for_a_reminder_is_refused(tmp_path: Path, option: tuple[str, str]) -> None:
    done = CliRunner().invoke(homebody, ["--home", str(tmp_path), "cron", "add", "in 1 day", "x", *option])
    assert done.exit_code != 0
    assert f"{option[0]} does nothing for it" in str(done.exception)


@pytest.mark.parametrize("usd", ["inf", "nan", "1e400", "-0.5", "much"])
def test_a_budget_that_is_no_finite_amount_is_refused(tmp_path: Path, usd: str) -> None:
    for command in (["add", "every day at 9", "x", "--task"], ["change", "abc"]):
        done = CliRunner().invoke(homebody, ["--home", str(tmp_path), "cron", *command, "--usd", usd])
        assert done.exit_code == 2
        assert f"'{usd}' is no amount in US dollars, such as 0.50." in done.output


def test_a_model_that_there_is_not_is_refused_without_a_gateway_too(tmp_path: Path) -> None:
    done = CliRunner().invoke(
        homebody, ["--home", str(tmp_path), "cron", "add", "in 1 day", "x", "--task", "--model", "nope/x"]
    )
    assert done.exit_code != 0
    assert "nope" in str(done.exception)


def test_a_model_that_the_settings_leave_out_is_refused_and_names_that_nobody_knows_are_told(tmp_path: Path, run: Run) -> None:
    own = "models: {providers: {own: {baseUrl: 'http://127.0.0.1:9/v1', models: [{id: small}]}}}\n"
    (tmp_path / "homebody.yaml").write_text(own)
    command = ["--home", str(tmp_path), "cron", "add", "in 1 day", "x", "--task", "--model", "own/large"]
    done = CliRunner().invoke(homebody, command)
    assert isinstance(done.exception, HomebodyError)
    assert "own/large is not among the models of its provider" in str(done.exception)
    assert done.exception.hint == "All of them: homebody models list"
    given = ("--task", "--model", "anthropic/claude-nobody-1", "--tools", "read,group:web,mcp_home_light,slack_search,wirte")
    warnings = json.loads(run("add", "in 1 day", "x", *given, "--json"))["warnings"]
    assert warnings == [
        "anthropic/claude-nobody-1 is in no list of models here and is tried as it is (homebody models list).",
        "No tool is called wirte (homebody tools list).",
    ]
    (job,) = json.loads(run("list", "--json"))
    assert "! No tool is called raed (homebody tools list)." in run("change", job["id"], "--tools", "raed")
    assert "!" not in run("change", job["id"], "--tools", "read", "--model", "own/small")


def test_the_json_of_a_job_at_one_time_names_its_instant(run: Run) -> None:
    (job,) = [json.loads(run("add", "in 1 day", "x", "--json"))["job"]]
    assert job["next"] == [job["nextAt"]]


def test_jobs_are_added_listed_changed_and_removed(run: Run) -> None:
    assert run("list").startswith('There are no jobs. Add one: homebody cron add "tomorrow at 9" "Water the plants"')
    told = run(
        "add",
        "every weekday at 7:30",
        "What is on today?",
        "--task",
        "--name",
        "morning",
        "--usd",
        "0.2",
        "--tools",
        "read,grep",
    )
    assert re.match(
        r"Task “morning” \([a-z]{5}\): At 07:30 on Monday through Friday \(Europe/Berlin\)\.\n"
        r"  Next: \w{3} \d+ \w{3}.*, 07:30 · .*, 07:30 · .*, 07:30\.\n  The answer goes to your latest chat\.\n$",
        told,
    )
    head, row = run("list").splitlines()
    assert head.split() == ["ID", "NEXT", "KIND", "NAME", "WHEN"]
    assert re.fullmatch(r"[a-z]{5}  \d{4}-\d\d-\d\d 07:30  task  morning  At 07:30 on Monday through Friday", row)
    shown = run("show", "morning")
    for line in ("State: active", "Agent: main", "Tools: read, grep", "A day at most: $0.20", "Prompt:\n  What is on today?"):
        assert line in shown
    assert "At 08:00 every day" in run("change", "morning", "--when", "every day at 8", "--kind", "reminder")
    assert "Text:\n  What is on today?" in run("show", "morning")
    assert "homebody cron resume" in run("pause", "morning")
    assert "paused" in run("list")
    assert "It is paused." not in run("resume", "MORNING")
    assert "It has not run yet." in run("log", "morning")
    assert run("remove", "morning").endswith("is removed.\n")
    assert "There are no jobs" in run("list", "--all")


def test_json_holds_all_of_a_job(run: Run) -> None:
    added: dict[str, Any] = json.loads(
        run("add", "0 9 * * 1-5", "Hi", "--zone", "Asia/Tokyo", "--to", "telegram:default:direct:42", "--json")
    )
    (listed,) = json.loads(run("list", "--json"))
    assert listed == added["job"]
    assert (listed["zone"], listed["to"], listed["kind"]) == ("Asia/Tokyo", "telegram:default:direct:42", "reminder")
    assert listed["words"] == "At 09:00 on Monday through Friday (Asia/Tokyo)"
    assert all(one.endswith(("T01:00:00+01:00", "T02:00:00+02:00")) for one in listed["next"])
    assert json.loads(run("show", listed["id"], "--json")) == listed


def test_times_of_another_zone_are_said_with_that_zone_alone_and_the_next_ones_in_the_owners(run: Run) -> None:
    first, following, _ = run("add", "0 9 * * *", "Hi", "--zone", "Etc/UTC").splitlines()
    assert first.endswith("): At 09:00 every day (Etc/UTC).")
    assert re.fullmatch(r"  Next, in Europe/Berlin: \w{3} .*, 1[01]:00 · .*, 1[01]:00 · .*, 1[01]:00\.", following)


WRONG = [
    (("add", "soon", "x"), "'soon' is not a schedule", "`tomorrow at 9:00`"),
    (("add", "0 0 31 2 *", "x"), "is never due", "Five fields"),
    (("add", "*/7", "x"), "has 1 field", "Every 7 minutes is `*/7 * * * *`"),
    (("add", "2020-01-01 09:00", "x"), "is in the past", "The next 09:00 is"),
    (("add", "every 5 seconds", "x"), "too often", ""),
    (("add", "in 5 minutes", " "), "the text is empty", "homebody cron add"),
    (("add", "in 5 minutes", "x", "--to", "none"), "has to be sent somewhere", "--kind task"),
    (("add", "in 5 minutes", "x", "--to", "mars"), "'mars' is no address of a chat", "telegram:default:direct:42"),
    (
        ("add", "in 5 minutes", "x", "--to", "mars:default:direct:42"),
        "the channel 'mars', which there is not",
        "homebody channels chats",
    ),
    (
        ("add", "in 5 minutes", "x", "--to", "telegram:work:direct:42"),
        "the account 'work' of telegram",
        "homebody channels chats",
    ),
    (
        ("add", "in 5 minutes", "x", "--to", "telegram:default:direct:bob"),
        "'bob', which is no id of a person",
        "telegram:default:direct:42",
    ),
    (
        ("add", "in 5 minutes", "x", "--to", "telegram:default:group:42"),
        "'42', which is no id of a group",
        "telegram:default:direct:42",
    ),
    (
        ("add", "in 5 minutes", "x", "--to", "slack:default:direct:"),
        "'', which is no id of a person",
        "telegram:default:direct:42",
    ),
    (
        ("add", "in 5 minutes", "x", "--to", "internal:default:direct:x"),
        "no chat that anybody reads",
        "telegram:default:direct:42",
    ),
    (("add", "in 5 minutes", "x", "--to", "terminal:default:direct:local"), "is the terminal", "telegram:default:direct:42"),
    (("add", "0 9 * * *", "x", "--zone", "Europe/Berlon"), "no time zone 'Europe/Berlon'", "Europe/Berlin"),
    (("add", "in 5 minutes", "x", "--agent", "nobody"), "no agent 'nobody'", "homebody agents add nobody"),
    (("list", "--agent", "nobody"), "no agent 'nobody'", "homebody agents add nobody"),
    (("show", "nosuch"), "there is no job 'nosuch'", "homebody cron list"),
    (("change", "nosuch", "--text", "x"), "there is no job 'nosuch'", "homebody cron list"),
    (("run", "nosuch"), "no gateway is running", "homebody start"),
]


@pytest.mark.parametrize(("arguments", "told", "mend"), WRONG)
def test_an_error_names_what_was_wrong_and_what_to_type(run: Run, arguments: tuple[str, ...], told: str, mend: str) -> None:
    with pytest.raises(HomebodyError) as wrong:
        run(*arguments)
    assert told in str(wrong.value)
    assert mend in wrong.value.hint


def test_a_change_of_nothing_is_said_to_be_one(run: Run) -> None:
    run("add", "in 5 minutes", "x", "--name", "n")
    with pytest.raises(HomebodyError, match="nothing was named that is to be changed"):
        run("change", "n")


def test_two_jobs_of_one_name_are_told_apart_by_their_ids(run: Run) -> None:
    run("add", "in 5 minutes", "x", "--name", "n")
    run("add", "in 6 minutes", "x", "--name", "n")
    with pytest.raises(HomebodyError, match="several jobs are called 'n'") as several:
        run("remove", "n")
    assert all(job["id"] in several.value.hint for job in json.loads(run("list", "--json")))


def test_the_examples_of_the_page_run(run: Run) -> None:
    lines = re.findall(r"^    homebody cron (.*?)(?: +#.*)?$", DOCS.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(lines) >= 9
    for line in lines:
        arguments = shlex.split(line)
        if arguments[0] != "run":  # it needs a gateway
            run(*arguments)


def test_without_a_gateway_it_is_told_that_nobody_sends_what_is_set(tmp_path: Path) -> None:
    home = ["--home", str(tmp_path)]
    for words in (("cron", "add", "in 1 day", "water"), ("agent", "-m", "remind me in 2 days to look")):
        done = CliRunner().invoke(homebody, [*home, *words])
        assert "No gateway is running, and one has to be for reminders and tasks at their time." in done.stderr
        assert "No gateway" not in done.stdout
    assert "No gateway" not in CliRunner().invoke(homebody, [*home, "agent", "-m", "hello"]).stderr


async def test_the_list_that_the_command_line_prints_reckons_one_instant_of_each_job(tmp_path: Path) -> None:
    async with Bench(tmp_path / "ledger.sqlite").process() as jobs:
        await jobs.add(NewJob(agent="main", name="pills", schedule="cron 0 9 * * 1-5", kind="message", text="Take the pills."))
        calls = JobHandlers(jobs, SystemClock(), settings=Settings)
        (brief,) = (await calls.list(brief=True))["jobs"]
        (whole,) = (await calls.list())["jobs"]
        assert len(whole["next"]) == 3
        assert brief["next"] == [brief["nextAt"]]
        assert brief | {"next": whole["next"]} == whole
