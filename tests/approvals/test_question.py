"""The text of a question: complete, short enough for every platform, and nothing in it looks like something else."""

from __future__ import annotations

import re
import unicodedata
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from msgspec.structs import replace

from agent.tools.protocol import Act
from channels.common.markdown import styled
from gateway.approvals.question import LONGEST, Question, question_text, visible
from gateway.approvals.shell_parts import installed_shfmt, shell_parts
from tests.approvals.conftest import act
from tests.properties import examples

HOME = "/home/anna"
CWD = "/home/anna/homebody"
needs_shfmt = pytest.mark.skipif(installed_shfmt() is None, reason="shfmt is not installed here")


def _text(command: str, *, longest: int = LONGEST, given: dict[str, Any] | None = None, **said: Any) -> str:
    question = Question(name="k7f2m3qa", agent="main", act=act(command, CWD, **(given or {})), **said)
    return question_text(question, home=HOME, longest=longest)


def test_a_question_says_what_where_why_and_what_each_answer_does():
    told = _text("git push origin main", reason="it uses the network, and no rule allows that", given={"network": True})
    assert told == (
        "🔐 main wants to run a command:\n"
        "```\ngit push origin main\n```\n"
        "It would run in the folder `~/homebody`, with the network.\n"
        "Why I ask: it uses the network, and no rule allows that.\n"
        "\n"
        "**Once**: do it now.\n"
        "**Always**: from now on without a question: `git push origin main` in `~/homebody`, with the network, exactly so.\n"
        "**Deny**: do not do it. No answer within 30 minutes counts as no.\n"
        "Without buttons: `/approve k7f2m3qa once`, `always` or `deny`."
    )


def test_it_names_variables_a_terminal_and_who_asked():
    told = _text(
        "ls", given={"env": (("A", "b\u202e"),), "pty": True}, origin="schedule", why_not_always="it sets variables (A)"
    )
    assert "with the variables `A=b⟨U+202E⟩`" in told
    assert "in a terminal" in told
    assert "Asked for by a scheduled job." in told
    assert "**Always** is not possible: it sets variables (A)." in told


def _env(*names: str, value: str = "1") -> dict[str, Any]:
    return {"env": tuple(sorted((name, value) for name in names))}


@pytest.mark.sec(51)
def test_variables_that_change_what_runs_come_first_and_what_is_left_out_is_said():
    names = ("LD_PRELOAD", "PATH", "GIT_SSH_COMMAND", *(f"A{n:03}_{'N' * 30}" for n in range(11)))
    told = _text("touch y", given=_env(*names, value="./evil"))
    assert "with the variables `GIT_SSH_COMMAND=./evil`, `LD_PRELOAD=./evil`, `PATH=./evil`, `A000" in told
    assert re.search(r" and [1-9] more\.\n⚠️ This line is shortened; all of it: homebody approvals show k7f2m3qa\n", told)
    few = _text("touch y", given=_env(*"ABCDEFGH"))
    assert "`G=1`, `H=1`." in few
    assert "shortened" not in few


@pytest.mark.sec(51)
@pytest.mark.parametrize(
    "given",
    [_env("A", value="x" * 200), _env("A" * 200), {"cwd": f"/home/anna/{'x' * 300}"}, {"into": "x" * 200}],
    ids=["value", "name", "folder", "into"],
)
def test_a_question_says_what_of_its_circumstances_is_shortened(given: dict[str, Any]):
    told = question_text(Question(name="k7f2m3qa", agent="main", act=replace(act("touch y", CWD), **given)), home=HOME)
    assert "…" in told
    assert "⚠️ This line is shortened; all of it: homebody approvals show k7f2m3qa\n" in told


