"""How replies look on Discord and Slack: nothing lost, nothing that pings, nothing too long."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from channels.common.chunking import fitted, lines_of
from channels.common.markdown import plain, styled
from channels.discord.markup import written as for_discord
from channels.slack.block_kit import written as for_slack
from tests.properties import examples

WORDS = st.text(alphabet=st.sampled_from("ab c*_~`|[]()<>&!@#\\-.1\n"), max_size=150)
MARKDOWN = st.lists(
    st.one_of(
        WORDS,
        st.just("**bold** and `code` <!channel>"),
        st.just("```python\nx = '<!here>'\n```"),
        st.just("- one\n  - two\n- three"),
        st.just("> quoted\n> more"),
        st.just("| a | b |\n|---|---|\n| 1 | 2 |"),
        st.just("[label](https://example.org/a_b?c=(d))"),
    ),
    max_size=6,
).map("\n\n".join)
PING = re.compile(r"<(!|@|#|subteam)")


@pytest.mark.parametrize(
    ("markdown", "discord", "slack"),
    [
        ("**a** *b* ~~c~~ `d`", "**a** *b* ~~c~~ `d`", "*a* _b_ ~c~ `d`"),
        ("# Title\n\ntext", "**Title**\n\ntext", "*Title*\n\ntext"),
        (r"\*not bold\* a_b", r"\*not bold\* a\_b", "*\u200bnot bold* a_b"),
        ("[x](https://e.org/a_b)", "[x](https://e.org/a_b)", "<https://e.org/a_b|x>"),
        ("see https://e.org/a_b_c", "see https://e.org/a_b_c", "see https://e.org/a_b_c"),
        ("> a\n> b", "> a\n> b", "> a\n> b"),
        ("```py\nx < 1\n```", "```py\nx < 1\n```", "```\nx &lt; 1\n```"),
        ("- a\n- b", "• a\n• b", "• a\n• b"),
        ("<!channel> <@U1>", "<!channel> <@U1>", "&lt;!channel&gt; &lt;@U1&gt;"),
        ("\\# no title", "\\# no title", "# no title"),
    ],
)
def test_marks_are_those_of_the_platform(markdown: str, discord: str, slack: str) -> None:
    assert (for_discord(markdown), for_slack(markdown)) == (discord, slack)


@given(MARKDOWN)
def test_slack_is_given_no_command(markdown: str) -> None:
    assert not PING.search(for_slack(markdown))


@settings(max_examples=examples(40), deadline=None)
@given(MARKDOWN)
def test_no_piece_is_too_long_and_no_letter_is_lost(markdown: str) -> None:
    before = plain(styled(markdown))
    for write, lines in ((for_discord, 16), (for_slack, None)):
        pieces = fitted(markdown, 200, write, lines=lines)
        assert all(len(write(piece)) <= 200 for piece in pieces)
        assert all(lines is None or lines_of(piece) <= lines for piece in pieces)
        shown = "".join(plain(styled(piece)) for piece in pieces)
        assert all(shown.count(letter) >= before.count(letter) for letter in "ab")


@settings(max_examples=examples(40), deadline=None)
@given(MARKDOWN)
def test_code_blocks_are_closed_in_every_piece(markdown: str) -> None:
    for write in (for_discord, for_slack):
        for piece in fitted(markdown + "\n\n```\n" + "line\n" * 60 + "```", 200, write, lines=17):
            assert len(re.findall(r"(?m)^(?:> )?```", write(piece))) % 2 == 0


def test_a_long_list_is_cut_by_lines() -> None:
    pieces = fitted("\n".join(f"- item {number}" for number in range(40)), 2000, for_discord, lines=17)
    assert all(lines_of(piece) <= 17 for piece in pieces)
    assert len(pieces) <= 4
