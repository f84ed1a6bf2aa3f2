"""The owner's own rules in ``approvals.rules``: what may be written there, what is refused as too broad, and what a pattern matches."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from agent.tools.command_line import plain_words
from gateway.settings.approval_settings import ApprovalRule
from gateway.settings.command_pattern import command_pattern, runs_others
from gateway.settings.root import Settings


def _rule(**given: object) -> ApprovalRule:
    return ApprovalRule.model_validate({"decision": "allow", **given})


@pytest.mark.parametrize(
    "command",
    [
        *(
            "git push origin main",
            "git fetch *",
            "git commit -m *",
            "rsync -a notes/ /mnt/backup/notes",
            "tar -czf backup-*.tar.gz notes",
        ),
        *("python3 scripts/report.py", "/usr/bin/make backup", "ls", "cat *.md", "curl -fsSo weather.txt 'https://wttr.in/?0'"),
    ],
)
def test_an_exact_command_may_be_allowed(command: str):
    assert _rule(command=command).command == command


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("git *", "the subcommand of git"),
        ("git -c *", "the subcommand of git"),
        ("git push* x", "the subcommand of git"),
        ("rm *", "more than a wildcard"),
        ("rsync ** /x", "more than a wildcard"),
        ("* notes", "the program must be written out"),
        ("git? push", "the program must be written out"),
        ("./backup.sh", "in the workspace can be changed"),
        ("bin/backup", "in the workspace can be changed"),
        *(
            (f"{one} x*", "runs other programs")
            for one in ("bash", "python3.11", "/usr/bin/env", "xargs", "sudo", "make", "npm", "ssh", "awk")
        ),
        *((one, "plain words") for one in ("ls; rm x", "ls $HOME", "ls | wc", "A=1 ls", "cd x", "ls > x", "time rm x", "")),
    ],
)
def test_a_broad_or_unclear_command_is_refused(command: str, why: str):
    with pytest.raises(ValidationError, match=why):
        _rule(command=command)


def test_a_rule_that_allows_commands_names_one():
    with pytest.raises(ValidationError, match=r"tools\.exec\.security"):
        _rule()
    with pytest.raises(ValidationError, match="needs a command"):
        _rule(tool="*")
    assert _rule(tool="web_fetch").command is None
    with pytest.raises(ValidationError, match="command is for the tool exec"):
        _rule(tool="web_fetch", command="ls")


def test_a_pattern_of_tools_that_means_exec_needs_a_command_too():
    with pytest.raises(ValidationError, match="needs a command"):
        _rule(tool="ex*")


def test_recipients_and_untrusted_text_are_for_tools_that_are_named():
    assert _rule(tool="mail", to="anna@example.org", untrusted=True).to == ("anna@example.org",)
    with pytest.raises(ValidationError, match="names everybody"):
        _rule(tool="mail", to=["*"])
    for odd in ({"to": ["a@b.example"]}, {"untrusted": True}, {"tool": "e*", "untrusted": True}):
        with pytest.raises(ValidationError, match="name one as `tool`"):
            _rule(command="ls" if "tool" not in odd else None, **odd)
    with pytest.raises(ValidationError, match="rules that allow"):
        ApprovalRule.model_validate({"decision": "ask", "tool": "mail", "untrusted": True})


def test_rules_that_deny_or_ask_may_be_broad():
    for decision in ("ask", "deny"):
        assert ApprovalRule.model_validate({"decision": decision, "command": "git *"}).command == "git *"
        assert ApprovalRule.model_validate({"decision": decision}).tool == "exec"


def test_a_rule_holds_for_the_owner_and_a_denial_for_all_unless_it_says_otherwise():
    assert _rule(command="ls").origins() == {"owner"}
    assert ApprovalRule.model_validate({"decision": "ask"}).origins() == {"owner"}
    assert ApprovalRule.model_validate({"decision": "deny"}).origins() == {"any"}
    assert _rule(command="ls", origin="schedule").origins() == {"schedule"}
    assert _rule(command="ls", origin=["owner", "group"]).origins() == {"owner", "group"}


def test_the_section_is_read():
    settings = Settings.model_validate({"approvals": {"rules": [{"decision": "deny", "command": "rm"}]}})
    assert settings.approvals.rules[0].command == "rm"


@pytest.mark.parametrize(
    ("pattern", "command", "expected"),
    [
        ("git fetch *", "git fetch origin", True),
        ("git fetch *", "git fetch", False),
        ("git fetch *", "git fetch origin main", False),
        ("git fetch *", "git fetch --upload-pack=x", False),
        ("git fetch *", "git fetch a/b", False),
        ("cat notes/*", "cat notes/today.md", True),
        ("cat notes/*", "cat notes/..", False),
        ("cat notes/*", "cat notes/../x", False),
        ("cat *.*", "cat ..", False),
        ("head -n? x", "head -n5 x", True),
        ("grep 'a*b' x", "grep 'a*b' x", True),
        ("grep 'a*b' x", "grep ab x", False),
        ("git push", "/usr/bin/git push", False),
        ("git push", "GIT push", False),
    ],
)
def test_a_pattern_matches_word_by_word(pattern: str, command: str, expected: bool):
    assert command_pattern(pattern, strict=True).matches(plain_words(command) or ()) is expected


@given(st.text(alphabet="ab-./*? '=", max_size=12), st.text(alphabet="ab-./ ='", max_size=16))
def test_a_wildcard_never_makes_an_option_a_parent_folder_or_a_further_word(pattern: str, command: str):
    try:
        read = command_pattern(f"x {pattern}", strict=True)
    except ValueError:
        return
    argv = plain_words(f"x {command}")
    if argv is None or not read.matches(argv):
        return
    assert len(argv) == len(plain_words(f"x {pattern.replace('*', '0').replace('?', '0')}") or ())
    literal = "'" in pattern or not set(pattern) & set("*?")
    assert literal or all(word.count("/") <= pattern.count("/") for word in argv[1:])
    assert literal or not any(word.startswith("-") for word in argv[1:]) or "-" in pattern
    assert literal or ".." in pattern or not any(".." in word.split("/") for word in argv[1:])


def test_programs_that_run_others_are_known_by_any_version():
    assert all(runs_others(one) for one in ("python3", "python3.11", "/usr/bin/perl5.36", "bash", "env", "node-22"))
    assert not any(runs_others(one) for one in ("git", "ls", "rsync", "du"))