@pytest.mark.sec(51)
@pytest.mark.parametrize("details", ["", "x"])
def test_a_question_says_that_what_an_act_does_is_shortened(details: str):
    url = Act(kind="url", summary=f"read https://x.example/{'a' * 900}", url=f"https://x.example/{'a' * 900}", details=details)
    told = question_text(Question(name="k7f2m3qa", agent="main", act=url), home=HOME)
    assert "are not shown" in told
    assert "(shortened; all of it: homebody approvals show k7f2m3qa)" in told


def test_it_names_everybody_whom_something_goes_to():
    mail = Act(kind="send", summary="send a mail", details="Hi", recipients=("anna@example.org", "\u0430nna@example.org"))
    told = question_text(Question(name="k7f2m3qa", agent="main", act=mail, why_not_always="x"), home=HOME)
    assert "```\nHi\n```\nIt goes to: `anna@example.org`, `\u0430nna@example.org`\n" in told
    assert "is cyrillic small letter a" in told
    many = replace(mail, details="", recipients=tuple(f"p{n}@example.org" for n in range(20)))
    told = question_text(Question(name="k7f2m3qa", agent="main", act=many), home=HOME)
    assert "`p11@example.org` and ⚠️ 8 more (all of them: homebody approvals show k7f2m3qa)" in told


def test_it_names_untrusted_sources():
    told = _text("make x", taint=("web:example.org", "file:report.pdf"))
    assert "holds text from others, which may be behind this: web:example.org, file:report.pdf." in told
    assert "web:2.example and 6 more" in _text("make x", taint=tuple(f"web:{n}.example" for n in range(9)))


def test_words_that_are_not_quoted_as_usual_are_told_one_by_one():
    assert "Word by word: `grep` `a  b` (empty) `x y`" in _text("grep 'a  b' '' 'x'' y'")
    assert "Word by word: `grep` `--include=*.py` `ab`" in _text("grep --include='*.py' ab")
    assert "Word by word" not in _text("grep 'a b' x")


@needs_shfmt
def test_a_compound_command_is_taken_apart():
    told = _text("cd notes && git add . | tee log; (ls $(whoami) > out) 2>&1")
    listed = [line for line in told.splitlines() if line[:1].isdigit()]
    assert listed == [
        *("1. `cd notes`", "2. `git add .`", "3. `tee log`", "4. `… 2>&1`", "5. `ls $(whoami) > out`", "6. `whoami`"),
    ]


@needs_shfmt
@pytest.mark.parametrize(
    ("command", "parts"),
    [
        ("a; b", ["a", "b"]),
        ("a\nb", ["a", "b"]),
        ("a & b", ["a", "b"]),
        ("if a; then b; else c; fi", ["a", "b", "c"]),
        ('for f in *; do rm "$f"; done', ['rm "$f"']),
        ("x() { rm y; }; x", ["rm y", "x"]),
        ("a <<E\ntext\nE\nb", ["a <<E (6 characters of input)", "b"]),
        ("diff <(a) <(b)", ["diff <(a) <(b)", "a", "b"]),
        ('echo "$(rm x)"', ['echo "$(rm x)"', "rm x"]),
        ("time rm x", ["rm x"]),
        ("coproc rm x", ["rm x"]),
        ("git status\r\nrm x", ["git status", "rm x"]),
        ("é && b", ["é", "b"]),
    ],
)
def test_the_parts_of_a_command(command: str, parts: list[str]):
    found = shell_parts(command)
    assert found is not None
    assert [one.strip() for one in found] == parts


@needs_shfmt
def test_what_is_no_command_is_not_taken_apart():
    assert shell_parts("ls 'a") is None
    assert shell_parts("ls $(") is None
    assert "Its parts" not in _text("ls 'a")


