"""SKILL.md is read as people write it: as YAML, as what is nearly YAML, and never as anything that breaks the program."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.errors import InvalidSkill
from agent.skills.front_matter import parse, split
from agent.skills.header import read_header


def skill(*lines: str, body: str = "# Do it\n") -> str:
    return "\n".join(["---", *lines, "---", body])


def test_the_fields_of_the_format_are_read():
    header = read_header(
        skill(
            "name: gog", "description: Google by  a\ttool.", "license: MIT", "compatibility: Linux", "homepage: https://x.test"
        ),
        "gog",
    )
    assert (header.name, header.description, header.license) == ("gog", "Google by a tool.", "MIT")
    assert (header.compatibility, header.homepage, header.warnings) == ("Linux", "https://x.test", ())


def test_a_bare_colon_in_a_description_does_no_harm():
    text = skill(
        "name: gif", "description: Find GIFs: search, download.", 'metadata: {"clawdbot":{"requires":{"bins":["gifgrep"]}}}'
    )
    header = read_header(text, "gif")
    assert header.description == "Find GIFs: search, download."
    assert header.needs.bins == ("gifgrep",)


@pytest.mark.parametrize(
    "metadata",
    [
        [
            'metadata: {"openclaw": {"requires": {"bins": ["a"], "anyBins": ["b", "c"], "env": ["K"], "config": ["x.y"]}, "os": ["linux"]}}'
        ],
        ["metadata:", "  homebody:", "    os: linux", "    requires: {bins: a, anyBins: 'b, c', env: [K], config: [x.y]}"],
        [
            "metadata:",
            '  clawdbot: \'{"requires": {"bins": ["a"], "anyBins": ["b", "c"], "env": ["K"], "config": ["x.y"]}, "os": ["linux"]}\'',
        ],
        ["requires: {bins: [a], anyBins: [b, c], env: [K], config: [x.y]}", "os: [linux]"],
    ],
)
def test_requirements_are_found_wherever_they_stand(metadata: list[str]):
    needs = read_header(skill("name: x", "description: d", *metadata), "x").needs
    assert (needs.bins, needs.any_bins, needs.env, needs.config, needs.os) == (("a",), ("b", "c"), ("K",), ("x.y",), ("linux",))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("# Canvas\n", "no front matter"),
        ("---\nname: x\ndescription: d\n", "does not end"),
        (skill("name: x"), "no description"),
        (skill("name: y", "description: d"), "its folder is named 'x'"),
        (skill("name: ../x", "description: d"), "is not allowed"),
        (skill("name: Mail", "description: d"), "is not allowed"),
        (skill("name: a--b", "description: d"), "is not allowed"),
        (skill("name: [x]", "description: [d]"), "no description"),
        (skill("name: x", f"description: {'d' * 70_000}"), "longer than"),
    ],
)
def test_what_cannot_be_used_says_why(text: str, said: str):
    with pytest.raises(InvalidSkill, match=said.replace("'", ".")):
        read_header(text, "x")


def test_a_description_of_20_kb_is_taken_with_a_warning():
    header = read_header(skill("name: x", f"description: {'word ' * 4000}"), "x")
    assert "the format allows 1,024" in header.warnings[0]


def test_characters_that_nobody_sees_are_no_part_of_a_description():
    assert read_header(skill("name: x", 'description: "a\\u200b\\U000E0041b\\x07 c"'), "x").description == "ab c"


def test_yaml_that_refers_to_itself_or_is_deep_does_no_harm():
    bomb = [
        "a: &a [x, x, x, x, x, x, x, x, x]",
        *(f"b{n}: &b{n} [*{'a' if n == 0 else f'b{n - 1}'}, *{'a' if n == 0 else f'b{n - 1}'}]" for n in range(40)),
    ]
    assert read_header(skill("name: x", "description: d", *bomb, "metadata: *b39"), "x").description == "d"
    assert read_header(skill("name: x", "description: d", "deep: " + "[" * 20_000), "x").description == "d"
    assert read_header(skill("name: x", "description: d", "no: !!python/object/apply:os.system [id]"), "x").name == "x"


@given(st.text())
def test_any_text_is_read_or_refused(text: str):
    for whole in (text, f"---\n{text}\n---\n", f"---\nname: x\ndescription: d\n{text}\n---\n"):
        try:
            assert read_header(whole, "x").name == "x"
        except InvalidSkill as refused:
            lines = str(refused).split("\n")
            assert len(lines) == 1


@given(
    st.dictionaries(
        st.from_regex(r"[a-z]{1,8}", fullmatch=True), st.from_regex(r"[A-Za-z][A-Za-z ]{0,20}[a-z]", fullmatch=True), max_size=5
    )
)
def test_plain_lines_mean_the_same_with_and_without_yaml(fields: dict[str, str]):
    words = {"true", "false", "yes", "no", "on", "off", "null"}
    fields = {key: value for key, value in fields.items() if key not in words and value.casefold() not in words}
    lines = "\n".join(f"{key}: {value}" for key, value in fields.items())
    assert parse(f"{lines}\n") == fields or not fields
    assert parse(f"{lines}\nbroken: [\n") == {**fields, "broken": "["}


def test_the_instructions_stand_below_the_front_matter():
    assert split("\ufeff---\r\nname: x\r\n---\r\n\r\n# A\r\n---\r\nB") == ("name: x\n", "# A\n---\nB")
