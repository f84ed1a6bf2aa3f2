from __future__ import annotations

import io
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rich.color import ColorType
from rich.console import Console
from rich.style import Style

from channels.terminal.screen import THEME, TROUBLE, Page, code_theme

LIGHT, DARK = (0xFF, 0xFF, 0xFF), (0x1E, 0x1E, 0x1E)
READABLE = 3.0
"""The contrast that WCAG asks of large and of bold text; a terminal's letters are never small."""
CODE = '```python\n# note\n@d\nclass A(B):\n    def f(x: int = 0x1F) -> "str": raise E("x")\n```\n```diff\n- a\n+ b\n```\n'


def drawn(text: str, width: int = 80, system: str | None = None) -> str:
    sight = io.StringIO()
    console = Console(
        file=sight, width=width, theme=THEME, force_terminal=system is not None, color_system=system or "auto", _environ={}
    )
    console.print(Page(text))
    return sight.getvalue()


def luminance(colour: tuple[int, int, int]) -> float:
    red, green, blue = (v / 255 / 12.92 if v <= 10 else ((v / 255 + 0.055) / 1.055) ** 2.4 for v in colour)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: tuple[int, int, int], other: tuple[int, int, int]) -> float:
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def styles_used() -> dict[str, Style]:
    ours = {name: style for name, style in THEME.styles.items() if name.startswith(("markdown.", "table."))}
    code = {str(token): style for token, style in code_theme("256").style_map.items()}
    return {**ours, **code, "trouble": Style.parse(TROUBLE)}


@pytest.mark.parametrize(("name", "style"), styles_used().items())
def test_every_colour_can_be_read_on_a_light_and_on_a_dark_background(name: str, style: Style) -> None:
    assert style.bgcolor is None, f"{name}: a background of its own is wrong on one theme or the other"
    if style.color is not None:
        assert style.color.type is ColorType.EIGHT_BIT, f"{name}: a terminal's theme decides what its sixteen colours are"
        colour = tuple(style.color.get_truecolor())
        assert contrast(colour, LIGHT) >= READABLE, name
        assert contrast(colour, DARK) >= READABLE, name


def test_code_has_colours_where_there_are_enough_and_only_there() -> None:
    assert "\x1b[38;5;32m" in drawn(CODE, system="256")
    sixteen = drawn(CODE, system="standard")
    assert "\x1b[" in sixteen
    assert not re.search(r"\x1b\[(?:[0-9;]*;)?(?:3[0-7]|4[0-7]|9[0-7]|38|48)[;m]", sixteen)


@pytest.mark.parametrize(
    ("markdown", "shown"),
    [
        ("use <b>this</b> and /pin <what>\n\n<div>\nblock\n</div>", "use <b>this</b> and /pin <what>\n\n<div>\nblock\n</div>"),
        ("one\ntwo  \nthree", "one\ntwo\nthree"),
        ("![a pic](http://i/x.png) ![](http://i/y.png)", "a pic (http://i/x.png) picture (http://i/y.png)"),
        ("<https://a.org> <a@b.c> [x](http://y)", "https://a.org a@b.c x (http://y)"),
        ("# Head", "Head"),
        ("before\n\n```\ncode\n```\n\nafter", "before\n\n code\n\nafter"),
    ],
)
def test_nothing_of_a_reply_is_left_out(markdown: str, shown: str) -> None:
    assert drawn(markdown) == f"{shown}\n"


MARKS = st.lists(
    st.sampled_from(
        [*"*_~`[]()<>#|-!&\\> \n1.ax", "**", "```", "](http://x)", "\n\n", "\n- ", "\n> ", "\n|a|b|\n|-|-|\n", "漢", "👍🏽"]
    ),
    max_size=40,
).map("".join)


@given(st.one_of(MARKS, st.text(max_size=60)), st.sampled_from([12, 40, 80]))
@example("> " * 300 + "x", 40)
@example("- " * 300 + "x", 40)
@example("\x1b]52;c;ZXZpbA==\x07\x9b2J", 80)
def test_any_text_can_be_drawn_and_commands_no_terminal(text: str, width: int) -> None:
    shown = drawn(text, width)
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f]", shown)
    assert not re.search(r"[ \t]\n", shown), "blanks at the ends of lines spoil what is copied"


@given(
    st.lists(
        st.sampled_from(["<b>{}</b>", "*{}*", "`{}`", "- {}", "> {}", "| {} |", "<{}>", "![{}](u)", "[{}](u)", "# {}"]),
        max_size=12,
    )
)
def test_every_word_is_shown_whatever_is_around_it(forms: list[str]) -> None:
    words = [f"word{number}" for number in range(len(forms))]
    shown = drawn("\n\n".join(form.format(word) for form, word in zip(forms, words, strict=True)))
    assert [word for word in words if word not in shown] == []