def test_without_the_parser_a_command_is_not_taken_apart():
    assert shell_parts("a; b", "/nonexistent/shfmt") is None
    assert shell_parts("a; b", "/bin/false") is None
    assert shell_parts("a; b", "/bin/cat") is None


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("a\u202eb", "a⟨U+202E⟩b"),
        ("a\u200bb", "a⟨U+200B⟩b"),
        ("a\rb", "a⟨CR⟩b"),
        ("a\tb", "a⟨TAB⟩b"),
        ("a\x1b[2Jb", "a⟨ESC⟩[2Jb"),
        ("a\u00a0b", "a⟨U+00A0⟩b"),
        ("a\u3164b", "a⟨U+3164⟩b"),
        ("a\ufe0fb", "a⟨U+FE0F⟩b"),
        ("a\U000e0041b", "a⟨U+E0041⟩b"),
        ("a\ud800b", "a⟨U+D800⟩b"),
        ("a\u2028b", "a⟨U+2028⟩b"),
        ("Grüße 🍎 日本", "Grüße 🍎 日本"),
    ],
)
@pytest.mark.sec(51)
def test_what_is_not_seen_is_named(given: str, shown: str):
    assert visible(given) == shown


def test_letters_of_other_alphabets_within_a_word_are_named():
    assert "“ѕ” is cyrillic small letter es" not in _text("lѕ")
    assert "“ѕ” is cyrillic small letter dze" in _text("lѕ -la")
    assert "look like" not in _text("grep Grüße notes")
    assert "look like" not in _text("grep привет notes")


@settings(max_examples=examples(150), deadline=None)
@given(
    command=st.one_of(
        st.text(alphabet="ab `'\"\\$;|\n\r\t\u202e\u200b\x1bé*_~<>#", min_size=1, max_size=200),
        st.text(min_size=1, max_size=60),
        st.integers(1, 40).map(lambda n: "x" * 97 * n),
        st.integers(1, 300).map(lambda n: "ls;" * n),
        st.integers(1, 60).map(lambda n: "a\n" * n),
    ),
    taint=st.lists(st.text(max_size=80), max_size=8).map(tuple),
    whys=st.tuples(st.text(max_size=2000), st.none() | st.text(max_size=900)),
    env=st.lists(st.tuples(st.text(min_size=1, max_size=300), st.text(max_size=300)), max_size=20),
    folder=st.text(max_size=600),
)
@pytest.mark.sec(51)
def test_any_question_fits_shows_the_command_and_hides_nothing(
    command: str,
    taint: tuple[str, ...],
    env: list[tuple[str, str]],
    folder: str,
    whys: tuple[str, str | None],
):
    reason, why_not = whys
    said = replace(act(command, f"{CWD}/{folder}"), env=tuple(env))
    question = Question(name="k7f2m3qa", agent="main", act=said, taint=taint, reason=reason, why_not_always=why_not)
    told = question_text(question, home=HOME)
    assert len(told) <= LONGEST
    assert all(char == "\n" or unicodedata.category(char)[0] != "C" for char in told)
    blocks = [token for token in MarkdownIt().parse(told) if token.type == "fence"]
    shown = "\n".join(visible(line) for line in command.split("\n"))
    assert len(blocks) == 1
    if "are not shown" in told:
        assert "homebody approvals show k7f2m3qa" in told
    else:
        assert blocks[0].content == f"{shown}\n"
    assert f"`/approve k7f2m3qa once`{', `always`' if why_not is None else ''} or `deny`" in told


def test_other_acts_are_asked_about_too():
    write = Question(
        name="k7f2m3qa", agent="main", act=Act(kind="write", summary="write MEMORY.md", path="MEMORY.md"), reason="r"
    )
    assert question_text(write, home=HOME).startswith("🔐 main wants to write MEMORY.md.\nWhy I ask: r.\n")
    url = Act(kind="url", summary="open a page", url="https://x.example/?q=\u202e" + "a" * 5000)
    told = question_text(Question(name="k7f2m3qa", agent="main", act=url), home=HOME)
    assert len(told) <= LONGEST
    assert "https://x.example/?q=⟨U+202E⟩" in told
    assert "/approve k7f2m3qa once" in told


