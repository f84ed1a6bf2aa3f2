"""What rules decide: by origin, setting, taint and the owner's own rules; what "always" makes of a question."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import fields, replace
from pydantic import ValidationError

from agent.tools.exec import ExecArguments
from agent.tools.protocol import Act
from gateway.approvals.rules import Rules
from gateway.approvals.stored_rules import StoredRule, StoredRules
from gateway.base.errors import StorageFailed
from gateway.settings.root import Settings
from tests.approvals.conftest import act

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
TAINT = frozenset({"web:example.org"})
CLEAN: frozenset[str] = frozenset()


def _decide(
    rules: Rules, command: str, cwd: Path, *, origin: Any = "owner", taint: frozenset[str] = CLEAN, **given: Any
) -> str:
    return rules.judge("main", origin, taint, act(command, cwd, **given)).decision


def _always(rules: Rules, command: str, cwd: Path, **given: Any) -> StoredRule:
    identity = rules.allow("main", "owner", CLEAN, act(command, cwd, **given), now=NOW)
    return next(one for one in rules.stored.all() if one.id == identity)


@pytest.mark.sec(58)
def test_the_owner_is_asked_and_nobody_else_may(workspace: Path, rules_of: Callable[..., Rules]):
    rules = rules_of()
    assert _decide(rules, "git push origin main", workspace) == "ask"
    for origin in ("guest", "group", "schedule", "webhook", "agent"):
        verdict = rules.judge("main", origin, CLEAN, act("ls", workspace))
        assert verdict.decision == "deny"
        assert f"(origin: {origin})" in verdict.reason


def test_a_rule_for_another_origin_allows_exactly_its_command(workspace: Path, rules_of: Callable[..., Rules]):
    rules = rules_of(rules=[{"decision": "allow", "command": "du -sh notes", "origin": ["schedule", "group"]}])
    assert _decide(rules, "du -sh notes", workspace, origin="schedule") == "allow"
    assert _decide(rules, "du -sh notes", workspace, origin="group") == "allow"
    assert _decide(rules, "du -sh .", workspace, origin="schedule") == "deny"
    assert _decide(rules, "du -sh notes", workspace, origin="guest") == "deny"


def test_a_message_to_another_chat_is_asked_about_where_others_read_it(rules_of: Callable[..., Rules]):
    own, group = Act(kind="send", summary="send", details="hi"), Act(kind="send", summary="send", details="hi", others=True)
    rules = rules_of()
    for origin in ("owner", "schedule", "webhook", "agent"):
        assert rules.judge("main", origin, CLEAN, own).decision == "allow"
        assert rules.judge("main", origin, CLEAN, group).decision == "ask"
    for origin in ("guest", "group"):
        assert rules.judge("main", origin, CLEAN, own).decision == "deny"
    opened = rules_of(rules=[{"decision": "allow", "tool": "message", "origin": ["schedule"]}])
    assert opened.judge("main", "schedule", CLEAN, group).decision == "allow"
    assert opened.judge("main", "owner", CLEAN, group).decision == "ask"


def test_what_is_done_in_another_program_is_the_owners_to_ask_for(rules_of: Callable[..., Rules]):
    call, unsure = Act(kind="call", summary="echo"), Act(kind="call", summary="move", ask="it changes your calendar")
    rules = rules_of()
    assert rules.judge("main", "owner", CLEAN, call, tool="mcp_a_b").decision == "allow"
    asked = rules.judge("main", "owner", CLEAN, unsure, tool="calendar")
    assert (asked.decision, asked.reason) == ("ask", "it changes your calendar")
    for origin in ("schedule", "webhook", "agent"):
        assert rules.judge("main", origin, CLEAN, call, tool="mcp_a_b").decision == "ask"
    for origin in ("guest", "group"):
        assert rules.judge("main", origin, CLEAN, call, tool="mcp_a_b").decision == "deny"
    own = rules_of(rules=[{"decision": "allow", "tool": "mcp_a_*"}, {"decision": "deny", "tool": "mcp_a_c"}])
    assert own.judge("main", "owner", CLEAN, replace(unsure, tool="mcp_a_b"), tool="mcp_call").decision == "allow"
    assert own.judge("main", "owner", CLEAN, replace(unsure, tool="mcp_a_c"), tool="mcp_call").decision == "deny"
    assert own.judge("main", "owner", CLEAN, replace(unsure, tool="mcp_b_b"), tool="mcp_call").decision == "ask"
    assert rules.why_not("main", "owner", CLEAN, call) == "a rule in approvals.rules allows a tool for good"


def test_a_rule_for_recipients_allows_only_what_goes_to_them_alone(rules_of: Callable[..., Rules]):
    rule = {"decision": "allow", "tool": "mail", "to": ["Anna@example.org", "*@home.example"]}
    rules = rules_of(rules=[rule])

    def decided(*to: str, rules: Rules = rules, tool: str = "mail") -> Any:
        return rules.judge("main", "owner", CLEAN, Act(kind="send", summary="s", others=True, recipients=to), tool=tool)

    assert decided("anna@example.org").decision == decided("ANNA@example.org", "ben@home.example").decision == "allow"
    assert not decided("anna@example.org").untrusted
    for others in (
        (),
        ("anna@example.org", "eve@evil.example"),
        ("anna@example.org.evil.example",),
        ("eve@evil.example,@home.example",),
        ("eve@evil.example <x@home.example",),
        ("x@y@home.example",),
        ("anna@example.org\n",),
    ):
        assert decided(*others).decision == "ask", others
    assert decided("anna@example.org", tool="message").decision == "ask"
    assert decided("anna@example.org", rules=rules_of(rules=[{**rule, "untrusted": True}])).untrusted
    denied = rules_of(rules=[rule, {"decision": "deny", "tool": "mail", "to": "ben@home.example"}])
    assert decided("anna@example.org", "ben@home.example", rules=denied).decision == "deny"
    assert decided("anna@example.org", rules=denied).decision == "allow"


def test_what_others_want_to_happen_later_is_asked_about(rules_of: Callable[..., Rules]):
    job = Act(kind="schedule", summary="set up the reminder “Water”", details="When: Every day")
    rules = rules_of()
    assert rules.judge("main", "owner", CLEAN, job).decision == "allow"
    for origin, who in (("guest", "a guest"), ("group", "a group"), ("schedule", "a scheduled job"), ("webhook", "a webhook")):
        verdict = rules.judge("main", origin, CLEAN, job)
        assert verdict.decision == "ask"
        assert verdict.reason.startswith(who)
    closed = rules_of(rules=[{"decision": "deny", "tool": "cron", "origin": ["group"]}])
    assert closed.judge("main", "group", CLEAN, job).decision == "deny"
    assert closed.judge("main", "guest", CLEAN, job).decision == "ask"
    assert rules.why_not("main", "owner", CLEAN, job) is not None


def test_deny_beats_ask_and_ask_beats_allow(workspace: Path, rules_of: Callable[..., Rules]):
    allow = {"decision": "allow", "command": "git push origin main"}
    ask, deny = {"decision": "ask", "command": "git push"}, {"decision": "deny", "command": "git"}
    for rules, expected in (
        ([allow], "allow"),
        ([allow, ask], "ask"),
        ([deny, ask, allow], "deny"),
        ([ask], "ask"),
        ([deny], "deny"),
    ):
        assert _decide(rules_of(rules=rules), "git push origin main", workspace) == expected
    assert _decide(rules_of(rules=[{"decision": "ask", "command": "ls"}]), "ls", workspace) == "ask"


@pytest.mark.parametrize(
    "command",
    [
        *(
            "rm x",
            "/bin/rm x",
            "ls; rm x",
            "ls && rm -rf /",
            "$(rm x)",
            "`rm x`",
            "sudo rm x",
            "A=1 rm x",
            "r\\m x",
            "'r'm x",
            '"rm" x',
        ),
        *(
            "time rm x",
            "env A=b rm x",
            "sh -c 'rm x'",
            "bash -c 'cd /; rm x'",
            "xargs rm",
            "if true; then rm x; fi",
            "(rm x)",
            "{ rm x; }",
        ),
        *("ls\nrm x", "ls | xargs -n1 rm", "find . | while read f; do rm $f; done", "nohup rm x &", "timeout 5 rm x"),
    ],
)
def test_a_rule_that_denies_finds_its_program_within_other_commands(
    command: str, workspace: Path, rules_of: Callable[..., Rules]
):
    assert _decide(rules_of(rules=[{"decision": "deny", "command": "rm"}]), command, workspace) == "deny"


@pytest.mark.parametrize("command", ["ls rm", "git rm x", "echo 'rm x'", "cat rm", "grep rm notes/x.csv", "rmdir x"])
def test_a_rule_that_denies_leaves_what_only_has_the_word_as_an_argument(
    command: str, workspace: Path, rules_of: Callable[..., Rules]
):
    assert _decide(rules_of(rules=[{"decision": "deny", "command": "rm"}]), command, workspace) in {"allow", "ask"}


def test_settings_of_the_reference_are_understood(workspace: Path, rules_of: Callable[..., Rules]):
    known, unknown, shell = "ls", "make backup", "ls | wc -l"
    table = {
        ("deny", "off"): ("deny", "deny", "deny"),
        ("deny", "always"): ("deny", "deny", "deny"),
        ("allowlist", "off"): ("allow", "deny", "deny"),
        ("allowlist", "on-miss"): ("allow", "ask", "ask"),
        ("allowlist", "always"): ("ask", "ask", "ask"),
        ("full", "off"): ("allow", "allow", "allow"),
        ("full", "on-miss"): ("allow", "allow", "allow"),
        ("full", "always"): ("ask", "ask", "ask"),
    }
    for (security, ask), expected in table.items():
        rules = rules_of(security=security, ask=ask)
        assert tuple(_decide(rules, one, workspace) for one in (known, unknown, shell)) == expected, (security, ask)
        assert {_decide(rules, one, workspace, origin="group") for one in (known, unknown, shell)} == {"deny"}


def test_full_does_not_hold_against_rules_or_untrusted_text(workspace: Path, rules_of: Callable[..., Rules]):
    rules = rules_of(security="full", rules=[{"decision": "deny", "command": "rm"}, {"decision": "ask", "command": "git push"}])
    assert _decide(rules, "rm x", workspace) == "deny"
    assert _decide(rules, "git push; ls", workspace) == "ask"
    assert _decide(rules, "make backup", workspace, taint=TAINT) == "ask"
    assert _decide(rules, "ls", workspace, taint=TAINT) == "allow"


@pytest.mark.sec(54)
def test_without_confinement_every_command_is_asked_about(workspace: Path, rules_of: Callable[..., Rules]):
    allow = {"decision": "allow", "command": "du -sh notes", "origin": ["owner", "schedule"]}
    for given in ({}, {"security": "full"}):
        rules = rules_of(rules=[allow], confined=False, **given)
        assert {_decide(rules, one, workspace) for one in ("ls", "du -sh notes", "ls | wc")} == {"ask"}
        assert _decide(rules, "du -sh notes", workspace, origin="schedule") == "ask"
        assert _decide(rules, "ls", workspace, origin="schedule") == "deny"
        assert rules.why_not("main", "owner", CLEAN, act("du -sh x", workspace))


def test_no_rule_allows_variables_a_terminal_the_network_or_another_split(workspace: Path, rules_of: Callable[..., Rules]):
    rules = rules_of(rules=[{"decision": "allow", "command": "du -sh notes"}])
    assert _decide(rules, "du -sh notes", workspace) == "allow"
    for given in ({"env": (("A", "b"),)}, {"pty": True}, {"network": True}):
        assert _decide(rules, "du -sh notes", workspace, **given) == "ask"
        assert _decide(rules, "ls", workspace, **given) == "ask"
    many = tuple((name, "x") for name in ("A1", "A2", "A3", "A4", "A5", "A6", "LD_PRELOAD"))
    reason = rules.judge("main", "owner", CLEAN, act("du -sh notes", workspace, env=many)).reason
    assert reason == "it sets variables (LD_PRELOAD, A1, A2, A3, A4, A5, …), and no rule can allow that"
    lied = Act(kind="exec", summary="", command="rm x", argv=("ls",), cwd=str(workspace))
    assert rules.judge("main", "owner", CLEAN, lied).decision == "ask"
    lied = Act(kind="exec", summary="", command="ls", argv=("rm", "x"), cwd=str(workspace))
    assert rules.judge("main", "owner", CLEAN, lied).decision == "ask"
    lied = Act(kind="exec", summary="", command="ls", argv=None, cwd=str(workspace))
    assert rules.judge("main", "owner", CLEAN, lied).decision == "ask"


def test_safe_bins_choose_among_the_built_in_rules(workspace: Path, rules_of: Callable[..., Rules]):
    some = rules_of(safeBins=["wc", "jq", "nosuch"])
    assert [_decide(some, one, workspace) for one in ("wc -l notes/today.md", "ls", "nosuch x")] == ["allow", "ask", "ask"]
    assert _decide(rules_of(safeBins=[]), "ls", workspace) == "ask"


def test_a_built_in_rule_can_be_switched_off_and_on(workspace: Path, rules_of: Callable[..., Rules]):
    rules = rules_of()
    rules.stored.switch("ls", on=False)
    assert (_decide(rules, "ls", workspace), rules.builtin("main")["ls"]) == ("ask", False)
    rules.stored.switch("ls", on=True)
    assert (_decide(rules, "ls", workspace), rules.builtin("main")["ls"]) == ("allow", True)


def test_always_allows_exactly_this_command_in_this_folder(workspace: Path, rules_of: Callable[..., Rules]):
    rules = rules_of()
    made = _always(rules, "git push origin main", workspace, network=True)
    assert (made.argv, made.cwd, made.network) == (("git", "push", "origin", "main"), str(workspace), True)
    again = rules_of()
    assert _decide(again, "git push origin main", workspace, network=True) == "allow"
    assert _decide(again, "git push origin main", workspace) == "allow"
    for other in ("git push origin", "git push origin main --force", "git push origin main; ls", "git push  'origin' dev"):
        assert _decide(again, other, workspace, network=True) == "ask"
    assert _decide(again, "git push origin main", workspace / "notes", network=True) == "ask"
    assert _decide(again, "git push origin main", workspace, origin="group", network=True) == "deny"
    assert again.judge("main", "owner", TAINT, act("git push origin main", workspace, network=True)).decision == "ask"
    assert again.stored.remove(made.id) == made
    assert _decide(again, "git push origin main", workspace, network=True) == "ask"


def test_a_rule_made_without_the_network_does_not_give_it(workspace: Path, rules_of: Callable[..., Rules]):
    rules = rules_of()
    _always(rules, "git push origin main", workspace)
    assert _decide(rules, "git push origin main", workspace, network=True) == "ask"


def test_a_script_that_changed_is_asked_about_again(workspace: Path, rules_of: Callable[..., Rules]):
    rules = rules_of()
    _always(rules, "sh backup.sh", workspace)
    assert _decide(rules, "sh backup.sh", workspace) == "allow"
    assert _decide(rules, "sh backup.sh", workspace, taint=TAINT) == "ask"
    (workspace / "backup.sh").write_text("rm -rf notes\n")
    verdict = rules.judge("main", "owner", CLEAN, act("sh backup.sh", workspace))
    assert (verdict.decision, "has changed since you allowed it" in verdict.reason) == ("ask", True)


@pytest.mark.parametrize(
    "command",
    [
        *(
            "ls | wc -l",
            "python3 -c 'print(1)'",
            "bash -c ls",
            "sh",
            "env ls",
            "sudo ls",
            "xargs ls",
            "make backup.sh",
            "npm test",
            "ssh nas ls",
        ),
        *(
            "./backup.sh",
            "nosuchprogram x",
            "A=1 ls",
            "python3 nosuch.py",
            "busybox sh",
            "awk 1 notes/today.md",
            "nohup backup.sh",
        ),
    ],
)
def test_no_rule_can_be_made_of_what_can_run_anything(command: str, workspace: Path, rules_of: Callable[..., Rules]):
    rules = rules_of()
    assert rules.why_not("main", "owner", CLEAN, act(command, workspace))
    with pytest.raises(ValueError, match=r"."):
        rules.allow("main", "owner", CLEAN, act(command, workspace), now=NOW)
    assert rules.stored.all() == ()


def test_no_rule_is_made_of_others_commands_or_beside_untrusted_text(workspace: Path, rules_of: Callable[..., Rules]):
    said = act("git push origin main", workspace)
    rules = rules_of()
    assert "untrusted" in str(rules.why_not("main", "owner", TAINT, said))
    assert "owner's own" in str(rules.why_not("main", "group", CLEAN, said))
    assert "tools.exec.ask is always" in str(rules_of(ask="always").why_not("main", "owner", CLEAN, said))
    asked = rules_of(rules=[{"decision": "ask", "command": "git push"}])
    assert "each time" in str(asked.why_not("main", "owner", CLEAN, said))


@pytest.mark.sec(59)
def test_an_agent_does_not_change_its_own_rights(workspace: Path, rules_of: Callable[..., Rules]):
    for given in ({}, {"security": "full"}, {"rules": [{"decision": "ask", "command": "homebody"}]}):
        for command in (
            "homebody approvals approve 1",
            "homebody mcp approve x",
            "homebody hooks add x",
            "sudo homebody config set a b",
            "cd /; homebody pairing approve x y",
        ):
            assert _decide(rules_of(**given), command, workspace) == "deny"
    assert _decide(rules_of(), "homebody status", workspace) == "ask"


def test_other_tools_go_by_the_rules_that_name_them(workspace: Path, rules_of: Callable[..., Rules]):
    fetch, job = Act(kind="url", summary="", url="https://x.example/"), Act(kind="schedule", summary="")
    rules = rules_of(rules=[{"decision": "ask", "tool": "web_*"}, {"decision": "deny", "tool": "web_fetch", "origin": "guest"}])
    assert rules.judge("main", "owner", CLEAN, fetch).decision == "ask"
    assert rules.judge("main", "guest", CLEAN, fetch).decision == "deny"
    assert rules_of().judge("main", "owner", CLEAN, fetch).decision == "allow"
    assert rules_of().judge("main", "owner", CLEAN, job).decision == "allow"
    assert rules_of().judge("main", "group", CLEAN, job).decision == "ask"


def test_an_agent_that_is_gone_may_nothing(workspace: Path, rules_of: Callable[..., Rules]):
    assert rules_of().judge("work", "owner", CLEAN, act("ls", workspace)).decision == "deny"


def test_a_damaged_file_of_rules_allows_nothing_and_is_not_overwritten(
    workspace: Path, rules_of: Callable[..., Rules], stored: StoredRules
):
    rules = rules_of()
    _always(rules, "git push origin main", workspace)
    stored.path.write_text("{")
    assert {_decide(rules, one, workspace) for one in ("ls", "git push origin main")} == {"ask"}
    assert stored.problem() is not None
    with pytest.raises(StorageFailed, match="cannot be read"):
        stored.switch("ls", on=False)
    assert stored.path.read_text() == "{"


def test_rules_that_another_process_wrote_hold_at_once(workspace: Path, rules_of: Callable[..., Rules], stored: StoredRules):
    rules = rules_of()
    assert _decide(rules, "git push origin main", workspace) == "ask"
    beside = StoredRules(stored.path.parent)
    rules.allow("main", "owner", CLEAN, act("git push origin main", workspace), now=NOW)
    made = stored.all()[0]
    stored.remove(made.id)
    assert _decide(rules, "git push origin main", workspace) == "ask"
    beside.add(made)
    assert _decide(rules, "git push origin main", workspace) == "allow"
    assert stored.path.stat().st_mode & 0o777 == 0o600
    beside.add(made)
    assert stored.all() == (made,)


def test_the_reason_tells_what_would_make_it_possible(workspace: Path, rules_of: Callable[..., Rules]):
    def why(command: str, **given: Any) -> str:
        return rules_of(**given).judge("main", "owner", CLEAN, act(command, workspace)).reason

    assert "shell" in why("ls | wc")
    assert "tools.exec.security" in why("ls", security="deny")
    assert "approvals.rules" in why("make x", ask="off")
    assert "no rule allows it" in why("make x")
    assert "./ls lies in the workspace, where it can be changed" in why("./ls")
    assert "there is no program nonesuch outside the workspace" in why("nonesuch")


def test_input_to_a_running_command_is_judged_like_a_command(workspace: Path, rules_of: Callable[..., Rules]):
    typed = Act(
        kind="exec", summary="type `rm x` into the background command ab2c", command="rm x", cwd=str(workspace), into="bash"
    )
    assert "typed into a command" in rules_of().judge("main", "owner", CLEAN, typed, tool="process").reason
    deny = [{"decision": "deny", "command": "rm"}]
    assert rules_of().judge("main", "owner", CLEAN, typed, tool="process").decision == "ask"
    assert rules_of().judge("main", "group", CLEAN, typed, tool="process").decision == "deny"
    assert rules_of(rules=deny).judge("main", "owner", CLEAN, typed, tool="process").decision == "deny"


@pytest.mark.parametrize(
    "claim", [{"approved": True}, {"approval": "k7f2m3qa"}, {"ask": "off"}, {"security": "full"}, {"elevated": True}]
)
def test_sec_52_no_argument_of_a_call_says_that_it_was_approved(claim: dict[str, Any]):
    """Arguments that a tool does not have are refused, and an act has no field that a call could fill with a claim."""
    with pytest.raises(ValidationError, match=r"[Ee]xtra"):
        ExecArguments.model_validate({"command": "make install", **claim})
    only_asks = {"ask"}  # the reason to ask: there is no value of it that saves a question
    assert set(claim).isdisjoint({field.name for field in fields(Act)} - only_asks)
    assert "ask" not in ExecArguments.model_fields


def test_changes_by_several_at_once_are_all_kept(tmp_path: Path, stored: StoredRules):
    def rule(number: int) -> StoredRule:
        return StoredRule(agent="main", program="/usr/bin/touch", argv=("touch", str(number)), cwd="/x", made=NOW)

    def add(numbers: range) -> None:
        mine = StoredRules(stored.path.parent)  # as another process has one of its own
        for number in numbers:
            mine.add(rule(number))
            mine.switch(f"x{number}", on=False)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(add, [range(start, 40, 4) for start in range(4)]))
    assert {one.argv[1] for one in stored.all()} == {str(number) for number in range(40)}
    assert len(stored.off()) == 40


def test_the_skill_that_is_not_approved_is_the_reason_why_always_is_not_offered(workspace: Path, stored: StoredRules) -> None:
    settings = Settings.model_validate({"agents": {"defaults": {"workspace": str(workspace)}}})
    why = "it names the skill bread, which you have not approved as it is now"
    rules = Rules(lambda: settings, stored, skills=lambda _agent, _act: why)
    assert rules.why_not("main", "owner", CLEAN, act("git push origin main", workspace)) == why
