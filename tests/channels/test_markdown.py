from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from channels.common.markdown import plain, styled
from channels.telegram.send_options import html
from tests.peers.telegram_html import parse
from tests.properties import examples

MARKS = st.lists(
    st.sampled_from([*"*_~`[]()<>#|-!&\\> \n1.ax", "**", "```", "](http://x)", "\n\n", "\n- ", "\n> ", "|-|\n", "&amp;", "👍"]),
    max_size=60,
).map("".join)


@settings(max_examples=examples(200))
@given(st.one_of(MARKS, st.text(st.characters(codec=None), max_size=100)))
@example("> > > a\n> > **b `c` [d](http://e)**")
@example("*a " * 2000 + "a* " * 2000)
@example("> " * 3000 + "x")
def test_the_html_of_any_text_is_what_telegram_takes_and_says_the_same(text: str) -> None:
    content = styled(text)
    shown, _ = parse(html(content))
    assert shown == plain(content)


@pytest.mark.parametrize(
    ("markdown", "expected"),
    [
        ("# Head **bold**", "<b>Head bold</b>"),
        ("*it* ~~gone~~ `a<b`", "<i>it</i> <s>gone</s> <code>a&lt;b</code>"),
        ('[x](https://a.b/?q="1"&c)', '<a href="https://a.b/?q=%221%22&amp;c">x</a>'),
        ("[x](ftp://a.b)", "x (ftp://a.b)"),
        ("[Ben](tg://user?id=43)", "Ben (tg://user?id=43)"),
        ("[all of you](tg://resolve?domain=x)", "all of you (tg://resolve?domain=x)"),
        ("[https://bank.com](https://evil.org/bank.com)", "https://bank.com (https://evil.org/bank.com)"),
        ("[www.bank.com](https://evil.org)", "www.bank.com (https://evil.org)"),
        ("[bank.com](https://bank.com.evil.org)", "bank.com (https://bank.com.evil.org)"),
        ("[bank.com](https://bank.com@evil.org/)", "bank.com (https://bank.com@evil.org/)"),
        ("[bank.com](https://www.bank.com/x)", '<a href="https://www.bank.com/x">bank.com</a>'),
        ("[README.md](https://a.org/x/README.md)", '<a href="https://a.org/x/README.md">README.md</a>'),
        ("[x](javascript:alert(1))", "[x](javascript:alert(1))"),
        ("[write](mailto:a@b.c)", '<a href="mailto:a@b.c">write</a>'),
        ("![pic](http://i/x.png)", '<a href="http://i/x.png">pic</a>'),
        ("- a\n  1. b\n  2. c\n- d", "• a\n  1. b\n  2. c\n• d"),
        ("3. x\n4. y", "3. x\n4. y"),
        ("> quote\n> > inner", "<blockquote>quote\n\ninner</blockquote>"),
        ("```py\nx < 1\n```", '<pre><code class="language-py">x &lt; 1</code></pre>'),
        ('```"><b>\nx\n```', "<pre>x</pre>"),
        ("<b>raw</b> & more", "&lt;b&gt;raw&lt;/b&gt; &amp; more"),
        ("one\ntwo\n\nthree", "one\ntwo\n\nthree"),
        ("---", "———"),
    ],
)
def test_each_kind_of_markdown_has_its_form(markdown: str, expected: str) -> None:
    assert html(styled(markdown)) == expected


def test_a_table_is_aligned_as_its_header_says_and_wide_letters_count_twice() -> None:
    assert plain(styled("| a | n |\n|---|--:|\n| 漢字 | 1 |\n| x | 22 |")) == "a    │  n\n─────┼───\n漢字 │  1\nx    │ 22"


@pytest.mark.parametrize(
    ("row", "shown"),
    [
        ("| `ps aux | grep ssh` | finds ssh |", "ps aux | grep ssh │ finds ssh"),
        ("| a | b | c extra |", "a                 │ b | c extra"),
        ("| a | `b | c` | d | e |", "a                 │ b | c | d | e"),
        ("| a |", "a                 │"),
        (r"| `ls \| wc` | counts |", "ls | wc           │ counts"),
    ],
)
def test_cells_beyond_the_head_are_shown_in_the_last_one(row: str, shown: str) -> None:
    for quote in ("", "> "):
        text = "\n".join(f"{quote}{line}" for line in ("| Command | Does |", "|---|---|", "| 12345678901234567 | x |", row))
        assert plain(styled(text)).splitlines()[-1] == shown


@pytest.mark.parametrize(
    ("markdown", "expected"),
    [
        ("A room of 3*4*5 m, 2**8 and 2**3**2.", "A room of 3*4*5 m, 2**8 and 2**3**2."),
        ("un*frigging*believable, **5** *6*", "un<i>frigging</i>believable, <b>5</b> <i>6</i>"),
        ("*in 3*4 m*", "<i>in 3*4 m</i>"),
    ],
)
def test_asterisks_between_figures_are_shown(markdown: str, expected: str) -> None:
    assert html(styled(markdown)) == expected