def test_input_to_a_running_command_is_asked_about_as_what_it_is():
    summary = "type `rm x` into the background command ab2c"
    typed = Act(kind="exec", summary=summary, command="rm x", cwd=CWD, network=True, into="bash", confinement="bwrap")
    told = question_text(Question(name="k7f2m3qa", agent="main", act=typed), home=HOME)
    assert told.startswith("🔐 main wants to type `rm x` into the background command ab2c:\n```\nrm x\n```\n")
    assert "typed into `bash`, which was started in the folder" in told
    assert ", with the network, confined by bubblewrap.\n" in told
    assert "terminal" not in told
    told = question_text(
        Question(name="k7f2m3qa", agent="main", act=replace(typed, network=False, pty=True, confinement="off")), home=HOME
    )
    assert ", without the network, in a terminal, not confined.\n" in told


DETAILS = Question(name="k7f2m3qa", agent="main", reason="r", act=Act(kind="write", summary="change TOOLS.md", path="TOOLS.md"))


def test_a_question_about_a_change_shows_what_would_be_written():
    question = replace(DETAILS, act=replace(DETAILS.act, details="--- TOOLS.md\n+++ TOOLS.md\n@@ -1 +1 @@\n-a\n+b\u202e"))
    told = question_text(question, home=HOME)
    assert told.startswith(
        "🔐 main wants to change TOOLS.md:\n```\n--- TOOLS.md\n+++ TOOLS.md\n@@ -1 +1 @@\n-a\n+b⟨U+202E⟩\n```\nWhy I ask: r.\n"
    )


@pytest.mark.parametrize(
    "name",
    [
        "x [see here](https://evil.example/a?b=1) **bold** @everyone",
        "x`*_[see here](https://evil.example) **bold**",
        "`a`` [x](https://evil.example) **b**",
        "_x_ ~~y~~ ||z||",
        "<https://evil.example>",
        "\\`[x](https://evil.example)`",
    ],
)
@pytest.mark.parametrize("details", ["", "At 09:00"])
@pytest.mark.sec(51)
def test_what_is_asked_about_is_named_as_it_is_and_nothing_in_a_name_is_a_link_or_formatted(name: str, details: str):
    summary = f"set up the task “{name}”"
    asked = Question(
        name="k7f2m3qa", agent="main", act=Act(kind="schedule", summary=summary, details=details), reason=name, taint=(name,)
    )
    told = question_text(asked, home=HOME)
    assert summary in told
    shown = [part for part in styled(told.partition("**Once**")[0]) if not isinstance(part, str)]
    assert {part.style for part in shown} <= {"code", "pre"}


@settings(max_examples=examples(100), deadline=None)
@given(
    details=st.one_of(
        st.just(""),
        st.text(alphabet="a`~\n\r\t\u202e*_<", min_size=1, max_size=300),
        st.tuples(st.sampled_from(["`", "a", "+`x`\n", "\u200b"]), st.integers(1, 5000)).map(lambda pair: pair[0] * pair[1]),
    ),
    taint=st.lists(st.text(max_size=80), max_size=8).map(tuple),
    summary=st.text(max_size=900) | st.text(alphabet="a`*[]()", max_size=900),
    whys=st.tuples(st.text(max_size=2000), st.none() | st.text(max_size=900)),
)
@pytest.mark.sec(51)
def test_any_question_about_a_change_fits_and_says_where_all_of_it_is(
    details: str, taint: tuple[str, ...], summary: str, whys: tuple[str, str | None]
):
    act = replace(DETAILS.act, details=details, summary=summary)
    question = replace(DETAILS, act=act, taint=taint, reason=whys[0], why_not_always=whys[1])
    told = question_text(question, home=HOME)
    assert len(told) <= LONGEST
    assert all(char == "\n" or unicodedata.category(char)[0] != "C" for char in told)
    assert "/approve k7f2m3qa once" in told
    if details and "are not shown" in told.partition("```")[2]:
        assert "homebody approvals show k7f2m3qa" in told
